"""`hyperslab experiment verdicts`: the claims of a paper, judged by its experiments."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.apps.experiment import looks, runner
from hyperslab.apps.experiment.begun import as_begun
from hyperslab.apps.experiment.claims.page import findings_of, paper_of, write_verdicts
from hyperslab.apps.experiment.record import Record
from hyperslab.apps.experiment.runner import Experiment, Wish
from hyperslab.apps.experiment.shipped import find
from hyperslab.cli import trials
from hyperslab.cli.telling import told_if_heard
from hyperslab.errors import UsageError
from hyperslab.units import show_count, show_seconds

Opt = typer.Option


def verdicts(
    paper: Annotated[
        str,
        typer.Argument(
            metavar="PAPER",
            help="dask-vs-spark, storage-tiers, dask-network, spark-on-lustre or h5spark.",
        ),
    ],
    scale: Annotated[
        str, Opt(help="Scale of its specs: quick, laptop or paper, for example.")
    ] = "laptop",
    out: Annotated[Path, Opt("--out", "-o", help="Directory for the page and its figures.")] = Path(
        "verdicts"
    ),
    root: Annotated[
        Path, Opt("--in", help="Directory in which the experiments are, each in one of its own.")
    ] = Path(),
    run: Annotated[
        bool, Opt("--run", help="Run the trials that are missing first, of every spec.")
    ] = False,
    tier: Annotated[
        list[str],
        Opt("--tier", help="A real tier in the place of one of the specs', as NAME=DIR."),
    ] = [],  # noqa: B006
    quiet: Annotated[bool, Opt("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> int:
    """Judge what PAPER states by experiments of your own: claim by claim, with numbers and figures.

    Every claim is reproduced, refuted, open or not tested, as far as the experiments of its specs
    have run; those that began with an earlier spec are judged by that one, which the page says.
    Exit status 1 with --run when trials failed.
    """
    asked = paper_of(paper)
    loaded = [find(spec).load(scale, (), tier) for spec in asked.specs]
    usual = [f"{one.name.replace('/', '-')}-{scale}" for one in loaded]
    experiments = [Experiment.of(one, root / name) for one, name in zip(loaded, usual, strict=True)]
    failed = 0
    if run:
        _tell_plan(experiments, quiet)
        for experiment in experiments:
            failed += _failed(_run(experiment, quiet))
    there = [as_begun(one) for one in experiments if one.directory.record.exists()]
    for begun in there:
        looks.note(begun.experiment.directory, begun.experiment.record())
    findings = findings_of([begun.experiment for begun in there])
    if not findings:
        raise UsageError(
            f"none of the experiments {', '.join(usual)} is in {root.absolute()}: run them first,"
            " or say --run"
        )
    made_by = _command(asked.name, scale, tier, root, out)
    page = write_verdicts(out, asked, findings, made_by, there)
    if not quiet:
        with told_if_heard():
            typer.echo(f"verdicts   {page}")
            if failed:
                typer.echo(
                    f"failed     {show_count(failed, 'trial')}; the page says which, and why"
                )
    if failed:
        return 1
    return 0


def _failed(record: Record) -> int:
    """Number of trials of which no attempt has come to its end."""
    return sum(attempt.state != "done" for attempt in record.counted())


def _command(paper: str, scale: str, tiers: list[str], root: Path, out: Path) -> str:
    """The command that makes a page from nothing."""
    given = [part for one in tiers for part in ("--tier", one)]
    if root != Path():
        given += ["--in", str(root)]
    words = ["hyperslab", "experiment", "verdicts", paper, "--scale", scale, "--run", *given]
    return shlex.join([*words, "-o", str(out)])


def _tell_plan(experiments: Sequence[Experiment], quiet: bool) -> None:
    """Say how long all of it takes."""
    if quiet:
        return
    plans = [trials.planned(one, Wish(one.trials)) for one in experiments]
    with told_if_heard():
        for one, plan in zip(experiments, plans, strict=True):
            left = show_count(plan.trials - plan.done, "trial")
            typer.echo(f"{one.loaded.name}: {left}, about {show_seconds(plan.seconds)}")
        total_s = sum(plan.seconds for plan in plans)
        typer.echo(f"time       about {show_seconds(total_s)} in all (starved trials take more)")


def _run(experiment: Experiment, quiet: bool) -> Record:
    """Run what is missing of an experiment, also of one that was killed as it began."""
    wish = Wish(experiment.trials, going_on="the same command, with --run,")
    with trials.watching(quiet) as watcher:
        if experiment.directory.exists():
            return runner.resume(experiment, wish, watcher)
        return runner.begin(experiment, wish, watcher)
