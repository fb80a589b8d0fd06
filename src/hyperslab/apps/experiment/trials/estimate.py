"""Estimates: how long an experiment takes, and the space that it needs.

Before there are trials, time is guessed from what can be known: how long an engine takes to start,
bytes at a modest rate or that of an emulated tier, and the delays that were asked for. Once
there are, a cell takes as long as it took, and for cells without trials the guess is corrected by
how far off it was for the others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from hyperslab.apps.experiment.design.cells import Cell, Trial
from hyperslab.apps.experiment.design.factors import Level
from hyperslab.apps.experiment.design.setting import BIDS, IN_SPARK, Setting
from hyperslab.apps.experiment.design.spec import Loaded
from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.inputs import Inputs
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.engines.facts import DEFAULT, facts_of
from hyperslab.errors import DoesNotFit
from hyperslab.machine.host import Host
from hyperslab.plan.written import parse_size
from hyperslab.units import show_bytes

START_S = 2.0
"Guess of the time that interpreter, engine and records take, of programs that say no other."
PROGRAMS_START_S = {
    "spark-binary-files": 13.0,
    "dask-arrays": 4.0,
    **dict.fromkeys(IN_SPARK, 4.0),  # beside SPARK_S
}
"The same of programs that run instead of engines, which say their own in their facts."
NBYTES_PER_S = 2e8
"Guess of the rate at which a trial reads and writes."
LABORATORY_S = 4.0
"Guess of the time that a laboratory takes to be made and removed, with a cluster on it."
NODE_S = 3.0
"Guess of the time that each node of it takes, whose links are measured."
SPARK_S = 10.0
"Guess of the time that each Spark takes which computes in rounds, to start and to warm up."
IN_PYTHON = "histogram-python"
"Workload that takes a processor for long."
PYTHON_NBYTES_PER_S = 1.5e7
"Bytes that a loop of pure Python counts on a processor in a second."
PARTICIPANT_S = 1.2
"Guess of the time that an app takes for a participant with its sessions."
PAUSE_S = 0.5
"Time between two trials: looking at the load, removing outputs."
RECORDS_NBYTES = 2**19
"Guess of what stays of a trial: its trace, above all."


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes that are needed on a file system, and those that are free."""

    path: Path
    "A folder on it."
    needed_nbytes: int
    free_nbytes: int


