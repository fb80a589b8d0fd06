"""Claims on what it costs to open a file for every read, and how often it is opened."""

from __future__ import annotations

import math
from statistics import fmean

from hyperslab.apps.experiment.claims.claim import (
    NOT_RUN,
    ROUND,
    Contrast,
    Evidence,
    Judged,
    Ratios,
    expecting,
    judged_contrasts,
    ratios_of,
    rising,
    show_ratios,
)
from hyperslab.apps.experiment.claims.shuffled_files import IMAGE, SHARED
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.plan.written import parse_size

DISK = "local"
LARGE_NBYTES = 10**6
"Size of reads from which on opening costs nothing, in the paper."
POOLED = 0.05
"Opens for each read up to which a file is kept open."


def _penalties(evidence: Evidence, scratch: str, read_size: Level) -> Ratios:
    """Times with a file opened for every read over those with one that stays open."""
    return ratios_of(evidence, "opens", "each", "once", scratch=scratch, read_size=read_size)


def _sizes(evidence: Evidence) -> list[Level]:
    """Sizes of reads, smallest first."""
    return sorted(evidence.levels("read_size"), key=_nbytes)


def _nbytes(size: Level) -> int:
    return parse_size("read_size", str(size))


def small_reads(evidence: Evidence) -> Judged:
    """Look at what an open for every read costs, by the size of the reads."""
    ends = [(str(size), _penalties(evidence, SHARED, size)) for size in _sizes(evidence)]
    known = [(f"reads of {size}", ratios) for size, ratios in ends if ratios]
    if len(known) < 2:
        return Judged("not tested", [NOT_RUN])
    found = rising("Time with an open for every read over that with one", known[-1], known[0])
    told = [f"{name}: {show_ratios(ratios)} as long." for name, ratios in known]
    return found.beside(after=told)


def large_reads(evidence: Evidence) -> Judged:
    found = [
        one
        for size in _sizes(evidence)
        if _nbytes(size) >= LARGE_NBYTES
        for one in evidence.beside("opens", "each", "once", ROUND, read_size=size)
    ]
    return expecting({"equivalent", "faster"}, found)


def in_image(evidence: Evidence) -> Judged:
    """Look at the smallest reads, on which opening weighs most."""
    size = _sizes(evidence)[0]
    plain, image, disk = (_penalties(evidence, one, size) for one in (SHARED, IMAGE, DISK))
    both = sorted(plain.keys() & image.keys())
    if not both:
        return Judged("not tested", [NOT_RUN])
    told = (
        f"Reads of {size} take {show_ratios(plain)} as long with an open for each on shared"
        f" storage, {show_ratios(image)} in one file on it"
    )
    if disk:
        told += f", {show_ratios(disk)} on a local disk"
    return judged_contrasts([Contrast(f"{told}.", [math.log(plain[n] / image[n]) for n in both])])


def pool(evidence: Evidence) -> Judged:
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
    told = [one.numbers.get("opens_per_read") for one in cell.ended] if cell is not None else []
    return [number for number in told if number is not None]
