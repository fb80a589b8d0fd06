"""`hyperslab logs`: what commands have printed, and what they took."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.logs import Logged, logged
from hyperslab.errors import UsageError, suggest
from hyperslab.units import show_bytes, show_count, show_seconds

_HEADER = ("task", "ended", "real", "user", "system", "I/O wait", "memory")


def logs(
    out: Annotated[Path, typer.Argument(help="Output directory of a run of commands.")],
    label: Annotated[
        str, typer.Argument(help="Name of a task, such as sub-01; all tasks in a table without it.")
    ] = "",
    json: Json = False,
) -> int:
    """Show what the command of task LABEL printed, how it ended and what it took; without LABEL how
    all ended, failed ones first. Exit status 1 when one of them failed at last.
    """
    found = logged(RunDirectory.of(out))
    if label:
        found = _of(found, label)
    last = {one.label: one for one in found}
    if json:
        document.say(list(map(_facts, found)))
    elif label:
        for one in found:
            _show(one)
    else:
        _tabulate(sorted(last.values(), key=lambda one: not one.failure))
    return 1 if any(one.failure for one in last.values()) else 0


def _of(found: Sequence[Logged], label: str) -> list[Logged]:
    own = [one for one in found if one.label == label]
    if not own:
        known = {one.label for one in found}
        raise UsageError(
            f"no command of a task {label} has ended{suggest(label, known)}: 'hyperslab logs OUT'"
            f" lists {show_count(len(known), 'task')} of which one has"
        )
    return own


def _facts(one: Logged) -> dict[str, object]:
    """An attempt for programs."""
    ran = one.ran
    return {
        "task": one.label,
        "attempt": one.attempt,
        "failure": one.failure,
        "command": ran.command,
        "status": ran.status,
        "real_s": ran.real_s,
        "user_s": ran.user_s,
        "system_s": ran.system_s,
        "io_wait_s": ran.waited_s,
        "max_rss_nbytes": ran.max_rss,
        "log": one.path,
        "offset": ran.offset,
        "nbytes": ran.nbytes,
    }


def _ended(status: int) -> str:
    if status < 0:
        return f"signal {-status}"
    return f"exit {status}"


def _became(one: Logged) -> str:
    """How a command ended, and whether its task has failed, which one that ended well may have."""
    if one.failure:
        return f"{_ended(one.ran.status)}, failed"
    return _ended(one.ran.status)


def _numbers(one: Logged) -> list[str]:
    ran = one.ran
    times = (ran.real_s, ran.user_s, ran.system_s, ran.waited_s)
    return [*map(show_seconds, times), show_bytes(ran.max_rss)]


def _show(one: Logged) -> None:
    """One attempt, and what it has printed."""
    typer.echo(f"task       {one.label}, attempt {one.attempt + 1}")
    typer.echo(f"command    {one.ran.command}")
    typer.echo(f"ended      {_ended(one.ran.status)}")
    if one.failure:
        typer.echo(f"failed     {one.failure}")
    real, user, system, waited, memory = _numbers(one)
    typer.echo(f"time       real {real}, user {user}, system {system}, I/O wait {waited}")
    typer.echo(f"memory     {memory} at its peak")
    typer.echo(f"printed    {show_bytes(one.ran.nbytes)}, in {one.path}")
    typer.echo(one.printed().decode(errors="replace"), nl=False)


def _tabulate(found: Sequence[Logged]) -> None:
    rows = [list(_HEADER)]
    rows += [[one.label, _became(one), *_numbers(one)] for one in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        typer.echo("  ".join(cells).rstrip())
