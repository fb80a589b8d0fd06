"""Runner: the trials of an experiment one after the other, each recorded before the next begins.

What is to be done next follows from the record alone, so an experiment that was interrupted goes on
where it was: nothing that is recorded is run again, but for starved trials, up to the limit.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from hyperslab.apps.experiment.design.cells import (
    Cell,
    Trial,
    cells_of,
    require_countable,
    trials_of,
)
from hyperslab.apps.experiment.design.links import Means
from hyperslab.apps.experiment.design.setting import BIDS, Setting, processors_of
from hyperslab.apps.experiment.design.spec import Loaded, Starved
from hyperslab.apps.experiment.model import places
from hyperslab.apps.experiment.trials import record as records
from hyperslab.apps.experiment.trials.before import prepare, storage_of
from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.estimate import Estimator, require_space
from hyperslab.apps.experiment.trials.inputs import Inputs
from hyperslab.apps.experiment.trials.laboratory import (
    Around,
    around,
    clear,
    means_for,
    numbers_of,
    prefix_of,
    record_of,
    told_of_links,
    untelling,
)
from hyperslab.apps.experiment.trials.load import load_between, takers
from hyperslab.apps.experiment.trials.mounting import clear_left, mounted, require_emulation
from hyperslab.apps.experiment.trials.process import (
    Command,
    Ended,
    keep_records,
    records_of,
    run_trial,
)
from hyperslab.apps.experiment.trials.record import Attempt, Record, Session
from hyperslab.apps.experiment.trials.versions import engine_versions
from hyperslab.apps.experiment.trials.warming import warm_ups
from hyperslab.driver.options import Options
from hyperslab.engines.environment import THREAD_VARIABLES
from hyperslab.errors import UsageError
from hyperslab.machine import pressure
from hyperslab.machine.host import Host, boot_id, describe
from hyperslab.network.lab.namespaces import LabFailed
from hyperslab.storage.renaming import synchronise
from hyperslab.units import show_list

BOTH = "both"
"Level of `hyperslab bids` that is participants, and then their group."
LOOK_S = 0.2
"Least time over which the load before a trial is looked at."


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment in its directory."""

    loaded: Loaded
    directory: ExperimentDirectory
    trials: Sequence[Trial]
    inputs: Inputs
    estimator: Estimator

    @classmethod
    def of(cls, loaded: Loaded, root: Path) -> Experiment:
        """A spec in a directory, which need not exist yet. Raises UsageError for too many of
        its trials.
        """
        root = root.absolute()
        directory = ExperimentDirectory(root)
        loaded = directory.extended(loaded)
        require_countable(loaded)
        inputs = Inputs(loaded, root)
        trials = trials_of(loaded.spec)
        estimator = Estimator(loaded, inputs)
        return cls(loaded, directory, trials, inputs, estimator)

    @property
    def cells(self) -> list[Cell]:
        """All cells, the baseline first."""
        return cells_of(self.loaded.spec)

    def settings(self, cells: Sequence[Cell]) -> list[Setting]:
        """How trials of these cells are run."""
        return [self.loaded.setting(cell.levels) for cell in cells]

    def record(self) -> Record:
        """What was recorded so far. Raises OSError, and UsageError for trials of another spec."""
        record = records.load(self.directory.record)
        record.require_cells_of(self.trials, self.directory.root)
        return record

    def warm_ups(self, trials: Sequence[Trial], record: Record) -> list[Trial]:
        """What is run on this machine before these trials, and counts for nothing."""
        return warm_ups(trials, self.loaded.spec.warm_up, record, boot_id())


class Watcher(Protocol):
    """Who is told how far an experiment is."""

    def tell(self, text: str) -> None: ...
    def begin(self, trial: Trial, done: int, total: int, left_s: float) -> None: ...
    def ended(self, trial: Trial, attempt: Attempt, record: Record) -> None: ...
    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Wish:
    """Part of an experiment that is to be run now."""

    trials: Sequence[Trial]
    keep: bool = False
    "Whether outputs and synthetic sources stay."
    retry_failed: bool = False
    "Whether trials that have failed before are tried once more."
    going_on: str = "'hyperslab experiment resume' with the same arguments"
    "What goes on with it once it has been interrupted, in words."

    @property
    def cells(self) -> list[Cell]:
        """The cells of its trials."""
        return list({trial.cell.key: trial.cell for trial in self.trials}.values())


