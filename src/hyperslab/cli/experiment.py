"""`hyperslab experiment plan`, `run`, `resume` and `report`: factors varied around a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperslab.apps.experiment.answers import looks
from hyperslab.apps.experiment.answers.answer import answer_of
from hyperslab.apps.experiment.design.cells import chosen
from hyperslab.apps.experiment.design.shipped import SUFFIX, find, shipped
from hyperslab.apps.experiment.pages.figures import write_figures
from hyperslab.apps.experiment.pages.page import write_experiment_page
from hyperslab.apps.experiment.trials import runner
from hyperslab.apps.experiment.trials.attempts import write_attempts
from hyperslab.apps.experiment.trials.directory import ExperimentDirectory
from hyperslab.apps.experiment.trials.estimate import require_space
from hyperslab.apps.experiment.trials.missing import require_engines
from hyperslab.apps.experiment.trials.record import Record
from hyperslab.apps.experiment.trials.runner import Experiment, Wish
from hyperslab.apps.experiment.trials.slips import require_sound
from hyperslab.cli import document, trials
from hyperslab.cli.flags import Json
from hyperslab.cli.listing import Factors, list_
from hyperslab.cli.telling import told_if_heard
from hyperslab.errors import UsageError, suggest

Opt = typer.Option
FOLLOWING = ("list", "plan", "run", "resume", "report", "verdicts")

Spec = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="A shipped spec (see 'hyperslab experiment list'), a file in .toml, or the directory"
        " of an experiment that was begun with a shipped one.",
    ),
]
Scale = Annotated[
    str | None, Opt(help="Scale of the spec, such as smoke or laptop; its first one by default.")
]
Tiers = Annotated[
    list[str],
    Opt(
        "--tier",
        help="A real tier in the place of one of the spec's, as NAME=DIR, such as nfs=/mnt/nfs; may"
        " be repeated.",
    ),
]
Only = Annotated[
    list[str],
    Opt(
        "--only",
        help="Run trials at these levels alone, such as engine=processes,spark; 'resume' runs the"
        " others.",
    ),
]
Out = Annotated[
    Path | None,
    Opt(
        "--out",
        "-o",
        help="Directory of the experiment; by default named by spec and scale, and made here.",
    ),
]
Replicates = Annotated[
    int | None,
    Opt(help="Run so many replicates, more than SPEC asks for; those of earlier runs count."),
]
Keep = Annotated[bool, Opt("--keep", help="Leave outputs of trials and synthetic sources.")]
Quiet = Annotated[bool, Opt("--quiet", "-q", help="Print nothing but errors.")]


def experiment(
    verb: Annotated[
        str | None,
        typer.Argument(metavar="[list|plan|run|resume|report|verdicts]", help="What to do."),
    ] = None,
) -> int:
    """Vary factors around a baseline, in random order and repeated, and say what follows."""
    if verb is not None:
        raise UsageError(
            f"experiment {verb}: there is no such verb{suggest(verb, FOLLOWING)}; choose one of"
            f" {', '.join(FOLLOWING)}"
        )
    return list_()


def plan(
    spec: Spec,
    scale: Scale = None,
    only: Only = [],  # noqa: B006
    factors: Factors = [],  # noqa: B006
    tier: Tiers = [],  # noqa: B006
    out: Out = None,
    keep: Keep = False,
    replicates: Replicates = None,
    json: Json = False,
) -> int:
    """Say which cells there are, how long their trials take and what space they need; do nothing.
    With --json also all trials in their order.

    Exit status 2 where the space is too small.
    """
    asked, wish = _asked(spec, scale, only, factors, tier, out, keep, replicates)
    _require_sound(asked, wish)
    planned = trials.planned(asked, wish)
    if json:
        document.say(planned)
    else:
        for line in (*trials.plan_lines(asked, planned), *trials.cell_lines(planned)):
            typer.echo(line)
    require_space(planned.spaces)
    return 0


def run(
    spec: Spec,
    scale: Scale = None,
    only: Only = [],  # noqa: B006
    factors: Factors = [],  # noqa: B006
    tier: Tiers = [],  # noqa: B006
    out: Out = None,
    keep: Keep = False,
    replicates: Replicates = None,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Run the trials of SPEC, and say what they mean. Exit status 1 when trials failed."""
    asked, wish = _asked(spec, scale, only, factors, tier, out, keep, replicates)
    _require_sound(asked, wish)
    _tell_plan(asked, wish, quiet or json)
    with trials.watching(asked, quiet) as watcher:
        record = runner.begin(asked, wish, watcher)
    return _tell(asked, record, quiet, json)


