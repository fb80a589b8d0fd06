"""`hyperslab experiment list`: the shipped specs in short, one of them, or the factors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from hyperslab.apps.experiment.design.factors import FACTORS, load_factors, load_installed_factors
from hyperslab.apps.experiment.design.shipped import PAPERS, SpecFile, shipped
from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.errors import UsageError, suggest
from hyperslab.units import show_count, show_list, show_seconds

FACTORS_WORD = "factors"
"Word that stands for the factors, beside names of specs and papers."
EXAMPLE = "dask-vs-spark/incrementation"
SCALES = {
    "smoke": "does it work here? a few trials, under a minute",
    "quick": "the cells that judge a paper, minutes",
    "laptop": "all cells, under an hour",
    "paper": "sizes and levels of the paper, for a cluster",
}
"Meaning of the scales of shipped specs."
Factors = Annotated[
    list[Path],
    typer.Option("--factors", help="Python file that registers factors; may be repeated."),
]


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="A spec or a paper, of which trials and time are told, or 'factors'.",
        ),
    ] = None,
    factors: Factors = [],  # noqa: B006
    json: Json = False,
) -> int:
    """List the shipped specs, or say more of NAME; 'factors' are those that a spec can vary."""
    load_installed_factors()
    for path in factors:
        load_factors(path.absolute())
    specs = shipped()
    if json:
        document.say(
            {
                "specs": [
                    {
                        "name": one.name,
                        "title": one.title,
                        "question": one.question,
                        "scales": one.scales,
                    }
                    for one in specs
                ],
                "factors": [{"name": one.name, "about": one.about} for one in FACTORS.values()],
            }
        )
        return 0
    lines = short_lines(specs) if name is None else lines_about(name, specs)
    for line in lines:
        typer.echo(line)
    return 0


def short_lines(specs: Sequence[SpecFile]) -> Iterator[str]:
    """All specs, each with its question, by the paper that they are after, and what to type next;
    nothing is computed for it.
    """
    width = max(len(_own_name(spec)) for spec in specs)
    for paper, own in groupby(specs, key=lambda spec: spec.paper):
        yield f"{paper}/  {PAPERS[paper]}"
        for spec in own:
            yield f"  {_own_name(spec):<{width}}  {spec.question}"
    yield ""
    for name, meaning in SCALES.items():
        yield f"--scale {name:<6}  {meaning}"
    yield ""
    yield f"more     hyperslab experiment list {EXAMPLE}"
    yield f"factors  hyperslab experiment list {FACTORS_WORD}"
    yield f"next     hyperslab experiment plan {EXAMPLE} --scale quick"
    yield "claims   hyperslab experiment verdicts PAPER --scale quick --run"
    yield f"         judges those of a paper: {show_list(list(PAPERS))}"


def _own_name(spec: SpecFile) -> str:
    """Name of a spec in its family."""
    return spec.name.partition("/")[2]


def lines_about(name: str, specs: Sequence[SpecFile]) -> Iterator[str]:
    """The factors, or the specs of a name or of a paper, with trials and time of every scale.
    Raises UsageError.
    """
    if name == FACTORS_WORD:
        yield from _factor_lines()
        return
    wanted = [spec for spec in specs if name in (spec.name, spec.paper)]
    if not wanted:
        known = [FACTORS_WORD, *PAPERS, *(spec.name for spec in specs)]
        raise UsageError(
            f"NAME {name}: there is no such spec or paper{suggest(name, known)};"
            " 'hyperslab experiment list' names all"
        )
    for spec in wanted:
        yield from _spec_lines(spec)


def _spec_lines(spec: SpecFile) -> Iterator[str]:
    from hyperslab.apps.experiment.trials.record import Record  # the short list needs none of it
    from hyperslab.apps.experiment.trials.runner import Experiment

    yield f"{spec.name}: {spec.title}"
    yield f"  {spec.question}"
    for scale in spec.scales:
        asked = Experiment.of(spec.load(scale), Path(spec.name))
        trials = show_count(len(asked.trials), "trial")
        total = show_seconds(asked.estimator.left_s(asked.trials, Record()))
        yield f"  {scale:<6}  {trials}, about {total} (a guess; 'plan' says what of)"


def _factor_lines() -> Iterator[str]:
    width = max(map(len, FACTORS))
    for one in FACTORS.values():
        yield f"{one.name:<{width}}  {one.about}"
