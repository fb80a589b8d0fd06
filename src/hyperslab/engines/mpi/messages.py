"""Messages between ranks, waited for without a busy processor.

MPI's own calls wait in a loop that takes all of a processor. Here whoever waits sleeps between two
looks, twice as long each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")

LEAST_PAUSE_S = 20e-6
MOST_PAUSE_S = 5e-3
"Delay of a message at worst; a rank that waits looks 200 times a second, which takes about 1 %."
ORDER, ANSWER, PART, FAREWELL, NOTHING = range(1, 6)
"Tags."
PROGRESS_S = 1e-3


def pauses() -> Iterator[None]:
    """Sleep for ever longer."""
    pause_s = LEAST_PAUSE_S
    while True:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, MOST_PAUSE_S)
        yield


def receive(comm: Any, source: int, tag: int) -> Any:
    """The next message of a rank."""
    waiting = pauses()
    while (message := comm.improbe(source, tag)) is None:
        next(waiting)
    return message.recv()


def receive_within(comm: Any, source: int, tag: int, limit_s: float) -> Any:
    """The next message of a rank; None where none has come in time."""
    deadline = time.monotonic() + limit_s
    waiting = pauses()
    while (message := comm.improbe(source, tag)) is None:
        if time.monotonic() > deadline:
            return None
        next(waiting)
    return message.recv()


def send(comm: Any, value: Any, to: int, tag: int) -> None:
    """Send a value, and wait until it is on its way."""
    request = comm.isend(value, to, tag)
    waiting = pauses()
    while not request.test()[0]:
        next(waiting)


def spread(comm: Any, value: Any) -> Any:
    """What rank 0 has, for every rank."""
    if comm.rank:
        return receive(comm, 0, ORDER)
    for other in range(1, comm.size):
        send(comm, value, other, ORDER)
    return value


def gathered(comm: Any, own: T, merge: Callable[[T, T], T]) -> T | None:
    """What all ranks have as one, on rank 0: a binomial tree; None on the others.

    Nobody is through before all that is below has come, so that it is a barrier for rank 0.
    """
    total = own
    step = 1
    while step < comm.size:
        if comm.rank & step:
            send(comm, total, comm.rank - step, PART)
            return None
        if comm.rank + step < comm.size:
            total = merge(total, receive(comm, comm.rank + step, PART))
        step *= 2
    return total


@contextmanager
def progressing(comm: Any, is_needed: bool) -> Iterator[None]:
    """Let MPI get on with what other hosts ask of this process, whatever its main thread is at."""
    over = Event()
    thread = Thread(target=_progress, args=(comm, over), daemon=True)
    if is_needed:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if is_needed:
            thread.join()


def _progress(comm: Any, over: Event) -> None:
    while not over.wait(PROGRESS_S):
        comm.iprobe(tag=NOTHING)
