"""An app run over the participants of a BIDS dataset, as tasks of a run on any engine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hyperslab.apps.bids import withdrawn
from hyperslab.apps.bids.app import App, task_of
from hyperslab.apps.bids.dataset import SUBJECT, Dataset, find_datasets
from hyperslab.apps.bids.described import describe, say
from hyperslab.apps.bids.description import derivative, read_description
from hyperslab.apps.bids.earlier import (
    Others,
    Recorded,
    done_in,
    earlier_units,
    forget_gathered_outside,
    gathered_outside,
    held_to_ways,
    mention_held,
    recorded,
    require_same_dataset,
    wanted,
)
from hyperslab.apps.bids.group import Group, gather_volumes
from hyperslab.apps.bids.idle import owned
from hyperslab.apps.bids.table import rows, site_of_participants
from hyperslab.apps.bids.unit import Per, Unit, absent_words, require_content, units
from hyperslab.apps.bids.unmatched import why_none
from hyperslab.apps.bids.wanted import (
    T1W,
    Kind,
    choose_participants,
    choose_sessions,
    read_filters,
)
from hyperslab.apps.commands.running import Later, commanded, own_options
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.driver import calls
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import prepare
from hyperslab.driver.result import Result, together
from hyperslab.driver.run import run
from hyperslab.errors import FormatError, OutputBusy, UsageError
from hyperslab.plan.command import CommandTask
from hyperslab.plan.pipeline import Pipeline
from hyperslab.report.progress import Progress, Quiet
from hyperslab.storage.location import local_folder


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for of a dataset: participants, and some of their images."""

    participant_labels: tuple[str, ...] = ()
    "Labels with or without sub-; () for all."
    session_labels: tuple[str, ...] = ()
    "Labels with or without ses-; () for all."
    filter_file: str = ""
    "JSON file that narrows down which images; '' takes all."
    per: Per = "participant"
    "Whether a task is a participant, with all its sessions, or a session."
    joins_sessions: bool = False
    "Whether a task is a participant even where some sessions are asked for by name."
    excluded_labels: tuple[str, ...] = ()
    "Labels of participants who are left out, with or without sub-."
    moved_from: str = ""
    "Folder in which the dataset was when its results were begun; '' where it is there still."


@dataclass(frozen=True, slots=True)
class Selection:
    """What was found of that."""

    root: str
    "Folder of the dataset, or of a collection of sites."
    asked: Asked
    datasets: tuple[Dataset, ...]
    units: tuple[Unit, ...]
    "Units with images that are wanted, and those of which a fault hides what they have."
    without_images: tuple[Unit, ...]
    "Units that have none of the images that are wanted."

    @property
    def origin(self) -> str:
        """The dataset, by which its results are known from those of another one."""
        if self.asked.moved_from:
            return os.path.abspath(self.asked.moved_from)
        return os.path.realpath(self.root)


def select(bids_dir: str | os.PathLike[str], asked: Asked) -> Selection:
    """Look for participants and images, and at what the dataset says of itself. Raises UsageError,
    and FormatError, also where there is a fault with everybody who is asked for.
    """
    datasets = find_datasets(bids_dir)
    for dataset in datasets:
        read_description(dataset.folder)
    participants = choose_participants(datasets, asked.participant_labels, asked.excluded_labels)
    sessions = choose_sessions(participants, asked.session_labels)
    found = list(units(sessions, _kind(asked), _per(asked)))
    if found and all(unit.fault for unit in found):
        raise FormatError(found[0].fault)
    return Selection(
        os.path.abspath(bids_dir),
        asked,
        tuple(datasets),
        tuple(unit for unit in found if unit.images or unit.fault),
        tuple(unit for unit in found if not unit.images and not unit.fault),
    )


def require_tables(selection: Selection) -> None:
    """Raise FormatError for tables of participants that the group level could not use."""
    for dataset in selection.datasets:
        rows(dataset.folder)


