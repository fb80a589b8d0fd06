"""Claim on the blocks that Spark can hand over: no more than an array of Java holds."""

from __future__ import annotations

from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.claims.claim import Evidence, Judged
from hyperslab.plan.written import parse_size
from hyperslab.units import show_bytes, show_list

WHOLE_FILES = "spark-binary-files"
LIMIT_NBYTES = 2**31
"What Java's arrays hold, and Spark's limit therefore."
HANDED_OVER = (
    f"The limit is that of `{WHOLE_FILES}`, to which Java hands whole files over; tasks of the"
    " other engines, `spark` among them, read their blocks themselves, and nothing is handed over."
)
LIMIT_REASONS = (
    "Requested array size exceeds",
    "Required array size too large",
    "Required length exceeds",
    "too large to fit in a byte array",
    "2147483647",
    "Integer.MAX_VALUE",
)
"""Words of Java for what does not fit in an array, however much memory there is: a full heap says
otherwise.
"""


def judge(evidence: Evidence) -> Judged:
    """Look whether whole files beyond the limit fail, and smaller ones do not."""
    cells = [one for one in evidence.answer.results if one.attempts]
    whole = [one for one in cells if one.cell.levels["engine"] == WHOLE_FILES]
    beyond = [one for one in whole if _block_nbytes(one) >= LIMIT_NBYTES]
    within = [one for one in whole if _block_nbytes(one) < LIMIT_NBYTES]
    if not beyond or not within:
        return Judged("not tested", ["Blocks on both sides of 2 GiB have not been run."])
    told = [HANDED_OVER, *(_how_it_went(one) for one in cells)]
    if not all(one.ended for one in within):
        return Judged("open", told)
    if any(one.ended for one in beyond):
        return Judged("refuted", told)
    if not all(_is_too_large(one) for one in beyond):
        return Judged("open", [*told, "No reason names the limit of Java's arrays."])
    return Judged("reproduced", told)


def _is_too_large(result: CellResult) -> bool:
    """Whether every failure of a cell is that of an array that cannot be so large."""
    reasons = [one.reason for one in result.attempts]
    return all(any(word in reason for word in LIMIT_REASONS) for reason in reasons)


def _block_nbytes(result: CellResult) -> float:
    levels = result.cell.levels
    return parse_size("size", str(levels["size"])) / int(levels["files"])


def _how_it_went(result: CellResult) -> str:
    engine = result.cell.levels["engine"]
    head = f"{engine}, blocks of {show_bytes(round(_block_nbytes(result)))}"
    if result.ended:
        return f"{head}: done."
    reasons = dict.fromkeys(attempt.reason for attempt in result.attempts)
    return f"{head}: failed ({show_list(list(reasons))})."