def begin(experiment: Experiment, wish: Wish, watcher: Watcher) -> Record:
    """Run an experiment that has not begun. Raises UsageError, OutputBusy, DoesNotFit, RunStopped,
    and KeyboardInterrupt on Ctrl-C.
    """
    require_emulation(experiment.inputs, experiment.settings(wish.cells))
    _means(experiment)
    with experiment.directory.owned():
        _require_space(experiment, wish, Record())
        experiment.directory.begin(experiment.loaded)
        return _carry_out(experiment, wish, watcher)


def resume(experiment: Experiment, wish: Wish, watcher: Watcher) -> Record:
    """Go on with an experiment. Raises as `begin`, and UsageError for a spec that has changed."""
    experiment.directory.require_unchanged(experiment.loaded)
    with experiment.directory.owned():
        experiment.directory.extend(experiment.loaded)
        return _carry_out(experiment, wish, watcher)


def _carry_out(experiment: Experiment, wish: Wish, watcher: Watcher) -> Record:
    clear_left(experiment.inputs, experiment.settings(experiment.cells))
    record = experiment.record()
    _require_space(experiment, wish, record)
    means = _means(experiment)
    links = told_of_links(means, [one.machine for one in record.sessions])
    found = machine() | links | _source(experiment, record)
    session = Session(record.next_session(), time.time(), found)
    records.append(experiment.directory.record, session)
    synchronise(experiment.directory.root, only_names=True)
    if next_trial(experiment, wish, record, session) is None:
        _tidy(experiment, wish, record, session)
        return record
    settings = experiment.settings(wish.cells)
    try:
        with mounted(experiment.inputs, settings, watcher.tell):
            _survey(experiment, wish, watcher)
            experiment.inputs.make(settings, watcher.tell)
            record = _run_trials(experiment, wish, session, means, watcher)
            _tidy(experiment, wish, record, session)
    except KeyboardInterrupt as reason:
        reason.add_note(f"{wish.going_on} goes on from here")
        raise
    finally:
        watcher.end()
    return record


def _means(experiment: Experiment) -> Means | None:
    """What makes the links of all trials. Raises UsageError where nothing here does."""
    return means_for(experiment.loaded.spec, experiment.settings(experiment.cells))


def _source(experiment: Experiment, record: Record) -> dict[str, Any]:
    """What a session says of the user's files. Raises UsageError for others than earlier sessions
    found.
    """
    setting = experiment.loaded.setting(experiment.loaded.spec.baseline)
    now = experiment.inputs.state(setting)
    if not now:
        return {}
    for earlier in record.sessions:
        before = earlier.machine.get("source", now)
        if before != now:
            raise UsageError(
                f"the source has changed since earlier trials: {now}, was {before}; begin anew in"
                " another directory with --out"
            )
    return {"source": now}


def _tidy(experiment: Experiment, wish: Wish, record: Record, session: Session) -> None:
    """Remove the synthetic sources once all trials are done, unless they are to stay."""
    is_complete = next_trial(experiment, Wish(experiment.trials), record, session) is None
    if is_complete and not wish.keep:
        experiment.inputs.remove(experiment.settings(experiment.cells))


def _survey(experiment: Experiment, wish: Wish, watcher: Watcher) -> None:
    """Look at where trials read and write, before they begin."""
    asked = experiment.inputs.places_asked(experiment.settings(wish.cells))
    record = experiment.directory.places
    places.survey(record, asked, experiment.loaded.spec.probe_s, watcher.tell)


def _require_space(experiment: Experiment, wish: Wish, record: Record) -> None:
    """Raise DoesNotFit where a disk is too small for what is left to do."""
    left = sum(not record.of(trial) for trial in wish.trials)
    require_space(experiment.estimator.space(wish.cells, left, record, wish.keep))


