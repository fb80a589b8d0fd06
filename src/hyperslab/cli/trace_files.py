"""`hyperslab trace-files`: operations on files of a command and of all that it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
_OUTPUT, _ERRORS = 1, 2
"Descriptors of standard output and standard error."


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

    Exit status: that of COMMAND. With --json, what COMMAND prints goes to standard error.
    """
    grouped = by.split(",")
    require_by(grouped)
    chosen = choose(way, on)
    _require_new(out, chosen)
    with _said_beside() if json else nullcontext():
        counted = count_files(command, chosen, grouped)
    if json:
        _say(counted)
    else:
        _tell(counted)
    if out is not None:  # told before, should this fail
        assert counted.accesses is not None
        counted.accesses.save(out)
        if not json:
            typer.echo(f"operations {out}")
    return counted.status


@contextmanager
def _said_beside() -> Iterator[None]:
    """A block in which what commands say goes to standard error: standard output is for a document
    alone.
    """
    kept = os.dup(_OUTPUT)
    os.dup2(_ERRORS, _OUTPUT)
    try:
        yield
    finally:
        os.dup2(kept, _OUTPUT)
        os.close(kept)


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
    is_new = not out.exists()
    try:
        out.open("ab").close()
    except OSError as error:
        raise UsageError(f"-o {out}: {error.strerror}; name another file") from None
    if is_new:
        out.resolve().unlink()  # and no link to it
