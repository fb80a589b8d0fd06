"""What a command tells of its work: that nobody hears it changes neither the work nor the exit
status.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import typer


@contextmanager
def told_if_heard() -> Iterator[None]:
    """A block that tells, and does nothing else; it ends early where terminal, pipe or disk take no
    more.
    """
    try:
        yield
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        drop_unwritten()


def mention(text: str, quiet: bool = False) -> None:
    """Say on standard error what takes long, unless nothing is to be said."""
    if not quiet:
        with told_if_heard():
            typer.echo(text, err=True)


_debugging = ContextVar("debugging", default=False)


def set_debugging(wanted: bool) -> None:
    """Say whether the command line asks for tracebacks."""
    _debugging.set(wanted)


def is_debugging() -> bool:
    """Whether the command line asks for show tracebacks, also those of failed tasks."""
    return _debugging.get()


def drop_unwritten() -> None:
    """Drop what standard output and error cannot take, so that the interpreter does not fail over
    it at its end.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # as it is where it was closed at the start
                stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def hold_standard_streams() -> None:
    """Have the three descriptors of the standard streams lead somewhere.

    A file that a run opens would take the place of one that was closed at the start, and with it
    the messages that libraries write there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest that is free
