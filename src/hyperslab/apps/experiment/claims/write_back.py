"""Claims on write-back beside write-through, on the same medium: until all is on storage, and until
the last write is in memory.

Until the last write is in memory it saves no more than the time for which the medium is written.
Until all is on storage it saves no more than the part of that time that can overlap with what else
is done: the shorter one of both. Where that is little of a makespan, no number of replicates of
such trials shows whether write-back pays; and with nothing to compute there are reading and what an
engine does around its tasks alone behind which writing could be hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hyperslab.apps.experiment.answers.comparison import MEASURE, WITHOUT_START, CellResult
from hyperslab.apps.experiment.claims.claim import UNTIL_WRITTEN, Evidence, Judged, expecting
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.plan.written import parse_size
from hyperslab.units import show_bytes, show_list, show_seconds, show_share

MOMENTS = (
    "Makespans here end when all is on storage; those of the paper end with the last write into"
    " memory, which is judged, too."
)
ONE_MOMENT = (
    "When the last write was in memory these trials have not recorded, so that the paper's moment"
    " is not judged."
)
NOTHING_HIDDEN = (
    "With nothing to compute meanwhile, write-back can hide writing behind reading and what an"
    " engine does around its tasks, and behind nothing else: how much sooner all is on storage is"
    " by construction, as is that memory has it sooner."
)
TOLD_GAIN = 3
"Margins that write-back has to be able to gain, so that it is told whether it does."


def judge(evidence: Evidence, fits: bool, is_busy: bool) -> Judged:
    """Judge sizes that fit in the memory of the tier, or do not, with something to compute
    meanwhile or without.
    """
    room_nbytes = parse_size("write_back", evidence.tiers["back"].write_back or "0")
    sizes = [
        size
        for size in evidence.levels("size")
        if (parse_size("size", str(size)) <= room_nbytes) == fits
    ]
    room = f"The tier's write-back takes {show_bytes(room_nbytes)}"
    if not sizes:
        which = "fits in it" if fits else "is larger"
        return Judged("not tested", [f"{room}; no output that was written {which}."])
    delay = max(evidence.levels("delay"), key=float) if is_busy else 0
    gains = _gains(evidence, sizes, delay)
    told = [f"{room}.", MOMENTS, *(gain.told for gain in gains.values())]
    if is_busy:
        return _of_sizes_that_tell(evidence, sizes, delay, gains).beside(told)
    return _with_nothing_to_do(_back_beside_through(evidence, sizes, delay)).beside(told)


def _back_beside_through(evidence: Evidence, sizes: Sequence[Level], delay: Level) -> Judged:
    """Write-back beside write-through by both moments; open where one of them was not recorded."""
    found = [
        one
        for size in sizes
        for measure in (MEASURE, UNTIL_WRITTEN)
        for one in evidence.beside("tier", "back", "through", measure, size=size, delay=delay)
    ]
    judged = expecting({"faster"}, found)
    if found and all(one.measure != UNTIL_WRITTEN for one in found):
        return judged.instead("open", ONE_MOMENT)
    return judged


class Gain(NamedTuple):
    """What write-back can save at most."""

    share: float
    "Time of writing that can overlap with what else is done, over the makespan with write-through."
    told: str
    "Sentence with the numbers."


def _gains(evidence: Evidence, sizes: Sequence[Level], delay: Level) -> dict[Level, Gain]:
    """What write-back can save of every size of which that is known."""
    tier = evidence.tiers["through"]
    rate = tier.write_bandwidth or tier.bandwidth
    found = {}
    for size in sizes:
        through = evidence.cell(tier="through", size=size, delay=delay)
        if rate is not None and through is not None and through.done:
            found[size] = _gain(size, rate, through)
    return found


def _gain(size: Level, rate: str, through: CellResult) -> Gain:
    """What can be saved of a size by each moment, beside a cell that writes through."""
    writing_s = parse_size("size", str(size)) / parse_size("bandwidth", rate)
    makespan_s = through.mean(MEASURE)
    beside_s = max(0.0, (through.mean(WITHOUT_START) or makespan_s) - writing_s)
    overlapping_s = min(writing_s, beside_s)
    share = overlapping_s / makespan_s
    told = (
        f"Of {size} it can save about {show_share(share)} at most until all is on storage: writing"
        f" takes {show_seconds(writing_s)} at {rate}/s, of {show_seconds(makespan_s)}, and"
        f" {show_seconds(overlapping_s)} of it can overlap with what else is done."
    )
    tasks_s = through.mean(UNTIL_WRITTEN)
    if tasks_s:
        most = show_share(min(1.0, writing_s / tasks_s))
        told = f"{told} Until the last write into memory it can save about {most} at most."
    return Gain(share, told)


def _of_sizes_that_tell(
    evidence: Evidence, sizes: Sequence[Level], delay: Level, gains: Mapping[Level, Gain]
) -> Judged:
    """What is found of the sizes of which so much can be saved that a trial would tell."""
    least = TOLD_GAIN * evidence.margin
    told = [size for size in sizes if size not in gains or gains[size].share >= least]
    why = f"{TOLD_GAIN} margins of {show_share(evidence.margin)}"
    if not told:
        most = max(gain.share for gain in gains.values())
        found = _back_beside_through(evidence, sizes, delay)
        head = f"It could gain {show_share(most)} at most, which is less than {why}."
        return found.instead("not tested", head)
    left_out = [str(size) for size in sizes if size not in told]
    found = _back_beside_through(evidence, told, delay)
    if not left_out:
        return found
    words = f"Not judged: {show_list(left_out)}, of which it can save less than {why}."
    return found.beside([words])


def _with_nothing_to_do(found: Judged) -> Judged:
    if found.outcome in ("not tested", "open"):
        return found
    return found.instead("by construction", NOTHING_HIDDEN)
