"""Claims of J. Liu et al., H5Spark: Bridging the I/O Gap between Spark and Scientific Data Formats
on HPC Systems (2016).
"""

from __future__ import annotations

import math
from itertools import pairwise

from hyperslab.apps.experiment.answers.comparison import MEASURE, WITHOUT_START
from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    Claim,
    Contrast,
    Evidence,
    Judge,
    Judged,
    Ratios,
    expecting,
    judged_contrasts,
    ratios_of,
    show_ratios,
    untestable,
)
from hyperslab.apps.experiment.design.factors import Level

PARTITIONS = "h5spark/partitions"
STRIPES = "h5spark/stripes"
SPARK = "spark"
MPI = "mpi"
TARGETS = ("one", "two", "four", "eight")
"Tiers by the number of targets that a file is laid over, fewest first."


def _targets(evidence: Evidence) -> Judged:
    """Every number of targets beside the next smaller one that was run."""
    there = _numbers_of_targets(evidence)
    found = [
        one
        for few, many in pairwise(there)
        for one in evidence.beside("input_tier", many, few, WITHOUT_START, engine=SPARK)
    ]
    return expecting({"faster"}, found)


def _numbers_of_targets(evidence: Evidence) -> list[str]:
    known = evidence.levels("input_tier")
    return [name for name in TARGETS if name in known]


def _gain(evidence: Evidence) -> Judged:
    """Look at what most targets save, beside fewest, on MPI and on Spark."""
    there = _numbers_of_targets(evidence)
    if len(there) < 2:
        return Judged("not tested", [NOT_RUN])
    few, many = there[0], there[-1]
    by_engine = [
        ratios_of(evidence, "input_tier", few, many, WITHOUT_START, engine=engine)
        for engine in (MPI, SPARK)
    ]
    head = f"On {few} beside {many}, without the start of engines"
    return _greater(head, (MPI, SPARK), by_engine)


def _greater(head: str, names: tuple[str, str], both: list[Ratios]) -> Judged:
    """Judge that the first of two ratios is greater than the second, replicate by replicate."""
    first, second = both
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return Judged("not tested", [NOT_RUN])
    told = (
        f"{head}: {show_ratios(first)} as long with {names[0]}, {show_ratios(second)} with"
        f" {names[1]}."
    )
    differences = [math.log(first[one] / second[one]) for one in shared]
    return judged_contrasts([Contrast(told, differences)])


def _mpi_beside_spark(factor: str) -> Judge:
    """Judge MPI beside Spark at every level of a factor, with the start of both and without."""

    def judge(evidence: Evidence) -> Judged:
        found = [
            one
            for level in evidence.levels(factor)
            for measure in (MEASURE, WITHOUT_START)
            for one in evidence.beside("engine", MPI, SPARK, measure, **{factor: level})
        ]
        return expecting({"faster"}, found)

    return judge


def _closing(evidence: Evidence) -> Judged:
    """Look at Spark over MPI with fewest executors, beside the same with most."""
    numbers = sorted(evidence.levels("workers"), key=float)
    if len(numbers) < 2:
        return Judged("not tested", [NOT_RUN])
    few, many = numbers[0], numbers[-1]
    gaps = [
        ratios_of(evidence, "engine", SPARK, MPI, WITHOUT_START, workers=workers)
        for workers in (few, many)
    ]
    head = "Spark beside MPI, without the start of engines"
    return _greater(head, (_executors(few), _executors(many)), gaps)


def _executors(number: Level) -> str:
    if number == 1:
        return "one executor"
    return f"{number} executors"


def _more_executors(evidence: Evidence) -> Judged:
    """Look at fewest executors beside the next larger number, which is to save time, and less of it
    than in proportion.
    """
    numbers = sorted(evidence.levels("workers"), key=float)
    if len(numbers) < 2:
        return Judged("not tested", [NOT_RUN])
    few, more = numbers[:2]
    ratios = ratios_of(evidence, "workers", few, more, WITHOUT_START, engine=SPARK)
    if not ratios:
        return Judged("not tested", [NOT_RUN])
    times = float(more) / float(few)
    told = f"{_executors(few)} beside {more}: {show_ratios(ratios)} as long."
    proportion = f"In proportion it would be {times:g} x."
    return judged_contrasts(
        [
            Contrast(told, [math.log(ratio) for ratio in ratios.values()]),
            Contrast(proportion, [math.log(times / ratio) for ratio in ratios.values()]),
        ]
    )


def _more_partitions(evidence: Evidence) -> Judged:
    """Most partitions beside those of the baseline."""
    most = max(evidence.levels("blocks"), key=float)
    base = evidence.baseline["blocks"]
    found = [
        one
        for measure in (MEASURE, WITHOUT_START)
        for one in evidence.beside("blocks", most, base, measure, engine=SPARK)
    ]
    return expecting({"equivalent", "slower"}, found)


