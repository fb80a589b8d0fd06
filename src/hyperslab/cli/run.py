"""`hyperslab run`: a function over a source, into a directory."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperslab import formats, workloads
from hyperslab.cli.blockwise import of_function
from hyperslab.cli.commands import Given, of_commands
from hyperslab.cli.companions import join
from hyperslab.cli.destination import refusal_of
from hyperslab.cli.flags import (
    BLOCKS,
    COMMAND,
    ENGINE,
    FUNCTION,
    GOING_ON,
    INPUTS,
    OUTPUTS,
    Axis,
    CountFiles,
    Engine,
    FailFast,
    Granularity,
    JsonOfPlan,
    KeepFailed,
    Live,
    Partition,
    Quiet,
    ReadersPerDevice,
    RealOrStored,
    RecordMessages,
    Report,
    Retries,
    Scratch,
    SlurmOption,
    StageIn,
    StageOut,
    Stagger,
    StorageOption,
    TaskTimeout,
    Threads,
    Throttle,
    Verbose,
    Workers,
    WorkTier,
    by_way_of,
    choice,
    completing,
    compression_flag,
    connect_flag,
    dry_run_flag,
    memory_flag,
    options_of,
    overwrite_flag,
    require_dry_run,
    resume_flag,
)
from hyperslab.cli.in_scratch import (
    Wanted,
    enter_scratch,
    left_to_workers,
    run_with_scratch,
    told_apart,
)
from hyperslab.cli.telling import mention
from hyperslab.driver import run as driver
from hyperslab.driver.options import Options
from hyperslab.driver.prepare import Prepared, prepare
from hyperslab.driver.series import with_whole_series
from hyperslab.engines.facts import DEFAULT
from hyperslab.errors import UsageError
from hyperslab.plan.pipeline import Pipeline
from hyperslab.report.progress import progress_for
from hyperslab.storage.location import local_folder

if TYPE_CHECKING:
    from hyperslab.driver.result import Result

Opt = typer.Option


def run(
    function: Annotated[
        str,
        typer.Argument(
            help="A built-in (see 'hyperslab functions'), module:function or file.py:function; with"
            " --command the first SOURCE.",
            autocompletion=completing(lambda: workloads.BUILTINS),
        ),
    ],
    source: Annotated[
        list[str],
        typer.Argument(
            help="Files, PATH::DATASET, URLs, directories, globs, or a list in a .txt file."
        ),
    ] = [],  # noqa: B006
    *,
    out: Annotated[
        str,
        Opt(
            "--out",
            "-o",
            help="Directory for the outputs and the run's records, or a file for one volume.",
            rich_help_panel=OUTPUTS,
        ),
    ],
    command: Annotated[
        str,
        Opt(
            help="Run this command for every file instead of a function: {input} is the file, {out}"
            " an empty folder whose files go to OUT, {name} the file's name without suffix, {work}"
            " a scratch folder.",
            rich_help_panel=COMMAND,
        ),
    ] = "",
    match: Annotated[
        str,
        Opt(
            help="Files below a directory, for --command: a pattern such as 'sub-*_T1w.nii.gz'.",
            rich_help_panel=COMMAND,
        ),
    ] = "",
    param: Annotated[
        list[str],
        Opt(
            "--param",
            "-p",
            help="Parameter of the function, as name=value.",
            rich_help_panel=FUNCTION,
        ),
    ] = [],  # noqa: B006
    other: Annotated[
        list[str],
        Opt(
            "--with",
            help="Further input, as NAME=SOURCE: of the same shape, or with fewer axes.",
            rich_help_panel=INPUTS,
        ),
    ] = [],  # noqa: B006
    mask: Annotated[
        str | None,
        Opt(
            help="Mask, the same as --with mask=SOURCE: inside where it is not 0.",
            rich_help_panel=INPUTS,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        Opt(
            help="Label image, the same as --with labels=SOURCE: 0 is background.",
            rich_help_panel=INPUTS,
        ),
    ] = None,
    resample: Annotated[
        str | None,
        Opt(
            help="Bring further inputs into the first one's space: nearest or linear, for all or as"
            " NAME=nearest; masks and labels by nearest.",
            rich_help_panel=INPUTS,
            **choice("nearest", "linear"),
        ),
    ] = None,
    region: Annotated[
        str | None,
        Opt(
            help="Part to work on: 10:40,20:60,5:25 in voxels, as NumPy's slices, or"
            " mm:-30:30,-20:40,0:50.",
            rich_help_panel=INPUTS,
        ),
    ] = None,
    sources: Annotated[
        str,
        Opt(
            help="How several files belong together: independent, concatenated or mosaic.",
            rich_help_panel=INPUTS,
            **choice("independent", "concatenated", "mosaic"),
        ),
    ] = "independent",
    storage_option: StorageOption = [],  # noqa: B006
    axis: Axis = None,
    engine: Engine = DEFAULT,
    workers: Workers = None,
    threads: Threads = None,
    connect: Annotated[str, connect_flag()] = "",
    netlab: Annotated[
        Path | None,
        Opt(
            help="Spec of a laboratory of links, in .toml: a cluster of the engine is started on"
            " its nodes, for this run alone (see 'hyperslab netlab').",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    throttle: Throttle = None,
    slurm_option: SlurmOption = [],  # noqa: B006
    detach: Annotated[
        bool,
        Opt(
            "--detach",
            help="Submit the run to Slurm and return; a last job completes it.",
            rich_help_panel=ENGINE,
        ),
    ] = False,
    block_shape: Annotated[
        str | None, Opt(help="Shape of the blocks, such as 64,64,64.", rich_help_panel=BLOCKS)
    ] = None,
    blocks: Annotated[
        str | None,
        Opt(
            help="Number of blocks, such as 125, or per axis, such as 5x5x5.",
            rich_help_panel=BLOCKS,
        ),
    ] = None,
    partition: Partition = None,
    axes_whole: Annotated[
        str | None,
        Opt(help="Axes that are never cut, such as 0,1 or time.", rich_help_panel=BLOCKS),
    ] = None,
    stage_in: StageIn = "",
    stage_out: StageOut = "",
    work_tier: WorkTier = "",
    scratch: Scratch = "",
    readers_per_device: ReadersPerDevice = None,
    stagger: Stagger = 0.0,
    halo: Annotated[
        str | None,
        Opt(
            help="Voxels around each block that the function needs, or one number per axis.",
            rich_help_panel=FUNCTION,
        ),
    ] = None,
    boundary: Annotated[
        str,
        Opt(
            help="What the halo holds beyond the array: reflect, nearest or constant (zeros).",
            rich_help_panel=FUNCTION,
            **choice("reflect", "nearest", "constant"),
        ),
    ] = "reflect",
    memory: Annotated[str | None, memory_flag("tasks", "8GB")] = None,
    values: RealOrStored = "real",
    dtype: Annotated[
        str | None,
        Opt(
            help="dtype of the outputs, to which values are converted if they fit; by default that"
            " of what the function returns.",
            rich_help_panel=OUTPUTS,
        ),
    ] = None,
    drop_axis: Annotated[
        str | None,
        Opt(
            help="Axes of the block that the function drops, such as 3 or time.",
            rich_help_panel=FUNCTION,
        ),
    ] = None,
    new_axis: Annotated[
        str | None,
        Opt(
            help="Axes of the result that the block does not have, as AXIS or AXIS:LENGTH.",
            rich_help_panel=FUNCTION,
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        Opt(
            help="Names of the arrays that the function returns, such as slope,t.",
            rich_help_panel=FUNCTION,
        ),
    ] = None,
    format: Annotated[
        str | None,
        Opt(
            help=f"Of the outputs: {formats.say_words('nii')}.",
            rich_help_panel=OUTPUTS,
            autocompletion=completing(formats.written),
        ),
    ] = None,
    keep: Annotated[
        str | None,
        Opt(
            help="blocks: a file per block; volume: one file per array, the default if the function"
            " changes the axes or returns several arrays.",
            rich_help_panel=OUTPUTS,
            **choice("blocks", "volume"),
        ),
    ] = None,
    chunks: Annotated[
        str | None,
        Opt(
            help="Shape of the stored chunks of h5, nc or zarr, such as 64,64,64.",
            rich_help_panel=OUTPUTS,
        ),
    ] = None,
    compression: Annotated[str | None, compression_flag("that of the format")] = None,
    granularity: Granularity = "fused",
    resume: Annotated[
        bool, resume_flag("Continue the run in OUT: do only what is missing.")
    ] = False,
    overwrite: Annotated[
        bool, overwrite_flag("Replace what an earlier run left in OUT when all is there")
    ] = False,
    accept_changed_function: Annotated[
        bool,
        Opt(
            "--accept-changed-function",
            help="With --resume: keep what the function did before it was edited.",
            rich_help_panel=GOING_ON,
        ),
    ] = False,
    retries: Retries = 1,
    task_timeout: TaskTimeout = None,
    keep_failed: KeepFailed = "",
    fail_fast: FailFast = None,
    trial: Annotated[
        bool,
        Opt(
            "--trial/--no-trial",
            help="Try the function on made-up numbers first, also on a dry run.",
            rich_help_panel=FUNCTION,
        ),
    ] = True,
    dry_run: Annotated[bool, dry_run_flag("Say what would be done and what it needs")] = False,
    check_locality: Annotated[
        bool,
        Opt(
            "--check-locality",
            help="Only test on samples whether the result depends on the blocks, and which halo"
            " helps; what a function does at places of its own is noticed only where samples lie.",
            rich_help_panel=GOING_ON,
        ),
    ] = False,
    json: JsonOfPlan = False,
    report: Report = True,
    live: Live = False,
    record_messages: RecordMessages = False,
    count_files: CountFiles = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Run FUNCTION over SOURCE, block by block, into the directory or file OUT.

    A function takes a block (a NumPy array) and returns one, or several as a dict or tuple, or is a
    hyperslab.Fold that reduces all blocks to one value. Exit status: 0 all done, 1 tasks failed or
    the run had to stop, 2 wrong arguments, 130 interrupted.
    """
    given = Given(locals(), inspect.signature(run))
    tiers = by_way_of(stage_in, stage_out, work_tier, readers_per_device, stagger)
    enter_scratch(scratch, engine, connect, bool(command), tiers)
    _begin(engine, connect)
    require_dry_run(json, dry_run)
    wanted, tiers = told_apart(scratch, tiers)
    options = options_of(given, **tiers, scratch="")
    if command:
        pipeline, options = of_commands(given, options)
    else:
        pipeline = of_function(given)
    if check_locality:
        return _check_locality(pipeline, options, dry_run)
    if dry_run:
        return _foretell(pipeline, _on_nodes(netlab, options, detach), out, json)
    return _carry_out(pipeline, options, out, quiet, verbose, detach, netlab, wanted, count_files)


