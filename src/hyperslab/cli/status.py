"""`hyperslab status`: how far a run is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.driver import manage
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.submission import load_failures
from hyperslab.report.failures import (
    Failed,
    failed,
    flags_to_resume,
    grouped,
    kept_words,
    where_words,
)
from hyperslab.units import show_count

SHOWN = 5


def status(
    out: Annotated[Path, typer.Argument(help="Output directory of a run.")], json: Json = False
) -> int:
    """Say what the run in OUT is doing, or how it ended. Exit status 0 when it is running or done,
    1 otherwise.
    """
    now = manage.status(out)
    if json:
        document.say(now)
    else:
        tell(now, out)
    return 0 if now.state in ("running", "done") else 1


def tell(now: manage.Status, out: Path) -> None:
    """Print how far a run is, or how it ended."""
    typer.echo(f"state      {now.state}{_circumstance(now)}")
    word = "failed"
    if now.state == "running":
        word = "failing"
    failures = ""
    if now.failing:
        failures = f", {len(now.failing):,} {word}"
    typer.echo(f"tasks      {now.done:,} of {now.tasks:,} done{failures}")
    if now.jobs:
        typer.echo(f"jobs       {now.jobs}")
    if now.damaged:
        lines = show_count(now.damaged, "line")
        typer.echo(
            f"damaged    {lines} of the journal; --resume repeats the tasks that only they recorded"
        )
    if now.seen is not None:
        typer.echo(f"last seen  {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now.seen))}")
    listed: list[Failed] = []
    if now.state == "failed":
        listed = load_failures(RunDirectory.of(out).latest())
        _show("failed", listed)
    else:
        _show(word, [failed(why.where, why, 1) for why in now.failing])
    if now.ended_early:
        typer.echo(f"ended      early: {now.ended_early}")
    if now.why_stopped:
        typer.echo(f"because    {now.why_stopped}")
    if now.state in ("died", "stopped", "cancelled", "failed"):
        flags = " ".join(flags_to_resume(listed, now.done))
        advice = f"run the same command with {flags}: it does only what is missing"
        kept = kept_words(listed, now.done)
        typer.echo(f"next       {'; '.join(filter(None, (advice, kept)))}")


def _circumstance(now: manage.Status) -> str:
    """Who has said so, or that nobody has."""
    if now.owner:
        return f" ({now.owner})"
    if not now.is_known:
        return ", unless its jobs are gone"
    return ""


def _show(word: str, failures: Sequence[Failed]) -> None:
    """Say why tasks failed, equal failures in one line with a count."""
    for group in grouped(failures)[:SHOWN]:
        tasks = group.first.task
        if group.count > 1:
            tasks = show_count(group.count, "task")
        reason = group.first.message
        if tasks:
            reason = f"{tasks}: {reason}"
        typer.echo(f"{word:<10} {reason}")
        if where := where_words(group.first):
            typer.echo(f"           {where}")
