"""What earlier runs into the same directory have done, which a run for other participants keeps.

- what has failed stays out: nobody gets the failure of somebody whom they did not ask for
- what is done is not done again for images that have changed, or are gone, unless it is asked for
- a participant is done as a whole, or by sessions: what is done in one of these ways is not done
  again in the other one, which would make the same files
- results are of one dataset: labels of another one mean somebody else

Held by tests/apps/bids/test_going_on.py.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hyperslab.apps.bids.dataset import Dataset
from hyperslab.apps.bids.unit import Per, Unit, fault_lines, units
from hyperslab.apps.bids.wanted import Kind, choose_sessions
from hyperslab.blocks.gathering import Tell
from hyperslab.driver.calls import Wanted
from hyperslab.driver.directory import GATHERED, RunDirectory
from hyperslab.driver.publishing import that_may_have_named
from hyperslab.driver.tried import done_wholes, ends_of, left_out, names_asked_for
from hyperslab.errors import UsageError
from hyperslab.plan.journal import Tail
from hyperslab.plan.task import Outcome
from hyperslab.storage.recordfile import load_record

_REMEDY = "remove it, and the files of the group level"


class Others(NamedTuple):
    """What runs have done that is not asked for now."""

    units: list[Unit]
    withdrawn: list[str]
    "Labels of those that could not be done again: the dataset has them no more, or no image."


def earlier_units(
    datasets: Sequence[Dataset],
    kind: Kind,
    asked_for: Sequence[Unit],
    out: Path,
    needs_images: bool = True,
) -> Others:
    """What runs into `out` have done, and that is not asked for now."""
    done = done_in(out)
    others = done - {unit.label for unit in asked_for}
    units = [
        unit
        for unit in _of_both_ways(datasets, kind, others)
        if unit.label in others and (unit.images or unit.fault or not needs_images)
    ]
    return Others(units, sorted(others.difference(unit.label for unit in units)))


def wanted(asked_for: Iterable[Unit]) -> tuple[Wanted, ...]:
    """What a call wants for itself: sessions of one participant may be in several hands."""
    return tuple(map(_wanted, asked_for))


def _wanted(unit: Unit) -> Wanted:
    participant = unit.participant.name
    if unit.label == participant:
        return Wanted(unit.label)
    return Wanted(unit.label, participant)


def done_in(out: Path) -> set[str]:
    """Labels of what is done."""
    labels: set[str] = set()
    for folder, plan in RunDirectory(out.absolute()).plans():
        labels |= done_wholes(folder, plan)
    return labels


@dataclass(frozen=True, slots=True)
class Recorded:
    """What runs into a directory have recorded."""

    tried: Mapping[str, bool]
    """Labels of all units that were asked for, and whether the last run that was asked for one has
    done it, or has found it done; not one that it has not come to.
    """
    done: Sequence[str]
    "Labels of all units that were ever done, whatever became of them since."
    gathered: frozenset[str]
    "Names of the files that group levels of runs have made, or were about to give their names."
    origins: frozenset[str]
    "Datasets that results are of."
    template: str
    "What the commands of the newest run were made of; '' where there is none."
    gone: frozenset[str] = frozenset()
    "Labels of units that were done, and whose files are not there as they were written."
    left_out: frozenset[str] = frozenset()
    "Labels that a later run over all of the dataset was not asked for."


def recorded(directory: RunDirectory) -> Recorded:
    """What runs have recorded, each of whose journals is read once. Raises DamagedRecord."""
    tried: dict[str, bool] = {}
    done: dict[str, None] = {}
    gathered: set[str] = set()
    origins: set[str] = set()
    plans: list[Mapping[str, Any]] = []
    template = ""
    for folder, plan in directory.plans():
        plans.append(plan)
        outcomes = Tail(folder).poll()
        now = ends_of(outcomes, plan)
        tried |= now
        done |= dict.fromkeys(label for label, is_done in now.items() if is_done)
        for label in names_asked_for(plan):
            tried.setdefault(label, False)
        of_group = [one for one in outcomes if one.task >= plan["tasks"]]
        if any(one.status == "done" for one in outcomes):
            origins.update(filter(None, (plan["summary"].get("origin"),)))
        gathered = _gathered(gathered, of_group)
        template = plan["summary"].get("command", template)
    found = Recorded(tried, tuple(done), frozenset(gathered), frozenset(origins), template)
    return replace(found, left_out=frozenset(left_out(plans)))


def gathered_outside(directory: RunDirectory) -> set[str]:
    """Names of what group levels of earlier versions have made, which were no runs. Raises
    DamagedRecord.
    """
    try:
        record = load_record(directory.root / GATHERED, _REMEDY)
    except FileNotFoundError:
        return set()
    return set(record["files"])


def forget_gathered_outside(directory: RunDirectory) -> None:
    """Remove the record of that: a group level that is a run has taken its place, and a file of
    these names would be somebody's from now on.
    """
    (directory.root / GATHERED).unlink(missing_ok=True)


def _gathered(before: set[str], outcomes: Sequence[Outcome]) -> set[str]:
    """Names of what group levels have made, with the outcomes of a later one: what it has made in
    full is all that there is, and what it was refused to name is of others.
    """
    attempts = that_may_have_named(outcomes)
    done = [one for one in attempts if one.status == "done"]
    names = {written.path for one in done or attempts for written in one.outputs}
    if done:
        return names
    return before | names


def require_same_dataset(found: Recorded, origin: str, out: Path) -> None:
    """Raise UsageError for results of another dataset, whose participants may have the same
    labels.
    """
    for other in sorted(found.origins - {origin}):
        raise UsageError(
            f"{out} has the results of another dataset, {other}: give its OUT_DIR, or add"
            f" --moved-from {shlex.quote(other)} where it is the same one at another path"
        )


def _of_both_ways(datasets: Sequence[Dataset], kind: Kind, labels: set[str]) -> Iterable[Unit]:
    """Units of the participants whom some labels are of, by sessions where these are."""
    names = {participant_of(label) for label in labels}
    ways: dict[Per, list[str]] = {
        "participant": [name for name in names if name in labels],
        "session": [name for name in names if name not in labels],
    }
    for per, wanted in ways.items():
        chosen = [one for dataset in datasets for one in dataset.participants if one.name in wanted]
        yield from units(choose_sessions(chosen, ()), kind, per)


def participant_of(label: str) -> str:
    """The participant of a unit, such as BNU_1/sub-01 of BNU_1/sub-01_ses-2."""
    site, stem = os.path.split(label)
    return os.path.join(site, stem.partition("_")[0])


def held_to_ways(asked_for: Sequence[Unit], done: Collection[str], out: Path) -> list[Unit]:
    """The units, with a fault each of a participant who is done in the other way than is asked for:
    these fail, and keep nobody waiting. Raises UsageError where all that can be done are such.
    """
    by_session = {participant_of(label) for label in done}.difference(done)
    held = [_held_to_way(unit, done, by_session, out) for unit in asked_for]
    able = [place for place, unit in enumerate(asked_for) if not unit.fault]
    if able and all(held[place].fault for place in able):
        raise UsageError(f"{held[able[0]].fault}, or give another OUT_DIR")
    return held


def _held_to_way(unit: Unit, done: Collection[str], by_session: Collection[str], out: Path) -> Unit:
    name = unit.participant.name
    if unit.fault:
        return unit
    if unit.label == name and name in by_session:
        return replace(unit, fault=f"{out}: {name} is done there by sessions: add --per session")
    if unit.label != name and name in done:
        why = f"{out}: {name} is done there as a whole, with all sessions: ask for it without"
        return replace(unit, fault=f"{why} --session-label and --per session")
    return unit


def mention_held(before: Sequence[Unit], held: Sequence[Unit], tell: Tell) -> None:
    """Say which of the units were held back."""
    several = [now for unit, now in zip(before, held, strict=True) if now.fault != unit.fault]
    for line in fault_lines(several):
        tell(line)
