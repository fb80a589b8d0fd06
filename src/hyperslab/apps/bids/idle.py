"""Idle: an output directory in which nobody works on participants, as the group level needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import OutputBusy


@contextmanager
def owned(directory: RunDirectory) -> Iterator[None]:
    """A block in which nobody else uses the directory. Raises OutputBusy where somebody does."""
    try:
        lock = directory.own()
    except OutputBusy:
        raise OutputBusy(
            f"{directory.out}: participants are being worked on there: wait until these calls have"
            f" ended ('hyperslab wait {directory.out}'), and ask for the group level again"
        ) from None
    try:
        yield
    finally:
        os.close(lock)
