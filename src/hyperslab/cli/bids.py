"""`hyperslab bids`: an app over the participants of a BIDS dataset, and its group level."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.apps.bids import brain, validation
from hyperslab.apps.bids.app import App
from hyperslab.apps.bids.boutiques import boutiques_app, is_descriptor
from hyperslab.apps.bids.brains import brain_app
from hyperslab.apps.bids.calling import function_app, is_function
from hyperslab.apps.bids.containers.grouping import container_group_task
from hyperslab.apps.bids.containers.images import AUTO, require_usable
from hyperslab.apps.bids.containers.participants import container_app, remove_left_containers
from hyperslab.apps.bids.containers.runtimes import Container
from hyperslab.apps.bids.gathering import (
    Complete,
    require_brains,
    require_done,
    require_ready,
    run_group,
    told,
)
from hyperslab.apps.bids.group import Group, lacking_words
from hyperslab.apps.bids.grouping import group_task, of_group
from hyperslab.apps.bids.running import (
    Asked,
    Selection,
    gathered,
    is_gathered,
    require_tables,
    run_participants,
    select,
)
from hyperslab.apps.bids.template import GROUP_APP, group_words, template_app
from hyperslab.apps.bids.unit import PER
from hyperslab.apps.commands.running import run_here
from hyperslab.cli import containers
from hyperslab.cli.bids_preview import foretell, foretell_group, mention_left_out
from hyperslab.cli.flags import (
    AS_FOR_RUN,
    INPUTS,
    Engine,
    FailFast,
    KeepFailed,
    Live,
    Quiet,
    Report,
    Retries,
    Scratch,
    SlurmOption,
    StageIn,
    StageOut,
    TaskTimeout,
    Threads,
    Throttle,
    Verbose,
    Workers,
    WorkTier,
    by_way_of,
    choice,
    connect_flag,
    dry_run_flag,
    resume_flag,
)
from hyperslab.cli.in_scratch import join_in_scratch, left_to_workers, run_with_scratch
from hyperslab.cli.outcome import show_result
from hyperslab.cli.telling import is_debugging, mention, told_if_heard
from hyperslab.driver.options import Options
from hyperslab.driver.result import Result
from hyperslab.engines.facts import DEFAULT
from hyperslab.errors import UsageError
from hyperslab.plan.command import CommandTask
from hyperslab.report.progress import progress_for
from hyperslab.storage.location import local_folder
from hyperslab.units import show_count

Opt = typer.Option

GROUP, BOTH = "group", "both"
LEVELS = ("participant", GROUP, BOTH)
APP = "What runs, as in: --app 'bet {t1w} {out}/{prefix}_brain.nii.gz'"
BRAIN = "brain"


def bids(
    bids_dir: Annotated[
        str,
        typer.Argument(metavar="BIDS_DIR", help="Folder of a dataset, or of datasets of sites."),
    ],
    output_dir: Annotated[
        str, typer.Argument(metavar="OUT_DIR", help="Folder of the derivatives.")
    ],
    level: Annotated[
        str,
        typer.Argument(
            metavar="participant|group|both",
            help="What is done: each, all of them, or these when those have ended, in one run.",
        ),
    ],
    app: Annotated[
        str,
        Opt(
            help="brain; a command, for every image where it names {t1w}, else for every"
            " participant, which writes below {out}; file.py:function, which is called with the"
            " images and a folder; or DESCRIPTOR.json of Boutiques.",
            rich_help_panel=APP,
        ),
    ] = BRAIN,
    group_app: Annotated[
        str,
        Opt(
            metavar="COMMAND",
            help="What puts the results of another --app together, at the levels group and both: a"
            " command that reads below {results} and writes below {out}.",
            rich_help_panel=APP,
        ),
    ] = "",
    invocation: Annotated[
        str,
        Opt(
            help="JSON file with the values of a Boutiques descriptor, which may hold the words in"
            " braces that a command may.",
            rich_help_panel=APP,
        ),
    ] = "",
    brain_extractor: Annotated[
        str,
        Opt(
            help="auto takes FSL's bet where it is on PATH, else what is built in: a demonstration,"
            " not for science.",
            rich_help_panel=APP,
            **choice(*brain.EXTRACTORS),
        ),
    ] = brain.AUTO,
    participant_label: Annotated[
        list[str],
        Opt(
            help="Participant, with or without sub-; may be repeated. By default all.",
            rich_help_panel=INPUTS,
        ),
    ] = [],  # noqa: B006
    exclude_participant_label: Annotated[
        list[str],
        Opt(
            help="Participant to leave out, with or without sub-; may be repeated.",
            rich_help_panel=INPUTS,
        ),
    ] = [],  # noqa: B006
    session_label: Annotated[
        list[str],
        Opt(
            help="Session, with or without ses-; may be repeated. By default all.",
            rich_help_panel=INPUTS,
        ),
    ] = [],  # noqa: B006
    bids_filter_file: Annotated[
        str,
        Opt(
            help='JSON file that narrows down which images, as {"t1w": {"run": 1}}.',
            rich_help_panel=INPUTS,
        ),
    ] = "",
    moved_from: Annotated[
        str,
        Opt(
            metavar="DIR",
            help="Where the dataset was when OUT_DIR was begun, if that is another path now.",
            rich_help_panel=INPUTS,
        ),
    ] = "",
    per: Annotated[
        str,
        Opt(
            help="What a task is: a participant with all its sessions, or a session, as always with"
            " --session-label but for --container.",
            rich_help_panel=APP,
            **choice(*PER),
        ),
    ] = "participant",
    allow_missing: Annotated[
        bool,
        Opt(
            "--allow-missing",
            help="At the group level: leave out participants without a result.",
            rich_help_panel=APP,
        ),
    ] = False,
    validate: Annotated[
        bool,
        Opt(
            "--validate",
            help="Have the official bids-validator, which has to be on PATH, look at the dataset"
            " first; errors stop the run.",
            rich_help_panel=INPUTS,
        ),
    ] = False,
    engine: Engine = DEFAULT,
    workers: Workers = None,
    threads: Threads = None,
    connect: Annotated[str, connect_flag(AS_FOR_RUN)] = "",
    throttle: Throttle = None,
    slurm_option: SlurmOption = [],  # noqa: B006
    stage_in: StageIn = "",
    stage_out: StageOut = "",
    work_tier: WorkTier = "",
    scratch: Scratch = "",
    resume: Annotated[bool, resume_flag("Continue in OUT_DIR: do only what is missing.")] = False,
    retries: Retries = 1,
    task_timeout: TaskTimeout = None,
    fail_fast: FailFast = None,
    keep_failed: KeepFailed = "",
    container: containers.Image = "",
    runtime: containers.Runtime = AUTO,
    runtime_option: containers.RuntimeOption = [],  # noqa: B006
    app_arguments: containers.AppArguments = "",
    container_memory: containers.Memory = "",
    container_cpus: containers.Cpus = None,
    dry_run: Annotated[
        bool,
        dry_run_flag("Say which participants and images there are, and what is known of needs"),
    ] = False,
    report: Report = True,
    live: Live = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Run an app over the participants of a BIDS dataset, a task each, or put their results
    together.

    Exit status: 0 all done, 1 tasks failed or the run had to stop, 2 wrong arguments, 130
    interrupted.
    """
    tiers = by_way_of(stage_in, stage_out, work_tier, None, 0.0)
    wanted, tiers = join_in_scratch(engine, connect, scratch, tiers)
    _require_words(level, per, brain_extractor)
    contained = containers.wanted(
        container, runtime, runtime_option, app_arguments, container_memory, container_cpus
    )
    contained = containers.narrowed(contained, session_label, bids_filter_file)
    labels = (participant_label, exclude_participant_label, session_label)
    asked = _asked(*labels, bids_filter_file, per, moved_from, contained)
    selection = _selected(bids_dir, asked, app == BRAIN and contained is None)
    out = Path(local_folder(output_dir))
    options = Options(
        engine=engine,
        workers=workers,
        threads=threads,
        connect=connect,
        throttle=throttle,
        slurm_option=slurm_option,
        retries=retries,
        verb="bids",
        fail_fast=fail_fast,
        debug=is_debugging(),
        task_timeout=task_timeout,
        keep_failed=keep_failed,
        **tiers,
        resume=resume,
        report=report,
        live=live,
    )
    options = left_to_workers(wanted, options)
    if wanted.text and not options.scratch and not dry_run:
        return run_with_scratch(wanted, options)
    if validate:
        _validate(selection, quiet)
    contained = _usable(contained, app, invocation, options)
    gather = _gather(selection, out, level, app, group_app, contained)
    is_brain = app == BRAIN and contained is None and not gather
    then = _then(selection, out, level, app, gather, contained, allow_missing)
    if level == GROUP:
        how = (is_brain, allow_missing, options, quiet, verbose, dry_run)
        return _group(selection, out, then[0], contained, *how)
    chosen = _app(app, brain_extractor, invocation)
    if contained is not None:
        chosen = container_app(contained, os.fspath(out), selection.asked.per)
    if dry_run:
        return foretell(selection, chosen, out, options, contained)
    mention_left_out(selection, chosen, quiet)
    more = (progress_for(quiet), then, allow_missing, partial(_tidy, contained, out, options))
    result = run_participants(selection, out, chosen, options, *more)
    if then and is_gathered(result, then):
        _tell_of_group(selection, out, result, is_brain, allow_missing, quiet)
    return show_result(result, out, quiet, verbose=verbose)


