"""Tally: the results of a batch, or of several; all that a distributed engine moves between its
tasks.
"""

from __future__ import annotations

import os
import pickle
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyperslab.engines.batches.orders import Orders, load_orders, own_journal
from hyperslab.errors import RunStopped
from hyperslab.plan.journal import Partial, load_partial, save_pickled_partial
from hyperslab.storage.recordfile import save_record
from hyperslab.trace import recording, span


@dataclass(frozen=True, slots=True)
class Tally:
    """The results of a batch, or of several."""

    tasks: tuple[int, ...] = ()
    "Tasks of a reduction whose values are merged here."
    body: bytes = b""
    "Pickle of (tasks, value)."
    path: str = ""
    "Path of the file that holds the body instead: for values larger than the engine moves."
    moved_nbytes: int = 0
    "Bytes that tasks handed to each other for this."
    spent: tuple[str, ...] = ()
    """Files whose values have become part of this one's; an engine may merge them again until the
    tree is done.
    """

    @property
    def nbytes(self) -> int:
        return os.path.getsize(self.path) if self.path else len(self.body)


def tally_of(orders: Orders, tasks: tuple[int, ...], path: Path) -> Tally:
    """Make a tally with the saved value itself, unless it is larger than the engine moves."""
    if path.stat().st_size > orders.limit_nbytes:
        return Tally(tasks, path=str(path))
    partial = load_partial(path)
    if partial is None:
        return Tally()  # damaged as soon as it was written: the driver does its tasks again
    return Tally(
        tasks, pickle.dumps((partial.tasks, partial.value), protocol=pickle.HIGHEST_PROTOCOL)
    )


def merge(place: str, tallies: Iterable[Tally]) -> Tally:
    """One tally of several: an inner node of the engine's tree. If it fails, what is saved
    speaks.
    """
    orders = load_orders(place)
    given = [tally for tally in tallies if tally.tasks]
    if not given:
        return Tally()
    if orders.merge is None or len(given) == 1:
        return given[0]
    total = Partial()
    moved_nbytes = 0
    with recording() as phases, span("merge") as marked:
        try:
            for tally in given:
                marked.nbytes += tally.nbytes
                moved_nbytes += tally.nbytes + tally.moved_nbytes
                total.add(tally.tasks, _value(tally), orders.merge)
        # the driver merges what is saved and reports what the merge says then
        except Exception:  # noqa: BLE001
            return Tally()
        spent = tuple(path for tally in given for path in (*tally.spent, tally.path) if path)
        merged = _merged(orders, total, moved_nbytes, spent)
    if not orders.on_driver:
        own_journal(orders).note(phases)
    return merged


def merge_two(place: str, a: Tally, b: Tally) -> Tally:
    """The same for engines whose trees merge in pairs."""
    return merge(place, (a, b))


def _value(tally: Tally) -> Any:
    if not tally.path:
        return pickle.loads(tally.body)[1]
    partial = load_partial(Path(tally.path))
    if partial is None:
        raise RunStopped(f"{tally.path} was damaged after it was written")
    return partial.value


def _merged(orders: Orders, total: Partial, moved_nbytes: int, spent: tuple[str, ...]) -> Tally:
    body = pickle.dumps((total.tasks, total.value), protocol=pickle.HIGHEST_PROTOCOL)
    tasks = tuple(total.tasks)
    if len(body) <= orders.limit_nbytes:
        return Tally(tasks, body, "", moved_nbytes, spent)
    path = orders.folder / "partials" / f"merged.{uuid.uuid4().hex}.pickle"
    save_pickled_partial(path, body)
    return Tally(tasks, b"", str(path), moved_nbytes, spent)


def keep(folder: Path, name: str, tally: Tally) -> None:
    """Save what the engine's tree came to, on the driver: it speaks for all its tasks from then
    on.
    """
    if not tally.tasks:
        return
    if not tally.path:
        save_pickled_partial(folder / "partials" / f"tree.{name}.pickle", tally.body)
    save_record(folder / f"tree.{name}.json", {"moved_nbytes": tally.moved_nbytes + tally.nbytes})
    for path in tally.spent:
        Path(path).unlink(missing_ok=True)
