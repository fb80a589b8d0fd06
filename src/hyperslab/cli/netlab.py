"""`hyperslab netlab up`, `status`, `exec`, `set` and `down`: a laboratory of links on this host."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from hyperslab.cli import document
from hyperslab.cli.flags import Json, choice
from hyperslab.errors import UsageError, suggest
from hyperslab.network.lab import making, namespaces, registry, removing
from hyperslab.network.lab.backends.choosing import BACKENDS, require_means
from hyperslab.network.lab.changing import change, require_up
from hyperslab.network.lab.link import DIRECTIONS, Direction
from hyperslab.network.lab.namespaces import LabFailed
from hyperslab.network.lab.registry import Lab
from hyperslab.network.lab.spec import OneWay, load_spec
from hyperslab.plan.mistakes import clause_of
from hyperslab.units import show_count, show_list

Opt = typer.Option
FOLLOWING = ("up", "status", "exec", "set", "down", "record", "gather", "decode")

CUT = (
    "from now on all nodes send single packets: dozens at once would be lost together, or hold up a"
    " link for long"
)
"What the first change of a link does that is slow for its backend, or loses packets."

LabName = Annotated[
    str | None, Opt("--lab", help="Name of the laboratory; the only one here by default.")
]


def netlab(
    verb: Annotated[
        str | None,
        typer.Argument(
            metavar="[up|status|exec|set|down|record|gather|decode]", help="What to do."
        ),
    ] = None,
) -> int:
    """Make nodes on this host whose links are slow, distant or lossy, and run commands in them; see
    what goes over the links of a cluster.
    """
    if verb is not None:
        raise UsageError(
            f"netlab {verb}: there is no such verb{suggest(verb, FOLLOWING)}; choose one of"
            f" {', '.join(FOLLOWING)}"
        )
    return status()


def up(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="File in .toml that names nodes and links.")
    ],
    json: Json = False,
) -> int:
    """Make the laboratory of SPEC and measure its links; exit status 1 if one is not what was asked
    for, and all is removed again.
    """
    lab = making.make(load_spec(spec))
    if json:
        document.say(lab.as_json())
        return 0
    _tell(lab)
    typer.echo(
        f"'hyperslab netlab exec --lab {lab.name} {lab.nodes[0].name} COMMAND' runs a command"
    )
    typer.echo(f"'hyperslab netlab down {lab.name}' takes the laboratory away")
    return 0


def status(json: Json = False) -> int:
    """List the laboratories on this host, what their links were measured to do, and what they have
    carried; also those that were left half-made.
    """
    require_means()
    labs = registry.recorded()
    if json:
        document.say([{**lab.as_json(), **_about(lab)} for lab in labs])
        return 0
    for lab in labs:
        _tell(lab)
    if not labs:
        typer.echo("there are no laboratories here")
    return 0


def exec_(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Node in which it runs.")],
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="Command, with options of its own."),
    ],
    lab: LabName = None,
) -> int:
    """Run COMMAND in a node, in the place of this process: what it reads and prints is its own, as
    is its exit status. Options of this command stand before NODE.
    """
    require_means()
    found = registry.find(lab)
    words = [*found.prefix(node), *command[command[0] == "--" :]]
    require_up(found)
    if len(words) == len(found.prefix(node)):
        raise UsageError("give a command after the node")
    entering = shutil.which(words[0], path=namespaces.PATH)
    assert entering is not None, "it was looked for above"
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.execv(entering, words)  # noqa: S606  # words of the user's own, and no shell


def set_(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Node whose link is changed.")],
    rate: Annotated[
        str | None, Opt(help="Bits per second, such as 100Mbit; 'none': as many as there can be.")
    ] = None,
    delay: Annotated[str | None, Opt(help="Time of one way, such as 5ms.")] = None,
    jitter: Annotated[
        str | None, Opt(help="Time by which that differs at most, such as 1ms.")
    ] = None,
    loss: Annotated[float | None, Opt(help="Share of packets that are lost, such as 0.02.")] = None,
    reorder: Annotated[
        float | None, Opt(help="Share of packets that are not delayed, and overtake others.")
    ] = None,
    direction: Annotated[
        str | None,
        Opt(
            help="up: what the node sends; down: what it receives. By default a rate is that of"
            " both, and all else is up.",
            **choice(*DIRECTIONS),
        ),
    ] = None,
    lab: LabName = None,
    json: Json = False,
) -> int:
    """Change the link of a node while something goes over it; what is not named stays as it is."""
    require_means()
    which = _direction(direction)
    given = {"rate": rate, "delay": delay, "jitter": jitter, "loss": loss, "reorder": reorder}
    if not any(value is not None for value in given.values()):
        raise UsageError("give one of --rate, --delay, --jitter, --loss and --reorder")
    try:
        said = OneWay.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        clause = clause_of(first)
        if first["type"] != "value_error":  # which names what it is about
            clause = f"{first['loc'][0]}: {clause}"
        raise UsageError(f"--{clause}") from error
    before = registry.find(lab)
    changed = change(before, node, said, which)
    if json:
        document.say(changed.as_json())
        return 0
    one = changed[node]
    typer.echo(f"{node}: sends {one.up.words()}; receives {one.down.words()}")
    if changed.is_cut and not before.is_cut:
        typer.echo(CUT)
    return 0


def _direction(given: str | None) -> Direction | None:
    for direction in DIRECTIONS:
        if given == direction:
            return direction
    if given is not None:
        raise UsageError(f"--direction {given}: give up or down")
    return None


def down(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Laboratories; the only one here by default."),
    ] = None,
    everything: Annotated[bool, Opt("--all", help="Remove all laboratories on this host.")] = False,
    force: Annotated[
        bool, Opt("--force", help="Remove also what another process makes or uses.")
    ] = False,
) -> int:
    """Remove laboratories with all that runs in them, also those that were left half-made."""
    require_means()
    chosen = [registry.find(name) for name in names or []]
    if everything:
        chosen = registry.recorded()
    elif not chosen:
        chosen = [registry.find(None)]
    used = [lab for lab in chosen if registry.is_owner_alive(lab) and not force]
    for lab in chosen:
        if lab not in used:
            ended = removing.remove(lab)
            killed = f"; {show_count(ended, 'process', 'processes')} in it ended" if ended else ""
            typer.echo(f"removed the laboratory '{lab.name}'{killed}")
    if used:
        told = [f"process {lab.owner} makes or uses '{lab.name}'" for lab in used]
        raise UsageError(f"{show_list(told)}: wait for it, or give --force")
    return 0


def _tell(lab: Lab) -> None:
    """What there is to say of a laboratory."""
    about = _about(lab)
    backend = f"{lab.backend}, {BACKENDS[lab.backend].ABOUT}"
    typer.echo(f"'{lab.name}' is {about['state']} on {lab.network}; backend {backend}")
    if about["trouble"]:
        typer.echo(f"  {about['trouble']}")
    if about["carried"] is not None and about["carried"].is_put_off():
        typer.echo("  the emulator may not go before other programs: it is late beside busy ones")
    nodes = [("node", "role", "address", "sends", "receives")]
    nodes += [
        (node.name, node.role, node.address, node.up.words(), node.down.words())
        for node in lab.nodes
    ]
    _echo_table(nodes)
    if lab.measured:
        found = [("measured", "", "asked for", "found")]
        found += [(one.node, one.what, one.show_asked(), one.show_value()) for one in lab.measured]
        _echo_table(found)
    for node in lab.nodes:
        if lab.is_complete and not any(one.node == node.name for one in lab.measured):
            typer.echo(f"  {node.name}: changed since it was measured")


def _about(lab: Lab) -> dict[str, Any]:
    """State of a laboratory, what is wrong with it, and what it has carried."""
    state = registry.state_of(lab)
    trouble = ""
    carried = None
    try:
        require_up(lab)
        carried = BACKENDS[lab.backend].read(lab)
    except LabFailed as error:
        trouble = str(error)
    return {"state": state, "trouble": trouble, "carried": carried}


def _echo_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        words = [word.ljust(width) for word, width in zip(row, widths, strict=True)]
        typer.echo(f"  {'  '.join(words)}".rstrip())