def _selected(bids_dir: str, asked: Asked, needs_tables: bool) -> Selection:
    selection = select(bids_dir, asked)
    if needs_tables:
        require_tables(selection)
    return selection


def _asked(
    participants: Sequence[str],
    excluded: Sequence[str],
    sessions: Sequence[str],
    filter_file: str,
    per: str,
    moved_from: str,
    contained: Container | None,
) -> Asked:
    """What is asked for of a dataset; images are what an app in a container finds itself."""
    asked = Asked(
        tuple(participants),
        tuple(sessions),
        filter_file,
        per,  # type: ignore[arg-type]
        excluded_labels=tuple(excluded),
        moved_from=moved_from,
    )
    if contained is None:
        return asked
    return replace(asked, filter_file="", joins_sessions=True)


def _tidy(contained: Container | None, out: Path, options: Options, call: str = "") -> None:
    if contained is not None:
        remove_left_containers(contained, out, options, call)


def _app(named: str, brain_extractor: str, invocation: str) -> App:
    if named == BRAIN and not invocation:
        return brain_app(brain_extractor)
    if is_descriptor(named):
        return boutiques_app(named, invocation)
    if invocation:
        raise UsageError(f"--invocation {invocation}: is for --app DESCRIPTOR.json of Boutiques")
    if is_function(named):
        sys.path.insert(0, os.getcwd())
        return function_app(named)
    return template_app(named)


