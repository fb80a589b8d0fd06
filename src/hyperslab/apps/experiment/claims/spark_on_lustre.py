"""Claims of N. Chaimov, A. Malony, C. Iancu, K. Ibrahim, Scaling Spark on Lustre (2016)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from hyperslab.apps.experiment.answer import show_interval
from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    ROUND,
    Claim,
    Contrast,
    Evidence,
    Judged,
    Outcome,
    advised,
    counted,
    expecting,
    expecting_each,
    judged_contrasts,
    outcome_of,
    rising,
    untestable,
)
from hyperslab.apps.experiment.comparison import CellResult, Verdict
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.intervals import ratio_interval
from hyperslab.plan.written import parse_size
from hyperslab.units import show_count

SCRATCH = "spark-on-lustre/scratch"
CLIENTS = "spark-on-lustre/clients"
CAUSE = "spark-on-lustre/cause"
OPERATIONS = "spark-on-lustre/operations"
OPENING = "spark-on-lustre/opening"
SHARED, IMAGE, MEMORY, DISK = "shared", "image:shared", "tmpfs", "local"
"Levels of the factor scratch."
USUAL, SLOW_NAMES, NARROW = "usual", "slow-names", "narrow"
"Levels of it where metadata or bandwidth are worse."
WORST = "group-by-worst"
NAIVE, SUMS, SUMS_OF_NUMBERS = "agg-by-key-naive", "agg-by-key", "agg-by-key-int"
SHUFFLING = (SUMS, SUMS_OF_NUMBERS, NAIVE)
"Workloads that the paper has seen slow down."
STILL = ("scheduling-throughput", "count", "count-with-filter")
"Workloads that shuffle nothing."
MOST = 1.6
"Time with one file on shared storage over that in memory, in the paper."
FEW = 0.01
"Share of operations up to which they are hardly any."
LARGE_NBYTES = 10**6
"Size of reads from which on opening costs nothing, in the paper."
POOLED = 0.05
"Opens for each read up to which a file is kept open."
NEAR = 0.01
"Relative difference of counts that other files of Spark's make."


def _by_scratch(level: str, reference: str, wanted: Collection[Verdict]) -> Callable[..., Judged]:
    """Judge workloads by their time on one scratch beside that on another."""

    def judge(evidence: Evidence, workloads: Sequence[str] = (WORST,)) -> Judged:
        found = [
            one
            for workload in workloads
            for one in evidence.beside("scratch", level, reference, ROUND, workload=workload)
        ]
        return expecting(wanted, found)

    return judge


def _of(workloads: Sequence[str], judge: Callable[..., Judged]) -> Callable[[Evidence], Judged]:
    return lambda evidence: judge(evidence, workloads)


Ratios = Mapping[int, float]
"Times at one level over those at another, by replicate."


def _ratios(
    evidence: Evidence, factor: str, level: Level, reference: Level, **others: Level
) -> Ratios:
    here = evidence.cell(**{**others, factor: level})
    there = evidence.cell(**{**others, factor: reference})
    if here is None or there is None:
        return {}
    own = here.by_replicate(ROUND)
    other = there.by_replicate(ROUND)
    return {one: own[one] / other[one] for one in sorted(own.keys() & other.keys())}


def _slowdowns(evidence: Evidence, slow: str, fast: str, **others: Level) -> Ratios:
    return _ratios(evidence, "scratch", slow, fast, **others)


def _penalties(evidence: Evidence, scratch: str, read_size: Level) -> Ratios:
    """Times with a file opened for every read over those with one that stays open."""
    return _ratios(evidence, "opens", "each", "once", scratch=scratch, read_size=read_size)


def _show(ratios: Ratios) -> str:
    return show_interval(ratio_interval(list(ratios.values()), [1.0] * len(ratios)))


def _at_most(found: Mapping[str, Ratios]) -> Judged:
    """Judge that ratios, told by what they are of, are no greater than the paper's."""
    contrasts = [
        Contrast(
            f"{what}: one file on shared storage takes {_show(ratios)} as long as memory.",
            [math.log(MOST / ratio) for ratio in ratios.values()],
        )
        for what, ratios in found.items()
        if ratios
    ]
    return judged_contrasts(contrasts)


def _image_near_memory(evidence: Evidence) -> Judged:
    return _at_most({WORST: _slowdowns(evidence, IMAGE, MEMORY, workload=WORST)})


