"""Grown: what functions make of arrays that is longer, shorter or of another dtype than it was when
a run began, whose files cannot hold it.

Held by tests/driver/test_grown.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import OutputBusy


def require_as_before(
    directory: RunDirectory, kept: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Raise OutputBusy where functions of the same names make other arrays of the same files than a
    submission did, by its record; those of earlier versions do not say.
    """
    if _functions(kept) != _functions(now):
        return
    here = {whole["name"]: whole for whole in now["wholes"]}
    for before in kept["wholes"]:
        own = here.get(before["name"])
        if own is None or any(own[key] != before[key] for key in ("cut", "states")):
            continue
        if before.get("made", own["made"]) == own["made"]:
            continue
        names = " and ".join(_functions(now))
        raise OutputBusy(
            f"--resume: {names} made {_told(before)} of {own['name']} when {directory.place} was"
            f" begun, and makes {_told(own)} now: choose another output, or remove it with"
            f" 'hyperslab clean --all {directory.place}'"
        )


def _functions(record: Mapping[str, Any]) -> list[str]:
    """Names of functions, wherever their files lie."""
    return [step["function"].rpartition(":")[2] for step in record["summary"].get("steps", ())]


def _told(whole: Mapping[str, Any]) -> str:
    return ", ".join(whole["made"])