def _require_words(level: str, per: str, brain_extractor: str) -> None:
    words = {"the level": (level, LEVELS), "--per": (per, PER)}
    words["--brain-extractor"] = (brain_extractor, brain.EXTRACTORS)
    for flag, (given, known) in words.items():
        if given not in known:
            raise UsageError(f"{flag} {given}: choose one of {', '.join(known)}")


def _validate(selection: Selection, quiet: bool) -> None:
    warnings = sum(validation.validate(dataset.folder) for dataset in selection.datasets)
    mention(f"valid      with {show_count(warnings, 'warning')}", quiet=quiet)


def _usable(
    contained: Container | None, app: str, invocation: str, options: Options
) -> Container | None:
    """The container with what is known of its image, where that can be looked at here. Raises
    UsageError.
    """
    if contained is None:
        return None
    _require_alone(app, invocation)
    return require_usable(contained, run_here(options))


def _require_alone(app: str, invocation: str) -> None:
    """Raise UsageError for what does not go with --container."""
    given = invocation
    if app != BRAIN:
        given = app
    if given:
        raise UsageError(f"--app {given}: what runs is what --container names: leave one out")


def _group(
    selection: Selection,
    out: Path,
    task: CommandTask,
    contained: Container | None,
    is_brain: bool,
    allow_missing: bool,
    options: Options,
    quiet: bool,
    verbose: bool,
    dry_run: bool,
) -> int:
    """Run the group level by itself, and say what came of it, or in a dry run what would."""
    require = _complete(is_brain, contained)
    if dry_run:
        require_ready(selection, out, task, options, require, allow_missing)
        return foretell_group(selection, out)
    if contained is not None:
        for line in containers.without_effect(contained):
            mention(line, quiet=quiet)
    progress = progress_for(quiet)
    tidy = partial(_tidy, contained, out, options)
    result = run_group(selection, out, task, options, require, progress, allow_missing, tidy)
    if result.ok:
        lines = [told(result, out)]
        if is_brain:
            lines = _said(gathered(selection, out, allow_missing), out)
        _tell(lines, quiet)
    return show_result(result, out, quiet, verbose=verbose)