def _image_scales(evidence: Evidence) -> Judged:
    most = max(evidence.levels("clients"), key=float)
    ratios = _slowdowns(evidence, IMAGE, MEMORY, clients=most)
    return _at_most({show_count(int(most), "client"): ratios})


def _hit_harder(slow: str, fast: str, first: str, others: Sequence[str]) -> Callable[..., Judged]:
    """Judge that a workload loses more by a scratch than others do."""

    def judge(evidence: Evidence) -> Judged:
        own = _slowdowns(evidence, slow, fast, workload=first)
        contrasts = []
        for other in others:
            theirs = _slowdowns(evidence, slow, fast, workload=other)
            both = sorted(own.keys() & theirs.keys())
            if not both:
                continue
            told = f"{first} takes {_show(own)} as long as on {fast}, {other} {_show(theirs)}."
            contrasts.append(Contrast(told, [math.log(own[n] / theirs[n]) for n in both]))
        return judged_contrasts(contrasts)

    return judge


def _growth(evidence: Evidence) -> Judged:
    """Look at what shared storage costs one client, and each of several."""
    numbers = sorted(evidence.levels("clients"), key=float)
    ends = [(n, _slowdowns(evidence, SHARED, MEMORY, clients=n)) for n in numbers]
    known = [(show_count(int(n), "client"), ratios) for n, ratios in ends if ratios]
    if len(known) < 2:
        return Judged("not tested", [NOT_RUN])
    found = rising("Time on shared storage over that in memory", known[0], known[-1])
    told = [f"{name}: {_show(ratios)} as long as in memory." for name, ratios in known[1:-1]]
    return Judged(found.outcome, [*found.evidence, *told, *_idle(evidence)])


def _idle(evidence: Evidence) -> Iterator[str]:
    """How many processors were left over, which all clients share here."""
    most = max(evidence.levels("clients"), key=float)
    cell = evidence.cell(scratch=MEMORY, clients=most)
    told = [one.load_during.get("idle_cpus") for one in cell.done] if cell is not None else []
    known = [idle for idle in told if idle is not None]
    if known:
        yield (
            f"All clients share the processors of this machine: with"
            f" {show_count(int(most), 'client')} in memory {fmean(known):.1f} of them were idle. A"
            " cluster has more of them with every node."
        )


def _cause(evidence: Evidence) -> Judged:
    """Look at worse metadata with the same bandwidth, and at less bandwidth with the same
    metadata.
    """
    wanted: Mapping[str, Collection[Verdict]] = {SLOW_NAMES: {"slower"}, NARROW: {"equivalent"}}
    found = [
        (verdicts, one)
        for level, verdicts in wanted.items()
        for one in evidence.beside("scratch", level, USUAL, ROUND)
    ]
    judged = expecting_each(found)
    asked = [
        f"{name}: {evidence.tiers[name].asked()}"
        for name in (USUAL, *wanted)
        if name in evidence.tiers and evidence.tiers[name].emulate
    ]
    return Judged(judged.outcome, [*judged.evidence, *asked])


class Shuffle(NamedTuple):
    """What was counted of one shuffle."""

    partitions: int
    "Number of map tasks, and of reduce tasks."
    is_sorted: bool
    "Whether there are more reduce tasks than the threshold up to which each has a file at first."
    numbers: Mapping[str, float]

    @property
    def words(self) -> str:
        """The shuffle in words."""
        how = "beyond the threshold" if self.is_sorted else "up to the threshold"
        return f"M = R = {self.partitions}, {how}"


def _shuffles(evidence: Evidence) -> list[Shuffle]:
    """All that were counted: means of trials, which differ by what else Spark writes."""
    found = []
    for result in evidence.answer.results:
        numbers = _counts(result)
        if numbers:
            partitions = int(result.cell.levels["partitions"])
            is_sorted = partitions > int(result.cell.levels["threshold"])
            found.append(Shuffle(partitions, is_sorted, numbers))
    return found


def _counts(result: CellResult) -> dict[str, float]:
    counted_in = [one for one in result.done if "shuffle_opens" in one.numbers]
    names = [name for one in counted_in[:1] for name in one.numbers if name.startswith("shuffle_")]
    return {name: fmean(_number(one.numbers[name]) for one in counted_in) for name in names}


def _number(value: float | None) -> float:
    return value or 0.0


