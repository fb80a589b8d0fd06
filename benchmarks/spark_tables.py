"""What was measured of Spark, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.spark_caches import PASSES, Kept
from benchmarks.spark_data import PARTITIONS
from benchmarks.spark_gates import Judged
from benchmarks.spark_memory import Memory
from benchmarks.spark_scaling import Point, Series, per_task_s
from benchmarks.spark_slopes import Load, line, medians, of
from benchmarks.spark_ways import BLOCKS, H5PY, NAMES, partitions_of
from hyperslab.units import show_bytes, show_count, show_rate, show_seconds, show_share


@dataclass(slots=True)
class Results:
    """Everything that was measured."""

    about: dict[str, str]
    loads: list[Load] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    caches: list[Kept] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)


def blocks(results: Results) -> dict[str, str]:
    """The text of every marked block by name: a caption and a table."""
    r, middle = results, show_bytes(results.series[0].nbytes)
    return {
        "circumstances": "\n".join(f"- {name}: {value}" for name, value in r.about.items()),
        "plain": f"{_caption('Contiguous float64', r)}\n\n{loads_table(r.loads, 'plain')}",
        "gzip": f"{_caption('Shuffled and deflated uint16', r)}\n\n{loads_table(r.loads, 'gzip')}",
        "gates": f"Ratios of seconds per byte:\n\n{gates_table(r.judged)}",
        "scaling": (
            f"`{BLOCKS}` and checksum of {middle}, contiguous, by partitions and executors:\n\n"
            f"{scaling_table(r.series)}"
        ),
        "launches": (
            "When tasks of these loads were launched after their stage was submitted (all loads of"
            " a line together; failures and time in Java's collector per"
            f" load):\n\n{launches_table(r.series)}"
        ),
        "caches": (
            f"Kept in Spark's memory, `MEMORY_ONLY`, {PARTITIONS}"
            f" partitions:\n\n{caches_table(r.caches)}"
        ),
        "memory": (
            "Peak memory of one load in a Spark of its own (resident sets; Java keeps what it once"
            f" took):\n\n{memory_table(r.memories)}"
        ),
    }


def _caption(what: str, results: Results) -> str:
    rounds = max(load.round for load in results.loads)
    return (
        f"{what}: medians of {show_count(rounds, 'round')}, and the line through them (fixed cost,"
        " cost per GB):"
    )


def loads_table(loads: Sequence[Load], kind: str) -> str:
    """Medians of the rounds, the two costs, and the rate at the largest size."""
    sizes = sorted({load.nbytes for load in loads if load.kind == kind})
    heads = [
        "way",
        "partitions",
        *map(show_bytes, sizes),
        "fixed per load",
        "per GB",
        "largest",
        "per GB / h5py's",
    ]
    floor = line(loads, H5PY, kind).per_gb_s
    return table(
        heads, [_loads_row(loads, kind, way, sizes, floor) for way in NAMES if of(loads, way, kind)]
    )


def _loads_row(
    loads: Sequence[Load], kind: str, way: str, sizes: Sequence[int], floor: float
) -> list[str]:
    taken, cost = medians(of(loads, way, kind)), line(loads, way, kind)
    largest = max(taken)
    return [
        way,
        str(partitions_of(way)),
        *(f"{taken[size]:.3f} s" if size in taken else "" for size in sizes),
        positive(cost.fixed_s),
        positive(cost.per_gb_s),
        show_rate(largest / taken[largest]),
        f"{cost.per_gb_s / floor:.2f}" if cost.per_gb_s > 0 and floor > 0 else "not told",
    ]


def positive(seconds: float) -> str:
    """A difference of measurements, which noise may have made negative."""
    return show_seconds(seconds) if seconds > 0 else "none seen"


def gates_table(judged: Sequence[Judged]) -> str:
    """Ratios and limits."""
    rows = []
    for one in judged:
        found = one.found
        told = (
            f"**{found.middle:.2f}** ({found.low:.2f} to {found.high:.2f})"
            if found
            else "not measured"
        )
        rounds = f"{found.rounds} of {found.of_rounds}" if found else "0"
        rows.append([one.rule.what, told, one.limit or "no gate", rounds])
    return table(
        ["ratio of seconds per byte", "median (range) over rounds", "gate", "rounds"], rows
    )


def scaling_table(series: Sequence[Series]) -> str:
    """Time and rate by place and partitions; what one more partition costs."""
    rows, said = [], []
    for one in series:
        for point in one.points:
            rate, ratio = (
                show_rate(one.nbytes / point.median_s),
                f"{point.median_s / one.floor_s:.1f}",
            )
            empty = f"{statistics.median(point.empty_s):.3f} s"
            rows.append(
                [one.place.name, _partitions(point), f"{point.median_s:.3f} s", rate, ratio, empty]
            )
        load, nothing = map(_difference, per_task_s(one.points))
        said.append(f"{one.place.name} {load} (of empty tasks {nothing})")
    text = f"One more partition makes the job longer by: {', '.join(said)}."
    heads = ["where", "partitions", "time", "rate", "time / h5py, 1 process", "as many empty tasks"]
    return f"{table(heads, rows)}\n\n{text}"


def _difference(seconds: float) -> str:
    return show_seconds(seconds) if seconds > 0 else "nothing that can be seen"


def launches_table(series: Sequence[Series]) -> str:
    """When tasks were launched after their stage was submitted, and what failed."""
    heads = (
        "where | partitions | first | median | 95 % | last | after the first | within 1 s | failed"
        " | relaunched | GC"
    )
    return table(heads.split(" | "), list(_launches_rows(series)))


def _launches_rows(series: Sequence[Series]) -> Iterator[list[str]]:
    for one in series:
        for point in one.points:
            told = point.launches
            assert told is not None
            delays = (told.first_s, told.median_s, told.late_s, told.last_s, told.behind_s)
            loads = len(point.seconds)
            counts = (
                _each(told.failed, loads),
                _each(told.relaunched, loads),
                show_seconds(told.gc_s / loads),
            )
            head = (one.place.name, _partitions(point))
            yield [*head, *map(show_seconds, delays), show_share(told.soon), *counts]


def _partitions(point: Point) -> str:
    return f"{point.partitions}{' (one worker dies)' * point.is_killed}"


def _each(number: int, loads: int) -> str:
    """A count per load."""
    return f"{number / loads:g}"


def caches_table(kept: Sequence[Kept]) -> str:
    """Bytes in Spark's memory against those of the values, and the two loads."""
    rows = []
    for one in kept:
        share = f"{one.cached_nbytes / one.nbytes:.2f}"
        times = [f"{one.median_s(name):.3f} s" for name in PASSES]
        collected = [show_seconds(one.gc_s[name]) for name in PASSES]
        sizes = [show_bytes(one.nbytes), show_bytes(one.cached_nbytes)]
        rows.append([one.name, *sizes, share, str(one.cached), *times, *collected])
    heads = (
        "elements | values | cached | cached / values | partitions kept | first load | second load"
    )
    return table([*heads.split(" | "), "GC, first", "GC, second"], rows)


def memory_table(memories: Sequence[Memory]) -> str:
    """Peak memory by way."""
    rows = [
        [
            m.way,
            show_bytes(m.nbytes),
            show_bytes(m.nbytes / m.partitions),
            show_bytes(m.worker_nbytes),
            show_bytes(m.java_nbytes),
            show_bytes(max(0, m.java_nbytes - m.java_before_nbytes)),
        ]
        for m in memories
    ]
    return table(
        [
            "way",
            "matrix",
            "partition",
            "largest Python worker",
            "Java",
            "of that grown during the load",
        ],
        rows,
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
