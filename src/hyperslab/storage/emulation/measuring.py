"""Measurements of an emulated tier: is it what was asked for?

Streams in threads of this process read and write past the page cache (O_DIRECT), so that nothing
but the tier is measured; there are so many of them that the tier always has something to do.
"""

from __future__ import annotations

import mmap
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from hyperslab.storage.emulation.measured import Measured
from hyperslab.storage.emulation.settings import Settings

STREAMS = 4
MEASURED_S = 0.5
"Time that a bandwidth is measured for."
LARGEST_NBYTES = 1 << 29
PIECE_NBYTES = 1 << 20
_SMALLEST_PIECE = 1 << 12
_OPENS_S = 0.3
"Time that the cost of operations is measured for."
_MOST_OPENS = 400
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


def _bandwidths(place: Path, settings: Settings) -> list[Measured]:
    read_rate = settings.read_rate
    write_rate = settings.write_rate
    if read_rate is None or write_rate is None:
        return []
    found = []
    if settings.fast_nbytes:
        found.append(_fill(place / "fast", settings.fast_nbytes))
    paths = _together(place, settings)
    written = _write(paths, write_rate)
    found.append(Measured("write", write_rate, written, "B/s"))
    found.append(Measured("read", read_rate, _read(paths, read_rate), "B/s"))
    return found


def _together(place: Path, settings: Settings) -> list[Path]:
    """Empty files that lie on the same targets: a file begins on the one that its number names."""
    lies_anywhere = settings.targets_of_a_file == settings.targets
    paths: list[Path] = []
    for number in count():
        path = place / f"stream-{number}"
        path.touch()
        if lies_anywhere or path.stat().st_ino % settings.targets == 0:
            paths.append(path)
        if len(paths) == STREAMS * settings.targets_of_a_file:
            break
    return paths


def _piece(rate: float) -> int:
    """Bytes of a request: some fifty of them take a second."""
    piece = PIECE_NBYTES
    while piece > _SMALLEST_PIECE and piece > rate / 50:
        piece //= 2
    return piece


def _pieces(rate: float, streams: int) -> int:
    """Requests of each stream."""
    nbytes = min(rate * MEASURED_S, LARGEST_NBYTES)
    return max(4, round(nbytes / _piece(rate) / streams))


def _fill(path: Path, nbytes: int) -> Measured:
    """Fill the memory of a tier, and say how fast it took it."""
    data = os.urandom(PIECE_NBYTES)
    begun = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for start in range(0, nbytes, PIECE_NBYTES):
            file.write(data[: nbytes - start])
    took = time.perf_counter() - begun
    return Measured("write to memory", None, nbytes / took, "B/s")


def _write(paths: Sequence[Path], rate: float) -> float:
    """Bytes per second that all streams write together, until all is on the device."""
    pieces = _pieces(rate, len(paths))
    data = _aligned(os.urandom(_piece(rate)))

    def write(descriptor: int) -> None:
        for number in range(pieces):
            os.pwritev(descriptor, [data], number * len(data))
        os.fsync(descriptor)

    with _opened(paths, os.O_WRONLY) as descriptors:
        took = _at_once(descriptors, write)
    return pieces * len(paths) * len(data) / took


def _read(paths: Sequence[Path], rate: float) -> float:
    pieces = _pieces(rate, len(paths))
    nbytes = _piece(rate)

    def read(descriptor: int) -> None:
        buffer = _aligned(bytes(nbytes))
        size = os.fstat(descriptor).st_size
        for number in range(pieces):
            os.preadv(descriptor, [buffer], number * nbytes % size)

    with _opened(paths, os.O_RDONLY) as descriptors:
        took = _at_once(descriptors, read)
    return pieces * len(paths) * nbytes / took


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
    """Seconds that it takes all streams to act, each on a file of its own. Raises OSError."""
    failures: list[OSError] = []
    barrier = threading.Barrier(len(descriptors) + 1)

    def run(descriptor: int) -> None:
        barrier.wait()
        try:
            act(descriptor)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in descriptors]
    for thread in threads:
        thread.start()
    barrier.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    if failures:
        raise failures[0]
    return took


def _costs(place: Path, settings: Settings, operations: Count) -> list[Measured]:
    """Cost of an operation to one client, and how many several get through."""
    alone_s = settings.latency_s + settings.metadata_s
    if alone_s == 0:
        return []
    paths = [place / f"open-{number}" for number in range(STREAMS)]
    for path in paths:
        path.touch()
    found = []
    times = min(max(3, round(_OPENS_S / alone_s)), _MOST_OPENS)
    if settings.latency_s:
        found.append(Measured("operation", alone_s, _alone(paths[0], times, operations), "s"))
    # As many clients as keep the server busy while each waits for its answer.
    if settings.metadata_s > settings.latency_s / (STREAMS - 1):
        took, served = opens(paths, max(2, times // STREAMS), operations)
        rate = 1 / settings.metadata_s
        found.append(Measured("operations, all clients", rate, served / took, "/s"))
    return found


def _alone(path: Path, times: int, operations: Count) -> float:
    """Seconds that an operation takes a client that is alone: the median, since a busy machine is
    not the tier's fault.
    """
    took = []
    with _opened([path], os.O_RDONLY) as [descriptor]:
        again = f"/proc/self/fd/{descriptor}"
        before = _named(operations())
        for _ in range(times):
            begun = time.perf_counter()
            opened = os.open(again, os.O_RDONLY | os.O_CLOEXEC)
            took.append(time.perf_counter() - begun)
            os.close(opened)
        served = _named(operations()) - before
    return statistics.median(took) * times / served


def opens(paths: Sequence[Path], times: int, operations: Count) -> tuple[float, int]:
    """Seconds that as many clients as paths open them, and the operations that were served."""

    def open_often(descriptor: int) -> None:
        path = f"/proc/self/fd/{descriptor}"
        for _ in range(times):
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    with _opened(paths, os.O_RDONLY) as descriptors:
        before = _named(operations())
        took = _at_once(descriptors, open_often)
        served = _named(operations()) - before
    return took, served


def _named(counts: dict[str, int]) -> int:
    """Operations on names and attributes."""
    return sum(number for name, number in counts.items() if name not in _UNCOUNTED)
