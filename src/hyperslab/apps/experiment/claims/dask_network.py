"""Claims of H. J. Kind et al., Studying Dask (2019), on the links of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hyperslab.apps.experiment.answers.comparison import (
    MEASURE,
    CellResult,
    Comparison,
    compare,
)
from hyperslab.apps.experiment.claims import dask_counted
from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    Claim,
    Contrast,
    Evidence,
    Judge,
    Judged,
    Outcome,
    advised,
    expecting,
    judged_contrasts,
    ratios_of,
)
from hyperslab.apps.experiment.claims.delays import (
    faults_of,
    in_proportion,
    more_than_in_proportion,
)
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.design.links import Slow
from hyperslab.apps.experiment.statistics.shown import show_interval, show_mean
from hyperslab.network.lab.link import parse_rate

PLACEMENT = "dask-network/placement"
DELAY = "dask-network/delay"
LOSS = "dask-network/loss"
GRID = "dask-network/grid"
WORKERS = "dask-network/workers"
SHAPES = "dask-network/shapes"
IDLE = "dask-network/idle"
PAPER_TIMES = 10.0
"Time over links that are all slow, over that with fast ones, as the paper says it."
TOLERATED_LOSS = 0.15
"Share of the scheduler's packets up to which the paper says that losing them is tolerated."
TOLERATED_COST = 0.25
"Share of the time that this may cost: the paper calls a fifth (5.0 s after 4.2 s) very well."
NEAR = 0.1
"Relative difference of two factors from which on they are not the same."


def _beside(evidence: Evidence, level: str, reference: str, **others: Level) -> list[Comparison]:
    return list(evidence.beside("slow", level, reference, MEASURE, **others))


def _worker_or_scheduler(evidence: Evidence) -> Judged:
    return expecting({"slower"}, _beside(evidence, "worker", "scheduler"))


def _scheduler_counts(evidence: Evidence) -> Judged:
    return expecting({"slower"}, _beside(evidence, "scheduler", "none"))


def _all_or_worker(evidence: Evidence) -> Judged:
    return expecting({"slower"}, _beside(evidence, "all", "worker"))


def _same_fault(evidence: Evidence) -> Judged:
    """Look at a worker beside the scheduler, each with the same delay or loss."""
    both = [one for one in faults_of(evidence, "worker") if one in faults_of(evidence, "scheduler")]
    found = [
        one for fault in both for one in _beside(evidence, f"worker {fault}", f"scheduler {fault}")
    ]
    return expecting({"slower"}, found)


def _costs(place: str) -> Judge:
    """Judge that a delay or a loss of these nodes costs time, whichever it is."""

    def judge(evidence: Evidence) -> Judged:
        faults = faults_of(evidence, place)
        found = [one for fault in faults for one in _beside(evidence, f"{place} {fault}", "none")]
        return expecting({"slower"}, found)

    return judge


def _tolerates(evidence: Evidence) -> Judged:
    """Look at what the scheduler's losses cost, up to those of which the paper has a number."""
    faults = [one for one in faults_of(evidence, "scheduler") if _loss(one) <= TOLERATED_LOSS]
    lenient = replace(evidence, margin=max(evidence.margin, TOLERATED_COST))
    found = [one for fault in faults for one in _beside(lenient, f"scheduler {fault}", "none")]
    return expecting({"equivalent", "faster"}, found)


def _loss(fault: str) -> float:
    return Slow.parse(f"scheduler {fault}").loss


def _proportional(evidence: Evidence) -> Judged:
    """Look at whether time grows with the scheduler's delay."""
    faults = faults_of(evidence, "scheduler")
    if len(faults) < 2:
        return Judged("not tested", ["Fewer than two delays of the scheduler have been run."])
    return expecting(
        {"slower"}, _beside(evidence, f"scheduler {faults[-1]}", f"scheduler {faults[0]}")
    )


def _ten_times(evidence: Evidence) -> Judged:
    """Look at how many times faster a cluster is whose links are all fast."""
    ratios = list(ratios_of(evidence, "slow", "all", "none", MEASURE).values())
    if not ratios:
        return Judged("not tested", [NOT_RUN])
    base = evidence.baseline
    told = (
        f"Links of {base['slow_rate']} everywhere take {show_mean(ratios)} times as long as those"
        f" of {base['link_rate']}; {PAPER_TIMES:g} times in the paper (39.2 s and 4.16 s)."
    )
    return Judged(dask_counted.near(ratios, PAPER_TIMES), [told])