def _judged_counts(
    evidence: Evidence, name: str, formula: Callable[[Shuffle], tuple[str, int]]
) -> Judged:
    """Judge that counts are those of a formula."""
    shuffles = _shuffles(evidence)
    if not shuffles:
        return Judged("not tested", ["No trial has counted operations on files."])
    signs = []
    told = []
    for one in shuffles:
        words, expected = formula(one)
        found = one.numbers[name]
        signs.append(abs(found / expected - 1) <= NEAR)
        told.append(f"{one.words}: {found:,.0f}; {words} = {expected:,}.")
    return Judged(outcome_of(signs), [*counted(signs), *told])


def _opens(evidence: Evidence) -> Judged:
    """Look at how often shuffled files are opened: as often as map tasks times reduce tasks."""
    return _judged_counts(evidence, "shuffle_opens", _opens_of)


def _opens_of(one: Shuffle) -> tuple[str, int]:
    pairs = one.partitions**2
    if one.is_sorted:
        return "2 M R", 2 * pairs
    return "3 M R", 3 * pairs


def _reads(evidence: Evidence) -> Judged:
    """Look at reduce tasks alone: every block is read by opening an index and data."""
    return _judged_counts(
        evidence, "shuffle_read_opens", lambda one: ("2 M R", 2 * one.partitions**2)
    )


def _files(evidence: Evidence) -> Judged:
    """Look at how many files are made: as many as tasks, or as pairs of tasks."""
    found = _judged_counts(
        evidence, "shuffle_creates", lambda one: ("3 M", 3 * one.partitions)
    )
    if found.outcome == "not tested":
        return found
    told = (
        "Up to the threshold (spark.shuffle.sort.bypassMergeThreshold, 200 reduce tasks by default;"
        " the paper has set 0) Spark makes M R more, and removes them again."
    )
    return Judged(found.outcome, [*found.evidence, told])


def _always_written(evidence: Evidence) -> Judged:
    shuffles = _shuffles(evidence)
    if not shuffles:
        return Judged("not tested", ["No trial has counted operations on files."])
    signs = [one.numbers["shuffle_creates"] > 0 for one in shuffles]
    told = [
        f"{one.words}: {one.numbers['shuffle_write_operations']:,.0f} operations to write,"
        f" {one.numbers['shuffle_read_operations']:,.0f} to read, of data that fit in memory many"
        " times."
        for one in shuffles
    ]
    return Judged(outcome_of(signs), [*counted(signs), *told])


def _one_open(evidence: Evidence) -> Judged:
    """Look at what the metadata server of an emulated tier is asked for in a round."""
    served = [_served(evidence, level) for level in (SHARED, IMAGE)]
    if not all(served):
        return Judged("not tested", ["No trial was on an emulated tier, which counts."])
    plain, image = (fmean(values) for values in served)
    told = (
        f"A round asks the shared storage for {plain:,.0f} operations on names with plain files,"
        f" and for {image:,.1f} with one file."
    )
    return Judged("reproduced" if image <= FEW * plain else "refuted", [told])


def _served(evidence: Evidence, scratch: str) -> list[float]:
    cell = evidence.cell(scratch=scratch, workload=WORST)
    if cell is None:
        return []
    told = [one.numbers.get("tier_operations") for one in (*cell.done, *cell.rejected)]
    return [number for number in told if number is not None]


def _sizes(evidence: Evidence) -> list[Level]:
    """Sizes of reads, smallest first."""
    return sorted(evidence.levels("read_size"), key=_nbytes)


def _nbytes(size: Level) -> int:
    return parse_size("read_size", str(size))


def _small_reads(evidence: Evidence) -> Judged:
    """Look at what an open for every read costs, by the size of the reads."""
    ends = [(str(size), _penalties(evidence, SHARED, size)) for size in _sizes(evidence)]
    known = [(f"reads of {size}", ratios) for size, ratios in ends if ratios]
    if len(known) < 2:
        return Judged("not tested", [NOT_RUN])
    found = rising("Time with an open for every read over that with one", known[-1], known[0])
    told = [f"{name}: {_show(ratios)} as long." for name, ratios in known]
    return Judged(found.outcome, [*found.evidence, *told])


def _large_reads(evidence: Evidence) -> Judged:
    found = [
        one
        for size in _sizes(evidence)
        if _nbytes(size) >= LARGE_NBYTES
        for one in evidence.beside("opens", "each", "once", ROUND, read_size=size)
    ]
    return expecting({"equivalent", "faster"}, found)


