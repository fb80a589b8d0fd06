"""Meter: what the links of a laboratory carry while something runs in it, and whether the machine
had processors to spare: a run that had none tells nothing of its links.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hyperslab.errors import RunStopped
from hyperslab.machine import pressure
from hyperslab.network.lab.backends.choosing import BACKENDS
from hyperslab.network.lab.namespaces import LabFailed, located, network_file
from hyperslab.network.lab.reading import Reading
from hyperslab.network.lab.registry import Lab
from hyperslab.units import show_count, show_list, show_share

LEAST_IDLE_SHARE = 0.1
"Share of all processors' time that has to be idle, or a run counts as bound by processors."
BUSY_SHARE = 0.9
"Share of the processors that a node can use from which on it counts as bound by them."
STEP_S = 0.25
"Time from one sample to the next."
_STEPS_TO_SEARCH = 4
"Samples after which processes are looked for that have come to the nodes."
MOST_FAILURES = 3
"Looks in a row that fail, after which the links count as lost: one may fail on a busy machine."
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_GONE, _UNWAITED = "X", "Z"
"States of a process that runs no more, as /proc has them."


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of a moment."""

    at_ns: int
    "Monotonic clock."
    reading: Reading
    machine: Mapping[str, Any]
    "See `hyperslab.machine.pressure`."
    cpu_s: Mapping[str, float]
    "Processor time of the processes that were seen in each node."


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What the link of a node has carried."""

    node: str
    sent_nbytes: int
    received_nbytes: int
    sent_packets: int
    received_packets: int
    dropped: Mapping[str, int]
    "Packets that did not arrive, both directions, by cause."


@dataclass(frozen=True, slots=True)
class Usage:
    """What a laboratory has done for a time."""

    seconds: float
    links: Sequence[LinkUse]
    idle_share: float | None
    "Share of all processors' time; None where the kernel hides it."
    emulator_share: float
    "Share of all processors' time that handing packets on took; 0 where the kernel does that."
    cpu_share: Mapping[str, float]
    "Processors that the processes in each node kept busy, on average."
    usable: Mapping[str, int]
    "Processors that each node can use, by its threads; none where these are not known."
    starved: str
    "Why the emulator's links were not what was asked for, as a sentence; '' where they were."
    bytes_by_step: Mapping[str, Sequence[tuple[float, int, int]]]
    "Seconds since the beginning, and bytes sent and received since then, by node."
    died: Sequence[str] = ()
    "Nodes on which a process of the cluster has ended."

    @property
    def bound(self) -> str:
        """Why processors and not links took the time, as a clause; '' where they did not."""
        if self.idle_share is not None and self.idle_share < LEAST_IDLE_SHARE:
            return (
                f"CPU-bound: {show_share(self.idle_share)} of the processors' time was idle, less"
                f" than {show_share(LEAST_IDLE_SHARE)}"
            )
        for node, number in self.usable.items():
            share = self.cpu_share.get(node, 0.0)
            if share >= BUSY_SHARE * number:
                threads = show_count(number, "thread")
                return f"CPU-bound: {node}, of {threads}, kept {share:.2f} processors busy"
        return ""

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it."""
        return {**asdict(self), "bound": self.bound}


