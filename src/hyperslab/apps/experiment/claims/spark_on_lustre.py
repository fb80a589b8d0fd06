"""Claims of N. Chaimov, A. Malony, C. Iancu, K. Ibrahim, Scaling Spark on Lustre (2016)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean

from hyperslab.apps.experiment.answers.comparison import Verdict
from hyperslab.apps.experiment.claims import opened_files, shuffled_files
from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    ROUND,
    Claim,
    Contrast,
    Evidence,
    Judge,
    Judged,
    Outcome,
    Ratios,
    advised,
    expecting,
    expecting_each,
    held_by,
    judged_contrasts,
    ratios_of,
    rising,
    show_ratios,
    untestable,
)
from hyperslab.apps.experiment.claims.opened_files import DISK
from hyperslab.apps.experiment.claims.shuffled_files import IMAGE, SHARED, WORST
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.units import show_count

SCRATCH = "spark-on-lustre/scratch"
CLIENTS = "spark-on-lustre/clients"
CAUSE = "spark-on-lustre/cause"
OPERATIONS = "spark-on-lustre/operations"
OPENING = "spark-on-lustre/opening"
MLLIB = "spark-on-lustre/mllib"
MEMORY = "tmpfs"
USUAL, SLOW_NAMES, NARROW = "usual", "slow-names", "narrow"
"Levels of the factor scratch where metadata or bandwidth are worse."
NAIVE, SUMS, SUMS_OF_NUMBERS = "agg-by-key-naive", "agg-by-key", "agg-by-key-int"
SHUFFLING = (SUMS, SUMS_OF_NUMBERS, NAIVE)
"Workloads that the paper has seen slow down."
STILL = ("scheduling-throughput", "count", "count-with-filter")
"Workloads that shuffle nothing."
LEFT_OVER = 0.1
"Processors that were idle by which it is told that clients did not wait for them."
MOST = 1.6
"Time with one file on shared storage over that in memory, in the paper."
SLOWED = ("lda", "pic", "summary-statistics", "spearman", "prefix-span")
"Workloads of MLlib that the paper has seen slow down on Comet."
COUNTS = "tests/apps/files/test_counts_of_spark.py"
GAINING = ("lda", "pic", "spearman", "chi-sq-feature", "prefix-span")
"Workloads of MLlib that gained on Cori."


def _by_scratch(
    level: str, reference: str, wanted: Collection[Verdict], workloads: Sequence[str] = (WORST,)
) -> Judge:
    """Judge workloads by their time on one scratch beside that on another."""

    def judge(evidence: Evidence) -> Judged:
        found = [
            one
            for workload in workloads
            for one in evidence.beside("scratch", level, reference, ROUND, workload=workload)
        ]
        return expecting(wanted, found)

    return judge


def _slowdowns(evidence: Evidence, slow: str, fast: str, **others: Level) -> Ratios:
    return ratios_of(evidence, "scratch", slow, fast, ROUND, **others)


def _at_most(found: Mapping[str, Ratios]) -> Judged:
    """Judge that ratios, told by what they are of, are no greater than the paper's."""
    contrasts = [
        Contrast(
            f"{what}: one file on shared storage takes {show_ratios(ratios)} as long as memory.",
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


def _hit_harder(slow: str, fast: str, first: str, others: Sequence[str]) -> Judge:
    """Judge that a workload loses by a scratch, and more than others do: one that loses less of
    what all gain has lost nothing.
    """

    def judge(evidence: Evidence) -> Judged:
        own = _slowdowns(evidence, slow, fast, workload=first)
        contrasts = []
        for other in others:
            theirs = _slowdowns(evidence, slow, fast, workload=other)
            both = sorted(own.keys() & theirs.keys())
            if not both:
                continue
            told = (
                f"{first} takes {show_ratios(own)} as long on {slow} as on {fast}, {other}"
                f" {show_ratios(theirs)}."
            )
            contrasts.append(Contrast(told, [math.log(own[n] / theirs[n]) for n in both]))
        return _where_it_costs(judged_contrasts(contrasts), f"{first} on {slow}", own)

    return judge


def _where_it_costs(found: Judged, what: str, ratios: Ratios) -> Judged:
    """What was found of a loss, by which nothing is shown unless there is one."""
    if True not in found.signs:
        return found
    cost = judged_contrasts([Contrast(what, [math.log(ratio) for ratio in ratios.values()])])
    if True in cost.signs:
        return found
    outcome: Outcome = "refuted" if False in cost.signs else "open"
    return found.instead(
        outcome, f"{what} takes {show_ratios(ratios)} as long: no loss that the trials tell."
    )


def _growth(evidence: Evidence) -> Judged:
    """Look at what shared storage costs one client, and each of several."""
    numbers = sorted(evidence.levels("clients"), key=float)
    ends = [(n, _slowdowns(evidence, SHARED, MEMORY, clients=n)) for n in numbers]
    known = [(show_count(int(n), "client"), ratios) for n, ratios in ends if ratios]
    if len(known) < 2:
        return Judged("not tested", [NOT_RUN])
    found = rising("Time on shared storage over that in memory", known[0], known[-1])
    name, last = known[-1]
    found = _where_it_costs(found, f"{name} on shared storage", last)
    told = [f"{name}: {show_ratios(ratios)} as long as in memory." for name, ratios in known[1:-1]]
    return _beside_processors(found.beside(after=told), numbers[-1], evidence)


def _beside_processors(found: Judged, most: Level, evidence: Evidence) -> Judged:
    """What was found, and how many processors were left over of those that all clients share. Where
    none were, clients wait for one another in memory, too, and nothing is shown by a loss that
    shrinks.
    """
    cell = evidence.cell(scratch=MEMORY, clients=most)
    told = [one.load_during.get("idle_cpus") for one in cell.done] if cell is not None else []
    known = [idle for idle in told if idle is not None]
    if not known:
        return found
    idle = fmean(known)
    if found.outcome == "refuted" and idle < LEFT_OVER:
        why = (
            "As no processor was left over, several clients waited for processors in memory, too:"
            " a loss that shrinks says nothing of several nodes."
        )
        found = Judged("open", [why, *found.evidence], [None for _ in found.signs])
    shown = (
        f"All clients share the processors of this machine: with {show_count(int(most), 'client')}"
        f" in memory {idle:.1f} of them were idle. A cluster has more of them with every node."
    )
    return found.beside(after=[shown])


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
    return judged.beside(after=asked)


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
        shuffled_files.opens,
        "O(tasks²) (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Every reduce task opens files of every map task.",
        OPERATIONS,
        shuffled_files.reads,
        "O(tasks²) (in its text)",
        is_of_times=False,
    ),
    Claim(
        "The number of shuffled files grows with the number of tasks, not with that of pairs.",
        OPERATIONS,
        shuffled_files.files,
        "O(tasks) (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Shuffled files are always written, however much memory is free.",
        OPERATIONS,
        shuffled_files.always_written,
        "no number (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Sums by key take longer on shared storage than on a local disk.",
        SCRATCH,
        _by_scratch(SHARED, DISK, {"slower"}, SHUFFLING),
        "agg-by-key-naive 12 times on 16 nodes of Comet (Fig. 3)",
        is_asked_for=True,
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
        _by_scratch(SHARED, DISK, {"equivalent"}, STILL),
        "unaffected (Fig. 3)",
    ),
    Claim(
        "Sorting by key shuffles, too, and takes longer on shared storage (not in the paper by"
        " name).",
        SCRATCH,
        _by_scratch(SHARED, DISK, {"slower"}, ("sort-by-key",)),
        is_asked_for=True,
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
        shuffled_files.one_open,
        "a single open for each node (in its text)",
        is_of_times=False,
    ),
    Claim(
        "Sums by key gain from such a file.",
        SCRATCH,
        _by_scratch(IMAGE, SHARED, {"faster"}, (SUMS, SUMS_OF_NUMBERS)),
        "on many cores of Cori (Fig. 7)",
    ),
    Claim(
        "Sums of numbers (agg-by-key-int), which open more files, gain most from it.",
        SCRATCH,
        _hit_harder(SHARED, IMAGE, SUMS_OF_NUMBERS, (SUMS,)),
        "no number in the text (Fig. 7)",
    ),
    Claim(
        "Of MLlib, lda, pic, summary statistics, spearman and prefix-span take longer on shared"
        " storage than on a local disk.",
        MLLIB,
        _by_scratch(SHARED, DISK, {"slower"}, SLOWED),
        "no number in the text (Fig. 5)",
        is_asked_for=True,
    ),
    Claim(
        "lda, pic, spearman, chi-sq-feature and prefix-span gain from one file.",
        MLLIB,
        _by_scratch(IMAGE, SHARED, {"faster"}, GAINING),
        "no number in the text (Fig. 8)",
    ),
    Claim(
        "These scale better with one file on shared storage than with local disks (weak scaling).",
        "",
        untestable("It needs nodes: clients of one machine share its processors."),
        "no number in the text (Fig. 9)",
    ),
    Claim(
        "An open for every read costs more, the smaller the reads are, on shared storage.",
        OPENING,
        opened_files.small_reads,
        "a penalty that grows as reads shrink (Fig. 4)",
    ),
    Claim(
        "From reads of a megabyte on, it costs nothing.",
        OPENING,
        opened_files.large_reads,
        "no penalty from 1 MB on (Fig. 4)",
    ),
    Claim(
        "In one file on shared storage opening costs less.",
        OPENING,
        opened_files.in_image,
        "no penalty (Fig. 4)",
    ),
    Claim(
        "A pool of open files saves opening them (the authors' earlier work; here hyperslab's own"
        " reader).",
        OPENING,
        opened_files.pool,
        "no number (in its text)",
        is_of_times=False,
    ),
    Claim(
        "A reader of text opens two files for a partition, one of Parquet four.",
        "",
        held_by(
            [
                f"{COUNTS}::test_a_reader_of_text_opens_two_files_a_partition",
                f"{COUNTS}::test_a_reader_of_parquet_opens_four_files_a_partition",
            ],
            "They count operations of Spark 4.3 on a local disk; files of checksums are half of"
            " them.",
        ),
        "2 and 4 (in its text)",
    ),
    Claim(
        "Several directories are used in turn.",
        "",
        held_by(
            [f"{COUNTS}::test_of_two_directories_each_has_files_of_a_shuffle"],
            "Spark 4.3 chooses one for each file by its name, of two on one disk.",
        ),
        "no number (in its text on earlier work)",
    ),
    Claim(
        "Of several directories the slow one still sets the pace.",
        "",
        untestable(
            "No experiment gives Spark several directories. `bench_scratch --also several` took"
            " 28.3 s with one of two on slow storage, 45.6 s with all of it there and 14.4 s in"
            " memory, on a busy machine: half of the way."
        ),
        "no number (in its text on earlier work)",
    ),
    Claim(
        "A job fails when its scratch in memory is full.",
        "",
        held_by(
            ["tests/apps/files/test_full_memory.py::test_a_shuffle_fails_in_memory_that_is_full"],
            "With one file and `--fallback` the same job goes on elsewhere.",
        ),
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
        "reproduced": "Look at operations on names first: with less bandwidth a shuffle took as"
        " long, as far as was tried, so that more of it is not what it waits for.",
        "in part": "Look at both, bandwidth and the time of operations on names.",
        "mixed": "Look at both, bandwidth and the time of operations on names.",
        "refuted": "Look at bandwidth: a shuffle waits for that.",
    },
}
"Sentences on claims, by what came of them."