def _run_trials(
    experiment: Experiment, wish: Wish, session: Session, means: Means | None, watcher: Watcher
) -> Record:
    """Run what is to be done, and record each trial or warm-up as soon as it has ended."""
    if means is not None:
        clear(experiment.directory.root)
    record = experiment.record()
    while (trial := next_trial(experiment, wish, record, session)) is not None:
        others = [one for one in wish.trials if one != trial]
        untried = [one for one in others if not record.of(one)]
        left_s = experiment.estimator.left_s([trial, *untried], record)
        now = next(iter(experiment.warm_ups([trial], record)), trial)
        watcher.begin(now, len(others) - len(untried), len(wish.trials), left_s)
        keep = wish.keep and not now.is_warm_up
        attempt = _attempt(experiment, now, record.next_attempt(now), session, means, keep)
        records.append(experiment.directory.record, attempt)
        record = experiment.record()
        watcher.ended(now, attempt, record)
    return record


def next_trial(
    experiment: Experiment, wish: Wish, record: Record, session: Session
) -> Trial | None:
    """The next trial to be run: in each block those that were not tried, then those that are to be
    tried again; None when all is done.
    """
    starved = experiment.loaded.spec.starved
    for _, group in groupby(wish.trials, key=lambda trial: trial.replicate):
        block = list(group)
        due = [trial for trial in block if not record.of(trial)]
        due += [trial for trial in block if _is_due_again(wish, record.of(trial), starved, session)]
        if due:
            return due[0]
    return None


def _is_due_again(
    wish: Wish, attempts: Sequence[Attempt], starved: Starved, session: Session
) -> bool:
    if not attempts:
        return False
    if all(attempt.starved for attempt in attempts) and len(attempts) <= starved.repeats:
        return True
    last = attempts[-1]
    return wish.retry_failed and last.state != "done" and last.session != session.number


def _attempt(
    experiment: Experiment,
    trial: Trial,
    number: int,
    session: Session,
    means: Means | None,
    keep: bool,
) -> Attempt:
    """Run a trial once, and remove its outputs."""
    spec = experiment.loaded.spec
    setting = experiment.loaded.setting(trial.cell.levels)
    folder = experiment.directory.trial(trial.number, number)
    out = experiment.inputs.out(setting, folder)
    for left in (folder, out):  # of a runner that has died
        shutil.rmtree(left, ignore_errors=True)
    folder.mkdir(parents=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    lock = experiment.directory.hold_trial()
    name = f"{prefix_of(experiment.directory.root)}{trial.number}-{number}"
    try:
        with around(setting, means, name, spec.seed) as surroundings:
            course = _course(experiment, setting, folder, surroundings, lock)
    except LabFailed as error:
        course = _without_laboratory(error)
    finally:
        os.close(lock)
    experiment.inputs.clear(setting)
    ended = _tidied(course.ended, out, folder, keep)
    return Attempt(
        number=trial.number,
        replicate=trial.replicate,
        levels=trial.cell.levels,
        attempt=number,
        session=session.number,
        began_s=course.began_s,
        wall_s=ended.wall_s,
        state=ended.state,
        reason=ended.reason,
        numbers=ended.numbers,
        preparation=course.preparation,
        load_before=course.load_before,
        load_during=course.load_during,
        starved=course.starved,
        storage=course.storage,
        network=course.network,
        rejected=course.rejected,
    )


@dataclass(frozen=True, slots=True)
class Course:
    """How a trial went, and what was around it."""

    ended: Ended
    began_s: float
    "Wall clock when it began."
    starved: str
    preparation: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, float | None] = field(default_factory=dict)
    load_before: Mapping[str, Any] = field(default_factory=dict)
    load_during: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    rejected: str = ""


