"""Measurements of an emulated tier: is it what was asked for?

Streams in threads of this process read and write past the page cache (O_DIRECT), so that nothing
but the tier is measured; there are so many of them that it always has something to do, however far
away it is. The latency by which the first answers are late is no part of a bandwidth. What a client
that is alone waits for a processor is this machine's, and not counted. What is off nevertheless is
measured again, since other programs may have been in the way.
"""

from __future__ import annotations

import math
import mmap
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

from hyperslab.storage.emulation.measured import Measured
from hyperslab.storage.emulation.settings import Settings
from hyperslab.trace import Phase, recording, span

STREAMS = 4
MEASURED_S = 0.5
"Time that a bandwidth is measured for."
LARGEST_NBYTES = 1 << 29
PIECE_NBYTES = 1 << 20
_SMALLEST_PIECE = 1 << 12
_OPENS_S = 0.3
"Time that the cost of operations is measured for."
_MOST_OPENS = 400
_LATENCIES = 20
"Times the latency that all clients are measured for, as their answers begin one latency late."
MOST_AWAY = 128
"Requests that are on their way to a tier that is far away, or from it, at most."
MOST_CLIENTS = 40
"Clients that a metadata server is measured with at most."
FASTER = 2
"Times as fast as the device that the memory in front of it has to be."
ENOUGH = 0.05
"Deviation up to which one measurement is believed ..."
TIMES = 3
"... and the number of those whose median is believed otherwise."
_UNCOUNTED = frozenset(("read", "write", "fsync", "statfs"))
"Operations that a metadata server has nothing to do with."

Count = Callable[[], dict[str, int]]
"Counters of the tier's operations, by their names."


def measure(directory: Path, settings: Settings, operations: Count | None) -> list[Measured]:
    """What a tier does of what was asked of it. Raises OSError.

    Without `operations`, costs of operations are not measured.
    """
    with _own_folder(directory) as place:
        found = _bandwidths(place, settings)
        if operations is not None:
            found += _costs(place, settings, operations)
    return found


