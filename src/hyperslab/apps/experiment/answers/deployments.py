"""Deployments: how engines ran in trials, and where more of their slots ran than there were
processors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperslab.apps.experiment.answers.comparison import CellResult, results_of
from hyperslab.apps.experiment.design.setting import Setting
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment
from hyperslab.engines.facts import DEFAULT, facts_of
from hyperslab.units import show_count, show_list

MOST_NAMED = 3
"Cells that a sentence names."


def sentences(experiment: Experiment, record: Record) -> Iterator[str]:
    """How each engine ran that connected to no cluster and in no laboratory, and which cells had
    more slots than their machine had processors.
    """
    results = [one for one in results_of(experiment.cells, record) if one.ended]
    told: dict[str, str] = {}
    for result in results:
        setting = experiment.loaded.setting(result.cell.levels)
        if engine := _own_engine(setting):
            told.setdefault(engine, facts_of(engine).deployment)
    for engine, deployment in told.items():
        if deployment:
            yield f"{engine} ran as {deployment}."
    yield from _crowded(results, record)


def _own_engine(setting: Setting) -> str:
    """The engine of a trial whose cluster, if there is one, is its own; '' of another trial."""
    if setting.program or setting.links is not None or setting.value_of("--connect"):
        return ""
    return setting.value_of("--engine") or DEFAULT


def _crowded(results: Sequence[CellResult], record: Record) -> Iterator[str]:
    """Cells whose slots had to share processors with one another."""
    found = []
    for result in results:
        processors = record.processors(result.ended)
        slots = result.mean("slots")
        if processors and slots > min(processors):
            found.append((result.cell.name, round(slots), min(processors)))
    if not found:
        return
    names = [f"{name} ({slots} on {processors})" for name, slots, processors in found[:MOST_NAMED]]
    if more := found[MOST_NAMED:]:
        names.append(show_count(len(more), "further cell"))
    yield (
        f"More slots than processors: {show_list(names)}. What their tasks compute takes turns, and"
        " what they gain is from waiting at the same time."
    )
