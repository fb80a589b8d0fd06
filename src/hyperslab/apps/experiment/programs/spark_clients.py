"""Clients: Sparks that compute the same at the same time, each a process with scratch of its own,
as on a node of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hyperslab.apps.experiment.programs.temporary import scratch_for
from hyperslab.engines.environment import interpreted
from hyperslab.errors import RunStopped
from hyperslab.storage.emulation.program import names_served
from hyperslab.storage.scratch.holding import surroundings
from hyperslab.storage.scratch.program import prefix
from hyperslab.storage.scratch.registry import Scratch

FAILED = "failed"
"Key of an answer that says why a client cannot go on."
COMPUTE, CHECK = "compute", "check"
"Words that clients are told."
_PROGRAM = "from hyperslab.apps.experiment.programs.spark_client import main; main()"


@dataclass(frozen=True, slots=True)
class Order:
    """What one of the clients is told."""

    program: str
    asked: dict[str, Any]
    "Fields of the rounds that are asked for."
    workers: int
    events: str = ""
    "Folder for its event log; '': it keeps none."

    def text(self) -> str:
        """The order as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Order:
        """The order of a text that `text` has made."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Clients:
    """Clients that have started, and wait for their rounds."""

    processes: Sequence[subprocess.Popen[str]]
    places: Sequence[str]
    "Directories on the storage that holds their scratch."

    def compute(self) -> None:
        """Have all of them compute, until the last one is done. Raises RunStopped."""
        self._tell(COMPUTE)

    def check(self) -> None:
        """Have all of them look at what they have computed. Raises RunStopped for a wrong
        result.
        """
        self._tell(CHECK)

    def _tell(self, word: str) -> None:
        for process in self.processes:
            _say(process, word)
        for process in self.processes:
            _answer(process)

    def names_served(self) -> int | None:
        """Number of operations on names and attributes that the emulated tier which holds their
        scratch has served so far; None where it is on none.
        """
        for place in dict.fromkeys(self.places):
            with suppress(OSError):  # it counts nothing
                return names_served(place)
        return None


@contextmanager
def clients_of(orders: Sequence[Order], scratch: str) -> Iterator[Clients]:
    """Clients that have started, for a block; `scratch` is what --scratch says. Raises UsageError
    and RunStopped.
    """
    with ExitStack() as stack:
        made = [stack.enter_context(scratch_for(scratch)) for _ in orders]
        started = [_started(order, one) for order, one in zip(orders, made, strict=True)]
        try:
            for process in started:
                _answer(process)
            yield Clients(started, [one.on for one in made if one is not None])
        except BaseException:
            for process in started:
                process.kill()
            raise
        finally:
            _end(started)


def _started(order: Order, scratch: Scratch | None) -> subprocess.Popen[str]:
    words = [*interpreted(_PROGRAM), order.text()]
    environment = dict(os.environ)
    if scratch is not None:
        words = [*prefix(scratch), *words]
        environment |= surroundings(scratch)
    return subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _say(process: subprocess.Popen[str], word: str) -> None:
    """Tell a client a word; one that has ended says so when it is to answer."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(f"{word}\n")
        process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> None:
    """Wait for a client. Raises RunStopped where it cannot go on; one that has ended without a word
    has left its reason in the log.
    """
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        sys.exit(process.wait() or 1)
    answer = json.loads(line)
    if FAILED in answer:
        raise RunStopped(answer[FAILED])


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Let clients end, all of them before any is waited for."""
    for process in processes:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
    for process in processes:
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def events_in(folder: Path) -> str:
    """A new folder for event logs."""
    folder.mkdir()
    return str(folder.absolute())