def _fewer_than_cores(evidence: Evidence) -> Judged:
    """Fewest partitions beside those of the baseline, where some cores have none."""
    least = min(evidence.levels("blocks"), key=float)
    base = evidence.baseline
    cores = int(base["workers"]) * int(base["threads"])
    if float(least) >= cores:
        why = f"The fewest partitions are {least}, and there is one for each of {cores} cores."
        return Judged("not tested", [why])
    found = list(evidence.beside("blocks", least, base["blocks"], WITHOUT_START, engine=SPARK))
    return expecting({"slower"}, found)


TITLE = "H5Spark"
PAPER = (
    "J. Liu, E. Racah, Q. Koziol, R. S. Canon, A. Gittens, L. Gerhardt, S. Byna, M. F. Ringenburg,"
    " Prabhat, *H5Spark: Bridging the I/O Gap between Spark and Scientific Data Formats on HPC"
    " Systems*, 2016"
)
CLAIMS = (
    Claim(
        "The more targets a file is laid over, the faster Spark loads it.",
        STRIPES,
        _targets,
        "2.2 TB: not within an hour from one target, 2.7 min from 8, 1.6 min from 248 (Fig. 2)",
        is_asked_for=True,
    ),
    Claim(
        "MPI gains more from further targets than Spark.",
        STRIPES,
        _gain,
        "no number in the text (Fig. 7)",
    ),
    Claim(
        "MPI loads faster than Spark, however many targets there are.",
        STRIPES,
        _mpi_beside_spark("input_tier"),
        "1.48 to 4.25 times (Fig. 7)",
    ),
    Claim(
        "MPI loads faster than Spark, however many executors there are.",
        PARTITIONS,
        _mpi_beside_spark("workers"),
        "4.25, 2.35 and 2.45 times on 45, 90 and 135 nodes (Fig. 8)",
    ),
    Claim(
        "Spark comes closer to MPI with more executors.",
        PARTITIONS,
        _closing,
        "4.25 times on 45 nodes, 2.45 times on 135 (Fig. 8)",
    ),
    Claim(
        "More executors load faster, and less so than in proportion.",
        PARTITIONS,
        _more_executors,
        "1.3 times faster on twice as many nodes, 1.4 times on three times as many (Fig. 5)",
    ),
    Claim(
        "Beyond some partitions for each core, more of them save nothing.",
        PARTITIONS,
        _more_partitions,
        "3000 to 10,000 partitions on 1440 cores about the same (Fig. 4)",
    ),
    Claim(
        "With fewer partitions than cores, loading takes longer.",
        PARTITIONS,
        _fewer_than_cores,
        "1000 partitions on 1440 cores: the job fails (Fig. 4)",
    ),
    Claim(
        "With few targets, some tasks are launched later than the others.",
        "",
        untestable("It needs as many cores as tasks: on a few cores most tasks wait for one."),
        "with 8 targets 5 % of the tasks a minute later (Fig. 3)",
    ),
    Claim(
        "How long Java collects garbage does not depend on the number of targets.",
        "",
        untestable("Tasks of Spark read in Python here: Java holds none of their data."),
        "constant (in its text on striping)",
    ),
    Claim(
        "With more executors and partitions together, loading scales in proportion.",
        "",
        untestable("It needs nodes: executors of one machine share its memory and its storage."),
        "2.73 times on 90 nodes, 3.24 times on 135 (Fig. 6)",
    ),
    Claim(
        "All nodes of a large machine load terabytes within minutes.",
        "",
        untestable("It needs such a machine."),
        "2.2 TB in 37 s on 135 nodes, 16 TB in 120 s on 1522 (Table II)",
    ),
    Claim(
        "A reader in Scala is faster than one in Python.",
        "",
        untestable("There is no reader in Scala here."),
        "1.8 times (Table III)",
    ),
    Claim(
        "Data that are cached in Python take less memory than in Scala.",
        "",
        untestable("No experiment caches what it has loaded."),
        "479 GB of 2210 (Table III)",
    ),
    Claim(
        "Readers of whole files (SciSpark) run out of memory where H5Spark does not.",
        "",
        untestable(
            "SciSpark is not tried; `dask-vs-spark/block-limit` is about whole files beyond 2 GiB."
        ),
        "out of memory from 51 GB on (Fig. 9)",
    ),
)
ERRATA = (
    (
        "Algorithm 1 counts offsets up to the number of rows instead of that of partitions, and"
        " does not say who reads the rows that remain."
    ),
    "Its TB and GB are binary: 6,349,676 x 46,715 numbers of 8 bytes are 2210 GiB, or 2.37 TB.",
    (
        "The best of all numbers of targets is said to be 248, with 1.6 min (Fig. 2); on 24 of them"
        " the same data take 90 s (Table III)."
    ),
    (
        "162 s and 13.65 GB/s are given for 8 targets in the text on Fig. 2, and for the reader in"
        " Python on 24 targets in Table III."
    ),
)