class Meter:
    """Samples of a laboratory, one after the other."""

    def __init__(self, lab: Lab, processes: Mapping[int, str], threads: int = 0) -> None:
        """`threads` are those of a worker; 0: they are not known."""
        self._lab = lab
        self._threads = threads
        self._cluster = dict(processes)
        self._processes = dict(processes)
        self._spent: dict[int, float] = {}
        self._ended: dict[int, str] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._failures = 0
        self.lost = ""
        "Why nothing is known of the links any more, as a sentence; '' where it is."
        self.samples: list[Sample] = []
        self.samples.append(self._sample())

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and end."""
        self._is_over.set()
        self._thread.join()

    @property
    def died(self) -> list[str]:
        """Nodes on which a process of the cluster has ended."""
        return sorted(set(self._ended.values()))

    @property
    def spoiled(self) -> str:
        """Why what runs on the cluster tells nothing of these links, as a sentence; '' where it
        does.
        """
        if self.lost or not self.died:
            return self.lost
        return f"what ran on {show_list(self.died)} has died"

    def require_links(self) -> None:
        """Raise RunStopped where the links are lost."""
        if self.lost:
            raise RunStopped(self.lost)

    def _watch(self) -> None:
        while not (self._is_over.wait(STEP_S) or self.lost):
            self._look()
        self._look()
        while self._failures and not self.lost:
            self._look()

    def _look(self) -> None:
        try:
            self.samples.append(self._sample())
        except LabFailed as error:
            self._failures += 1
            if self._failures == MOST_FAILURES:
                self.lost = f"the links of '{self._lab.name}' were lost: {error}"
        else:
            self._failures = 0

    def _sample(self) -> Sample:
        reading = _read(self._lab)
        at_ns = time.monotonic_ns()
        return Sample(at_ns, reading, pressure.sample(), self._cpu_s())

    def _cpu_s(self) -> dict[str, float]:
        if len(self.samples) % _STEPS_TO_SEARCH == 0:
            self._search()
        spent: dict[str, float] = {}
        for number, node in self._processes.items():
            try:
                fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended: what it had spent stays
                state = _GONE
            else:
                state = fields[0]
                self._spent[number] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
            if state in (_GONE, _UNWAITED) and number in self._cluster:
                self._ended[number] = node
            spent[node] = spent.get(node, 0.0) + self._spent.get(number, 0.0)
        return spent

    def _search(self) -> None:
        """Look for processes that have come: the client's, and what others have started."""
        nodes = {network_file(self._lab.place, node.name): node.name for node in self._lab.nodes}
        for number, file in located(list(nodes)):
            self._processes.setdefault(number, nodes[file])

    def _usable(self) -> dict[str, int]:
        if not self._threads:
            return {}
        workers = {node.name for node in self._lab.nodes if node.role == "worker"}
        return {node.name: self._threads if node.name in workers else 1 for node in self._lab.nodes}

    def usage(self, start_ns: int = 0, end_ns: int = 2**63) -> Usage:
        """What was done between two moments of the monotonic clock: bytes from the last sample
        before to the first one after. Raises RunStopped where the links were not there.
        """
        self.require_links()
        before = [one for one in self.samples if one.at_ns <= start_ns] or self.samples[:1]
        after = [one for one in self.samples if one.at_ns >= end_ns] or self.samples[-1:]
        first = before[-1]
        last = after[0]
        within = [one for one in self.samples if start_ns <= one.at_ns <= end_ns]
        steps = [one for one in self.samples if first.at_ns <= one.at_ns <= last.at_ns]
        if len(within) < 2:
            within = [first, last]
        usage = _usage(first, last, (within[0], within[-1]), steps, self._usable())
        return replace(usage, died=tuple(self.died))


def _read(lab: Lab) -> Reading:
    """What the links have carried. Raises LabFailed, as a laboratory that goes away meanwhile may
    fail in many ways.
    """
    try:
        return BACKENDS[lab.backend].read(lab)
    except LabFailed:
        raise
    except Exception as error:
        raise LabFailed(f"its counters cannot be read ({type(error).__name__}: {error})") from error


def _usage(
    first: Sample,
    last: Sample,
    inner: tuple[Sample, Sample],
    steps: Sequence[Sample],
    usable: Mapping[str, int],
) -> Usage:
    seconds = (last.at_ns - first.at_ns) / 1e9
    carried = last.reading.since(first.reading)
    load = pressure.between(inner[0].machine, inner[1].machine)
    idle_share = None
    if load["busy_share"] is not None:
        idle_share = round(max(0.0, 1 - load["busy_share"] - load["stolen_share"]), 4)
    emulator_share = 0.0
    if carried.strain is not None and seconds and load["cpus"]:
        emulator_share = carried.strain.cpu_ns / 1e9 / seconds / load["cpus"]
    inner_s = (inner[1].at_ns - inner[0].at_ns) / 1e9
    cpu_share = {
        node: (spent - inner[0].cpu_s.get(node, 0.0)) / inner_s
        for node, spent in inner[1].cpu_s.items()
        if inner_s
    }
    return Usage(
        seconds=seconds,
        links=[_link(node, carried) for node in carried.links],
        idle_share=idle_share,
        emulator_share=emulator_share,
        cpu_share=cpu_share,
        usable=usable,
        starved=carried.starved(),
        bytes_by_step=_steps(steps),
    )


def _link(node: str, carried: Reading) -> LinkUse:
    up = carried.links[node]["up"]
    down = carried.links[node]["down"]
    causes = dict.fromkeys([*up.drops, *down.drops])
    dropped = {cause: up.drops.get(cause, 0) + down.drops.get(cause, 0) for cause in causes}
    return LinkUse(node, up.nbytes, down.nbytes, up.packets, down.packets, dropped)


def _steps(samples: Sequence[Sample]) -> dict[str, list[tuple[float, int, int]]]:
    first = samples[0]
    found: dict[str, list[tuple[float, int, int]]] = {node: [] for node in first.reading.links}
    for one in samples:
        seconds = round((one.at_ns - first.at_ns) / 1e9, 3)
        for node, both in one.reading.since(first.reading).links.items():
            found[node].append((seconds, both["up"].nbytes, both["down"].nbytes))
    return found


@contextmanager
def metered(lab: Lab, processes: Mapping[int, str], threads: int = 0) -> Iterator[Meter]:
    """A meter, as long as the block lasts, of a cluster whose workers have so many threads; 0: they
    are not known. Raises LabFailed where links cannot be read.
    """
    meter = Meter(lab, processes, threads)
    meter.start()
    try:
        yield meter
    finally:
        meter.stop()
