"""What `hyperslab bids` says before anything runs: what there is to do, and what is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from hyperslab.apps.bids.app import App
from hyperslab.apps.bids.containers.runtimes import Container
from hyperslab.apps.bids.dataset import derivatives, is_divided
from hyperslab.apps.bids.earlier import done_in, held_to_ways, mention_held
from hyperslab.apps.bids.foretelling import outlook
from hyperslab.apps.bids.running import Selection, units_of
from hyperslab.apps.bids.unit import fault_lines
from hyperslab.cli.telling import mention
from hyperslab.driver.options import Options
from hyperslab.units import show_count

_NAMED = 5


def foretell_group(selection: Selection, out: Path) -> int:
    """Say what a group level would do."""
    people = {unit.participant for unit in (*selection.units, *selection.without_images)}
    typer.echo(f"dataset    {selection.root}")
    typer.echo(f"group      {show_count(len(people), 'participant')}, of what is in {out}")
    return 0


def foretell(
    selection: Selection, app: App, out: Path, options: Options, contained: Container | None
) -> int:
    """Say what a run would do, and what it would take."""
    tasks = units_of(selection, app)
    expected = outlook(tasks, out, options, contained)
    participants = len({unit.participant for unit in tasks})
    images = sum(len(unit.images) for unit in tasks)
    sites = len(selection.datasets)
    of_sites = f" of {show_count(sites, 'site')}" if sites > 1 else ""
    typer.echo(f"dataset    {selection.root}")
    typer.echo(f"found      {show_count(participants, 'participant')}{of_sites}")
    typer.echo(f"images     {images:,}")
    if made := [os.path.relpath(one, selection.root) for one in _derivatives(selection)]:
        typer.echo(f"beside     {_listed(made)}")
    typer.echo(f"tasks      {len(tasks):,}, of {app.title}")
    for line in (*expected.lines(), *_left_out(selection, app)):
        typer.echo(line)
    if options.resume:
        mention_held(tasks, held_to_ways(tasks, done_in(out), out), typer.echo)
    return 0


def _derivatives(selection: Selection) -> list[str]:
    """What was made of the datasets before, and lies in them."""
    return [folder for dataset in selection.datasets for folder in derivatives(dataset)]


def mention_left_out(selection: Selection, app: App, quiet: bool) -> None:
    """Say what no task works on, and whose task fails before it begins."""
    for line in _left_out(selection, app):
        mention(line, quiet=quiet)


def _left_out(selection: Selection, app: App) -> Iterator[str]:
    """What no task works on, or can work on, and what else is not looked at."""
    yield from app.notes
    yield from fault_lines([unit for unit in selection.units if unit.fault])
    if app.needs_images and selection.without_images:
        labels = [unit.label for unit in selection.without_images]
        yield f"left out   {_listed(labels)}: no image that is wanted"
    mixed = _mixed(selection)
    if mixed:
        yield f"left out   what {_listed(mixed)} has in no session: ask without --per session"


def _mixed(selection: Selection) -> list[str]:
    """Participants with something beside their sessions, where each of these is a task."""
    asked = selection.asked
    if asked.per != "session" or asked.session_labels:
        return []
    units = (*selection.units, *selection.without_images)
    participants = dict.fromkeys(unit.participant for unit in units if not unit.fault)
    return [one.name for one in participants if not is_divided(one)]


def _listed(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    return f"{', '.join(labels[:_NAMED])}{more}"
