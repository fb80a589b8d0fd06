"""Judges of what the processes of a Dask cluster send, as it was counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from hyperslab.apps.experiment.answers.comparison import CellResult, measured, paired
from hyperslab.apps.experiment.claims.claim import (
    Contrast,
    Evidence,
    Judged,
    Outcome,
    Values,
    contrast,
    judged_contrasts,
    outcome_of,
    rising,
    sign_of,
)
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.pages.links import dropped_share
from hyperslab.apps.experiment.statistics.intervals import mean_interval, ratio_interval
from hyperslab.apps.experiment.statistics.shown import show_interval, show_mean
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.units import show_bytes, show_list, show_seconds, show_share

TASK_SHARE = 0.48
"Share of the scheduler's packets that hand out tasks, in the paper."
DATA_SHARE = 0.98
"Share of a worker's packets that hold data, in the paper."
PAPER_CHUNK = 1000
"Length of both axes of a chunk, in the paper."
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


def task_share(evidence: Evidence) -> Judged:
    shares = _counted(evidence, "task_share")
    if not shares:
        return _nothing()
    return _of_packets(
        f"{show_share(fmean(shares))} of the operations that the scheduler sends hand out tasks;"
        f" {show_share(TASK_SHARE)} of its packets do in the paper."
    )


def data_share(evidence: Evidence) -> Judged:
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


def near(values: Sequence[float], printed: float) -> Outcome:
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


def sent_ratio(evidence: Evidence) -> Judged:
    """Tell what a worker sends beside what the scheduler does, in packets, bytes and operations."""
    units = {"sent_packets": "packets", "sent_nbytes": "bytes", "operations": "operations"}
    told = [
        f"A worker sends {show_mean(ratios)} times as many {words} as the scheduler."
        for name, words in units.items()
        if (ratios := _times_as_many(evidence, name))
    ]
    array, chunk = (evidence.baseline[name] for name in ("array", "chunk"))
    why = (
        "Links count acknowledgements, which the authors' records leave out, and the ratio grows"
        f" with the bytes of a chunk: {_chunk(chunk)} here, of an array of {array} x {array}, and"
        f" {_chunk(PAPER_CHUNK)} in the paper."
    )
    return Judged("not tested", [why, *told])


def _chunk(length: Level) -> str:
    """Size of a square chunk of doubles."""
    return show_bytes(8 * int(length) ** 2)


def between_workers(evidence: Evidence) -> Judged:
    """Look at whether workers send each other more than goes to the scheduler and back."""
    told = [one.numbers for one in _trials(evidence)]
    both = [(one.get("between_workers_nbytes"), one.get("with_scheduler_nbytes")) for one in told]
    pairs = [(between, beside) for between, beside in both if between and beside]
    if not pairs:
        return _nothing()
    means = [show_bytes(round(fmean(values))) for values in zip(*pairs, strict=True)]
    head = f"{means[0]} between workers beside {means[1]} to the scheduler and back"
    return judged_contrasts([contrast(head, pairs)])


def _times_as_many(evidence: Evidence, name: str) -> list[float]:
    """A worker's number over that of the scheduler, of each trial that knows both."""
    pairs = [
        (one.numbers.get(f"worker_{name}"), one.numbers.get(f"scheduler_{name}"))
        for one in _trials(evidence)
    ]
    return [worker / scheduler for worker, scheduler in pairs if worker and scheduler]


def interval(evidence: Evidence) -> Judged:
    """Look at the time between heartbeats, of trials that processors did not hold up."""
    cell = evidence.cell()
    known = cell.by_block(measured("heartbeat_interval_s")) if cell is not None else {}
    found = _as_printed(list(known.values()), INTERVAL_S, show_seconds)
    return found.beside(after=[RULE])


def size(evidence: Evidence) -> Judged:
    """Look at the bytes of a heartbeat and of its answer."""
    requests = _counted(evidence, "heartbeat_request_nbytes")
    replies = _counted(evidence, "heartbeat_reply_nbytes")
    asked = _as_printed(requests, REQUEST_NBYTES, _show_exactly)
    replied = _as_printed(replies, REPLY_NBYTES, _show_exactly)
    told = [f"Requests: {asked.evidence[0]}", f"Answers: {replied.evidence[0]}"]
    if asked.outcome == replied.outcome:
        return Judged(asked.outcome, told)
    return Judged(outcome_of([sign_of(asked), sign_of(replied)]), told)


def _show_exactly(nbytes: float) -> str:
    return f"{nbytes:.0f} B"


def _as_printed(values: Sequence[float], printed: float, show: Callable[[float], str]) -> Judged:
    if not values:
        return _nothing()
    told = f"{show(fmean(values))} here, {show(printed)} in the paper."
    return Judged(near(values, printed), [told])


def idle_rate(evidence: Evidence) -> Judged:
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


def fewer_bytes(evidence: Evidence) -> Judged:
    """Look at whether Dask says less over slow links, by the bytes of its messages: those on links
    hold what was dropped and sent again, too.
    """
    slow = evidence.cell(slow="all")
    fast = evidence.cell(slow="none")
    if slow is None or fast is None:
        return Judged("not tested", ["None of the cells that tell has been run."])
    both = list(paired(fast, slow, _said_nbytes).values())
    if not both:
        return Judged("not tested", ["No replicate has both cells that tell."])
    own, other = ([pair[place] for pair in both] for place in (0, 1))
    ratio = ratio_interval(own, other)
    means = [fmean(values) for values in (own, other)]
    told = (
        f"Messages of {show_list([show_bytes(round(mean)) for mean in means])} over fast and slow"
        f" links: {show_interval(ratio)} as much over fast ones."
    )
    differences = [math.log(here / there) for here, there in zip(own, other, strict=True)]
    found = judged_contrasts([Contrast(told, differences)])
    return found.beside(after=list(_dropped(slow)))


def _said_nbytes(attempt: Attempt) -> float | None:
    """Bytes of the messages of all workers and of the scheduler."""
    of_worker = attempt.numbers.get("worker_message_nbytes")
    of_scheduler = attempt.numbers.get("scheduler_message_nbytes")
    if not of_worker or not of_scheduler:
        return None
    return of_worker * float(attempt.levels["lab_workers"]) + of_scheduler


def _dropped(slow: CellResult) -> Iterator[str]:
    shares = [share for share in map(dropped_share, slow.done) if share is not None]
    if shares:
        yield f"Queues of slow links dropped {show_share(fmean(shares))} of all packets."
