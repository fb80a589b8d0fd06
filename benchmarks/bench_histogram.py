"""Counting uint16 values natively against np.bincount in blocks of 1 MiB, interleaved in one run.

    python -m benchmarks.bench_histogram [--size 256MiB] [--repeats 9] [--threads 1,2] [--block
    64MiB]

Brain-like values crowd around few, uniform ones are all over the table. The ratio is that of CPU
seconds, np.bincount / native, the median over pairs made one after the other, both by threads that
take blocks in turn. Ends with status 1 if a gate is missed. Absolute times are printed for
orientation; on a shared machine only the ratios mean something.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.gates import Gates
from hyperslab.arrays import Array
from hyperslab.arrays.slab import Hyperslab
from hyperslab.cli.parse import parse_size
from hyperslab.native import core
from hyperslab.workloads import kernels, volume

BINS = 65536
BINCOUNT_VALUES = 2**20 // 2
"Values of a block of 1 MiB."
GATE = 3.0
"np.bincount has to take so many times the CPU seconds."


def main() -> None:
    arguments = _arguments()
    assert core is not None, "the native core is not installed"
    nbytes, block = (
        parse_size("--size", arguments.size),
        parse_size("--block", arguments.block) // 2,
    )
    print(
        f"{nbytes / 2**20:.0f} MiB of uint16, native blocks of {arguments.block}, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{'values':<11} {'threads':>7} {'np.bincount':>17} {'native':>15} {'CPU ratio':>10}"
        f" {'wall ratio':>11}"
    )
    gates = Gates()
    for name, values in _volumes(nbytes):
        for threads in map(int, arguments.threads.split(",")):
            ratio = _compare(name, values, threads, block, arguments.repeats)
            gates.at_least(
                f"histogram of {name} values, threads {threads}: CPU of np.bincount / native",
                ratio,
                GATE,
            )
    gates.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="256MiB")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument(
        "--block", default="64MiB", help="bytes of the blocks that are counted natively"
    )
    return parser.parse_args()


def _volumes(nbytes: int) -> Iterator[tuple[str, Array]]:
    """Names and (values,) uint16, as they lie in memory."""
    shape = volume.shape_of("bigbrain", nbytes)
    yield "brain-like", volume.block("bigbrain", shape, Hyperslab.full(shape)).ravel(order="K")
    yield "uniform", np.random.default_rng(0).integers(0, BINS, nbytes // 2, np.uint16)


def _compare(name: str, values: Array, threads: int, block: int, repeats: int) -> float:
    """Median of the CPU ratios, pair by pair."""
    rows = []
    with ThreadPoolExecutor(threads) as pool:
        for repeat in range(repeats + 1):
            numpys = _timed(pool, threads, values, BINCOUNT_VALUES, _bincount)
            native = _timed(pool, threads, values, block, _native)
            assert np.array_equal(numpys[2], native[2]), "the two histograms differ"
            if repeat:  # the first pair warms up and is not counted
                rows.append(
                    (*numpys[:2], *native[:2], numpys[0] / native[0], numpys[1] / native[1])
                )
    numpy_cpu, _, native_cpu, _, ratio, wall = (
        statistics.median(column) for column in zip(*rows, strict=True)
    )
    per_value = 1e9 / len(values)
    print(
        f"{name:<11} {threads:>7} {numpy_cpu * per_value:>8.2f} ns/value"
        f" {native_cpu * per_value:>6.2f} ns/value {ratio:>10.2f} {wall:>11.2f}",
        flush=True,
    )
    return float(ratio)


def _bincount(block: Array) -> Array:
    return np.bincount(block, minlength=BINS)


def _native(block: Array) -> Array:
    return kernels.value_counts(block, 0, BINS)


def _timed(
    pool: ThreadPoolExecutor,
    threads: int,
    values: Array,
    block: int,
    count: Callable[[Array], Array],
) -> tuple[float, float, Array]:
    """CPU seconds of all threads, wall seconds, and the counts."""
    blocks = [values[first : first + block] for first in range(0, len(values), block)]

    def share(number: int) -> Array:
        total = np.zeros(BINS, np.int64)
        for one in blocks[number::threads]:
            total += count(one)
        return total

    cpu, wall = time.process_time(), time.perf_counter()
    totals = list(pool.map(share, range(threads)))
    return time.process_time() - cpu, time.perf_counter() - wall, np.sum(totals, axis=0)


if __name__ == "__main__":
    main()