def _complete(is_brain: bool, contained: Container | None) -> Complete:
    """What looks whether the participants of an app have results."""
    if is_brain:
        return require_brains
    return partial(require_done, needs_images=contained is None)


def _tell(lines: list[str], quiet: bool) -> None:
    if not quiet:
        with told_if_heard():
            typer.echo("\n".join(lines))


def _tell_of_group(
    selection: Selection,
    out: Path,
    result: Result,
    is_brain: bool,
    allow_missing: bool,
    quiet: bool,
) -> None:
    """Say what the group level of a run of both has made, and whom it lacks."""
    if is_brain:
        _tell(_said(gathered(selection, out, allow_missing), out), quiet)
    elif result.failures:
        mention(lacking_words([one.task for one in result.failures]), quiet=quiet)


def _said(group: Group, out: Path) -> list[str]:
    return [*group.lines(), f"tables     {out}{os.sep}group_*.tsv"]


def _then(
    selection: Selection,
    out: Path,
    level: str,
    app: str,
    gather: tuple[str, ...],
    contained: Container | None,
    allow_missing: bool,
) -> tuple[CommandTask, ...]:
    """The commands of the group level, where that belongs to the run, or is all of it."""
    if level not in (GROUP, BOTH):
        return ()
    if contained is not None:
        return (container_group_task(selection, out, contained),)
    if gather:
        return (of_group(selection, gather),)
    if app == BRAIN:
        return (group_task(selection, out, allow_missing),)
    raise _without_group_app(level, app)


def _gather(
    selection: Selection,
    out: Path,
    level: str,
    app: str,
    group_app: str,
    contained: Container | None,
) -> tuple[str, ...]:
    """The command that puts results together, where one is given. Raises UsageError for one beside
    the group level that an app has.
    """
    if not group_app:
        return ()
    is_brain = app == BRAIN and level != GROUP
    if contained is not None or is_brain:
        raise UsageError(
            f"{GROUP_APP} {group_app}: --app {BRAIN} and --container have a group level of their"
            " own: leave it out"
        )
    return group_words(group_app, selection.root, os.path.abspath(out))


def _without_group_app(level: str, app: str) -> UsageError:
    return UsageError(
        f"{level} --app '{app}': say by {GROUP_APP} what puts results together; a group level of"
        f" their own have --app {BRAIN} and --container alone"
    )
