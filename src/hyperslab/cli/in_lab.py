"""`hyperslab run --netlab SPEC`: the same command in the client's node of a laboratory."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hyperslab.cli.destination import refusal_of
from hyperslab.cli.line import line_without
from hyperslab.cli.telling import mention, told_if_heard
from hyperslab.driver.options import Options
from hyperslab.errors import UsageError
from hyperslab.storage.location import local_folder

if TYPE_CHECKING:
    from hyperslab.network.lab.spec import LabSpec

FLAG = "--netlab"


def _whose(out: str) -> list[str]:
    """What to know of files that are root's though somebody else asked for them."""
    user = os.environ.get("SUDO_USER", "root")
    if user == "root":
        return []
    command = shlex.join(["sudo", "chown", "-R", f"{user}:", local_folder(out)])
    return [f"note       all of this ran as root, and its files are root's: '{command}'"]


def run_in_laboratory(spec: Path, options: Options, out: str, quiet: bool, detach: bool) -> int:
    """Make the laboratory and a cluster on its nodes, run this command in it, and remove both.
    Returns the exit status of the command, or 1 where the links were not what was asked for.
    """
    from hyperslab.apps.netlab.running import lines_of, run_in_lab

    asked = _asked(spec, options, detach)
    if refusal := refusal_of(out):
        raise UsageError(refusal)
    words = line_without(FLAG, "--threads")
    threads = options.threads or 1
    ended = run_in_lab(asked, options.engine, words, threads, Path(local_folder(out)))
    if ended.usage is None:
        return ended.status
    if ended.unreported:
        mention(f"warning    {ended.unreported}")
    if not quiet:
        with told_if_heard():
            lines = lines_of(ended.lab, ended.usage, ended.verdict, ended.changed)
            typer.echo("\n".join([*lines, *_whose(out)]))
    return ended.status or int(bool(ended.usage.starved))


def foreseen(spec: Path, options: Options, detach: bool) -> Options:
    """How a run would go on the nodes of a laboratory, which is not made. Raises UsageError for one
    on which it could not.
    """
    from hyperslab.apps.netlab.cluster import require_nodes
    from hyperslab.apps.netlab.keeper import WORKER

    asked = _asked(spec, options, detach)
    require_nodes(asked, options.engine)
    workers = [name for name in asked.nodes if asked.role(name) == WORKER]
    return replace(options, workers=len(workers), threads=options.threads or 1)


def _asked(spec: Path, options: Options, detach: bool) -> LabSpec:
    """The laboratory of a file, for a run with these options. Raises UsageError."""
    from hyperslab.network.lab import load_spec

    if options.workers:
        raise UsageError(f"{FLAG} and --workers: the nodes of the laboratory are the workers")
    for flag, is_given in (("--connect", bool(options.connect)), ("--detach", detach)):
        if is_given:
            raise UsageError(f"{FLAG} and {flag}: give one of them")
    return load_spec(spec)