@dataclass(frozen=True, slots=True)
class Estimator:
    """What is to be expected of trials."""

    loaded: Loaded
    inputs: Inputs

    def seconds(self, cell: Cell, record: Record) -> float:
        """How long a trial of a cell takes."""
        spec = self.loaded.spec
        around_s = PAUSE_S + spec.before.settle_s + _laboratory_s(self.loaded.setting(cell.levels))
        own = [attempt.wall_s for attempt in record.of_cell(cell)]
        if own:
            return fmean(own) + around_s
        ended = [attempt for attempt in record.counted() if attempt.state == "done"]
        ratios = [attempt.wall_s / self._guess_s(attempt.levels) for attempt in ended]
        guess_s = self._guess_s(cell.levels)
        if ratios:
            guess_s *= median(ratios)
        return min(guess_s, spec.trial_limit_s) + around_s

    def probing_s(self, settings: Iterable[Setting]) -> float:
        """How long places are probed before the first trial: each medium once, unless it is known
        from an earlier session.
        """
        if ExperimentDirectory(self.inputs.root).places.is_file():
            return 0.0
        asked = self.inputs.places_asked(settings)
        media = {self._medium(path) for path, is_ours in asked.items() if is_ours}
        return self.loaded.spec.probe_s * len(media)

    def _medium(self, path: str) -> str | int:
        """What tells the medium of a place from others: an emulated tier is one of its own."""
        folder = Path(path)
        if self.inputs.lies_in(folder) != folder:
            return path
        return _nearest(folder).stat().st_dev

    def left_s(self, trials: Iterable[Trial], record: Record) -> float:
        """How long trials take together, without repeats."""
        by_cell: dict[str, float] = {}
        total_s = 0.0
        for trial in trials:
            name = trial.cell.name
            if name not in by_cell:
                by_cell[name] = self.seconds(trial.cell, record)
            total_s += by_cell[name]
        return total_s

    def _guess_s(self, levels: Mapping[str, Level]) -> float:
        setting = self.loaded.setting(levels)
        nbytes = self.inputs.nbytes(setting)
        tasks = 1.0
        if setting.recipe is not None:
            tasks = setting.recipe.files
        tasks *= _number(levels, "blocks", 1.0)
        slots = _number(levels, "workers", Host.here().cpus) * _number(levels, "threads", 1.0)
        iterations = _number(levels, "iterations", 1.0)
        task_s = _number(levels, "delay", 0.0) * iterations
        if setting.verb == BIDS:
            task_s += PARTICIPANT_S
        if (setting.workload or self.loaded.spec.workload) == IN_PYTHON:
            workers = slots if _has_processes(setting) else _number(levels, "workers", 1.0)
            task_s += nbytes / tasks / PYTHON_NBYTES_PER_S * min(slots, tasks) / workers
        moved_s = nbytes * self._way_s(setting.input_tier, setting.output_tier)
        for folder in setting.folders:
            if folder.is_ours:  # of intermediates, which go there and come back
                moved_s += (iterations - 1) * nbytes * self._way_s(folder.level, folder.level)
        start_s = _start_s(setting)
        if setting.program in IN_SPARK:
            start_s += SPARK_S * _number(levels, "clients", 1.0)
        return start_s + moved_s + task_s * tasks / min(slots, tasks)

    def _way_s(self, source: Path | None, target: Path | None) -> float:
        """Seconds that a byte takes from one place to another."""
        read = self._rate(source, "bandwidth")
        written = self._rate(target, "write_bandwidth", "bandwidth")
        return 1 / read + 1 / written

    def _rate(self, place: Path | None, *names: str) -> float:
        """Bytes per second of a place: a modest rate, or that of an emulated tier, which is told
        by the first of these fields that it has.
        """
        named = self.loaded.spec.tiers.get(str(place))
        if named is None or named.emulate is None:
            return NBYTES_PER_S
        told = [text for name in names if (text := getattr(named, name))]
        if not told:
            return NBYTES_PER_S
        rate = parse_size(names[0], told[0]) * (named.stripe_count or 1)
        return min(NBYTES_PER_S, rate)

    def space(self, cells: Sequence[Cell], trials: int, record: Record, keep: bool) -> list[Space]:
        """What file systems need for so many trials of these cells: missing inputs, the outputs of
        one trial (of all with `keep`), which are taken to be as large as its source until trials
        have said more, and records.
        """
        settings = [self.loaded.setting(cell.levels) for cell in cells]
        needs: list[tuple[Path, int]] = [(self.inputs.root, trials * RECORDS_NBYTES)]
        missing = self.inputs.missing(settings)
        needs += [(folder, recipe.nbytes) for folder, recipe in missing.items()]
        most = 1
        if keep:
            most = trials
        by_folder: dict[Path, int] = {}
        for cell, setting in zip(cells, settings, strict=True):
            folder = self.inputs.out(setting, self.inputs.root)
            written = self._written(cell, record)
            by_folder[folder] = max(by_folder.get(folder, 0), written)
        needs += [(folder, most * nbytes) for folder, nbytes in by_folder.items()]
        return _by_file_system([(self.inputs.lies_in(folder), n) for folder, n in needs])

    def _written(self, cell: Cell, record: Record) -> int:
        told = [attempt.numbers.get("written_nbytes") for attempt in record.of_cell(cell)]
        known = [nbytes for nbytes in told if nbytes is not None]
        if known:
            return int(max(known))
        return self.inputs.nbytes(self.loaded.setting(cell.levels))


def _start_s(setting: Setting) -> float:
    """Guess of the time that a trial takes before and after its tasks."""
    if setting.program:
        return PROGRAMS_START_S.get(setting.program, START_S)
    return facts_of(setting.value_of("--engine") or DEFAULT).start_s


def _has_processes(setting: Setting) -> bool:
    """Whether each slot of an engine is a process, whose loops no lock holds up."""
    return facts_of(setting.value_of("--engine") or DEFAULT).process_per_slot


def _laboratory_s(setting: Setting) -> float:
    """How long a trial's laboratory takes to be made and removed."""
    if setting.links is None:
        return 0.0
    return LABORATORY_S + NODE_S * len(setting.links.nodes())


def require_space(spaces: Iterable[Space]) -> None:
    """Raise DoesNotFit for a file system that is too small."""
    for space in spaces:
        if space.needed_nbytes > space.free_nbytes:
            raise DoesNotFit(
                f"the experiment needs {show_bytes(space.needed_nbytes)} at {space.path}, where"
                f" {show_bytes(space.free_nbytes)} are free: make room, or choose another --scale"
                " or directory"
            )


def _number(levels: Mapping[str, Level], name: str, default: float) -> float:
    """The level of a factor that is a number."""
    level = levels.get(name, default)
    if isinstance(level, int | float):
        return float(level)
    return default


def _by_file_system(needs: Iterable[tuple[Path, int]]) -> list[Space]:
    """What each file system needs."""
    found: dict[int, Space] = {}
    for folder, nbytes in needs:
        place = _nearest(folder)
        device = place.stat().st_dev
        before = 0
        if device in found:
            place = found[device].path
            before = found[device].needed_nbytes
        about = os.statvfs(place)
        found[device] = Space(place, before + nbytes, about.f_bavail * about.f_frsize)
    return list(found.values())


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above that is there."""
    folder = folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder
