"""`hyperslab convert`: arrays in another format, in other chunks, split, merged, joined."""

from __future__ import annotations

import functools
import time
from typing import Annotated

import typer

from hyperslab import formats
from hyperslab.apps.conversion import Conversion, Wanted, planned
from hyperslab.arrays.encoding import Encoding
from hyperslab.cli import document
from hyperslab.cli.companions import join
from hyperslab.cli.flags import (
    AS_FOR_RUN,
    INPUTS,
    OUTPUTS,
    Engine,
    JsonOfPlan,
    Quiet,
    Report,
    Retries,
    StorageOption,
    Threads,
    Verbose,
    Workers,
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
from hyperslab.cli.outcome import show_result
from hyperslab.cli.parse import parse_rule, parse_shape, parse_storage_options
from hyperslab.cli.preview import say_plan, show_plan
from hyperslab.cli.telling import mention, told_if_heard
from hyperslab.engines.facts import DEFAULT
from hyperslab.errors import AlreadyDone, UsageError
from hyperslab.redaction import redact
from hyperslab.report.progress import progress_for
from hyperslab.units import show_bytes, show_count

Opt = typer.Option


def convert(
    source: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help=(
                "Files, PATH::DATASET, PATH::/GROUP, directories, globs, or a list in a .txt file."
            ),
        ),
    ] = None,
    dest: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            show_default=False,
            help=(
                f"The new file ({', '.join(formats.written().values())}), a directory for"
                " several, or a URL"
                " (s3://...)."
            ),
        ),
    ] = "",
    block_shape: Annotated[
        str | None,
        Opt(
            help="Split every array into files of this shape, such as 64,64,64.",
            rich_help_panel=OUTPUTS,
        ),
    ] = None,
    blocks: Annotated[
        str | None,
        Opt(
            help="Split every array into this many files, such as 125, or per axis, such as 5x5x5.",
            rich_help_panel=OUTPUTS,
        ),
    ] = None,
    sources: Annotated[
        str | None,
        Opt(
            help=(
                "How several files belong together: mosaic (blocks of one array, the default for"
                " one file), concatenated, independent (arrays of their own)."
            ),
            rich_help_panel=INPUTS,
            **choice("independent", "concatenated", "mosaic"),
        ),
    ] = None,
    axis: Annotated[
        int | None,
        Opt(help="Join the files one after the other along this axis.", rich_help_panel=INPUTS),
    ] = None,
    format: Annotated[
        str,
        Opt(
            help=f"Format of the files in a directory: {formats.say_words()}; by default as the"
            " source.",
            rich_help_panel=OUTPUTS,
            autocompletion=completing(formats.written),
        ),
    ] = "",
    dtype: Annotated[
        str | None,
        Opt(
            help="Write real values as this dtype; floats may be rounded to narrower ones, and any"
            " other value that does not fit fails its task.",
            rich_help_panel=OUTPUTS,
        ),
    ] = None,
    values: Annotated[
        str,
        Opt(
            help=(
                "stored (numbers and scaling as they are) or real (slope and intercept applied);"
                " by default stored if the new format can express the scaling, otherwise real."
            ),
            rich_help_panel=OUTPUTS,
            **choice("real", "stored"),
        ),
    ] = "",
    chunks: Annotated[
        str | None,
        Opt(
            help="Shape of the stored chunks, such as 64,64,64; by default as in the source.",
            rich_help_panel=OUTPUTS,
        ),
    ] = None,
    shards: Annotated[
        str | None, Opt(help="Shape of the shards of a Zarr array.", rich_help_panel=OUTPUTS)
    ] = None,
    compression: Annotated[str | None, compression_flag("as in the source")] = None,
    virtual: Annotated[
        bool,
        Opt(
            "--virtual",
            help="Keep an HDF5 file in parts, one per writer, with a virtual dataset over them.",
            rich_help_panel=OUTPUTS,
        ),
    ] = False,
    zarr_version: Annotated[
        int | None, Opt(help="2 or 3; 3 by default.", rich_help_panel=OUTPUTS)
    ] = None,
    name: Annotated[
        str,
        Opt(
            help="Name of the dataset in an HDF5, netCDF or Zarr file; '/': a Zarr store that is"
            " the array itself.",
            rich_help_panel=OUTPUTS,
        ),
    ] = "",
    storage_option: StorageOption = [],  # noqa: B006
    memory: Annotated[str | None, memory_flag("tasks", "1GB")] = None,
    engine: Engine = DEFAULT,
    workers: Workers = None,
    threads: Threads = None,
    connect: Annotated[str, connect_flag(AS_FOR_RUN)] = "",
    overwrite: Annotated[
        bool, overwrite_flag("Replace an existing output when the conversion ends")
    ] = False,
    resume: Annotated[bool, resume_flag("Continue a conversion that did not finish.")] = False,
    retries: Retries = 1,
    dry_run: Annotated[bool, dry_run_flag("Say what would be read and written")] = False,
    json: JsonOfPlan = False,
    report: Report = True,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Write the arrays of SOURCE to DEST: in another format, in other chunks, split into blocks, or
    merged.

    Values, affine, units and attributes stay what they are, and several variables of a file go
    into one (a.nc, or a.nc::/group, to b.nc); a file appears when it is complete, and
    replaces nothing without --overwrite. Exit status: 0 all done, 1 failed, 2 wrong arguments, 130
    interrupted.
    """
    given = dict(locals())
    join(engine, connect)
    require_dry_run(json, dry_run)
    asked = parse_rule(block_shape, blocks, None, None)
    encoding = Encoding(
        parse_shape("--chunks", chunks),
        compression,
        None,
        parse_shape("--shards", shards),
        zarr_version,
        name,
        virtual,
    )
    options = options_of(given, verb="convert", block_shape=None, blocks=None)
    grid = asked if asked.kind != "auto" else None
    # other words for kind and values are refused where they are used
    wanted = Wanted(
        format=format,
        grid=grid,
        kind=sources,  # type: ignore[arg-type]
        axis=axis,
        values=values or None,  # type: ignore[arg-type]
        dtype=dtype,
        encoding=encoding,
        storage_options=parse_storage_options(storage_option),
    )
    try:
        tell = functools.partial(mention, quiet=quiet)
        conversion = planned(_named(source, dest), dest, options, wanted, dry=dry_run, tell=tell)
    except AlreadyDone as done:
        if json:
            document.say({"already_done": str(done)})
        else:
            typer.echo(str(done))
        return 0
    if dry_run and json:
        return say_plan(conversion.prepared, conversion.place, notes=conversion.notes)
    if dry_run:
        _tell_notes(conversion)
        return show_plan(conversion.prepared, conversion.place)
    return _carry_out(conversion, quiet, verbose)


def _named(source: list[str] | None, dest: str) -> list[str]:
    """What is to be converted. Raises UsageError for a command line that names one thing, or
    nothing.
    """
    if source:
        return source
    if not dest:
        raise UsageError("convert: name the SOURCE and the DEST, as in 'convert a.mnc a.nii.gz'")
    raise UsageError(
        f"convert {dest}: the DEST is missing: name the new file or directory, as in"
        f" 'convert {dest} new.nii.gz'"
    )


def _carry_out(conversion: Conversion, quiet: bool, verbose: bool) -> int:
    """Run a conversion, and send what it made where that is asked for. Returns the exit status."""
    if not quiet:
        with told_if_heard():
            _tell_notes(conversion)
            if verbose:
                show_plan(conversion.prepared, conversion.place)
    result = conversion.run(progress_for(quiet))
    began = time.monotonic()
    sent = conversion.publish(result)
    verb = conversion.options.verb
    code = show_result(result, redact(conversion.dest), quiet, verb, verbose=verbose)
    if sent is not None and not quiet:
        took = f"{show_bytes(sent.nbytes)} in {time.monotonic() - began:.1f} s"
        with told_if_heard():
            typer.echo(f"uploaded   {show_count(sent.files, 'file')}, {took}")
    return code


def _tell_notes(conversion: Conversion) -> None:
    for note in conversion.notes:
        typer.echo(f"note       {note}")
