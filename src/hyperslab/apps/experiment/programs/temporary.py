"""Scratch of programs that run beside hyperslab: what was asked for, and nothing in its place."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hyperslab.errors import RunStopped
from hyperslab.storage.scratch.holding import excuses, held, wish_for_run
from hyperslab.storage.scratch.registry import Scratch


@contextmanager
def scratch_for(text: str) -> Iterator[Scratch | None]:
    """Scratch where `--scratch TEXT` says, for a block; None of ''. Raises UsageError, and
    RunStopped where files would go on elsewhere.
    """
    if not text:
        yield None
        return
    wish = replace(wish_for_run(text, 0), nbytes=None, fallback=None)
    with held(wish, _tell) as made:
        told = excuses(made)
        if told:
            raise RunStopped(told[0])
        yield made


def _tell(note: str) -> None:
    sys.stderr.write(f"warning    {note}\n")


@contextmanager
def folder_for(text: str) -> Iterator[Path]:
    """An empty folder in such scratch, else among temporary files."""
    with scratch_for(text) as made:
        above = None
        if made is not None:
            above = made.path
        with tempfile.TemporaryDirectory(dir=above) as folder:
            yield Path(folder)
