"""Claims of H. J. Kind et al., Studying Dask (2019), on the links of a Dask cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from hyperslab.apps.experiment.claims.claim import (
    Claim,
    Contrast,
    Evidence,
    Judge,
    Judged,
    Outcome,
    Values,
    advised,
    expecting,
    judged_contrasts,
    outcome_of,
    rising,
    sign_of,
)
from hyperslab.apps.experiment.comparison import (
    MEASURE,
    CellResult,
    Comparison,
    compare,
    measured,
    paired,
)
from hyperslab.apps.experiment.factors import Level
from hyperslab.apps.experiment.intervals import mean_interval, ratio_interval
from hyperslab.apps.experiment.links import Slow
from hyperslab.apps.experiment.record import Attempt
from hyperslab.apps.experiment.shown import show_interval, show_mean
from hyperslab.network.lab.link import parse_rate
from hyperslab.units import show_bytes, show_list, show_seconds, show_share

PLACEMENT = "dask-network/placement"
DELAY = "dask-network/delay"
LOSS = "dask-network/loss"
GRID = "dask-network/grid"
WORKERS = "dask-network/workers"
SHAPES = "dask-network/shapes"
IDLE = "dask-network/idle"
TASK_SHARE = 0.48
"Share of the scheduler's packets that hand out tasks, in the paper."
NEAR = 0.1
"Relative difference of two factors from which on they are not the same."
DATA_SHARE = 0.98
"Share of a worker's packets that hold data, in the paper."
SENT_RATIO = 20.0
"Packets of a worker over those of the scheduler, as the paper prints it."
INTERVAL_S = 1.022
"Time from one heartbeat to the next, as the paper prints it."
REQUEST_NBYTES, REPLY_NBYTES = 279, 77
"Sizes of a heartbeat and of the answer, in the paper."
LIKE = 0.2
"Relative difference from which on two quantities are not the same."
RULE = (
    "Dask's scheduler tells its workers how often: every 0.5 s up to ten workers, every 1 s below"
    " 50, every 2 s below 200, and n / 200 + 1 s with n workers from there on."
)


def _beside(evidence: Evidence, level: str, reference: str, **others: Level) -> list[Comparison]:
    return list(evidence.beside("slow", level, reference, MEASURE, **others))


def _worker_or_scheduler(evidence: Evidence) -> Judged:
    return expecting({"slower"}, _beside(evidence, "worker", "scheduler"))


def _scheduler_counts(evidence: Evidence) -> Judged:
    return expecting({"slower"}, _beside(evidence, "scheduler", "none"))


def _all_or_worker(evidence: Evidence) -> Judged:
    return expecting({"slower"}, _beside(evidence, "all", "worker"))


def _faults(evidence: Evidence, place: str) -> list[str]:
    """Delays or losses that were tried of a place, as their levels say."""
    levels = map(str, evidence.levels("slow"))
    return [level.partition(" ")[2] for level in levels if Slow.parse(level).place == place]


def _same_fault(evidence: Evidence) -> Judged:
    """Look at a worker beside the scheduler, each with the same delay or loss."""
    both = [one for one in _faults(evidence, "worker") if one in _faults(evidence, "scheduler")]
    found = [
        one for fault in both for one in _beside(evidence, f"worker {fault}", f"scheduler {fault}")
    ]
    return expecting({"slower"}, found)


def _costs(place: str) -> Judge:
    """Judge that a delay or a loss of these nodes costs time, whichever it is."""

    def judge(evidence: Evidence) -> Judged:
        faults = _faults(evidence, place)
        found = [one for fault in faults for one in _beside(evidence, f"{place} {fault}", "none")]
        return expecting({"slower"}, found)

    return judge


def _tolerates(evidence: Evidence) -> Judged:
    """Look at what the scheduler's losses cost; the paper's took a fifth longer at 15 %."""
    faults = _faults(evidence, "scheduler")
    found = [one for fault in faults for one in _beside(evidence, f"scheduler {fault}", "none")]
    return expecting({"equivalent", "faster"}, found)


def _proportional(evidence: Evidence) -> Judged:
    """Look at whether time grows with the scheduler's delay."""
    faults = _faults(evidence, "scheduler")
    if len(faults) < 2:
        return Judged("not tested", ["Fewer than two delays of the scheduler have been run."])
    return expecting(
        {"slower"}, _beside(evidence, f"scheduler {faults[-1]}", f"scheduler {faults[0]}")
    )


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
            f"Delays {factor:g} times as long take {show_interval(one.ratio)} as long as rates"
            f" {factor:g} times lower."
        )
        found.append(Contrast(told, one.logarithms))
    if not found:
        return Judged("not tested", ["No two cells differ by the same factor in delay and rate."])
    return judged_contrasts(found)


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


def _trials(evidence: Evidence) -> list[Attempt]:
    """All trials of the baseline, also those that processors held up: what is counted does not
    depend on time.
    """
    cell = evidence.cell()
    if cell is None:
        return []
    return [*cell.done, *cell.rejected]