def resume(
    spec: Spec,
    scale: Scale = None,
    only: Only = [],  # noqa: B006
    factors: Factors = [],  # noqa: B006
    tier: Tiers = [],  # noqa: B006
    out: Out = None,
    keep: Keep = False,
    replicates: Replicates = None,
    retry_failed: Annotated[
        bool, Opt("--retry-failed", help="Run trials that have failed once more.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Go on with an experiment that was interrupted: run the trials that are missing. Exit status 1
    when trials failed.
    """
    asked, wish = _asked(spec, scale, only, factors, tier, out, keep, replicates, retry_failed)
    asked.directory.require_unchanged(asked.loaded)
    _require_sound(asked, wish)
    _tell_plan(asked, wish, quiet or json)
    with trials.watching(asked, quiet) as watcher:
        record = runner.resume(asked, wish, watcher)
    return _tell(asked, record, quiet, json)


def report(
    spec: Spec,
    scale: Scale = None,
    factors: Factors = [],  # noqa: B006
    tier: Tiers = [],  # noqa: B006
    out: Out = None,
    figures: Annotated[
        Path | None,
        Opt(help="Directory for the answer and all tables as Markdown, and the charts as SVG."),
    ] = None,
    csv: Annotated[
        Path | None, Opt(help="File for a line for every attempt at a trial, with its numbers.")
    ] = None,
    in_full: Annotated[
        bool, Opt("--all", help="Print the evidence, all remarks and all makespans, too.")
    ] = False,
    json: Json = False,
) -> int:
    """Say what the trials mean that were run so far, and write the page."""
    asked, _ = _asked(spec, scale, (), factors, tier, out, keep=False)
    asked.directory.require_unchanged(asked.loaded)
    record = asked.record()
    _tell(asked, record, quiet=False, json=json, in_full=in_full)
    if csv is not None:
        write_attempts(csv, record)
    if figures is not None:
        for path in write_figures(figures, asked, record, answer_of(asked, record)):
            if not json:
                typer.echo(f"figures    {path}")
    return 0


def _asked(
    spec: str,
    scale: str | None,
    only: list[str] | tuple[()],
    factors: list[Path],
    tiers: list[str],
    out: Path | None,
    keep: bool,
    replicates: int | None = None,
    retry_failed: bool = False,
) -> tuple[Experiment, Wish]:
    """The experiment that was asked for, and what of it. Raises UsageError."""
    if out is None and ExperimentDirectory(Path(spec)).exists():
        out = Path(spec)
        spec, scale = _begun_with(out, scale)
    loaded = find(spec).load(scale, factors, tiers)
    if replicates is not None:
        loaded = loaded.with_replicates(replicates)
    usual = "-".join(filter(None, [loaded.name.replace("/", "-"), loaded.scale]))
    asked = Experiment.of(loaded, out or Path(usual))
    wanted = chosen(asked.trials, only)
    if not wanted:
        raise UsageError(f"--only {' '.join(only)}: no trial has all of these levels")
    return asked, Wish(wanted, keep, retry_failed)


def _require_sound(asked: Experiment, wish: Wish) -> None:
    """Raise UsageError for slips of a spec, if nothing has begun with it, and for engines that
    trials need which are still to be run, and that cannot run here.
    """
    if not asked.directory.exists():
        require_sound(asked.loaded, asked.inputs)
    record = asked.record()
    require_engines(asked.loaded, [one.cell for one in wish.trials if not record.of(one)])


def _begun_with(out: Path, scale: str | None) -> tuple[str, str | None]:
    """The shipped spec that an experiment began with, and its scale, unless another one is asked
    for. Raises UsageError where it was a file.
    """
    name, own_scale = ExperimentDirectory(out).named()
    if name not in {one.name for one in shipped()}:
        raise UsageError(
            f"SPEC {out}: it began with a spec of your own, {name}{SUFFIX}: give that file, and"
            f" --out {out}"
        )
    return name, scale or own_scale


def _tell_plan(asked: Experiment, wish: Wish, is_silent: bool) -> None:
    """Say what is about to be done."""
    if is_silent:
        return
    with told_if_heard():
        for line in trials.plan_lines(asked, trials.planned(asked, wish)):
            typer.echo(line)


def _tell(asked: Experiment, record: Record, quiet: bool, json: bool, in_full: bool = False) -> int:
    """Write the page, and say what it means. Returns the exit status."""
    looks.note(asked.directory, record)
    answer = answer_of(asked, record)
    write_experiment_page(asked.directory.page, asked, record, answer)
    with told_if_heard():
        if json:
            document.say(trials.told(asked, record, answer))
        elif not quiet:
            for line in trials.answer_lines(asked, answer, in_full):
                typer.echo(line)
        if quiet:
            for line in trials.failure_lines(record):
                typer.echo(line, err=True)
    if any(attempt.state != "done" for attempt in record.counted()):
        return 1
    return 0
