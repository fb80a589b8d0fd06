"""`--scratch` of a run: the same command, with temporary files in scratch of its own.

Flags of tiers that are given the word 'scratch' name its directory in that command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hyperslab.cli.line import line_without
from hyperslab.cli.telling import mention
from hyperslab.driver.options import Options
from hyperslab.engines.environment import itself
from hyperslab.errors import UsageError
from hyperslab.plan.command import Execute
from hyperslab.plan.pipeline import Pipeline

FLAG = "--scratch"
WORD = "scratch"
"What a flag of a tier is given that means the scratch of its run."
_WORK = "work_tier"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to lie in scratch."""

    text: str
    "Where scratch is to be; '': there is none."
    tiers: tuple[str, ...] = ()
    "Options of tiers that are to name its directory."


def told_apart(text: str, tiers: Mapping[str, Any]) -> tuple[Wanted, dict[str, Any]]:
    """What is to lie in scratch, and the options of tiers without those that are to name it, as
    there is none yet.
    """
    named: tuple[str, ...] = ()
    if text:
        named = tuple(name for name, value in tiers.items() if value == WORD)
    return Wanted(text, named), {**tiers, **dict.fromkeys(named, "")}


def run_with_scratch(
    wanted: Wanted, options: Options, quiet: bool, pipeline: Pipeline | None = None
) -> int:
    """Run this command again, which leaves temporary files in scratch. Returns its exit status.

    Engines spill and shuffle blocks of a pipeline there. Commands, as which no pipeline counts,
    have their scratch folders there, unless a tier is named for these.
    """
    from hyperslab.apps.scratch import held, run_within, wish_for_run

    if options.is_elsewhere:
        raise UsageError(
            f"{FLAG} is for workers of this host: leave it out, or leave out --connect and take an"
            " --engine that runs here"
        )
    tiers = wanted.tiers
    nbytes = _nbytes_of(pipeline, len(tiers))
    if nbytes is None and not options.work_tier:
        tiers = tuple(dict.fromkeys((*tiers, _WORK)))
    with held(wish_for_run(wanted.text, nbytes)) as made:
        ended = run_within(made, itself(_line(tiers, made.folder)))
    for note in ended.notes:
        mention(f"warning    {note}", quiet=quiet)
    return ended.status


def _nbytes_of(pipeline: Pipeline | None, staged: int) -> int | None:
    """Bytes that engines may spill, and as many for each of the ways that are staged; None of
    commands, as nobody knows what these write.
    """
    if pipeline is None or isinstance(pipeline.end, Execute):
        return None
    sources = [source for each in pipeline.inputs.values() for source in each.sources]
    return sum(source.nbytes for source in sources) * (1 + staged)


def _line(tiers: Sequence[str], folder: str) -> list[str]:
    """The words of this command without scratch, whose tiers of these names are in a folder."""
    flags = [f"--{name.replace('_', '-')}" for name in tiers]
    given = [word for flag in flags for word in (flag, folder)]
    return line_without(FLAG, *flags, instead=given)
