"""`hyperslab trace-files`: operations on files of a command and of all that it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperslab.apps.files.counting import Counted, count_files, require_by
from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.errors import UsageError
from hyperslab.report.files.lines import sentence, table
from hyperslab.storage.accounting.choosing import WAYS, Chosen, choose

Opt = typer.Option


def trace_files(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="Any program with its arguments.")
    ],
    by: Annotated[
        str, Opt(help="What operations are put together by: directory, kind, phase, or several.")
    ] = "kind,directory",
    way: Annotated[
        str | None,
        Opt(help="How they are counted: bpf, fuse, strace or proc; the best that works."),
    ] = None,
    on: Annotated[
        Path | None,
        Opt(help="Directory to count on, by a file system that passes all on (--way fuse)."),
    ] = None,
    out: Annotated[
        Path | None,
        Opt("--out", "-o", help="Also write every operation, as FILE.parquet."),
    ] = None,
    json: Json = False,
) -> int:
    """Run COMMAND and count its operations on files, with those of all that it starts: by
    directory, by kind of file, by phase.

    Exit status: that of COMMAND.
    """
    grouped = by.split(",")
    require_by(grouped)
    chosen = choose(way, on)
    _require_new(out, chosen)
    counted = count_files(command, chosen, grouped)
    if out is not None:
        assert counted.accesses is not None
        counted.accesses.save(out)
    if json:
        _say(counted)
        return counted.status
    _tell(counted)
    if out is not None:
        typer.echo(f"operations {out}")
    return counted.status


def _say(counted: Counted) -> None:
    told = {
        "status": counted.status,
        "counted": counted.chosen,
        "sentence": sentence(counted.numbers),
        "advice": counted.advice,
        "files": counted.numbers,
    }
    document.say(told)


def _tell(counted: Counted) -> None:
    typer.echo(f"\n{sentence(counted.numbers)}\n")
    typer.echo("\n".join(table(counted.numbers)))
    if counted.advice:
        typer.echo(f"\n{counted.advice}")
    typer.echo(f"\ncounted by {counted.chosen.way}: {WAYS[counted.chosen.way]}")
    for better, why in counted.chosen.passed_over.items():
        typer.echo(f"not by     {better}: {why}")
    for note in counted.numbers.notes:
        typer.echo(f"note       {note}")


def _require_new(out: Path | None, chosen: Chosen) -> None:
    """Raise UsageError before the command is run, rather than after it."""
    if out is None:
        return
    if not chosen.knows_each:
        raise UsageError(f"-o {out}: {chosen.way} counts sums alone; leave -o out")
    if out.is_dir():
        raise UsageError(f"-o {out}: is a directory; name a file, such as {out / 'files.parquet'}")
    if not out.absolute().parent.is_dir():
        raise UsageError(f"-o {out}: there is no directory {out.absolute().parent}")
