"""Slips: what a spec says that no trial could do, or that cannot be meant, told before any trial.

They are looked for where an experiment begins, and no more once it has: an experiment that was
begun by an earlier version is resumed and reported as it is.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hyperslab.apps.bids.boutiques import is_descriptor
from hyperslab.apps.bids.calling import is_function
from hyperslab.apps.bids.template import template_app
from hyperslab.apps.experiment.design.cells import cells_of
from hyperslab.apps.experiment.design.functions import missing_name
from hyperslab.apps.experiment.design.setting import BIDS, BRAIN, IDLE, Setting
from hyperslab.apps.experiment.design.spec import Loaded
from hyperslab.apps.experiment.trials.inputs import Inputs
from hyperslab.blocks.gathering import expand
from hyperslab.connectors import dask_arrays
from hyperslab.errors import HyperslabError, UsageError, suggest
from hyperslab.plan.mistakes import Field, Mistake
from hyperslab.storage.location import is_remote
from hyperslab.units import show_list
from hyperslab.workloads import BUILTINS, unknown_builtin

MOST_NAMED = 3
"Names of a folder that a sentence has."
_BITS = re.compile(r"\d\s*[KMGTP]i?b$")
"A size whose unit means bits to many."
_NO_CHOICE = ("spark-binary-files", "h5py")
"Programs that do the same whatever the workload is called."


def require_sound(loaded: Loaded, inputs: Inputs) -> None:
    """Raise UsageError with file, line and field of every slip."""
    slips = list(_slips(loaded, inputs))
    if slips:
        raise UsageError("\n".join(loaded.sentences(slips)))


def _slips(loaded: Loaded, inputs: Inputs) -> Iterator[Mistake]:
    yield from _of_values(loaded)
    yield from _of_levels(loaded)
    yield from _of_workloads(loaded)
    yield from _of_sources(loaded, inputs)


def _of_values(loaded: Loaded) -> Iterator[Mistake]:
    """Numbers and sizes that are read, and mean something else than is written."""
    spec = loaded.spec
    seeds = {("seed",): spec.seed, ("source", "seed"): spec.source.seed}
    for field, seed in seeds.items():
        if seed < 0:
            yield Mistake(field, f"should be 0 or more, not {seed}")
    for place, size in _sizes(loaded):
        if _BITS.search(size):
            yield Mistake(place, f"'{size}' may be bits: write {size[:-1]}B")


def _sizes(loaded: Loaded) -> Iterator[tuple[Field, str]]:
    """Sizes of the source, where they stand."""
    spec = loaded.spec
    yield ("source", "size"), spec.source.size
    if "size" in spec.baseline:
        yield ("baseline", "size"), spec.baseline["size"]
    for place, name, levels in spec.varied:
        if name == "size":
            yield from ((place, size) for size in levels)


def _of_levels(loaded: Loaded) -> Iterator[Mistake]:
    """Levels that say nothing: none, one that was named before, no other than the baseline's."""
    spec = loaded.spec
    for table, name in loaded.without_levels():
        yield Mistake((table, name), "has no levels: name some, or leave it out")
    for place, name, levels in spec.varied:
        yield from _of_factor(place, levels, spec.baseline[name])
    if len(cells_of(spec)) == 1:
        yield Mistake(
            ("baseline",),
            "nothing is varied: name further levels in [vary] or [grid]; a single setting is"
            " measured by 'hyperslab run'",
        )


def _of_factor(field: Field, levels: list[Any], baseline: Any) -> Iterator[Mistake]:
    for place, level in enumerate(levels):
        if level == baseline:
            yield Mistake(field, f"{level!r} is the level of [baseline] already: leave it out")
        elif level in levels[:place]:
            yield Mistake(field, f"{level!r} is named twice")


def _of_workloads(loaded: Loaded) -> Iterator[Mistake]:
    """Functions, apps and computations that are not there, each once for every kind of trial."""
    told: set[tuple[str, str]] = set()
    for cell in cells_of(loaded.spec):
        setting = loaded.setting(cell.levels)
        named = setting.workload or loaded.spec.workload
        kind = setting.program or setting.verb
        if (kind, named) in told:
            continue
        told.add((kind, named))
        if problem := _problem_of(named, setting, loaded):
            yield Mistake(loaded.place_of(named), problem)


def _problem_of(named: str, setting: Setting, loaded: Loaded) -> str:
    """Why trials cannot run a workload, as a clause; '' where they can, as far as is known."""
    if setting.program in _NO_CHOICE:
        return ""
    try:
        _checking(setting)(named, loaded)
    except HyperslabError as error:
        return str(error)
    return ""


def _checking(setting: Setting) -> Callable[[str, Loaded], None]:
    """What looks whether a workload is there."""
    if setting.program:
        return _PROGRAMS[setting.program]
    if setting.verb == BIDS:
        return _require_app
    return _require_function


def _require_function(named: str, loaded: Loaded) -> None:
    if ":" not in named:
        if named not in BUILTINS:
            raise unknown_builtin(named)
        return
    if problem := missing_name(loaded.located(named), loaded.folder):
        raise UsageError(f"FUNCTION '{named}': {problem}")


def _require_app(named: str, loaded: Loaded) -> None:
    if named == BRAIN or is_descriptor(named):
        return
    if is_function(named):
        _require_function(named, loaded)
        return
    template_app(named)


def _require_computation(named: str, _: Loaded) -> None:
    if named != IDLE:
        dask_arrays.require_known(named)


def _require_reader(named: str, _: Loaded) -> None:
    from hyperslab.apps.experiment.programs.reads import require_reader

    require_reader(named)


def _require_pairs(named: str, _: Loaded) -> None:
    from hyperslab.connectors.spark import key_values

    key_values.size_of(named, 1)


def _require_learning(named: str, _: Loaded) -> None:
    from hyperslab.connectors.spark import learning

    learning.problem_of(named, 1)


_PROGRAMS = {
    "dask-arrays": _require_computation,
    "file-reads": _require_reader,
    "spark-pairs": _require_pairs,
    "spark-mllib": _require_learning,
}
"What looks for the workloads of programs that have some."


def _of_sources(loaded: Loaded, inputs: Inputs) -> Iterator[Mistake]:
    """Paths at which nothing is."""
    if loaded.spec.source.synth is not None:
        return
    setting = loaded.setting(loaded.spec.baseline)
    for argument in inputs.arguments(setting):
        try:
            expand(argument)
        except HyperslabError as error:
            yield Mistake(("source", "path"), f"{error}{_beside(argument)}")


def _beside(argument: str) -> str:
    """What is where a pattern finds nothing, for a message."""
    path = Path(argument.partition("::")[0])
    if is_remote(argument) or not glob.has_magic(str(path)):
        return ""
    folder = path.parent
    if glob.has_magic(str(folder)):
        return ""
    if not folder.is_dir():
        return f"; there is no folder {folder}{suggest(folder.name, _names(folder.parent))}"
    names = _names(folder)
    if not names:
        return f"; {folder} is empty"
    rest = []
    if len(names) > MOST_NAMED:
        rest = [f"{len(names) - MOST_NAMED:,} more"]
    return f"; {folder} has {show_list([*names[:MOST_NAMED], *rest])}"


def _names(folder: Path) -> list[str]:
    """Names in a folder that may be read, as they are sorted."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
