"""`hyperslab status`: how far a run is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperslab.journal import Tail
from hyperslab.records import load_failures
from hyperslab.rundir import RunDirectory, load_json


def status(out: Annotated[Path, typer.Argument(help="Output directory of a run.")]) -> int:
    """Say what the run in OUT is doing, or how it ended. Exit status 0 when it is running or done, 1 otherwise."""
    directory = RunDirectory(out)
    folder = directory.latest()
    path = folder / "status.json"
    last: dict[str, Any] = load_json(path) if path.is_file() else {"state": "running", "tasks": 0, "done": 0}
    alive = directory.is_owned()
    state = "died" if last["state"] == "running" and not alive else last["state"]
    journal = Tail(folder).poll()
    done = {outcome.task for outcome in journal if outcome.status == "done"}
    failing = {outcome.task: outcome.failure for outcome in journal if outcome.failure and outcome.task not in done}
    typer.echo(f"state      {state}" + (f" (pid {last['pid']} on {last['host']})" if alive and "pid" in last else ""))
    typer.echo(f"tasks      {max(last['done'], len(done))} of {last['tasks']} done, {len(failing)} failing")
    if "time" in last:
        typer.echo(f"last seen  {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(last['time']))}")
    for why in list(failing.values())[:5] if state != "failed" else []:
        typer.echo(f"failing    {why.where}: {why.message}")
    for entry in load_failures(folder)[:5] if state == "failed" else []:
        typer.echo(f"failed     {entry['task']}: {entry['reason']}")
    if state in ("died", "stopped", "cancelled", "failed"):
        typer.echo("next       run the same command with --resume: it repeats only what is missing")
    return 0 if state in ("running", "done") else 1