def _reads_in_image(evidence: Evidence) -> Judged:
    """Look at the smallest reads, on which opening weighs most."""
    size = _sizes(evidence)[0]
    plain, image, disk = (_penalties(evidence, one, size) for one in (SHARED, IMAGE, DISK))
    both = sorted(plain.keys() & image.keys())
    if not both:
        return Judged("not tested", [NOT_RUN])
    told = (
        f"Reads of {size} take {_show(plain)} as long with an open for each on shared storage,"
        f" {_show(image)} in one file on it"
    )
    if disk:
        told += f", {_show(disk)} on a local disk"
    return judged_contrasts([Contrast(f"{told}.", [math.log(plain[n] / image[n]) for n in both])])


def _pool(evidence: Evidence) -> Judged:
    """Look at how often a file is opened by a reader that keeps it, and by one that does not."""
    kept, each = (_opens_per_read(evidence, one) for one in ("once", "each"))
    if not kept or not each:
        return Judged("not tested", ["No trial has counted how often files were opened."])
    told = (
        f"hyperslab's views open a file {fmean(kept):.2f} times for each read of a view that is"
        f" kept, and {fmean(each):.2f} times where a view is made for every read."
    )
    is_so = fmean(kept) <= POOLED and fmean(each) >= 1
    return Judged("reproduced" if is_so else "refuted", [told])


def _opens_per_read(evidence: Evidence, opens: str) -> list[float]:
    cell = evidence.cell(opens=opens, workload="hyperslab")
    told = [one.numbers.get("opens_per_read") for one in cell.done] if cell is not None else []
    return [number for number in told if number is not None]


def advice(found: Sequence[tuple[Claim, Judged]]) -> list[str]:
    """What follows for whoever runs Spark on shared storage, with the evidence."""
    return list(advised(ADVICE, found))


