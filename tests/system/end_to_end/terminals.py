"""What commands show on a terminal of their own."""

from __future__ import annotations

import os
import pty
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

from tests.system.end_to_end.command import call_into, start
from tests.system.faults.command import PATIENCE_S


def on_terminal(*arguments: object, code: int = 0) -> str:
    """Everything the program shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = start(
        *arguments, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **TERMINAL}
    )
    os.close(theirs)
    shown = all_of(ours)
    assert process.wait(timeout=PATIENCE_S) == code
    return shown


def shown_here(*arguments: object, code: int = 0) -> str:
    """The same of a command that runs in this process."""
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as reader, mock.patch.dict(os.environ, TERMINAL):
        shown = reader.submit(all_of, ours)
        with os.fdopen(theirs, "w") as terminal:
            assert call_into(terminal, terminal, *arguments) == code
    return shown.result()


TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "150"}


def all_of(terminal: int) -> str:
    """Everything that is shown on a terminal."""
    shown = b""
    with os.fdopen(terminal, "rb", buffering=0) as file:
        try:
            while piece := file.read(65536):
                shown += piece
        except OSError:
            pass  # how Linux says that the other end has been closed
    return shown.decode()
