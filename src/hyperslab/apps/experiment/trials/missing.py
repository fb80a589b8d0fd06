"""Missing engines: those that trials need and that cannot run here, told before any trial, as each
engine says it itself: a library that is not installed, or Java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from hyperslab import engines
from hyperslab.apps.experiment.design.cells import Cell
from hyperslab.apps.experiment.design.factors import ENGINE, Level
from hyperslab.apps.experiment.design.setting import IN_SPARK, READ_BEFORE, Setting
from hyperslab.apps.experiment.design.spec import Loaded
from hyperslab.engines import EngineOptions
from hyperslab.engines.facts import DEFAULT
from hyperslab.errors import UsageError
from hyperslab.plan.mistakes import Field, Mistake

PROGRAMS_NEED = {**dict.fromkeys((*IN_SPARK, *READ_BEFORE), "spark"), "dask-arrays": "dask-futures"}
"Engines that run the programs which run instead of hyperslab; others need none."


def require_engines(loaded: Loaded, cells: Iterable[Cell]) -> None:
    """Raise UsageError with file, line and field for every engine of these cells that cannot run
    here, and with those that can.
    """
    whys = {level: _why_not(setting) for level, setting in _by_engine(loaded, cells).items()}
    missing = {level: why for level, why in whys.items() if why}
    if not missing:
        return
    others = [str(level) for level in whys if level not in missing]
    rest = ""
    if others:
        rest = f"; the others run with --only {ENGINE}={','.join(others)}"
    slips = [Mistake(_place_of(loaded, level), f"{why}{rest}") for level, why in missing.items()]
    raise UsageError("\n".join(loaded.sentences(slips)))


def _by_engine(loaded: Loaded, cells: Iterable[Cell]) -> Mapping[Level, Setting]:
    """The first setting at each level of the engine; at '' where it is no factor."""
    found: dict[Level, Setting] = {}
    for cell in cells:
        level = cell.levels.get(ENGINE, "")
        if level not in found:
            found[level] = loaded.setting(cell.levels)
    return found


def _why_not(setting: Setting) -> str:
    """Why trials cannot run here, in words of their engine; '' where it finds all that it needs."""
    engine = setting.value_of("--engine") or DEFAULT
    if setting.program:
        engine = PROGRAMS_NEED.get(setting.program, "")
    if not engine:
        return ""
    try:
        engines.require(engine, EngineOptions(Path(), 1, connect=setting.value_of("--connect")))
    except UsageError as error:
        return str(error)
    return ""


def _place_of(loaded: Loaded, level: Level) -> Field:
    """The field of a spec that names an engine."""
    for place, name, levels in loaded.spec.varied:
        if name == ENGINE and level in levels:
            return place
    if ENGINE in loaded.spec.baseline:
        return ("baseline", ENGINE)
    return ("baseline",)