CURE = "One file on the shared storage, which holds a file system, is faster than plain files."
WHY = "The cause is the latency of metadata, not bandwidth."
TITLE = "Spark on Lustre"
PAPER = "N. Chaimov, A. Malony, C. Iancu, K. Ibrahim, *Scaling Spark on Lustre*, 2016"
CLAIMS = (
    Claim(
        "GroupBy, the worst case of a shuffle, takes longer on shared storage than in memory.",
        SCRATCH,
        _by_scratch(SHARED, MEMORY, {"slower"}),
        "6 times on one node of Cori (Fig. 1)",
        is_asked_for=True,
    ),
    Claim(
        "GroupBy takes longer on shared storage than on a local disk, too.",
        SCRATCH,
        _by_scratch(SHARED, DISK, {"slower"}),
        "11 times on one node of Comet, with SSDs (Fig. 2)",
        is_asked_for=True,
    ),
    Claim(
        "What shared storage costs grows with the number of nodes.",
        CLIENTS,
        _growth,
        "6 times on 1 node, 61 times on 80 of Cori (Fig. 1); 11 times on all numbers of nodes of"
        " Comet (Fig. 2)",
    ),
    Claim(WHY, CAUSE, _cause, "no number (in its conclusion)"),
    Claim(
        "Shuffled files are opened as often as there are pairs of a map and a reduce task.",
        OPERATIONS,
        _opens,
        "O(tasks²) (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Every reduce task opens files of every map task.",
        OPERATIONS,
        _reads,
        "O(tasks²) (in its text)",
        is_of_times=False,
    ),
    Claim(
        "The number of shuffled files grows with the number of tasks, not with that of pairs.",
        OPERATIONS,
        _files,
        "O(tasks) (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Shuffled files are always written, however much memory is free.",
        OPERATIONS,
        _always_written,
        "no number (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Sums by key take longer on shared storage than on a local disk.",
        SCRATCH,
        _of(SHUFFLING, _by_scratch(SHARED, DISK, {"slower"})),
        "agg-by-key-naive 12 times on 16 nodes of Comet (Fig. 3)",
    ),
    Claim(
        "Of these, what shuffles every value (agg-by-key-naive) loses most.",
        SCRATCH,
        _hit_harder(SHARED, DISK, NAIVE, (SUMS, SUMS_OF_NUMBERS)),
        "12 times on 16 nodes of Comet, others less (Fig. 3)",
    ),
    Claim(
        "What shuffles nothing takes as long on shared storage.",
        SCRATCH,
        _of(STILL, _by_scratch(SHARED, DISK, {"equivalent", "faster"})),
        "unaffected (Fig. 3)",
    ),
    Claim(
        "Sorting by key shuffles, too, and takes longer on shared storage (not in the paper by"
        " name).",
        SCRATCH,
        _of(("sort-by-key",), _by_scratch(SHARED, DISK, {"slower"})),
    ),
    Claim(
        CURE,
        SCRATCH,
        _by_scratch(IMAGE, SHARED, {"faster"}),
        "6 times on one node of Cori (in its introduction)",
    ),
    Claim(
        "One such file takes at most 1.6 times as long as memory.",
        SCRATCH,
        _image_near_memory,
        "1.6 times at 10,240 cores of Cori (Fig. 6)",
    ),
    Claim(
        "One such file is about as fast as a local disk.",
        SCRATCH,
        _by_scratch(IMAGE, DISK, {"equivalent", "faster"}),
        "comparable on one node (in its introduction)",
    ),
    Claim(
        "With several nodes, each with such a file, it takes no longer than 1.6 times either.",
        CLIENTS,
        _image_scales,
        "1.6 times at 10,240 cores of Cori (Fig. 6)",
    ),
    Claim(
        "Such a file asks the metadata server for hardly anything.",
        SCRATCH,
        _one_open,
        "a single open for each node (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Sums by key gain from such a file.",
        SCRATCH,
        _of((SUMS, SUMS_OF_NUMBERS), _by_scratch(IMAGE, SHARED, {"faster"})),
        "on many cores of Cori (Fig. 7)",
    ),
    Claim(
        "Sums of numbers (agg-by-key-int), which open more files, gain most from it.",
        SCRATCH,
        _hit_harder(SHARED, IMAGE, SUMS_OF_NUMBERS, (SUMS,)),
        "no number in the text (Fig. 7)",
    ),
    Claim(
        "An open for every read costs more, the smaller the reads are, on shared storage.",
        OPENING,
        _small_reads,
        "a penalty that grows as reads shrink (Fig. 4)",
    ),
    Claim(
        "From reads of a megabyte on, it costs nothing.",
        OPENING,
        _large_reads,
        "no penalty from 1 MB on (Fig. 4)",
    ),
    Claim(
        "In one file on shared storage opening costs less.",
        OPENING,
        _reads_in_image,
        "no penalty (Fig. 4)",
    ),
    Claim(
        "A pool of open files saves opening them (the authors' earlier work; here hyperslab's own"
        " reader).",
        OPENING,
        _pool,
        "no number (in its text)",
        is_of_times=False,
    ),
    Claim(
        "A reader of text opens two files for a partition, one of Parquet four.",
        "",
        untestable("Tests of this project hold both counts on Spark 4.3; no experiment reads files."),
        "2 and 4 (in its text)",
    ),
    Claim(
        "Several directories are used in turn, so that the slow one still sets the pace.",
        "",
        untestable("No experiment gives Spark several directories."),
        "no number (in its text on earlier work)",
    ),
    Claim(
        "A job fails when its scratch in memory is full.",
        "",
        untestable("No experiment fills scratch; with --fallback files go on elsewhere."),
        "no number (in its text on earlier work)",
    ),
)
ERRATA = (
    (
        "agg-by-key is called a version of floating-point values; in spark-perf its keys and values"
        " are texts of ten digits."
    ),
    (
        "It is said that map tasks write one file for each reduce task together. In Spark 1.6 and"
        " 2.0, which the authors' scripts ran with sort-based shuffles and"
        " spark.shuffle.sort.bypassMergeThreshold 0, each map task has a file of its own, and an"
        " index: the number of files is O(tasks) as stated."
    ),
    (
        "The benchmark draws the same keys in every map task where its seed is not 0, as in the"
        " authors' runs: that is the limited number of keys."
    ),
    (
        "Since then: Spark 4 opens as many files for each pair of tasks, keeps checksums in a third"
        " file of a map task, and up to 200 reduce tasks makes a file for every pair by default."
    ),
)
ADVICE: Mapping[str, Mapping[Outcome, str]] = {
    CURE: {
        "reproduced": "Give Spark scratch in one file: `hyperslab scratch exec --on DIR`, or `run"
        " --scratch image:DIR`.",
        "refuted": "Leave temporary files as they are.",
    },
    WHY: {
        "reproduced": "More bandwidth does not help a shuffle; fewer operations on names do.",
        "in part": "Look at both, bandwidth and the time of operations on names.",
        "refuted": "More bandwidth helps a shuffle.",
    },
}
"Sentences on claims, by what came of them."
