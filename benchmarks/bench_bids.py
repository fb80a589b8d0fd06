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
from collections.abc import Callable
from pathlib import Path

from benchmarks.corr_dataset import PARTICIPANTS, SITES, make
from benchmarks.gates import Gates
from hyperslab.apps.bids.dataset import find_datasets
from hyperslab.apps.bids.wanted import choose_participants, choose_sessions, images

MOST_RATIO, MOST_S = 20.0, 0.5


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
            walked.append(_taken_s(folder, _walk))
            indexed.append(_taken_s(folder, _index))
        assert _index(folder) == number
    _judge(number, statistics.median(walked[1:]), statistics.median(indexed[1:]))


def _walk(folder: str) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _index(folder: str) -> int:
    """The number of images, all of which have been found and their names understood."""
    participants = choose_participants(find_datasets(folder), ())
    sessions = choose_sessions(participants, ())
    return sum(len(images(session)) for several in sessions.values() for session in several)


def _taken_s(folder: str, look: Callable[[str], int]) -> float:
    began = time.perf_counter()
    look(folder)
    return time.perf_counter() - began


def _judge(images: int, walked_s: float, indexed_s: float) -> None:
    gates = Gates()
    print(f"{SITES} sites, {PARTICIPANTS} participants, {images} T1-weighted images")
    print(f"os.walk: {walked_s * 1000:.0f} ms")
    print(f"index:   {indexed_s * 1000:.0f} ms")
    gates.at_most("index / os.walk", indexed_s / walked_s, MOST_RATIO)
    gates.at_most("seconds of the index", indexed_s, MOST_S)
    gates.close()


if __name__ == "__main__":
    main()