def run_participants(
    selection: Selection,
    out: str | os.PathLike[str],
    app: App,
    options: Options,
    progress: Progress | None = None,
    then: Sequence[CommandTask] = (),
    allow_missing: bool = False,
    tidy: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run an app over every unit, into a dataset of derivatives whose description is written when
    all have ended, before the group level begins; what has failed is in the result. `then` are the
    commands of the group level, which begin when all units are done, or with `allow_missing` when
    all have ended. `tidy` removes what a submission has left whose driver was killed, by its name,
    and with '' what all have left.

    Without a group level, other calls may run other units into the same directory meanwhile
    (`driver.calls`). Raises UsageError before anything starts, and what `run` raises.
    """
    asked_for = units_of(selection, app)
    absent = require_content(asked_for, app.needs_images)
    require_outside(selection, Path(out))
    require_not_within(out, options.keep_failed)
    work = _Work(selection, asked_for, app, Path(local_folder(out)))
    progress = progress or Quiet()
    if absent:
        progress.tell(absent_words(absent))
    if not then:
        return _run_beside(work, options, progress, tidy)
    with suppress(OutputBusy):  # which the run says itself
        _tidy_alone(RunDirectory(work.out.absolute()), tidy)
    result = _run_alone(work, options, progress, then, allow_missing)
    _describe(work, progress.tell)
    progress.end()
    return result


@dataclass(frozen=True, slots=True)
class _Work:
    """What a run is to do, and where."""

    selection: Selection
    units: Sequence[Unit]
    app: App
    out: Path

    @property
    def title(self) -> str:
        return f"{self.app.title} of {self.selection.root}"

    @property
    def template(self) -> str:
        return _template(self.selection.asked, self.app)

    def is_all(self, units: Sequence[Unit]) -> bool:
        """Whether these are all that there is to do for the dataset, none of whom is held back: who
        is done in the other way was not withdrawn.
        """
        asked = self.selection.asked
        labels = (asked.participant_labels, asked.session_labels, asked.excluded_labels)
        return not any(labels) and list(units) == list(self.units)

    def tasks(self, units: Sequence[Unit], is_kept: bool = False) -> list[CommandTask]:
        root = self.selection.root
        return [task_of(self.app, unit, root, is_kept) for unit in units]

    def pipeline(self, units: Sequence[Unit], options: Options) -> Pipeline:
        origin = self.selection.origin
        more = Later(is_all=self.is_all(units), origin=origin)
        return commanded(self.tasks(units), options, self.title, self.template, **more)


def _run_alone(
    work: _Work,
    options: Options,
    progress: Progress,
    then: Sequence[CommandTask],
    allow_missing: bool,
) -> Result:
    """Run both levels in a directory that nobody else uses meanwhile."""
    directory = RunDirectory(work.out.absolute())
    units: Sequence[Unit] = work.units
    others = Others([], [])
    if options.resume:
        units = _held(work.units, done_in(work.out), work.out, progress.tell)
        others = _others(work)
    tasks = [
        *work.tasks(units),
        *work.tasks(others.units, is_kept=True),
        *map(withdrawn.kept, others.withdrawn),
    ]
    pipeline = commanded(
        tasks,
        options,
        work.title,
        work.template,
        then=tuple(_later(then, directory, others)),
        despite_failures=allow_missing,
        levels=("participant", "group"),
        between=partial(_describe, work),
        is_all=work.is_all(units),
        origin=work.selection.origin,
    )
    own = own_options(options)
    ready = prepare(pipeline, own, directory.out, tell=progress.tell)
    if left := withdrawn.left(ready, others.withdrawn):
        progress.tell(withdrawn.told(left, work.out))
    ready = withdrawn.without(ready, others.withdrawn)
    result = run(pipeline, own, out=directory.out, progress=progress, prepared=ready, check=False)
    if is_gathered(result, then):
        forget_gathered_outside(directory)
    return result


def _others(work: _Work) -> Others:
    """What earlier runs have done beside what is asked for."""
    selection = work.selection
    kind = _kind(selection.asked)
    return earlier_units(selection.datasets, kind, work.units, work.out, work.app.needs_images)


def _later(
    then: Sequence[CommandTask], directory: RunDirectory, others: Others
) -> Iterator[CommandTask]:
    """The commands of the group level, which are other ones when somebody is withdrawn."""
    replaced = tuple(sorted(gathered_outside(directory)))
    for task in then:
        yield replace(task, replaces=replaced, made_of=" ".join(others.withdrawn))


def is_gathered(result: Result, then: Sequence[CommandTask]) -> bool:
    """Whether the group level of a run is done, though participants may have failed."""
    failed = {one.task for one in result.failures}
    is_complete = result.done + len(failed) == result.tasks
    return is_complete and not failed.issuperset({one.label for one in then})


def _tidy_alone(directory: RunDirectory, tidy: Callable[[str], None]) -> None:
    """Remove what runs have left that were killed, while no other can begin. Raises OutputBusy."""
    if not directory.root.is_dir():  # and so nobody works there
        tidy("")
        return
    with owned(directory):
        tidy("")


def _run_beside(
    work: _Work, options: Options, progress: Progress, tidy: Callable[[str], None]
) -> Result:
    """Run units in a directory that others may use, too: first those that no other call works on,
    then what these have left.
    """
    all_of_it = work.pipeline(work.units, options)
    prepare(all_of_it, own_options(options))  # or it leaves nothing behind
    made_of = f"{work.template} of {work.selection.origin}"
    purpose = calls.Purpose(wanted(work.units), made_of, options.resume, options.verb, tidy)
    results = []
    with calls.begun(RunDirectory(work.out), purpose, progress.tell) as hands:
        for hand in hands:
            names = hand.names
            of_hand = [unit for unit in work.units if unit.label in names]
            held = _held(of_hand, hand.done, work.out, progress.tell)
            pipeline = all_of_it
            if hand.has_waited or held != list(work.units):  # inputs may have changed
                pipeline = work.pipeline(held, options)
            results.append(_run_in_hand(work, pipeline, hand, options, progress))
            _describe(work, progress.tell)
            progress.end()
            if results[-1].ended_early:
                break
    return together(results)


def _held(units: Sequence[Unit], done: Collection[str], out: Path, tell: Tell) -> Sequence[Unit]:
    """The units, those that are done in the other way with a fault, which is told. Raises
    UsageError.
    """
    held = held_to_ways(units, done, out)
    mention_held(units, held, tell)
    return held


def _run_in_hand(
    work: _Work, pipeline: Pipeline, hand: calls.Hand, options: Options, progress: Progress
) -> Result:
    """Run what is in the hands of this call."""
    of_run = own_options(options)
    ready = prepare(pipeline, of_run, tell=progress.tell, call=hand.directory)
    return run(pipeline, of_run, out=work.out, progress=progress, prepared=ready, check=False)


def gathered(
    selection: Selection,
    out: str | os.PathLike[str],
    allow_missing: bool = False,
    found: Recorded | None = None,
) -> Group:
    """Put together what the brain app has found in every participant; `found` is what runs have
    recorded, where that was read already. Raises UsageError where some are missing, unless these
    may be.
    """
    sites: dict[str, str] = {}
    for dataset in selection.datasets:
        by_label = site_of_participants(dataset)
        sites |= {one.folder: by_label[one.label] for one in dataset.participants}
    home = Path(out)
    found = found or recorded(RunDirectory(home.absolute()))
    require_same_dataset(found, selection.origin, home)
    return gather_volumes(selection.units, selection.root, home, sites, found.tried, allow_missing)


def units_of(selection: Selection, app: App) -> Sequence[Unit]:
    """The units that an app has something to do for. Raises UsageError where there is none."""
    if not app.needs_images:
        return (*selection.units, *selection.without_images)
    if not selection.units and selection.asked.filter_file:
        people = dict.fromkeys(unit.participant for unit in selection.without_images)
        chosen = choose_sessions(tuple(people), selection.asked.session_labels)
        there = (one for several in chosen.values() for one in several)
        why = why_none(there, _kind(selection.asked))
        raise UsageError(f"{selection.asked.filter_file}: {why}; correct the filter")
    if not selection.units:
        raise UsageError(
            f"{selection.root}: none of the participants has an image that is wanted, such as"
            " sub-01/anat/sub-01_T1w.nii.gz; look at the names, the labels and the filter file"
        )
    return selection.units


def _per(asked: Asked) -> Per:
    """What a task is: a session where some of these are asked for, so that another call for others
    adds to what it makes.
    """
    if asked.session_labels and not asked.joins_sessions:
        return "session"
    return asked.per


def _kind(asked: Asked) -> Kind:
    if not asked.filter_file:
        return T1W
    filters = read_filters(asked.filter_file)
    if "t1w" not in filters:
        raise FormatError(f'{asked.filter_file}: has no filter "t1w", which says what is wanted')
    return filters["t1w"]


def _template(asked: Asked, app: App) -> str:
    """What makes the results, and of which images: with another one a run is another one."""
    kind = _kind(asked)
    if kind == T1W or not app.needs_images:
        return app.identity
    return f"{app.identity} of {json.dumps(kind.record(), sort_keys=True)}"


def require_outside(selection: Selection, out: Path) -> None:
    """Raise UsageError for an output directory in which the dataset lies, or that lies with data of
    a participant.
    """
    if Path(selection.root).is_relative_to(out.absolute()):
        raise UsageError(
            f"{out}: the dataset lies there, and its files stay as they are; give another"
            f" directory, such as {Path(selection.root) / 'derivatives' / 'brain'}"
        )
    for dataset in selection.datasets:
        name = _below(dataset.folder, out).partition(os.sep)[0]
        if name.startswith(SUBJECT):
            raise UsageError(
                f"{out}: lies with the data of {name}, which stay as they are; give another"
                f" directory, such as {Path(selection.root) / 'derivatives' / 'brain'}"
            )


def _below(folder: str, path: Path) -> str:
    """The path from a folder on, links followed; '' of what does not lie below it."""
    with suppress(ValueError):
        return str(Path(os.path.realpath(path)).relative_to(os.path.realpath(folder)))
    return ""


def require_not_within(out: str | os.PathLike[str], keep_failed: str | os.PathLike[str]) -> None:
    """Raise UsageError for what failed commands leave among results, of which it would be one."""
    if keep_failed and Path(keep_failed).absolute().is_relative_to(Path(out).absolute()):
        raise UsageError(
            f"--keep-failed {keep_failed}: lies in OUT_DIR, where results are; give another"
            " directory"
        )


def _describe(work: _Work, tell: Tell = unheard) -> None:
    """Write the description of the derivatives: of each site where it is a collection of them."""
    app = work.app
    directory = RunDirectory(work.out)
    for dataset in work.selection.datasets:
        if (work.out / dataset.site).is_dir():
            said = read_description(dataset.folder)
            own = derivative(dataset.folder, said, app.title, app.generated_by)
            say(directory, dataset.site, own)
            describe(directory, dataset.site, tell)
