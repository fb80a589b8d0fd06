"""The process that measures: it does what it is told by its connection, and ends when nobody is
left to tell it.

It loads the standard library alone, so that many of them start in a moment.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from hyperslab.storage.probing import operations, transfers
from hyperslab.storage.probing.content import Content
from hyperslab.storage.probing.transfers import Damaged, Operation

_OPERATIONS: dict[str, Callable[..., Operation]] = {
    "read": transfers.read,
    "small_reads": operations.small_reads,
    "names": operations.names,
    "opening": operations.opening,
    "pin": operations.pin,
}
_OF_CONTENT: dict[str, Callable[..., Operation]] = {
    "write": transfers.write,
    "compare": transfers.compare,
}


def main(connection: int, lifeline: int, window: int) -> None:
    """Serve one who measures.

    `connection` is a socket, `lifeline` the end of a pipe whose other end closes with them, and
    `window` what `random_window` has made.
    """
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    serve(Connection(connection), Content(window))


def _end_with(lifeline: int) -> None:
    """End this process, whatever it is at, when the pipe is closed."""
    os.read(lifeline, 1)
    os._exit(1)


def serve(connection: Connection, content: Content) -> None:
    """Do one operation after the other: prepare it, say so, begin at the moment that is then told,
    and send what came of it.
    """
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        answer: tuple[str, Any]
        try:
            answer = ("done", _carried_out(connection, content, name, arguments))
        except OSError as error:
            answer = ("failed", (error.errno, error.strerror, error.filename))
        except Damaged as error:
            answer = ("damaged", str(error))
        except Exception:  # noqa: BLE001  # told in full by whoever asked
            answer = ("broken", traceback.format_exc())
        connection.send(answer)


def _carried_out(
    connection: Connection, content: Content, name: str, arguments: dict[str, Any]
) -> Any:
    """What an operation returns. Raises what it raises."""
    if name in _OF_CONTENT:
        operation = _OF_CONTENT[name](content, **arguments)
    else:
        operation = _OPERATIONS[name](**arguments)
    connection.send(("ready", next(operation)))
    start_ns = connection.recv()
    time.sleep(max(0, start_ns - time.monotonic_ns()) / 1e9)
    try:
        next(operation)
    except StopIteration as end:
        return end.value
    raise AssertionError(f"{name} has not ended")
