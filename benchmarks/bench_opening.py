"""What it costs to open a file for every read instead of once, and how often it is opened.

    python -m benchmarks.bench_opening [--sizes 1KiB 64KiB 1MiB] [--metadata 300us] [--repeats 5]

by plain reads, hyperslab's views, h5py and nibabel: on an emulated tier on which operations on
names take their time one after the other, in scratch on that tier, and in memory. Reads come from
the page cache. A row says how long reads take with an open for each, over those of one open, the
median of turns; and how often the file is opened for a read, counted without a clock.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.emulated import MEMORY, emulated
from benchmarks.opening_readers import ALL
from hyperslab.apps.experiment.programs.reads import (
    COUNTED,
    EACH,
    ONCE,
    Reader,
    Task,
    contents,
    make,
    opens_of,
    require_right,
    told,
)
from hyperslab.apps.experiment.programs.temporary import folder_for
from hyperslab.cli.parse import parse_duration
from hyperslab.errors import UsageError
from hyperslab.plan.written import parse_size
from hyperslab.storage.accounting.choosing import choose_of_each
from hyperslab.storage.emulation.settings import Settings
from hyperslab.storage.scratch.holding import IMAGE

READS = 200
COLUMNS = ("place", "reader", "reads of", "once", "each", "each / once", "opens once", "opens each")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sizes", nargs="+", default=["1KiB", "64KiB", "1MiB"])
    parser.add_argument("--metadata", default="300us")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    settings = Settings(
        metadata_s=parse_duration("--metadata", arguments.metadata), page_cache=True
    )
    try:
        way = choose_of_each().way
    except UsageError as why:
        raise SystemExit(str(why)) from None
    print(" | ".join(COLUMNS))
    with emulated("metadata", settings) as tier, _places(tier) as places:
        for size in arguments.sizes:
            data_nbytes = parse_size("--sizes", size)
            for place, folder in places.items():
                for name, reader in ALL.items():
                    row = _row(reader, name, folder, data_nbytes, arguments.repeats, way)
                    print(" | ".join([place, name, size, *row]), flush=True)


@contextmanager
def _places(tier: Path) -> Iterator[Mapping[str, Path]]:
    """Empty folders by their names."""
    with ExitStack() as stack:
        plain = tempfile.TemporaryDirectory(dir=tier)
        memory = tempfile.TemporaryDirectory(dir=MEMORY)
        yield {
            "on the tier": Path(stack.enter_context(plain)),
            "in scratch on it": stack.enter_context(folder_for(f"{IMAGE}{tier}")),
            "in memory": Path(stack.enter_context(memory)),
        }


def _row(
    reader: Reader, name: str, folder: Path, nbytes: int, repeats: int, way: str
) -> Sequence[str]:
    path = folder / f"parts{reader.suffix}"
    data = contents(nbytes)
    layout = make(path, data)
    tasks = {opens: Task(path, layout, opens, READS) for opens in (ONCE, EACH)}
    require_right(reader, tasks[ONCE], data)
    taken: dict[str, list[float]] = {ONCE: [], EACH: []}
    for turn in range(repeats + 1):
        for opens, task in tasks.items():
            seconds = _seconds(task, reader)
            if turn:
                taken[opens].append(seconds)
    once, each = (statistics.median(taken[opens]) / READS for opens in (ONCE, EACH))
    opened = [_opens_per_read(name, tasks[opens], way) for opens in (ONCE, EACH)]
    path.unlink()
    return [f"{once * 1e6:.1f} us", f"{each * 1e6:.1f} us", f"{each / once:.2f}", *opened]


def _seconds(task: Task, reader: Reader) -> float:
    start = time.perf_counter()
    task.run(reader)
    return time.perf_counter() - start


def _opens_per_read(name: str, task: Task, way: str) -> str:
    words = [sys.executable, "-m", "benchmarks.opening_readers", name]
    fewer = task._replace(reads=COUNTED)
    return f"{opens_of([*words, told(fewer)], task.path, way) / COUNTED:.2f}"


if __name__ == "__main__":
    main()
