"""Finding all T1-weighted images of a dataset of the size of CoRR, against walking its folders.

    python -m benchmarks.bench_bids [--repeats 9]

The index and os.walk take turns on `benchmarks.corr_dataset`, whose folders are in the cache of the
file system; a ratio is that of the medians. os.walk lists folders of other datatypes, too, and
understands nothing of what it finds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.corr_dataset import PARTICIPANTS, SITES, make
from benchmarks.gates import Gates
from hyperslab.apps.bids.dataset import find_datasets
from hyperslab.apps.bids.wanted import choose_participants, choose_sessions, images

MOST_RATIO = 20.0
MOST_S = 0.5
"Processor time of the index, which other programs of the machine change least."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory(prefix="hyperslab-bench-") as folder:
        number = make(Path(folder))
        walked, indexed = [], []
        for _ in range(repeats + 1):
            walked.append(_taken(folder, _walk))
            indexed.append(_taken(folder, _index))
        assert _index(folder) == number
    _judge(number, walked[1:], indexed[1:])


def _walk(folder: str) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _index(folder: str) -> int:
    """The number of images, all of which have been found and their names understood."""
    participants = choose_participants(find_datasets(folder), ())
    sessions = choose_sessions(participants, ())
    return sum(len(images(session)) for several in sessions.values() for session in several)


class Taken(NamedTuple):
    """What a look at the dataset took."""

    real_s: float
    processor_s: float


def _taken(folder: str, look: Callable[[str], int]) -> Taken:
    began = Taken(time.perf_counter(), time.process_time())
    look(folder)
    return Taken(time.perf_counter() - began.real_s, time.process_time() - began.processor_s)


def _judge(images: int, walked: Sequence[Taken], indexed: Sequence[Taken]) -> None:
    gates = Gates()
    print(f"{SITES} sites, {PARTICIPANTS} participants, {images} T1-weighted images")
    usual = [_usual(walked), _usual(indexed)]
    for name, taken in zip(("os.walk", "index"), usual, strict=True):
        processor = f"{taken.processor_s * 1000:.0f} ms of a processor"
        print(f"{name:7} {taken.real_s * 1000:.0f} ms, {processor}")
    gates.at_most("index / os.walk", usual[1].real_s / usual[0].real_s, MOST_RATIO)
    gates.at_most("processor seconds of the index", usual[1].processor_s, MOST_S)
    gates.close()


def _usual(several: Sequence[Taken]) -> Taken:
    return Taken(*(statistics.median(each) for each in zip(*several, strict=True)))


if __name__ == "__main__":
    main()
