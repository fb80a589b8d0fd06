"""Levels of factors in the document of a spec: those that it varies, and those that a scale does
not have of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hyperslab.apps.experiment.design.factors import Level

VARYING = ("vary", "grid")
"Tables that name further levels of factors."
AT = "vary_at"
"Table of factors that are varied at chosen levels of others."
NAMED = frozenset(
    (
        "engine",
        "workload",
        "scratch",
        "tier",
        "input_tier",
        "output_tier",
        "intermediates",
        "stage_in",
        "stage_out",
    )
)
"Factors whose levels are names: another scale has other numbers in the place of numbers alone."


def left_out_of(
    every: Sequence[Mapping[str, Any]], merged: Mapping[str, Any]
) -> Iterator[tuple[str, Sequence[Level]]]:
    """What a scale does not have of the factors that its file varies, at whatever scale."""
    now = _levels(merged)
    for name, levels in _varied(every).items():
        kept = now.get(name, [])
        if len(kept) < 2:
            yield name, []
        elif name in NAMED and (missing := [level for level in levels if level not in kept]):
            yield name, missing


def _varied(documents: Sequence[Mapping[str, Any]]) -> dict[str, list[Level]]:
    """All levels of every factor that one of these documents varies."""
    found: dict[str, list[Level]] = {}
    for document in documents:
        for name, levels in _levels(document).items():
            if len(levels) > 1:
                own = found.setdefault(name, [])
                own += [level for level in levels if level not in own]
    return found


def _levels(document: Mapping[str, Any]) -> dict[str, list[Level]]:
    """All levels of every factor of a document, that of the baseline first."""
    found = {name: [level] for name, level in table_of(document, "baseline").items()}
    for table in VARYING:
        for name, some in table_of(document, table).items():
            own = found.setdefault(name, [])
            if isinstance(some, list):
                own += [level for level in some if level not in own]
    for name, some in levels_at(document).items():
        own = found.setdefault(name, [])
        own += [level for level in some if level not in own]
    return found


def levels_at(document: Mapping[str, Any]) -> dict[str, list[Level]]:
    """Levels of every factor that is varied at chosen levels of others, of those that are lists."""
    tables = table_of(document, AT)
    asked = {name: one.get("levels") for name, one in tables.items() if isinstance(one, dict)}
    return {name: levels for name, levels in asked.items() if isinstance(levels, list)}


def table_of(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of a document, in which a scale may have put right what is wrong outside of it."""
    table = document.get(name, {})
    if isinstance(table, dict):
        return table
    return {}
