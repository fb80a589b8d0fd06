"""Scratch for a block of Python, and for commands."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hyperslab.driver.warned import warn_of
from hyperslab.errors import told_in_python
from hyperslab.plan.written import parse_size
from hyperslab.storage.scratch import program
from hyperslab.storage.scratch.holding import Tell, excuses, given_up, held, run_within
from hyperslab.storage.scratch.making import AUTO, Wish, create
from hyperslab.storage.scratch.registry import Scratch


@contextmanager
def scratch(
    on: str | os.PathLike[str] | None = None,
    size: int | str | None = None,
    way: str = AUTO,
    fallback: str | os.PathLike[str] | None = None,
) -> Iterator[Path]:
    """A directory for temporary files that is there as long as the block lasts, and whose names
    cost nothing on the storage `on` where their contents lie.

    `on` is a directory there, by default that of temporary files. `size` is the room it has, such
    as "50GB", by default half of what is free. `way` is one of fuse, namespace, fuse2fs, loop,
    tmpfs and directory, by default the first that works. In the directory `fallback` files go on
    when there is no room left. Raises UsageError, and HyperslabError where it cannot be made. Warns
    (UserWarning) where it is a plain directory, as nothing better could be made; and at the end,
    of files that went on elsewhere, or were lost, and of what could not be removed.
    """
    made = _made(on, size, way, fallback)
    try:
        _warn(excuses(made))
        yield Path(made.path)
    finally:
        _warn([*program.notes(made), given_up(made)])


def _warn(told: Sequence[str]) -> None:
    for sentence in told:
        warn_of(sentence, UserWarning)


@told_in_python
def _made(
    on: str | os.PathLike[str] | None,
    size: int | str | None,
    way: str,
    fallback: str | os.PathLike[str] | None,
) -> Scratch:
    return create(wish_of(on, size, way, fallback))


def wish_of(
    on: str | os.PathLike[str] | None,
    size: int | str | None,
    way: str = AUTO,
    fallback: str | os.PathLike[str] | None = None,
    is_kept: bool = False,
) -> Wish:
    """What is asked for by words, or by numbers. Raises UsageError."""
    nbytes = None
    if size is not None:
        nbytes = parse_size("--size", str(size))
    after = None
    if fallback is not None:
        after = Path(fallback)
    return Wish(Path(on or tempfile.gettempdir()), nbytes, way, after, is_kept)


def run_in_scratch(wish: Wish, words: Sequence[str], tell: Tell) -> int:
    """Run a command whose temporary files go to scratch that is there for it alone, and tell what
    became of that; returns its exit status. Raises UsageError where it cannot be started, and
    HyperslabError without scratch.
    """
    with held(wish, tell) as made:
        return run_within(made, words)
