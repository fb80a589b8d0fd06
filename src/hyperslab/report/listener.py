"""A listener to progress, who may be slow, or leave: a terminal that is closed or stopped, a pipe,
a full disk.

- writing to it neither waits nor raises: a thread of its own does both
- what finds no listener is dropped, and nobody is told: it was for the listener alone
- the thread ends when nothing has been said for a while

Held by tests/system/end_to_end/test_listeners.py and tests/report/test_listener.py.
"""

from __future__ import annotations

import queue
import threading
import time
from contextlib import suppress
from typing import IO, Any

PATIENCE_S = 1.0
"How long the end of the progress waits for a listener to have heard all of it."
IDLE_S = 5.0
"How long the thread waits for more."
MOST_WAITING = 1000
"Texts that wait for a slow listener; later ones are dropped."


class Listener:
    """A stream to write to; all but writing is that of the stream itself."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._waiting: queue.Queue[str | threading.Event] = queue.Queue(MOST_WAITING)
        self._starting = threading.Lock()
        self._is_started = False
        self._spoke = 0.0

    def write(self, text: str) -> int:
        """Have a text written as soon as the listener takes it."""
        self._put(text)
        self._start()
        return len(text)

    def flush(self) -> None:
        """Nothing: every text is flushed when it has been written."""

    def drain(self) -> None:
        """Wait until all has been heard, for as long as one can expect of who listens at all."""
        heard = threading.Event()
        if self._is_started and self._put(heard):
            self._start()
            heard.wait(PATIENCE_S)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _put(self, item: str | threading.Event) -> bool:
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            return False
        return True

    def _start(self) -> None:
        with self._starting:
            if not self._is_started:
                self._is_started = True
                self._spoke = time.monotonic()
                threading.Thread(target=self._speak, name="progress", daemon=True).start()

    def _speak(self) -> None:
        while not self._has_ended():
            with suppress(queue.Empty):
                self._take(self._waiting.get(timeout=IDLE_S))

    def _has_ended(self) -> bool:
        """Whether nothing has been said for a while, and the next text starts another thread."""
        with self._starting:
            is_idle = time.monotonic() - self._spoke > IDLE_S and self._waiting.empty()
            self._is_started = not is_idle
            return is_idle

    def _take(self, item: str | threading.Event) -> None:
        if isinstance(item, threading.Event):
            item.set()
        else:
            self._say(item)
        self._spoke = time.monotonic()

    def _say(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the stream is at its end, or closed on our side
            return
