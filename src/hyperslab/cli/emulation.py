"""`hyperslab tiers emulate`, `list` and `remove`: directories as slow as another storage."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperslab.cli import document
from hyperslab.cli.flags import Json, choice
from hyperslab.cli.parse import parse_duration, parse_size
from hyperslab.errors import UsageError
from hyperslab.storage.emulation import making, program, registry, removing
from hyperslab.storage.emulation.measured import Measured
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.settings import KINDS, STRIPE_NBYTES, Settings
from hyperslab.units import show_bytes, show_count

Opt = typer.Option

DATA = "Reading and writing, as in: --bandwidth 100MB --latency 1ms"
NAMES = "Names and attributes, as in: --metadata 2ms"
TARGETS = "Targets, as in: --targets 4 --stripe-size 1MiB"
MAKING = "How it is made, as in: --backing /scratch/real"
_MOST_LINKS = 40
"Links that lead to each other, as many as the kernel follows."
_KINDS_TOLD = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())


def emulate(
    kind: Annotated[
        str, typer.Argument(help=f"Kind of tier. {_KINDS_TOLD}.", metavar="|".join(KINDS))
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Empty directory; made if it is not there.")
    ],
    bandwidth: Annotated[
        str | None,
        Opt(help="Bytes per second for all clients, of each target.", rich_help_panel=DATA),
    ] = None,
    write_bandwidth: Annotated[
        str | None, Opt(help="Bytes per second of writes, if others.", rich_help_panel=DATA)
    ] = None,
    latency: Annotated[
        str | None,
        Opt(help="Time that every request takes longer, such as 500us.", rich_help_panel=DATA),
    ] = None,
    write_back: Annotated[
        str | None,
        Opt(
            help="Bytes taken into memory before writers wait for the device; without it, every"
            " write waits (write-through).",
            rich_help_panel=DATA,
        ),
    ] = None,
    fast: Annotated[
        str | None,
        Opt(help="Bytes of memory that are filled before the device.", rich_help_panel=DATA),
    ] = None,
    page_cache: Annotated[
        str | None,
        Opt(
            help="What is in memory when a file is opened again stays there, or is read again; by"
            " default it stays with --write-back.",
            rich_help_panel=DATA,
            **choice("keep", "drop"),
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        Opt(
            help="Time of an operation on names or attributes, of which one is served at a time.",
            rich_help_panel=NAMES,
        ),
    ] = None,
    attributes: Annotated[
        str | None,
        Opt(
            help="Time for which this host takes names and attributes for granted; 1s by default.",
            rich_help_panel=NAMES,
        ),
    ] = None,
    targets: Annotated[int, Opt(help="Targets of the store.", rich_help_panel=TARGETS)] = 1,
    stripe_count: Annotated[
        int | None,
        Opt(help="Targets that a file is laid over; all by default.", rich_help_panel=TARGETS),
    ] = None,
    stripe_size: Annotated[
        str | None,
        Opt(help="Bytes on one target before the next; 1MiB by default.", rich_help_panel=TARGETS),
    ] = None,
    backing: Annotated[
        Path | None,
        Opt(
            help="Directory that holds the files, which may be there already; by default they lie"
            " in DIR, beneath the tier.",
            rich_help_panel=MAKING,
        ),
    ] = None,
    tolerance: Annotated[
        int,
        Opt(
            help="Percent by which the tier may differ from what was asked for.",
            rich_help_panel=MAKING,
        ),
    ] = 10,
    json: Json = False,
) -> int:
    """Make DIR a tier of a kind, as slow as asked for, and measure it; exit status 1 if it is
    another one, which is removed again.
    """
    settings = Settings(
        bandwidth=_size("--bandwidth", bandwidth),
        write_bandwidth=_size("--write-bandwidth", write_bandwidth),
        latency_s=_duration("--latency", latency, 0.0),
        metadata_s=_duration("--metadata", metadata, 0.0),
        write_back_nbytes=_size("--write-back", write_back),
        fast_nbytes=_size("--fast", fast),
        targets=targets,
        stripe_count=stripe_count,
        stripe_nbytes=_size("--stripe-size", stripe_size) or STRIPE_NBYTES,
        page_cache=_is_kept(page_cache),
        attributes_s=_duration("--attributes", attributes, Settings().attributes_s),
    )
    if tolerance < 0:
        raise UsageError(f"--tolerance {tolerance}: give a percentage, such as 10")
    emulation = making.emulate(kind, directory, settings, backing, tolerance / 100)
    if json:
        document.say(emulation.as_json())
        return 0
    typer.echo(f"{emulation.directory} is a {kind} tier: {KINDS[kind]}")
    for line in _table(emulation.measured):
        typer.echo(line)
    typer.echo(f"'hyperslab tiers remove {emulation.directory}' takes it away")
    return 0


def list_(json: Json = False) -> int:
    """List the emulated tiers of this user on this host, and what they have served; also those
    whose program has died.
    """
    found = [(emulation, registry.state_of(emulation)) for emulation in registry.known()]
    if json:
        document.say([{**emulation.as_json(), **_about(emulation, st)} for emulation, st in found])
        return 0
    for emulation, state in found:
        typer.echo(f"{emulation.directory}: {_made_as(emulation)}")
        typer.echo(f"  {_told(emulation, state)}")
    if not found:
        typer.echo("there are no emulated tiers of yours here")
    return 0


def _made_as(emulation: Emulation) -> str:
    """Kind and settings of a tier, as far as they are written down here."""
    if emulation.kind == registry.UNKNOWN:
        return (
            f"not in the records here ({registry.place_of_folder()}), so its settings are not known"
        )
    return f"{emulation.kind}, {emulation.settings.words()}"


def remove(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Directories of tiers.")
    ] = None,
    everything: Annotated[
        bool, Opt("--all", help="Remove all tiers that are in the records of this user.")
    ] = False,
    force: Annotated[
        bool, Opt("--force", help="Cut off whoever is in a tier or has files of it open.")
    ] = False,
) -> int:
    """Remove emulated tiers, also those whose program has died; their files stay where they lie."""
    for emulation in _chosen(directories or [], everything):
        left = removing.remove(emulation, by_force=force)
        typer.echo(f"removed the {emulation.kind} tier {emulation.directory}{_stay(left)}")
    return 0


def _stay(left: int) -> str:
    if left == 0:
        return ""
    return f"; {show_count(left, 'name')} in it stayed"


def _chosen(directories: list[Path], everything: bool) -> list[Emulation]:
    """Tiers that are to be removed. Raises UsageError where a directory is none."""
    known = registry.known()
    if everything:
        return _without_others(known)
    if not directories:
        raise UsageError("give the directories of the tiers, or --all")
    by_place = {emulation.directory: emulation for emulation in known}
    chosen = []
    for directory in directories:
        place = _named_by(directory, by_place)
        if place not in by_place:
            raise UsageError(
                f"{directory} is no emulated tier of yours: 'hyperslab tiers list' names them"
            )
        chosen.append(by_place[place])
    return chosen


def _named_by(directory: Path, known: Container[str]) -> str:
    """The directory, without links, that a path names. A known one is not asked whether it is a
    link: its program may not answer.
    """
    for _ in range(_MOST_LINKS):
        if directory.name in ("", ".."):
            return os.path.realpath(directory)
        directory = directory.parent.resolve() / directory.name
        if str(directory) in known or not directory.is_symlink():
            break
        directory = directory.parent / directory.readlink()
    return str(directory)


def _without_others(known: list[Emulation]) -> list[Emulation]:
    """Tiers without those of another session of this user, which has records of its own."""
    chosen = []
    for emulation in known:
        if emulation.kind == registry.UNKNOWN and registry.state_of(emulation) != "stale":
            typer.echo(
                f"left {emulation.directory}: it answers, and is not in the records here"
                f" ({registry.place_of_folder()}); name it to have it removed",
                err=True,
            )
            continue
        chosen.append(emulation)
    return chosen


def _size(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    return parse_size(flag, text.removesuffix("/s"))


def _duration(flag: str, text: str | None, usual: float) -> float:
    if text is None:
        return usual
    return parse_duration(flag, text)


def _is_kept(page_cache: str | None) -> bool | None:
    words = {None: None, "keep": True, "drop": False}
    if page_cache not in words:
        raise UsageError(f"--page-cache {page_cache}: give keep or drop")
    return words[page_cache]


def _table(measured: tuple[Measured, ...]) -> list[str]:
    rows = [("", "asked for", "measured")]
    rows += [(one.what, one.show_asked(), one.show_value()) for one in measured]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = []
    for row in rows:
        words = [word.ljust(width) for word, width in zip(row, widths, strict=True)]
        lines.append(f"  {'  '.join(words)}".rstrip())
    return lines


def _about(emulation: Emulation, state: registry.State) -> dict[str, Any]:
    served = None
    if state == "mounted":
        try:
            served = program.counters(emulation)
        except OSError:  # it has died since
            served = None
    return {"state": state, "served": served}


def _told(emulation: Emulation, state: registry.State) -> str:
    remedy = f"'hyperslab tiers remove {emulation.directory}' takes it away"
    if state == "stale":
        return f"stale: its program has died; {remedy}"
    if state == "silent":
        return f"silent: its program does not answer; {remedy.replace('remove', 'remove --force')}"
    if state == "elsewhere":
        return "mounted where this process does not see it"
    if state == "gone":
        return f"unmounted by somebody else; {remedy}"
    served = _about(emulation, state)["served"]
    if served is None:
        return "mounted"
    operations = show_count(sum(served["operations"].values()), "operation")
    return (
        f"mounted: served {operations}, read {show_bytes(served['read_nbytes'])}, wrote"
        f" {show_bytes(served['written_nbytes'])}"
    )
