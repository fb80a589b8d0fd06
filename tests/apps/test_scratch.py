"""What `--scratch` of a run asks for, by its word and by what is to lie there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.scratch import holding, making, sizing
from hyperslab.storage.scratch.holding import wherever, wish_for_run
from hyperslab.storage.scratch.making import AUTO, Wish, create
from hyperslab.storage.scratch.registry import DIRECTORY, TMPFS
from hyperslab.storage.scratch.sizing import BLOCK_NBYTES, LEAST_NBYTES
from hyperslab.storage.scratch.ways import MEMORY

HUGE = 10**18
HALF = 10**10
"Half of what is free, wherever one looks."


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sizing, "usual_nbytes", lambda _: HALF)
    return tmp_path


def test_auto_takes_memory_where_that_is_known_to_be_enough(temporary: Path) -> None:
    """Decoded bytes twice; of commands nobody knows. All that is free to use there is, as nobody
    knows what functions leave there, and nothing goes on elsewhere.
    """
    assert wish_for_run(AUTO, 1) == Wish(MEMORY, HALF, TMPFS)
    assert wish_for_run(AUTO, HALF // 2) == Wish(MEMORY, HALF, TMPFS)
    one_file = Wish(temporary, fallback=temporary)
    assert wish_for_run(AUTO, HUGE) == one_file
    assert wish_for_run(AUTO, None) == one_file


def test_words_are_what_they_say(temporary: Path) -> None:
    nbytes = LEAST_NBYTES
    assert wish_for_run(TMPFS, nbytes) == Wish(MEMORY, HALF, TMPFS)
    assert wish_for_run(TMPFS, HALF) == Wish(MEMORY, 2 * HALF, TMPFS)
    assert wish_for_run(TMPFS, None) == Wish(MEMORY, None, TMPFS)
    assert wish_for_run("image:/slow", nbytes) == Wish(Path("/slow"), fallback=temporary)
    plain = Wish(temporary, BLOCK_NBYTES, DIRECTORY)
    assert wish_for_run(str(temporary), nbytes) == plain


def test_other_words_are_refused(temporary: Path) -> None:
    with pytest.raises(UsageError, match="no such directory; give auto, tmpfs, image:DIR, or a"):
        wish_for_run("imag:/slow", 0)
    with pytest.raises(UsageError, match="the slowest sets the pace"):
        wish_for_run(f"{temporary},/dev/shm", 0)


def test_memory_that_is_not_shown_as_files_is_refused(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the flag that a run has."""
    for module in (holding, making):
        monkeypatch.setattr(module, "MEMORY", temporary / "none")
    with pytest.raises(UsageError, match=r"--scratch .*/none: there is no such directory"):
        create(wish_for_run(TMPFS, 0))


def test_an_image_on_nothing_is_refused() -> None:
    """As by a variable of a shell that is empty: the working directory is not what was meant."""
    for ask in (wherever, lambda text: wish_for_run(text, 0)):
        with pytest.raises(UsageError, match="--scratch image: names no directory; give auto"):
            ask("image:")
