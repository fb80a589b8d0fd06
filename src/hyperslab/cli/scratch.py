"""`hyperslab scratch create`, `exec`, `list` and `remove`: directories for temporary files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperslab.apps.scratch import run_in_scratch, wish_of
from hyperslab.cli import document
from hyperslab.cli.flags import Json
from hyperslab.cli.parse import parse_size
from hyperslab.cli.telling import mention
from hyperslab.errors import UsageError, suggest
from hyperslab.machine.within import within
from hyperslab.storage.scratch import program, registry, removing, sizing
from hyperslab.storage.scratch.holding import surroundings
from hyperslab.storage.scratch.making import AUTO, Wish
from hyperslab.storage.scratch.making import create as made_as_wished
from hyperslab.storage.scratch.registry import Scratch
from hyperslab.storage.scratch.ways import WAYS, is_unlimited
from hyperslab.units import show_bytes

Opt = typer.Option
FOLLOWING = ("create", "exec", "list", "remove")
LEAST_ANSWER_S = 0.1
"Time that each scratch has to say how much room there is, however long others have taken."
SIZES = "How large it is, as in: --bytes 10GB --maps 200 --reduces 200"
_WAYS_TOLD = "; ".join(f"{name}: {way.words}" for name, way in WAYS.items())

On = Annotated[
    Path | None,
    Opt(
        "--on",
        metavar="DIR",
        help="Directory on the storage that holds the contents; by default that of temporary"
        " files.",
    ),
]
Size = Annotated[
    str | None,
    Opt(help="Room, such as 50GB; by default half of what is free.", rich_help_panel=SIZES),
]
ShuffledBytes = Annotated[
    str | None,
    Opt("--bytes", help="Bytes that a shuffle moves, instead of --size.", rich_help_panel=SIZES),
]
Maps = Annotated[int, Opt(help="Tasks that write to it.", rich_help_panel=SIZES)]
Reduces = Annotated[int, Opt(help="Tasks that read from it.", rich_help_panel=SIZES)]
WayName = Annotated[str, Opt("--way", help=f"How it is made. {_WAYS_TOLD}.")]
Fallback = Annotated[
    Path | None,
    Opt(metavar="DIR", help="Directory in which files go on when there is no room left."),
]


def scratch(
    verb: Annotated[
        str | None, typer.Argument(metavar="[create|exec|list|remove]", help="What to do.")
    ] = None,
) -> int:
    """Make directories for temporary files in which names cost nothing, on storage where they do,
    and run commands with them.
    """
    if verb is not None:
        raise UsageError(
            f"scratch {verb}: there is no such verb{suggest(verb, FOLLOWING)}; choose one of"
            f" {', '.join(FOLLOWING)}"
        )
    return list_()


def create(
    on: On = None,
    size: Size = None,
    nbytes: ShuffledBytes = None,
    maps: Maps = 1,
    reduces: Reduces = 1,
    way: WayName = AUTO,
    fallback: Fallback = None,
    json: Json = False,
) -> int:
    """Make scratch, which is there until it is removed, and print its directory."""
    wish = _wish(on, size, nbytes, maps, reduces, way, fallback, is_kept=True)
    made = made_as_wished(wish)
    if json:
        document.say(_document(made))
        return 0
    typer.echo(made.path)
    for line in _told(made, time.monotonic() + sizing.ANSWER_S):
        mention(line)
    mention(f"'hyperslab scratch remove {made.name}' takes it away")
    return 0


def exec_(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="Command, with options of its own."),
    ],
    on: On = None,
    size: Size = None,
    nbytes: ShuffledBytes = None,
    maps: Maps = 1,
    reduces: Reduces = 1,
    way: WayName = AUTO,
    fallback: Fallback = None,
) -> int:
    """Run COMMAND with scratch of its own, to which its temporary files go, Spark's and Dask's,
    too. Options of this command stand before COMMAND. Exit status: that of COMMAND.
    """
    words = command[command[0] == "--" :]
    if not words:
        raise UsageError("give a command behind the options")

    def tell(note: str) -> None:
        mention(f"warning    {note}")

    return run_in_scratch(_wish(on, size, nbytes, maps, reduces, way, fallback), words, tell)


def list_(json: Json = False) -> int:
    """List the scratch of this user on this host; what dead processes have left is removed."""
    with registry.locked():
        swept = removing.sweep()
        left = removing.left()
    found = registry.recorded()
    _tell_unread()
    if json:
        document.say([_document(scratch) for scratch in found])
        return 0
    for gone in swept:
        typer.echo(f"removed {gone.name}, whose process has died")
    deadline = time.monotonic() + sizing.ANSWER_S
    for scratch in found:
        typer.echo(f"{scratch.name}  {scratch.path}")
        for line in _told(scratch, deadline):
            typer.echo(f"  {line}")
        if scratch in left:
            typer.echo(f"  of a dead process; 'hyperslab scratch remove {scratch.name}' says more")
    if not found:
        typer.echo("there is no scratch of yours here")
    return 0


def remove(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names or directories, as 'list' has them."),
    ] = None,
    everything: Annotated[
        bool, Opt("--all", help="Remove all scratch that was made by 'create'.")
    ] = False,
    force: Annotated[bool, Opt("--force", help="Cut off whoever has files of it open.")] = False,
) -> int:
    """Remove scratch with all files in it."""
    with registry.locked():
        swept = removing.sweep()
    _tell_unread()
    for scratch in _chosen(names or [], everything, swept):
        if scratch not in swept:
            removing.remove(scratch, by_force=force)
        typer.echo(f"removed {scratch.name}")
    return 0


def _wish(
    on: Path | None,
    size: str | None,
    nbytes: str | None,
    maps: int,
    reduces: int,
    way: str,
    fallback: Path | None,
    is_kept: bool = False,
) -> Wish:
    """Scratch that the flags ask for. Raises UsageError."""
    if size is not None and nbytes is not None:
        raise UsageError("--size and --bytes: give one of them")
    if min(maps, reduces) < 1:
        raise UsageError(f"--maps {maps} --reduces {reduces}: give 1 or more of each")
    room: str | int | None = size
    if nbytes is not None:
        room = sizing.shuffled_nbytes(parse_size("--bytes", nbytes), maps, reduces)
    return wish_of(on, room, way, fallback, is_kept)


def _chosen(names: Sequence[str], everything: bool, swept: Sequence[Scratch]) -> list[Scratch]:
    """Scratch that is to be removed, or has just been `swept`. Raises UsageError for a name of
    none.
    """
    found = [*swept, *registry.recorded()]
    if everything:
        return [scratch for scratch in found if scratch.is_kept]
    if not names:
        raise UsageError("give names as 'hyperslab scratch list' has them, or --all")
    known = {word: scratch for scratch in found for word in (scratch.name, scratch.path)}
    for name in names:
        if name not in known:
            raise UsageError(
                f"{name} is no scratch of yours here: 'hyperslab scratch list' names it"
            )
    return [known[name] for name in names]


def _tell_unread() -> None:
    for line in registry.unread():
        mention(f"warning    {line}")


def _told(scratch: Scratch, deadline: float) -> list[str]:
    """Lines that say what scratch is, as far as it answers until then."""
    lines = [f"{WAYS[scratch.way].words}, on {scratch.on}; {_room(scratch, deadline)}"]
    if is_unlimited(scratch):
        lines.append(f"nothing keeps it to its size: it is a directory in {scratch.on}")
    lines += [f"not {passed_over}" for passed_over in scratch.passed_over]
    lines += program.notes(scratch)
    return lines


def _room(scratch: Scratch, deadline: float) -> str:
    within_s = max(LEAST_ANSWER_S, deadline - time.monotonic())
    with suppress(OSError):
        nbytes = within(within_s, partial(sizing.available_nbytes, scratch.path))
        return f"{show_bytes(nbytes)} free"
    return "it does not answer"


def _document(scratch: Scratch) -> dict[str, Any]:
    told = {"path": scratch.path, "notes": program.notes(scratch)}
    return {**scratch.as_json(), **told, "variables": surroundings(scratch)}