def _begin(engine: str, connect: str) -> None:
    """Go on as the driver alone, which finds module:function where the user stands."""
    join(engine, connect)
    sys.path.insert(0, os.getcwd())


def _on_nodes(netlab: Path | None, options: Options, detach: bool) -> Options:
    """The same options, on the workers of a laboratory where there is to be one."""
    if netlab is None:
        return options
    from hyperslab.cli.in_lab import foreseen  # which few runs need

    return foreseen(netlab, options, detach)


def _foretell(pipeline: Pipeline, options: Options, out: str, json: bool) -> int:
    """Say what a run would do. Returns the exit status."""
    from hyperslab.cli.preview import say_plan, show_plan

    folder = Path(local_folder(out))
    prepared = prepare(pipeline, options, folder, dry=True, tell=mention)
    notes = (*pipeline.notes, *prepared.notes)
    if json:
        return say_plan(prepared, folder, refusal_of(out), notes)
    for note in notes:
        typer.echo(f"note       {note}")
    return show_plan(prepared, folder, refusal_of(out))


def _leave(pipeline: Pipeline, options: Options, out: str, quiet: bool) -> int:
    """Leave a run to jobs of a batch system, and say how to follow it. Returns the exit status."""
    from hyperslab.cli.outcome import show_result, show_submitted
    from hyperslab.driver import continuing
    from hyperslab.driver.result import Result

    folder = Path(local_folder(out))
    if refusal := refusal_of(out):
        raise UsageError(refusal)
    prepared = _prepared(pipeline, options, folder, quiet)
    progress = progress_for(quiet)
    left = continuing.submit(pipeline, options, out=folder, progress=progress, prepared=prepared)
    if isinstance(left, Result):
        return show_result(left, folder, quiet)
    return show_submitted(left, folder, quiet)