def _round_trip_or_rate(evidence: Evidence) -> Judged:
    """Compare cells whose round trip is so many times longer with those whose rate is as many times
    lower: the longer of the two times says which matters more.
    """
    found = []
    for far, slow, factor in _counterparts(evidence):
        one = compare("link_delay_ms", far, slow, evidence.margin)
        if one.ratio is None:
            continue
        told = (
            f"From links of {evidence.baseline['link_rate']} and"
            f" {evidence.baseline['link_delay_ms']} ms on, delays {factor:g} times as long take"
            f" {show_interval(one.ratio)} as long as rates {factor:g} times lower"
            f"{_ended_early(one)}."
        )
        found.append(Contrast(told, one.logarithms, one.may_be_told))
    if not found:
        return Judged("not tested", ["No two cells differ by the same factor in delay and rate."])
    return judged_contrasts(found)


def _ended_early(one: Comparison) -> str:
    if one.may_be_told:
        return ""
    return ", which tells nothing: trials were ended for their length"


def _counterparts(evidence: Evidence) -> Iterator[tuple[CellResult, CellResult, float]]:
    """Cells of a longer delay, of a lower rate, and by how much."""
    base_ms = float(evidence.baseline["link_delay_ms"])
    base_bits = _bits(evidence.baseline["link_rate"])
    for delay in evidence.levels("link_delay_ms")[1:]:
        for rate in evidence.levels("link_rate")[1:]:
            factor = float(delay) / base_ms
            if abs(base_bits / _bits(rate) / factor - 1) < NEAR:
                far = evidence.cell(link_delay_ms=delay)
                slow = evidence.cell(link_rate=rate)
                if far is not None and slow is not None:
                    yield far, slow, factor


def _bits(rate: Level) -> float:
    return float(parse_rate("link_rate", str(rate)))


def _fewer_workers(evidence: Evidence) -> Judged:
    base = evidence.baseline["lab_workers"]
    found = [
        one
        for level in evidence.levels("lab_workers")[1:]
        for one in evidence.beside("lab_workers", level, base)
    ]
    return expecting({"slower"}, found)


def _shapes(evidence: Evidence) -> Judged:
    """Look at what a slow link of a worker costs each computation."""
    found = [
        one
        for workload in evidence.levels("workload")
        for one in _beside(evidence, "worker", "none", workload=workload)
    ]
    return expecting({"slower"}, found)


def advice(found: Sequence[tuple[Claim, Judged]]) -> list[str]:
    """What follows for the owner of a cluster, with the evidence."""
    return list(advised(ADVICE, found))


