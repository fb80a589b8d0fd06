"""Sheet of what links have carried: bytes beside times, as Dask moves fewer over slow links."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from hyperslab.apps.experiment.answers.answer import Answer, makespan_words
from hyperslab.apps.experiment.answers.comparison import CellResult
from hyperslab.apps.experiment.design.links import SLOW_WORKER, Slow
from hyperslab.apps.experiment.pages.sections import Sheet
from hyperslab.apps.experiment.trials.record import Attempt
from hyperslab.units import show_bytes, show_seconds, show_share

QUEUED = "dropped_queue"
"Number of a trial: packets that were dropped as too many waited."
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
    "by the slow worker",
    "packets lost",
    "dropped in queues",
    "processors idle",
    "busiest node",
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
    yield _by_slow_worker(result)
    # Netem does not tell a loss from a full queue.
    yield f"{sum(result.mean(f'dropped_{cause}') for cause in ('loss', 'loss or queue')):,.0f}"
    yield _queued(result)
    yield show_share(result.mean("idle_share"))
    yield _busiest(result)
    yield show_share(result.mean("emulator_share"))
    yield _kept_out(result)


def _by_slow_worker(result: CellResult) -> str:
    """Bytes that the worker has sent whose link alone is worse, of which the mean of all workers
    says little.
    """
    if Slow.parse(str(result.cell.levels.get("slow", "none"))).place != "worker":
        return ""
    sent = [
        one["sent_nbytes"]
        for attempt in result.done
        for one in attempt.network.get("links", ())
        if one["node"] == SLOW_WORKER
    ]
    if not sent:
        return ""
    return show_bytes(round(fmean(sent)))


def _queued(result: CellResult) -> str:
    """Packets that queues dropped, and their share of all; '' where the backend does not tell."""
    if not any(QUEUED in attempt.numbers for attempt in result.done):
        return ""
    told = f"{result.mean(QUEUED):,.0f}"
    shares = [share for share in map(dropped_share, result.done) if share is not None]
    if not shares:
        return told
    return f"{told} ({show_share(fmean(shares))})"


def dropped_share(attempt: Attempt) -> float | None:
    """Share of the packets of a trial, on all links, that queues dropped; None where that is not
    known.
    """
    dropped = attempt.numbers.get(QUEUED)
    links = attempt.network.get("links", ())
    carried = sum(one["sent_packets"] + one["received_packets"] for one in links)
    if dropped is None or not carried:
        return None
    share: float = dropped / (carried + dropped)
    return share


def _busiest(result: CellResult) -> str:
    """The node that took most of the processors that it can use, and how much of them."""
    shares: dict[str, list[float]] = {}
    for attempt in result.done:
        for node, number in attempt.network.get("usable", {}).items():
            share = attempt.network["cpu_share"].get(node, 0.0) / number
            shares.setdefault(node, []).append(share)
    if not shares:
        return ""
    means = {node: fmean(values) for node, values in shares.items()}
    busiest = max(means, key=means.__getitem__)
    return f"{busiest} {show_share(means[busiest])}"


def _kept_out(result: CellResult) -> str:
    return str(len(result.rejected) or "")
