"""Sheet of what links have carried: bytes beside times, as Dask moves fewer over slow links."""

from __future__ import annotations

from collections.abc import Iterator

from hyperslab.apps.experiment.answer import Answer, makespan_words
from hyperslab.apps.experiment.comparison import CellResult
from hyperslab.apps.experiment.sections import Sheet
from hyperslab.units import show_bytes, show_seconds, show_share

HINT = (
    "Means over the trials that count. Trials that were bound by processors, or whose links were"
    " not as asked for, are kept out."
)
COLUMNS = (
    "cell",
    "makespan",
    "rounds: least, mean, most",
    "sent by all",
    "by the scheduler",
    "by a worker",
    "packets lost",
    "processors idle",
    "emulator",
    "kept out",
)


def links_sheet(answer: Answer) -> Sheet:
    """Bytes on the links of every cell; no rows where trials had no laboratories."""
    known = [one for one in answer.results if any(each.network for each in one.attempts)]
    return Sheet("Links", COLUMNS, [tuple(_row(one)) for one in known], HINT)


def _row(result: CellResult) -> Iterator[str]:
    yield result.cell.name
    yield makespan_words(result)
    if not result.done:
        yield from ("",) * (len(COLUMNS) - 3)
        yield _kept_out(result)
        return
    rounds = [result.mean(f"round_{which}_s") for which in ("min", "avg", "max")]
    yield ", ".join(map(show_seconds, rounds)) if all(rounds) else ""
    for name in ("sent_nbytes", "scheduler_sent_nbytes", "worker_sent_nbytes"):
        yield show_bytes(round(result.mean(name)))
    yield f"{result.mean('dropped_packets'):,.0f}"
    yield show_share(result.mean("idle_share"))
    yield show_share(result.mean("emulator_share"))
    yield _kept_out(result)


def _kept_out(result: CellResult) -> str:
    return str(len(result.rejected) or "")
