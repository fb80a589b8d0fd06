"""Design: the cells of an experiment, and its trials in the order in which they are run."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyperslab.apps.experiment.design.factors import Level, workers_on
from hyperslab.apps.experiment.design.named import is_emulated
from hyperslab.apps.experiment.design.spec import Loaded, Spec
from hyperslab.errors import UsageError, suggest
from hyperslab.machine.host import Host
from hyperslab.plan.mistakes import Mistake
from hyperslab.units import show_count, show_list

Key = tuple[tuple[str, Level], ...]
"""The levels of a cell, by which it is told from others, by the names of factors: in which order a
spec names these does not count.
"""
WARM_UP = 0
"Number of all warm-ups, which are no trials, and of their replicate."
MOST_TRIALS = 100_000
"Trials that an experiment may have: so many are listed within seconds, and nobody runs more."


def key_of(levels: Mapping[str, Level]) -> Key:
    """The key of a cell of these levels."""
    return tuple(sorted(levels.items(), key=lambda one: one[0]))


@dataclass(frozen=True, slots=True)
class Cell:
    """A level for every factor."""

    levels: Mapping[str, Level]
    changed: tuple[str, ...]
    "Factors that are not at the baseline's level."
    emulated: tuple[str, ...] = ()
    "Factors whose level is an emulated tier."
    workers: tuple[int, ...] = ()
    """Numbers that a share of the processors, such as 0.25x, comes to on machines of its trials;
    none where workers are no share.
    """

    @property
    def key(self) -> Key:
        return key_of(self.levels)

    @property
    def name(self) -> str:
        """What differs from the baseline, in words."""
        words = ", ".join(f"{name} {self.shown(name)}" for name in self.changed) or "baseline"
        unsaid = [f"{name} emulated" for name in self.emulated if name not in self.changed]
        if unsaid:
            return f"{words} ({', '.join(unsaid)})"
        return words

    def shown(self, factor: str) -> str:
        """Level of a factor, in words that say whether it is an emulated tier, and what a share of
        the processors comes to.
        """
        level = str(self.levels[factor])
        if factor == "workers" and self.workers:
            return f"{level} ({_show_workers(self.workers)})"
        if factor in self.emulated:
            return f"{level} (emulated)"
        return level


def _show_workers(numbers: Sequence[int]) -> str:
    *fewer, most = sorted(numbers)
    return " or ".join([*map(str, fewer), show_count(most, "worker")])


def on_machines(cell: Cell, processors: Collection[int]) -> Cell:
    """A cell whose trials run on machines of so many processors."""
    level = cell.levels.get("workers")
    if not isinstance(level, str):
        return cell
    found = {workers_on(number, level) for number in processors}
    return replace(cell, workers=tuple(sorted(found)))


@dataclass(frozen=True, slots=True)
class Trial:
    """One cell, once."""

    number: int
    "Place in the order of all trials, from 1 on."
    replicate: int
    "Block of trials that it belongs to, from 1 on."
    cell: Cell

    @property
    def is_warm_up(self) -> bool:
        """Whether it is run before a trial, and counts for nothing."""
        return self.number == WARM_UP


def cells_of(spec: Spec) -> list[Cell]:
    """All cells, the baseline first: at each point of the grid the baseline, and every level of
    every varied factor alone; then factors that are varied at chosen levels of others; as they are
    on this machine.
    """
    found: dict[Key, Cell] = {}
    here = [Host.here().cpus]
    for levels in _levels(spec):
        changed = [name for name, level in levels.items() if level != spec.baseline[name]]
        emulated = [name for name, level in levels.items() if is_emulated(spec.tiers, level)]
        cell = on_machines(Cell(levels, tuple(changed), tuple(emulated)), here)
        found.setdefault(cell.key, cell)
    return list(found.values())


def _levels(spec: Spec) -> Iterator[dict[str, Any]]:
    crossed = [[spec.baseline[name], *some] for name, some in spec.grid.items()]
    for point in itertools.product(*crossed):
        here = spec.baseline | dict(zip(spec.grid, point, strict=True))
        yield here
        for name, some in spec.vary.items():
            for level in some:
                yield here | {name: level}
    for name, one in spec.vary_at.items():
        for point in itertools.product(*one.at.values()):
            here = spec.baseline | dict(zip(one.at, point, strict=True))
            yield here
            yield from (here | {name: level} for level in one.levels)


def require_countable(loaded: Loaded) -> None:
    """Raise UsageError for more trials than an experiment may have, which are counted without being
    made.
    """
    spec = loaded.spec
    points = math.prod(1 + len(levels) for levels in spec.grid.values())
    cells = points * (1 + sum(len(levels) for levels in spec.vary.values()))
    for one in spec.vary_at.values():
        cells += math.prod(map(len, one.at.values())) * (1 + len(one.levels))
    trials = cells * spec.replicates
    if trials <= MOST_TRIALS:
        return
    told = (
        f"{cells:,} cells x {spec.replicates:,} replicates are {trials:,} trials, and an experiment"
        f" has {MOST_TRIALS:,} at most: ask for fewer"
    )
    if loaded.own_replicates is not None:
        raise UsageError(f"--replicates {spec.replicates}: {told}")
    place = "grid" if cells > MOST_TRIALS else "replicates"
    raise UsageError("\n".join(loaded.sentences([Mistake((place,), told)])))


def trials_of(spec: Spec) -> list[Trial]:
    """All trials in their order: a block for each replicate that holds every cell once, shuffled by
    the seed.
    """
    cells = cells_of(spec)
    order = []
    for replicate in range(1, spec.replicates + 1):
        block = list(cells)
        random.Random(f"{spec.seed} {replicate}").shuffle(block)
        order += [(replicate, cell) for cell in block]
    return [Trial(number, *one) for number, one in enumerate(order, 1)]


def chosen(trials: Sequence[Trial], only: Sequence[str]) -> list[Trial]:
    """The trials at certain levels, from texts such as 'engine=spark,processes'. Raises
    UsageError.
    """
    wanted = dict(_parse(text, trials) for text in only)
    return [trial for trial in trials if _is_wanted(trial.cell, wanted)]


def _parse(text: str, trials: Sequence[Trial]) -> tuple[str, Collection[str]]:
    name, equals, words = text.partition("=")
    factors = trials[0].cell.levels
    if not equals or not words:
        raise UsageError(f"--only {text}: give FACTOR=LEVEL[,LEVEL...], such as engine=processes")
    if name not in factors:
        raise UsageError(
            f"--only {text}: the spec has no factor '{name}'{suggest(name, factors)}; it has"
            f" {show_list(list(factors))}"
        )
    known = list(dict.fromkeys(str(trial.cell.levels[name]) for trial in trials))
    for word in words.split(","):
        if word not in known:
            raise UsageError(
                f"--only {text}: {name} has no level '{word}'; it has {show_list(known)}"
            )
    return name, words.split(",")


def _is_wanted(cell: Cell, wanted: Mapping[str, Collection[str]]) -> bool:
    return all(str(cell.levels[name]) in words for name, words in wanted.items())