@contextmanager
def _own_folder(directory: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix=".hyperslab-measuring-", dir=directory))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def _believed(measure: Callable[[], Measured]) -> Measured:
    """What is measured: once where that is about what was asked for, else the median."""
    found = [measure()]
    if found[0].deviation > ENOUGH:
        found += [measure() for _ in range(TIMES - 1)]
    return sorted(found, key=lambda one: one.value)[len(found) // 2]


def _bandwidths(place: Path, settings: Settings) -> list[Measured]:
    read_rate = settings.read_rate
    write_rate = settings.write_rate
    if read_rate is None or write_rate is None:
        return []
    found = []
    latency_s = settings.latency_s
    for nbytes in _of_memory(settings, write_rate):
        fill = partial(_fill, place / "fast", nbytes, FASTER * write_rate, latency_s)
        found.append(_believed(fill))
    paths = _together(place, settings)

    def written() -> Measured:
        value = _write(paths, write_rate, latency_s, _heard_late_s(settings, write_rate))
        return Measured("write", write_rate, value, "B/s")

    def read() -> Measured:
        return Measured("read", read_rate, _read(paths, read_rate, latency_s), "B/s")

    return [*found, _believed(written), _believed(read)]


def _together(place: Path, settings: Settings) -> list[Path]:
    """Empty files that lie on the same targets: a file begins on the one that its number names."""
    lies_anywhere = settings.targets_of_a_file == settings.targets
    paths: list[Path] = []
    for number in count():
        path = place / f"stream-{number}"
        path.touch()
        if lies_anywhere or path.stat().st_ino % settings.targets == 0:
            paths.append(path)
        if len(paths) == _streams(settings):
            break
    return paths


def _streams(settings: Settings) -> int:
    """The number of streams of which some have their requests served while others are answered."""
    latency_s = settings.latency_s
    rates = [rate for rate in (settings.read_rate, settings.write_rate) if rate is not None]
    away = max(math.ceil(latency_s * rate / _piece(rate, latency_s)) for rate in rates)
    return STREAMS * settings.targets_of_a_file + min(away, MOST_AWAY)


def _piece(rate: float, latency_s: float) -> int:
    """Bytes of a request: some fifty of them take a second, or fewer where each takes longer."""
    piece = PIECE_NBYTES
    while piece > _SMALLEST_PIECE and piece > rate * max(1 / 50, latency_s):
        piece //= 2
    return piece


def _pieces(rate: float, latency_s: float, streams: int) -> int:
    """Requests of each stream."""
    nbytes = min(rate * MEASURED_S, LARGEST_NBYTES)
    return max(4, round(nbytes / _piece(rate, latency_s) / streams))


def _of_memory(settings: Settings, write_rate: float) -> Iterator[int]:
    """Bytes that the memory in front of a device has to take faster than the device: all that it
    holds of what is filled, as the device is measured behind it, and of what is written back some.
    """
    if settings.fast_nbytes:
        yield settings.fast_nbytes
    elif settings.write_back_nbytes:
        of_a_target = settings.write_back_nbytes // settings.targets
        some = min(round(write_rate * MEASURED_S), LARGEST_NBYTES)
        if of_a_target >= PIECE_NBYTES:  # less is taken in no time that can be told
            yield min(of_a_target, max(some, PIECE_NBYTES))


def _fill(path: Path, nbytes: int, least: float, latency_s: float) -> Measured:
    """Fill the memory of a tier, and say how fast it took it, bytes per second. All is on the
    device afterwards that is to go there.
    """
    data = os.urandom(PIECE_NBYTES)
    starts = range(0, nbytes, PIECE_NBYTES)

    def fill(descriptor: int) -> None:
        for start in starts:
            os.pwrite(descriptor, data[: nbytes - start], start)

    with path.open("wb", buffering=0) as file:
        took = _at_once([file.fileno()], fill)
        os.fsync(file.fileno())
    own_s = _without(took, len(starts) * latency_s)
    return Measured("write to memory", least, nbytes / own_s, "B/s", is_least=True)


def _heard_late_s(settings: Settings, write_rate: float) -> float:
    """Time after which streams hear that all is on the device: a sync is answered a latency later,
    and it is asked for once the last write has been answered, perhaps ahead of the device.
    """
    target_rate = write_rate / settings.targets_of_a_file
    ahead_s = (settings.write_back_nbytes or 0) / settings.targets / target_rate
    return settings.latency_s + max(0.0, settings.latency_s - ahead_s)


def _write(paths: Sequence[Path], rate: float, latency_s: float, late_s: float) -> float:
    """Bytes per second that all streams write together, until all is on the device; they hear of
    that so much later.
    """
    pieces = _pieces(rate, latency_s, len(paths))
    data = _aligned(os.urandom(_piece(rate, latency_s)))

    def write(descriptor: int) -> None:
        for number in range(pieces):
            os.pwritev(descriptor, [data], number * len(data))
        os.fsync(descriptor)

    with _opened(paths, os.O_WRONLY) as descriptors:
        took = _without(_at_once(descriptors, write), late_s)
    return pieces * len(paths) * len(data) / took


def _read(paths: Sequence[Path], rate: float, latency_s: float) -> float:
    """Bytes per second that all streams read together."""
    pieces = _pieces(rate, latency_s, len(paths))
    nbytes = _piece(rate, latency_s)
    found: list[int] = []

    def read(descriptor: int) -> None:
        buffer = _aligned(bytes(nbytes))
        size = os.fstat(descriptor).st_size
        offsets = (number * nbytes % size for number in range(pieces))
        found.append(sum(os.preadv(descriptor, [buffer], offset) for offset in offsets))

    with _opened(paths, os.O_RDONLY) as descriptors:
        took = _without(_at_once(descriptors, read), latency_s)
    return sum(found) / took


def _without(took_s: float, latency_s: float) -> float:
    """Time that something took, without the latency of answers that nothing else was done in."""
    return max(took_s - latency_s, took_s / 100)


def _aligned(data: bytes) -> mmap.mmap:
    """The same bytes, where a device may read or write them itself."""
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memory


@contextmanager
def _opened(paths: Sequence[Path], flags: int) -> Iterator[list[int]]:
    """Descriptors of files, past the page cache."""
    with ExitStack() as opened:
        descriptors = []
        for path in paths:
            descriptor = os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            descriptors.append(descriptor)
        yield descriptors


def _at_once(descriptors: Sequence[int], act: Callable[[int], None]) -> float:
    """Seconds that it takes all streams to act, each on a file of its own, from the first start to
    the last end. Raises OSError.
    """
    failures: list[OSError] = []
    starts: list[float] = []
    ends: list[float] = []
    barrier = threading.Barrier(len(descriptors))

    def run(descriptor: int) -> None:
        go_first()
        barrier.wait()
        starts.append(time.perf_counter())
        try:
            act(descriptor)
        except OSError as error:
            failures.append(error)
        ends.append(time.perf_counter())

    threads = [threading.Thread(target=run, args=(one,)) for one in descriptors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return max(ends) - min(starts)


def go_first() -> None:
    """Have this thread run before all others that want a processor, where it may: root may."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def _costs(place: Path, settings: Settings, operations: Count) -> list[Measured]:
    """Cost of an operation to one client, and how many several get through."""
    alone_s = settings.latency_s + settings.metadata_s
    if alone_s == 0:
        return []
    clients = _clients(settings)
    paths = [place / f"open-{number}" for number in range(clients)]
    for path in paths:
        path.touch()
    times = min(max(3, round(_OPENS_S / alone_s)), _MOST_OPENS)

    def alone() -> Measured:
        return Measured("operation", alone_s, _alone(paths[0], times, operations), "s")

    def together() -> Measured:
        rate = 1 / settings.metadata_s
        wanted_s = max(times * settings.metadata_s, _LATENCIES * settings.latency_s)
        took, served = opens(paths, max(2, round(wanted_s * rate / clients)), operations)
        own_s = _without(took, settings.latency_s)
        return Measured("operations, all clients", rate, served / own_s, "/s")

    found = []
    if settings.latency_s:
        found.append(_believed(alone))
    if settings.metadata_s and clients <= MOST_CLIENTS:
        found.append(_believed(together))
    return found


def _clients(settings: Settings) -> int:
    """The number of clients that keep a metadata server busy while each waits for its answer."""
    if not settings.metadata_s:
        return 1
    return max(STREAMS, math.ceil(settings.latency_s / settings.metadata_s) + 2)


def _alone(path: Path, times: int, operations: Count) -> float:
    """Seconds that an operation takes a client that is alone: the median."""
    found: list[float] = []

    def open_often(descriptor: int) -> None:
        again = f"/proc/self/fd/{descriptor}"
        with recording() as phases:
            for _ in range(times):
                with span("open"):
                    opened = os.open(again, os.O_RDONLY | os.O_CLOEXEC)
                os.close(opened)
        found.extend(map(_served_s, phases))

    with _opened([path], os.O_RDONLY) as descriptors:
        before = _named(operations())
        _at_once(descriptors, open_often)
        served = _named(operations()) - before
    return statistics.median(found) * times / served


def _served_s(phase: Phase) -> float:
    """Seconds of a phase in which its thread did not wait for a processor."""
    return (phase.end_ns - phase.start_ns - max(0, phase.runq_ns)) / 1e9


def opens(paths: Sequence[Path], times: int, operations: Count) -> tuple[float, int]:
    """Seconds that as many clients as paths open them, and the operations that were served.

    Of a client that is alone, without the time that it waited for a processor, in which nobody else
    has the tier do something.
    """
    waited: list[float] = []

    def open_often(descriptor: int) -> None:
        path = f"/proc/self/fd/{descriptor}"
        with recording() as phases, span("open"):
            for _ in range(times):
                os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        waited.append(max(0, phases[0].runq_ns) / 1e9)

    with _opened(paths, os.O_RDONLY) as descriptors:
        before = _named(operations())
        took = _at_once(descriptors, open_often)
        served = _named(operations()) - before
    if len(paths) == 1:
        took -= waited[0]
    return took, served


def _named(counts: dict[str, int]) -> int:
    """Operations on names and attributes."""
    return sum(number for name, number in counts.items() if name not in _UNCOUNTED)