def _counted(evidence: Evidence, name: str) -> list[float]:
    """A number of all trials that know it."""
    values = [one.numbers.get(name) for one in _trials(evidence)]
    return [value for value in values if value is not None]


def _task_share(evidence: Evidence) -> Judged:
    shares = _counted(evidence, "task_share")
    if not shares:
        return _nothing()
    return _of_packets(
        f"{show_share(fmean(shares))} of the operations that the scheduler sends hand out tasks;"
        f" {show_share(TASK_SHARE)} of its packets do in the paper."
    )


def _data_share(evidence: Evidence) -> Judged:
    shares = _counted(evidence, "data_share")
    if not shares:
        return _nothing()
    return _of_packets(
        f"{show_share(fmean(shares))} of the bytes that workers send are data;"
        f" {show_share(DATA_SHARE)} of their packets are in the paper."
    )


def _of_packets(told: str) -> Judged:
    """Judge nothing by a share that is of something else than the paper's."""
    why = "Packets are not told apart here, which may hold several operations, or part of one."
    return Judged("not tested", [told, why])


def _near(values: Sequence[float], printed: float) -> Outcome:
    """Look whether a number is about the one that is printed, by its 95 % interval."""
    interval = mean_interval(values)
    if interval.low is None or interval.high is None:
        return "open"
    least = printed * (1 - LIKE)
    most = printed * (1 + LIKE)
    if least <= interval.low and interval.high <= most:
        return "reproduced"
    is_apart = interval.high < least or interval.low > most
    return "refuted" if is_apart else "open"


def _nothing() -> Judged:
    return Judged("not tested", ["No trial has counted what is sent."])


def _sent_ratio(evidence: Evidence) -> Judged:
    """Compare what a worker sends with what the scheduler does."""
    units = {"sent_packets": "packets", "sent_nbytes": "bytes", "operations": "operations"}
    found = {words: _times_as_many(evidence, name) for name, words in units.items()}
    told = [
        f"A worker sends {show_mean(ratios)} times as many {words} as the scheduler."
        for words, ratios in found.items()
        if ratios
    ]
    packets = found["packets"]
    if not packets:
        return Judged("not tested", ["No trial has counted packets.", *told])
    modes = {one.network.get("mode") for one in _trials(evidence) if one.network}
    if modes != {"exact"}:
        why = "Dozens of packets were handed on as one, and counted as one."
        return Judged("not tested", [why, *told])
    return Judged(_near(packets, SENT_RATIO), [*told, "Acknowledgements are packets, too."])


def _times_as_many(evidence: Evidence, name: str) -> list[float]:
    """A worker's number over that of the scheduler, of each trial that knows both."""
    pairs = [
        (one.numbers.get(f"worker_{name}"), one.numbers.get(f"scheduler_{name}"))
        for one in _trials(evidence)
    ]
    return [worker / scheduler for worker, scheduler in pairs if worker and scheduler]


def _interval(evidence: Evidence) -> Judged:
    found = _as_printed(evidence, "heartbeat_interval_s", INTERVAL_S, show_seconds)
    return Judged(found.outcome, [*found.evidence, RULE])


def _size(evidence: Evidence) -> Judged:
    asked = _as_printed(
        evidence, "heartbeat_request_nbytes", REQUEST_NBYTES, lambda size: f"{size:.0f} B"
    )
    replied = _as_printed(
        evidence, "heartbeat_reply_nbytes", REPLY_NBYTES, lambda size: f"{size:.0f} B"
    )
    told = [f"Requests: {asked.evidence[0]}", f"Answers: {replied.evidence[0]}"]
    if asked.outcome == replied.outcome:
        return Judged(asked.outcome, told)
    return Judged(outcome_of([sign_of(asked), sign_of(replied)]), told)


def _as_printed(
    evidence: Evidence, name: str, printed: float, show: Callable[[float], str]
) -> Judged:
    values = _counted(evidence, name)
    if not values:
        return _nothing()
    told = f"{show(fmean(values))} here, {show(printed)} in the paper."
    return Judged(_near(values, printed), [told])


def _idle_rate(evidence: Evidence) -> Judged:
    """Look at what an idle cluster sends in a second, with few workers and with many."""
    levels = sorted(evidence.levels("lab_workers"), key=float)
    ends = [_rates(evidence, levels[0]), _rates(evidence, levels[-1])]
    return rising("Bytes in a second on all links", ends[0], ends[1])


def _rates(evidence: Evidence, level: Level) -> Values | None:
    """Bytes in a second of the trials with so many workers."""
    cell = evidence.cell(lab_workers=level)
    if cell is None:
        return None
    return f"{level} workers", cell.by_block(_rate)


def _rate(attempt: Attempt) -> float | None:
    sent = attempt.numbers.get("sent_nbytes")
    seconds = attempt.numbers.get("network_s")
    if not sent or not seconds:
        return None
    return sent / seconds


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


