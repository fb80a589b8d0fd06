"""Joblog: what GNU Parallel itself records of the jobs of a round."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab.engines.environment import FIRST_SIGNAL
from hyperslab.trace import OwnTime

COLUMNS = 8
"""Columns before the command: number, host, start, duration, bytes sent and received, exit status,
signal.
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that has ended."""

    number: int
    "Number of its batch."
    host: str
    "Host as it was named to GNU Parallel; ':' is this one."
    start_s: float
    "Seconds since the epoch, to the millisecond."
    duration_s: float
    status: int
    "Exit status as a shell has it: 128 and more is a signal."


def read(path: Path) -> Iterator[Job]:
    """The jobs of a joblog, but for lines that are not whole."""
    if not path.exists():  # GNU Parallel died as it started
        return
    yield from _jobs_in(path.read_text(errors="replace"))


class Ended:
    """The jobs of a joblog that have ended so far, which is read once however often it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._by_host: dict[str, list[Job]] = {}

    def by_host(self) -> Mapping[str, Sequence[Job]]:
        """The jobs of each host, in the order in which they ended."""
        if self.path.exists():
            self._read_on()
        return self._by_host

    def _read_on(self) -> None:
        with open(self.path, "rb") as file:
            file.seek(self._position)
            whole, end, _ = file.read().rpartition(b"\n")
        self._position += len(whole) + len(end)
        for job in _jobs_in(whole.decode(errors="replace")):
            self._by_host.setdefault(job.host, []).append(job)


def _jobs_in(text: str) -> Iterator[Job]:
    for line in text.splitlines():
        fields = line.split("\t")
        if len(fields) > COLUMNS and fields[0].isdigit():
            yield _job(fields)


def _job(fields: list[str]) -> Job:
    number, host, start, duration, _sent, _received, status, signal, *_command = fields
    ended = int(status)
    if int(signal):
        ended = FIRST_SIGNAL + int(signal)
    return Job(int(number) - 1, host, float(start), float(duration), ended)


def own_times(path: Path) -> Iterator[OwnTime]:
    """When the jobs ran, on the driver's monotonic clock."""
    wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()
    for job in read(path):
        start_ns = int(job.start_s * 1e9) - wall_less_monotonic_ns
        yield OwnTime(start_ns, start_ns + int(job.duration_s * 1e9))
