"""Chunks where they stay: a file of them that is lost, torn or cut off never becomes one with other
values.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest

from hyperslab.blocks import writing
from hyperslab.blocks.writing import places
from hyperslab.driver.products import Products
from tests.system.end_to_end.command import call
from tests.system.faults import conversions
from tests.system.faults.conversions import MEMORY, content, recorded, undisturbed
from tests.system.faults.test_commit import before_commit

pytestmark = pytest.mark.usefixtures("without_a_report")
MIB = 2**20


@pytest.fixture
def out(source: Path) -> Path:
    return source.parent / "out"


@pytest.fixture
def _shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file system of which nobody knows that this machine has it alone."""
    places.is_local.cache_clear()
    monkeypatch.setattr(places, "LOCAL_FILE_SYSTEMS", frozenset())
    yield
    places.is_local.cache_clear()


def job(source: Path, *more: object, compression: str = "none") -> tuple[object, ...]:
    """Chunks of one size, so that the places of a file hold one as well as another."""
    chunks = (
        "--chunks",
        "16,32,100",
        "--compression",
        compression,
        *MEMORY,
        "--engine",
        "threads",
        "--threads",
        4,
    )
    return ("convert", source, source.parent / "out" / "new.h5", *chunks, "-q", *more)


def home(out: Path) -> Path:
    (path,) = out.glob(".new.h5.*.part/home")
    return path


def interrupt(source: Path, moment: str, *more: object) -> None:
    """At the end of a method of Products."""
    plain = getattr(Products, moment)

    def interrupted(*given: Any) -> None:
        if moment == "begin":
            plain(*given)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Products, moment, interrupted)
        assert call(*job(source, *more)).code == 130


def test_another_home_holds_nothing_of_the_one_that_is_gone(source: Path, out: Path) -> None:
    """However often the run is interrupted in between."""
    interrupt(source, "commit")
    tasks = recorded(out)
    home(out).unlink()
    interrupt(source, "begin", "--resume")
    assert home(out).stat().st_size < MIB
    interrupt(source, "begin", "--resume")
    undisturbed(*job(source, "--resume"))
    assert recorded(out) == 2 * tasks
    assert (content(out / "new.h5") == conversions.values()).all()
    assert call("verify", out / "new.h5").code == 0


def test_a_home_that_goes_while_tasks_write(
    source: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, done = writing.write_region, []

    def write_region(*given: Any) -> writing.Written:
        written = plain(*given)
        done.append(written)
        if len(done) == 3:
            home(out).unlink()
        return written

    with monkeypatch.context() as patch:
        patch.setattr("hyperslab.plan.delivery.writing.write_region", write_region)
        said = call(*job(source))
    assert (said.code, said.err.count("\n")) == (1, 1), said
    assert "is gone, with what was written to it; run again with --resume" in said.err
    assert not (out / "new.h5").exists()
    undisturbed(*job(source, "--resume"))
    assert (content(out / "new.h5") == conversions.values()).all()


@pytest.mark.usefixtures("_shared")
@pytest.mark.parametrize("left", [b"", b"torn" * 5000])
def test_a_file_that_copying_has_begun_is_begun_anew(source: Path, out: Path, left: bytes) -> None:
    def begin() -> None:
        (part,) = {path.parent for path in out.glob(".new.h5.*.part/*.part")}
        (part / "home").write_bytes(left)

    assert before_commit(begin, *job(source)).code == 0
    assert (content(out / "new.h5") == conversions.values()).all()


@pytest.mark.usefixtures("_shared")
def test_copying_that_has_no_room_takes_no_more_each_time(source: Path, out: Path) -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        for more in ((), ("--resume",), ("--resume",)):
            done = before_commit(
                lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, most)),
                *job(source, *more, compression="gzip"),
            )
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
            assert done.code == 1
            assert "cannot be finished: File too large; what was written stays in" in done.err
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
    held = recorded(out)
    undisturbed(*job(source, "--resume", compression="gzip"))
    assert recorded(out) == held
    assert (content(out / "new.h5") == conversions.values()).all()
    with h5py.File(out / "new.h5") as file:
        stored = file["data"].id.get_storage_size()
    assert os.stat(out / "new.h5").st_size < stored + MIB // 8


def test_a_worker_that_comes_late_harms_nothing(source: Path, out: Path) -> None:
    """Its chunks go behind the index, or between the chunks, but into nobody's place."""
    first: list[tuple[Any, ...]] = []
    plain = writing.write_region

    def write_region(*given: Any) -> writing.Written:
        first.append(given)
        return plain(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hyperslab.plan.delivery.writing.write_region", write_region)
        done = before_commit(lambda: plain(*first[0]), *job(source, compression="gzip"))
    assert done.code == 0, done
    assert (content(out / "new.h5") == conversions.values()).all()
