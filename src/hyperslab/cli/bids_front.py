"""`hyperslab-bids`: the command line that BIDS Apps share, in the words of `hyperslab bids`.

Wrappers of such apps know it: labels follow one flag, and some flags have two spellings. What it
does not know, such as --engine, is handed on as it stands, wherever it stands.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
import typer.main

from hyperslab.cli import main as hyperslab
from hyperslab.cli.bids import GROUP, LEVELS, bids

_SHARED = (
    *("--participant-label", "--exclude-participant-label", "--session-label"),
    "--bids-filter-file",
)
"Flags that both command lines have."


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `hyperslab-bids` command; its exit status is that of `hyperslab bids`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    own, handed_on = _divided(given, _taking_values().difference(_SHARED))
    known, others = parser.parse_known_args(own)
    others += handed_on
    if known.mem_mb is not None and not _memory_each(known, others):
        note = "has no effect: nobody knows beforehand what a command needs; use --nprocs"
        if _has_container(others):
            note = "has no effect without --nprocs, as it is for all containers together"
        print(f"hyperslab-bids: --mem-mb {known.mem_mb} {note}", file=sys.stderr)
    if known.work_dir is not None:
        _make(known.work_dir)
    if known.omp_nthreads is not None:
        os.environ["OMP_NUM_THREADS"] = str(known.omp_nthreads)
    hyperslab(translated(known, others))


def _make(work_dir: str) -> None:
    """Make a folder for scratch, unless it is one of each node's, which need not be here."""
    if "$" in work_dir:
        return
    with suppress(OSError):  # who needs it here says so
        Path(work_dir).mkdir(parents=True, exist_ok=True)


def translated(known: argparse.Namespace, others: Sequence[str]) -> list[str]:
    """Arguments for `hyperslab`: those that BIDS Apps have, and all others as they stand. A call
    goes on with what earlier ones into the same directory did, as wrappers expect that call an app
    for one participant after the other, or for several at once.
    """
    line = ["bids", known.bids_dir, known.output_dir, known.analysis_level]
    for flag, labels in (
        ("participant", known.participant_label),
        ("exclude-participant", known.exclude_participant_label),
        ("session", known.session_label),
    ):
        for label in labels:
            line += [f"--{flag}-label", label]
    if known.nprocs is not None:
        line += ["--workers", str(known.nprocs)]
    if known.work_dir is not None:
        line += ["--work-tier", known.work_dir]
    line += _memory_each(known, others)
    if known.bids_filter_file is not None:
        line += ["--bids-filter-file", known.bids_filter_file]
    if known.analysis_level != GROUP and "--resume" not in others:
        line.append("--resume")
    return [*line, *others]


def _taking_values() -> set[str]:
    """The flags of `hyperslab bids` that a value follows."""
    verb = typer.Typer(add_completion=False)
    verb.command()(bids)
    taking = (one for one in typer.main.get_command(verb).params if not _is_switch(one))
    return {name for one in taking for name in one.opts if name.startswith("-")}


def _is_switch(parameter: object) -> bool:
    return getattr(parameter, "is_flag", False)


def _divided(given: Sequence[str], flags: Collection[str]) -> tuple[list[str], list[str]]:
    """The words without some flags, and these with the words behind them."""
    others: list[str] = []
    with_values: list[str] = []
    words = iter(given)
    for word in words:
        if word in flags:
            with_values += [word, *itertools.islice(words, 1)]
        else:
            others.append(word)
    return others, with_values


def _has_container(others: Sequence[str]) -> bool:
    return any(word.partition("=")[0] == "--container" for word in others)


def _memory_each(known: argparse.Namespace, others: Sequence[str]) -> list[str]:
    """The flag for the memory of one container, of --mem-mb for all of them."""
    if not _has_container(others) or known.mem_mb is None or not known.nprocs:
        return []
    return ["--container-memory", str(known.mem_mb * 10**6 // known.nprocs)]


def _parser() -> argparse.ArgumentParser:
    from hyperslab import __version__

    parser = argparse.ArgumentParser(
        prog="hyperslab-bids",
        description="Run an app over the participants of a BIDS dataset, on any engine.",
        epilog="All options of 'hyperslab bids --help' are taken as well, such as --engine and"
        " --app.",
        allow_abbrev=False,
    )
    parser.add_argument("bids_dir", help="folder of a dataset, or of datasets of sites")
    parser.add_argument("output_dir", help="folder of the derivatives")
    parser.add_argument("analysis_level", choices=LEVELS, help="each participant, or all of them")
    several: dict[str, Any] = {"nargs": "+", "action": "extend", "default": []}
    _add(parser, "participant-label", **several, help="with or without sub-; may be repeated")
    _add(parser, "exclude-participant-label", **several, help="who is left out; may be repeated")
    _add(parser, "session-label", **several, help="with or without ses-; may be repeated")
    _add(parser, "bids-filter-file", metavar="FILE", help="JSON that narrows down which images")
    _add(parser, "nprocs", "n-cpus", type=int, metavar="N", help="tasks at a time")
    _add(parser, "omp-nthreads", type=int, metavar="N", help="processors of a task, at most")
    _add(parser, "mem-mb", type=int, metavar="MB", help="memory of all tasks at a time")
    parser.add_argument(
        *("-w", "--work-dir", "--work_dir"), metavar="DIR", help="scratch directories of the tasks"
    )
    _add(
        parser,
        "skip-bids-validation",
        "skip-bids-validator",
        action="store_true",
        help="taken and without effect: nothing is validated without --validate",
    )
    parser.add_argument("--version", action="version", version=f"hyperslab {__version__}")
    return parser


def _add(parser: argparse.ArgumentParser, *names: str, **about: object) -> None:
    """A flag by its names, each with hyphens or with underscores."""
    spelled = (f"--{name.replace('-', sign)}" for name in names for sign in "-_")
    parser.add_argument(*dict.fromkeys(spelled), **about)  # type: ignore[arg-type]