def _carry_out(
    pipeline: Pipeline,
    options: Options,
    out: str,
    quiet: bool,
    verbose: bool,
    detach: bool,
    netlab: Path | None,
    wanted: Wanted,
    count_files: bool,
) -> int:
    """Run a pipeline, and tell what came of it, or leave it to jobs, or to the same command in a
    laboratory, with scratch or counted. Returns the exit status.
    """
    if count_files:
        from hyperslab.cli.counted import run_counted  # which few runs need

        return run_counted(options, out, quiet, detach or netlab is not None)
    options = left_to_workers(wanted, options)
    if wanted.text and not options.scratch:
        return run_with_scratch(wanted, options, pipeline)
    if netlab is not None:
        from hyperslab.cli.in_lab import run_in_laboratory  # which few runs need

        return run_in_laboratory(netlab, options, out, quiet, detach)
    if detach:
        return _leave(pipeline, options, out, quiet)
    folder = Path(local_folder(out))
    result = _run(pipeline, options, folder, refusal_of(out), quiet)
    from hyperslab.cli.outcome import show_result  # which a run has imported most of by now

    return show_result(result, folder, quiet, verbose=verbose)


def _run(pipeline: Pipeline, options: Options, folder: Path, refusal: str, quiet: bool) -> Result:
    """Run it, failed tasks and all, unless the output is refused."""
    if refusal:
        with suppress(OSError):  # of what cannot be written to, which is told next
            prepare(pipeline, options, folder, dry=True)  # wrong arguments are told first
        raise UsageError(refusal)
    prepared = _prepared(pipeline, options, folder, quiet)
    progress = progress_for(quiet)
    return driver.run(
        pipeline, options, out=folder, progress=progress, prepared=prepared, check=False
    )


def _prepared(pipeline: Pipeline, options: Options, folder: Path, quiet: bool) -> Prepared:
    """What a run will do; of wrong data it warns also where it is to be quiet."""
    prepared = prepare(pipeline, options, folder, tell=functools.partial(mention, quiet=quiet))
    if prepared.dependence:
        mention(f"warning    {prepared.dependence}")
    if quiet:  # else they are told as the run begins
        for note in (*pipeline.notes, *prepared.notes):
            mention(f"note       {note}")
    return prepared


def _check_locality(pipeline: Pipeline, options: Options, dry_run: bool) -> int:
    from hyperslab.apps import locality
    from hyperslab.cli.outcome import show_locality

    if dry_run:
        raise UsageError("--check-locality and --dry-run: give one of them")
    rule = with_whole_series(pipeline, options.rule)
    return show_locality(locality.check_locality(pipeline, rule.axes_whole, rule))
