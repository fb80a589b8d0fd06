"""`hyperslab experiment verdicts`: the claims of a paper, judged by its experiments."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from hyperslab.apps.experiment.answers import looks
from hyperslab.apps.experiment.claims import kept
from hyperslab.apps.experiment.claims.kept import Head
from hyperslab.apps.experiment.claims.page import Paper, findings_of, paper_of, write_verdicts
from hyperslab.apps.experiment.design.named import with_real
from hyperslab.apps.experiment.design.shipped import find
from hyperslab.apps.experiment.design.spec import Loaded
from hyperslab.apps.experiment.trials import runner
from hyperslab.apps.experiment.trials.begun import as_begun
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment, Wish
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
    kept_records: Annotated[
        Path | None,
        Opt(
            "--from",
            metavar="FILE",
            help="Make the page again from records that were kept beside one; runs no trial.",
        ),
    ] = None,
    quiet: Annotated[bool, Opt("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> int:
    """Judge what PAPER states by experiments of your own: claim by claim, with numbers and figures.

    Every claim is reproduced, refuted, open or not tested, as far as the experiments of its specs
    have run; those that began with an earlier spec are judged by that one, which the page says.
    Exit status 1 with --run when trials failed. What the page is made from is kept beside it, in
    records/PAPER.jsonl.gz: --from makes the page of it again, anywhere.
    """
    asked = paper_of(paper)
    if kept_records is not None:
        return _made_again(asked, kept_records, out, quiet)
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
    if not findings_of([begun.experiment for begun in there]):
        raise UsageError(
            f"none of the experiments {', '.join(usual)} is in {root.absolute()}: run them first,"
            " or say --run"
        )
    head = Head(asked.name, scale, tier, _command(asked.name, scale, tier, root, out))
    folders = {one.experiment.loaded.name: one.experiment.directory for one in there}
    page = _page(asked, head.packed(folders), out)
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


def _made_again(asked: Paper, path: Path, out: Path, quiet: bool) -> int:
    """Make a page from records that were kept beside one."""
    page = _page(asked, kept.kept_in(path), out)
    if not quiet:
        with told_if_heard():
            typer.echo(f"verdicts   {page}")
    return 0


def _page(asked: Paper, text: str, out: Path) -> Path:
    """Write a page with what it is made from, and from nothing else."""
    with TemporaryDirectory(prefix="hyperslab-verdicts-") as name:
        head, folders = kept.unpacked(text, Path(name))
        if head.paper != asked.name:
            raise UsageError(
                f"--from: these are records of {head.paper}; say 'hyperslab experiment verdicts"
                f" {head.paper}'"
            )
        experiments = [Experiment.of(_loaded(spec, head), at) for spec, at in folders.items()]
        there = [as_begun(one) for one in experiments]
        findings = findings_of([begun.experiment for begun in there])
        page = write_verdicts(out, asked, findings, head.command, there)
    kept.keep(out, asked.name, text)
    return page


def _loaded(spec: str, head: Head) -> Loaded:
    """A spec as it is by now, with the real tiers that it was run on, here or elsewhere."""
    loaded = find(spec).load(head.scale)
    tiers = with_real(loaded.spec.tiers, head.tiers, are_here=False)
    return replace(loaded, spec=loaded.spec.model_copy(update={"tiers": tiers}))


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
    with trials.watching(experiment, quiet) as watcher:
        if experiment.directory.exists():
            return runner.resume(experiment, wish, watcher)
        return runner.begin(experiment, wish, watcher)
