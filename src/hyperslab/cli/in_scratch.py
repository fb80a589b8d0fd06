"""`--scratch` of a run: the same command, with temporary files in scratch of its own.

Flags of tiers that are given the word 'scratch' name its directory in that command.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyperslab.cli.companions import join
from hyperslab.cli.line import line_without
from hyperslab.cli.telling import mention
from hyperslab.driver.options import Options
from hyperslab.engines.environment import itself
from hyperslab.engines.facts import facts_of
from hyperslab.plan.command import OWN_SCRATCH, Execute
from hyperslab.plan.pipeline import Pipeline
from hyperslab.storage.staging import area

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


def _is_of_workers(wanted: Wanted, options: Options) -> bool:
    """Whether each worker is to make scratch for itself, as those on other hosts have to. What is
    staged there is the driver's, too.
    """
    if not wanted.text:
        return False
    if options.is_elsewhere:
        return True
    return facts_of(options.engine).spans_hosts and not _staged(wanted)


def _staged(wanted: Wanted) -> list[str]:
    return [name for name in wanted.tiers if name != _WORK]


def left_to_workers(wanted: Wanted, options: Options) -> Options:
    """The options of a run each of whose workers is to make scratch, if any is wanted; where the
    driver makes it they stay as they are. Raises UsageError where workers cannot, and for what is
    to be staged there.
    """
    if not _is_of_workers(wanted, options):
        return options
    staged: dict[str, Any] = dict.fromkeys(_staged(wanted), WORD)
    return replace(options, scratch=wanted.text, **staged)


def enter_scratch(
    text: str, engine: str, connect: str, is_command: bool, tiers: Mapping[str, Any]
) -> None:
    """Where this process is one of several that were started together, go on as the same command
    with scratch of its own, before they know of each other; else there is nothing to do. Commands
    have their scratch folders there, unless a tier is named for these. Raises UsageError for what
    is to be staged there, as the command that goes on has no such flag any more.
    """
    if not text or not connect or not facts_of(engine).spans_hosts:
        return
    wanted, _ = told_apart(text, tiers)
    for name in _staged(wanted):
        area.require_tier(f"--{name.replace('_', '-')}", WORD, is_elsewhere=True)
    flags = [FLAG]
    given: list[str] = []
    if is_command and tiers[_WORK] in ("", WORD):
        flags.append("--work-tier")
        given = ["--work-tier", OWN_SCRATCH]
    from hyperslab.engines.scratched import TOGETHER, words_before  # which few runs need

    words = [*words_before(text, None, TOGETHER), *itself(line_without(*flags, instead=given))]
    os.execv(words[0], words)  # noqa: S606  # this Python again


def join_in_scratch(
    engine: str, connect: str, scratch: str, tiers: Mapping[str, Any]
) -> tuple[Wanted, dict[str, Any]]:
    """Go on as the driver of commands alone, with scratch where this process is to have its own.
    Returns what `told_apart` does.
    """
    enter_scratch(scratch, engine, connect, True, tiers)
    join(engine, connect)
    return told_apart(scratch, tiers)


def run_with_scratch(wanted: Wanted, options: Options, pipeline: Pipeline | None = None) -> int:
    """Run this command again, which leaves temporary files in scratch. Returns its exit status.

    Engines spill and shuffle blocks of a pipeline there. Commands, as which no pipeline counts,
    have their scratch folders there, unless a tier is named for these.
    """
    from hyperslab.storage.scratch.holding import held, run_within, wish_for_run

    tiers = wanted.tiers
    nbytes = _nbytes_of(pipeline, len(tiers))
    if nbytes is None and not options.work_tier:
        tiers = tuple(dict.fromkeys((*tiers, _WORK)))

    def tell(note: str) -> None:
        mention(f"warning    {note}")

    with held(wish_for_run(wanted.text, nbytes), tell) as made:
        return run_within(made, itself(_line(tiers, made.folder)))


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