def _fewer_bytes(evidence: Evidence) -> Judged:
    """Look at whether Dask moves fewer bytes over slow links."""
    slow = evidence.cell(slow="all")
    fast = evidence.cell(slow="none")
    if slow is None or fast is None:
        return Judged("not tested", ["None of the cells that tell has been run."])
    both = list(paired(fast, slow, measured("sent_nbytes")).values())
    if not both:
        return Judged("not tested", ["No replicate has both cells that tell."])
    own, other = ([pair[place] for pair in both] for place in (0, 1))
    ratio = ratio_interval(own, other)
    means = [fmean(values) for values in (own, other)]
    told = (
        f"{show_list([show_bytes(round(mean)) for mean in means])} over fast and slow links:"
        f" {show_interval(ratio)} as much over fast ones."
    )
    differences = [math.log(here / there) for here, there in zip(own, other, strict=True)]
    return judged_contrasts([Contrast(told, differences)])


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
TITLE = "Dask's network"
PAPER = (
    "H. J. Kind, J. W. Khong, M. Oo, W. Y. F. See, T. L. Kaihui, *Studying Dask: 50.012 Networks"
    " Project*, 2019"
)
CLAIMS = (
    Claim(
        FAST_PORTS,
        PLACEMENT,
        _worker_or_scheduler,
    ),
    Claim(OWN_LINK, PLACEMENT, _scheduler_counts),
    Claim("Slow links everywhere cost more than one worker's.", PLACEMENT, _all_or_worker),
    Claim(FAR_WORKER, DELAY, _costs("worker")),
    Claim(FAR_SCHEDULER, DELAY, _costs("scheduler")),
    Claim(DISTANCE, DELAY, _same_fault),
    Claim("Time grows with the delay of the scheduler.", DELAY, _proportional),
    Claim(LOSSES, LOSS, _same_fault),
    Claim("Losses on the scheduler's link hardly cost anything.", LOSS, _tolerates),
    Claim(ROUND_TRIPS, GRID, _round_trip_or_rate),
    Claim("About half of what the scheduler sends hands out tasks.", PLACEMENT, _task_share),
    Claim("Nearly all that a worker sends are data.", PLACEMENT, _data_share),
    Claim(
        "A worker sends about 20 times as many packets as the scheduler.", PLACEMENT, _sent_ratio
    ),
    Claim("A worker says every 1022 ms that it lives.", IDLE, _interval),
    Claim("A heartbeat takes 279 bytes, and its answer 77.", IDLE, _size),
    Claim(
        "A cluster that has nothing to do sends more, the more workers it has.", IDLE, _idle_rate
    ),
    Claim(FEWER, WORKERS, _fewer_workers),
    Claim(
        "A slow link of one worker costs time whatever is computed (the paper tried one"
        " computation).",
        SHAPES,
        _shapes,
    ),
    Claim(
        "Dask moves fewer bytes over slow links (not in the paper, which takes bytes for granted).",
        PLACEMENT,
        _fewer_bytes,
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
        "Packets were counted, not messages: several messages in a packet count once, and what a"
        " message needs beyond its first packet counts as data."
    ),
)
ADVICE: Mapping[str, Mapping[Outcome, str]] = {
    FAST_PORTS: {
        "reproduced": "Give fast ports to the workers first.",
        "refuted": "Do not count on it that the scheduler can have the slow port.",
    },
    OWN_LINK: {
        "reproduced": "The scheduler is next.",
        "refuted": "The scheduler can have a slow port.",
    },
    FAR_WORKER: {
        "reproduced": "Place workers together: one that is far away holds up all.",
        "in part": "Place workers together, at least where delays are long.",
        "refuted in part": "Look at other things first than at distances of workers.",
        "refuted": "Workers may be apart, as far as was tried.",
    },
    FAR_SCHEDULER: {
        "reproduced": "Place the scheduler with its workers.",
        "in part": "Place the scheduler with its workers, at least where delays are long.",
        "refuted in part": "Look at other things first than at the distance of the scheduler.",
        "refuted": "The scheduler may be elsewhere, as far as was tried.",
    },
    DISTANCE: {
        "reproduced": "Where one has to be far away, let it be the scheduler, and no worker.",
        "in part": "Where one has to be far away, measure both: it depends on how far.",
        "refuted in part": "Do not count on it that the scheduler may be farther away.",
        "refuted": "A distant scheduler is no better than a distant worker.",
    },
    LOSSES: {
        "reproduced": "Look for lost packets on the links of workers first.",
        "refuted in part": "Look for lost packets on the scheduler's link, too.",
        "refuted": "Look for lost packets on all links, also on the scheduler's.",
    },
    ROUND_TRIPS: {
        "reproduced": "Of two networks take the one with the shorter round trips.",
        "refuted": "Of two networks take the one with the higher rate.",
        "in part": "Measure your own computation: rate and round trip take turns to matter more.",
        "refuted in part": "Do not pay for short round trips before you have measured.",
    },
    FEWER: {
        "reproduced": "Take three workers rather than two.",
        "refuted": "Two workers do as well as three: look at the links before you add workers.",
    },
}
"Sentences on claims, by what came of them."
