"""Names that are held alone or together, by one descriptor for each who holds some."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hyperslab.storage.claims import Claims, is_any_taken


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "claims"


@pytest.fixture
def ours(path: Path) -> Iterator[Claims]:
    with closing(Claims(path)) as claims:
        yield claims


def test_a_name_is_one_holders(path: Path, ours: Claims) -> None:
    with closing(Claims(path)) as theirs:
        assert theirs.take("sub-1")
        assert not ours.take("sub-1")
        assert not ours.share("sub-1")
        assert ours.take("sub-10")
        assert ours.is_taken("sub-1")
        assert theirs.is_taken("sub-10")
        assert not ours.is_taken("sub-10")  # which is our own
        assert is_any_taken(path)
    assert ours.take("sub-1")
    assert path.stat().st_size == 0


def test_what_is_shared_is_nobodys_alone(path: Path, ours: Claims) -> None:
    with closing(Claims(path)) as theirs:
        assert ours.share("sub-2")
        assert theirs.share("sub-2")
        assert not theirs.take("sub-2")
        assert theirs.is_taken("sub-2")
        assert not theirs.is_taken_alone("sub-2")


def test_nobody_holds_what_is_not_there(path: Path) -> None:
    assert not is_any_taken(path)
    assert not path.exists()


def test_one_looks_at_a_time(path: Path, ours: Claims) -> None:
    """Who waits for that holds no name."""
    seen: list[str] = []

    def look() -> None:
        with closing(Claims(path)) as theirs, theirs.alone():
            seen.append("theirs")

    with ours.alone():
        other = threading.Thread(target=look)
        other.start()
        assert not ours.is_any_taken()
        seen.append("ours")
    other.join()
    assert seen == ["ours", "theirs"]


def test_who_waits_for_a_turn_can_stop(path: Path, ours: Claims) -> None:
    def watch() -> None:
        raise InterruptedError

    stopped = pytest.raises(InterruptedError)
    with closing(Claims(path)) as theirs, ours.alone(), stopped, theirs.alone(watch):
        pass
    assert not ours.is_any_taken()


def test_a_name_that_is_given_back(path: Path, ours: Claims) -> None:
    with closing(Claims(path)) as theirs:
        assert theirs.take("sub-1")
        assert theirs.take("sub-2")
        theirs.give_back("sub-1")
        assert ours.take("sub-1")
        assert not ours.take("sub-2")