def _course(
    experiment: Experiment, setting: Setting, folder: Path, surroundings: Around, lock: int
) -> Course:
    """Run a trial, and look at the machine before, and meanwhile."""
    spec = experiment.loaded.spec
    out = experiment.inputs.out(setting, folder)
    first = pressure.sample()
    files = experiment.inputs.files(setting)
    preparation = prepare(spec.before, files, _cluster(setting), folder)
    storage = storage_of(files, out.parent)
    time.sleep(max(0.0, LOOK_S - (time.monotonic() - first["at_s"])))
    second = pressure.sample()
    began_s = time.time()
    command = command_of(experiment, setting, out, surroundings)
    try:
        log = folder / "output.log"
        ended = run_trial(command, out, log, spec.trial_limit_s, lock, surroundings.spoiled)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise
    during = load_between(second, pressure.sample(unwaited_s=ended.unwaited_s))
    usage = surroundings.usage(records_of(out))
    starved = list(takers(during, spec.starved))
    if spoiled := surroundings.spoiled():
        ended = replace(ended, state="failed", reason=spoiled, numbers={})
        starved = [spoiled]
    rejected = ""
    network: dict[str, Any] = {}
    if surroundings.lab is not None:
        network = record_of(surroundings.lab, usage)
    if surroundings.lab is not None and usage is not None:
        ended = replace(ended, numbers={**ended.numbers, **numbers_of(surroundings.lab, usage)})
        starved += filter(None, [usage.starved])
        rejected = untelling(usage)
    return Course(
        ended=ended,
        began_s=began_s,
        starved=show_list(starved),
        preparation=preparation,
        storage=storage,
        load_before=load_between(first, second),
        load_during=during,
        network=network,
        rejected=rejected,
    )


def _without_laboratory(error: LabFailed) -> Course:
    """The course of a trial whose links were not what was asked for, which is tried again as one
    that was starved.
    """
    now = pressure.sample()
    load = load_between(now, now)
    ended = Ended("failed", str(error), 0.0, {})
    return Course(ended, time.time(), str(error), load_before=load, load_during=load)


def command_of(
    experiment: Experiment, setting: Setting, out: Path, surroundings: Around
) -> Command:
    """What a trial runs that writes to a directory."""
    asked = setting
    if setting.links is not None:  # whose nodes are the workers, with so many threads
        asked = setting.without_flag("--threads").without_flag("--workers")
    workload = experiment.loaded.workload(setting)
    sources = experiment.inputs.arguments(setting)
    leading = [workload, *sources, "--out", str(out)]
    if setting.verb == BIDS:
        leading = [*sources, str(out), BOTH, "--app", workload]
    flags = [*experiment.inputs.flags(asked), "--no-report", "--quiet"]
    return Command(
        [*leading, *flags, *surroundings.arguments],
        setting.program,
        setting.verb,
        processors_of(setting.processors),
        surroundings.prefix,
        {**surroundings.environment, **_variables(setting)},
    )


def _variables(setting: Setting) -> dict[str, str]:
    """Variables that keep what a task uses to so many processors, where the spec says how many."""
    if not setting.cpus_per_task:
        return {}
    return dict.fromkeys(THREAD_VARIABLES, str(setting.cpus_per_task))


def _cluster(setting: Setting) -> Options:
    """The options of a trial that say on which hosts its tasks run."""
    if setting.program:
        return Options()
    engine = setting.value_of("--engine") or Options().engine
    workers = int(setting.value_of("--workers") or 0)
    return Options(engine, workers or None, connect=setting.value_of("--connect"))


def _tidied(ended: Ended, out: Path, folder: Path, keep: bool) -> Ended:
    """Keep the records of a trial's run, and remove its outputs unless they are to stay. Raises
    RunStopped.
    """
    if keep:
        return ended
    try:
        keep_records(out, folder)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return ended


def machine() -> dict[str, Any]:
    """What a session finds, and what another one may find changed."""
    host = Host.here()
    total_nbytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        **describe(),
        "processors": host.cpus,
        "memory": total_nbytes,
        "boot": boot_id(),
        "hyperslab": version("hyperslab"),
        "numpy": version("numpy"),
        "kernel": platform.release(),
        **engine_versions(),
    }