FAST_PORTS = "A slow link costs more on a worker than on the scheduler: workers get the fast ports."
OWN_LINK = "A slow link of the scheduler costs time, too."
DISTANCE = "The same delay costs more on a worker than on the scheduler."
FAR_WORKER = "A worker that is far away costs time."
FAR_SCHEDULER = "A scheduler that is far away costs time."
LOSSES = "The same loss costs more on a worker than on the scheduler."
ROUND_TRIPS = "A short round trip matters more than a high rate."
FEWER = "Two workers take longer than three."
"Claims that advice rests on."
EVERYWHERE = "Slow links everywhere cost more than one worker's."
TEN_TIMES = "Links that are ten times as fast are about ten times better."
GROWS = "Time grows with the delay of the scheduler."
IN_PROPORTION = "What the scheduler's delay costs grows in proportion to it."
MORE_THAN_THAT = "What a worker's delay costs grows more than in proportion to it."
TOLERATED = "Up to 15 % lost on the scheduler's link hardly cost anything (less than a quarter)."
"Claims whose published numbers are those of the tables that are shipped."
TITLE = "Dask's network"
PAPER = (
    "H. J. Kind, J. W. Khong, M. Oo, W. Y. F. See, T. L. Kaihui, *Studying Dask: 50.012 Networks"
    " Project*, 2019"
)
TABLE = "its table in section 8.2.2"
CLAIMS = (
    Claim(
        FAST_PORTS,
        PLACEMENT,
        _worker_or_scheduler,
        f"23.7 s with a worker's slow link, 6.67 s with the scheduler's ({TABLE})",
    ),
    Claim(
        OWN_LINK,
        PLACEMENT,
        _scheduler_counts,
        f"6.67 s with it, 4.16 s with fast links alone ({TABLE})",
    ),
    Claim(
        EVERYWHERE,
        PLACEMENT,
        _all_or_worker,
        f"39.2 s and 23.7 s, of two kinds of links as it seems ({TABLE})",
    ),
    Claim(
        TEN_TIMES,
        PLACEMENT,
        _ten_times,
        f"39.2 s with slow links everywhere, 4.16 s with fast ones ({TABLE})",
    ),
    Claim(
        FAR_WORKER,
        DELAY,
        _costs("worker"),
        "5, 12.5, 14.2, 18.7 and 23 s with 10, 50, 100, 150 and 200 ms, 4.2 s without (Fig. 15;"
        " read off)",
    ),
    Claim(
        FAR_SCHEDULER,
        DELAY,
        _costs("scheduler"),
        "4.3, 4.35, 4.95, 6, 7.1 and 8.2 s with 5, 10, 50, 100, 150 and 200 ms, 4.2 s without"
        " (Fig. 14; read off)",
    ),
    Claim(
        DISTANCE,
        DELAY,
        _same_fault,
        "1.15, 2.53, 2.37, 2.63 and 2.80 times as long with 10, 50, 100, 150 and 200 ms (Fig. 14,"
        " 15; read off)",
    ),
    Claim(
        GROWS,
        DELAY,
        _proportional,
        "4.3 s with 5 ms, 8.2 s with 200 ms (Fig. 14; read off)",
    ),
    Claim(
        IN_PROPORTION,
        DELAY,
        in_proportion,
        "0.1, 0.15, 0.75, 1.8, 2.9 and 4 s more with 5, 10, 50, 100, 150 and 200 ms (Fig. 14; read"
        " off)",
    ),
    Claim(
        MORE_THAN_THAT,
        DELAY,
        more_than_in_proportion,
        "0.8, 8.3, 10, 14.5 and 18.8 s more with 10, 50, 100, 150 and 200 ms (Fig. 15; read off)",
    ),
    Claim(
        LOSSES,
        LOSS,
        _same_fault,
        "no share of both alike; 52 s with 10 % of a worker's, 5 s with 15 % of the scheduler's"
        " (Fig. 17, read off; in its text)",
    ),
    Claim(
        TOLERATED,
        LOSS,
        _tolerates,
        "5 s with 15 %, 4.2 s without (in its text)",
    ),
    Claim(
        ROUND_TRIPS,
        GRID,
        _round_trip_or_rate,
        "39.2 s with 0.377 ms and 507 Mbit/s, 43.6 s with 0.530 ms and 522 Mbit/s (Fig. 10, 11, 13;"
        " read off)",
    ),
    Claim(
        "About half of what the scheduler sends hands out tasks.",
        PLACEMENT,
        dask_counted.task_share,
        "48 % of its packets (in its text), 1,595 of 3,329 (recomputed)",
    ),
    Claim(
        "Nearly all that a worker sends are data.",
        PLACEMENT,
        dask_counted.data_share,
        "98 % of its packets (in its text), 21,991 of 22,398 (recomputed)",
    ),
    Claim(
        "A worker sends about 20 times as many packets as the scheduler.",
        PLACEMENT,
        dask_counted.sent_ratio,
        "about 20 times (in its text), 22,398 packets beside 3,329 (recomputed)",
    ),
    Claim(
        "Workers send each other more than goes from the scheduler to them and back.",
        PLACEMENT,
        dask_counted.between_workers,
        "4.10 GB beside 10.8 MB (recomputed)",
    ),
    Claim(
        "A worker says every 1022 ms that it lives.",
        IDLE,
        dask_counted.interval,
        "1022 ms (section 6.1.3); 0.5 s by the bytes of its Fig. 6",
    ),
    Claim(
        "A heartbeat takes 279 bytes, and its answer 77.",
        IDLE,
        dask_counted.size,
        "279 bytes and 77 bytes (Fig. 4, 6)",
    ),
    Claim(
        "A cluster that has nothing to do sends more, the more workers it has.",
        IDLE,
        dask_counted.idle_rate,
        "no number; heartbeats of one idle cluster (section 6.1)",
    ),
    Claim(
        FEWER,
        WORKERS,
        _fewer_workers,
        f"4.57 s and 4.16 s (Fig. 12, read off; {TABLE})",
    ),
    Claim(
        "A slow link of one worker costs time whatever is computed (the paper tried one"
        " computation).",
        SHAPES,
        _shapes,
        "no such experiment; named among its limitations",
    ),
    Claim(
        "Dask moves fewer bytes over slow links (not in the paper, which takes bytes for granted).",
        PLACEMENT,
        dask_counted.fewer_bytes,
        "no such experiment",
    ),
)
ERRATA = (
    (
        "A worker sends 6.7 times as many packets as the scheduler in the authors' own records"
        " (22,398 against 3,329); the 20 times that are printed divide by 1,109 packets, which is"
        " what the scheduler sends to one worker."
    ),
    (
        "The link that is called 10 Gbit/s carried 7 Gbit/s, and the one of 1 Gbit/s 507 Mbit/s, by"
        " the paper's own table."
    ),
    (
        "The table of link placement seems to mix kinds of links: single slow links are described"
        " as emulated E1000 cards, all four slow ones as capped VirtIO."
    ),
    (
        "That round trips matter more than rates rests on two cards whose rates differ by 3 % (507"
        " and 522 Mbit/s) and whose round trips differ by 1.4 times."
    ),
    (
        "The heartbeat interval is printed as 1022 ms; the bytes that are shown (cb 3f e0 00 ...)"
        " are 0.5 s, which is Dask's rule up to ten workers."
    ),
    (
        "That time grows more than in proportion to a worker's delay holds up to 50 ms in the"
        " paper's own figure, 8.3 s after 0.8 s; from there to 200 ms it grows less, 18.8 s."
    ),
    (
        "Packets were counted, not messages: several messages in a packet count once, and what a"
        " message needs beyond its first packet counts as data."
    ),
)
ADVICE: Mapping[str, Mapping[Outcome, str]] = {
    FAST_PORTS: {
        "reproduced": "Give fast ports to the workers first.",
        "refuted": "Do not give the scheduler the slow port without trying it.",
    },
    OWN_LINK: {
        "reproduced": "The scheduler is next.",
        "refuted": "The scheduler can have a slow port.",
    },
    FAR_WORKER: {
        "reproduced": "Place workers together: one that is far away holds up all.",
        "in part": "Place workers together where delays are like those that cost time here.",
        "mixed": "Place workers together where delays are like those that cost time here.",
        "refuted in part": "Look at other things first than at distances of workers.",
        "refuted": "Workers may be apart, as far as was tried.",
    },
    FAR_SCHEDULER: {
        "reproduced": "Place the scheduler with its workers.",
        "in part": "Place the scheduler with its workers where delays are like those that cost"
        " time here.",
        "mixed": "Place the scheduler with its workers where delays are like those that cost"
        " time here.",
        "refuted in part": "Look at other things first than at the distance of the scheduler.",
        "refuted": "The scheduler may be elsewhere, as far as was tried.",
    },
    DISTANCE: {
        "reproduced": "Where one has to be far away, let it be the scheduler, and no worker.",
        "in part": "Where one has to be far away, rather the scheduler than a worker.",
        "mixed": "Where one has to be far away, measure both: it depends on how far.",
        "refuted in part": "A distant scheduler is no better than a distant worker, as far as this"
        " tells.",
        "refuted": "A distant scheduler is no better than a distant worker.",
    },
    LOSSES: {
        "reproduced": "Look for lost packets on the links of workers first.",
        "in part": "Look for lost packets on the links of workers first where as many are lost as"
        " cost more there.",
        "mixed": "Look for lost packets on the links of workers first where as many are lost as"
        " cost more there.",
        "refuted in part": "Look for lost packets on the scheduler's link, too.",
        "refuted": "Look for lost packets on all links, also on the scheduler's.",
    },
    ROUND_TRIPS: {
        "reproduced": "Of two networks take the one with the shorter round trips.",
        "refuted": "Of two networks take the one with the higher rate.",
        "in part": "Of two networks rather take the one with the shorter round trips.",
        "mixed": "Measure your own computation: rate and round trip take turns to matter more.",
        "refuted in part": "Do not pay for short round trips before you have measured.",
    },
    FEWER: {
        "reproduced": "Take three workers rather than two.",
        "refuted": "Two workers do as well as three: look at the links before you add workers.",
    },
}
"Sentences on claims, by what came of them."
