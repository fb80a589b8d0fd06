"""`hyperslab tiers`: what paths are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any

import typer

from hyperslab.apps.tiers import tiers as looked_at
from hyperslab.cli import document
from hyperslab.cli.companions import join
from hyperslab.cli.flags import Engine, Json, SlurmOption, Workers, connect_flag
from hyperslab.driver.options import Options
from hyperslab.engines.facts import DEFAULT
from hyperslab.storage.tiers.tier import Tier, share_a_medium
from hyperslab.storage.tiers.words import kind_words, meaning, medium_words, space_words
from hyperslab.units import show_count, show_list

TITLES: tuple[str, ...] = ("kind", "path", "file system", "medium", "free")
HOSTS_NAMED = 6
"More hosts than these are counted."


def tiers(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Files, directories or URLs; they need not exist yet."
        ),
    ],
    engine: Engine = DEFAULT,
    workers: Workers = None,
    connect: Annotated[str, connect_flag()] = "",
    slurm_option: SlurmOption = [],  # noqa: B006
    json: Json = False,
) -> int:
    """Say what PATHs are made of, here and on the hosts of a cluster: device, write-back, space,
    stripes, and which of them share a device.
    """
    join(engine, connect)
    options = Options(engine=engine, workers=workers, connect=connect, slurm_option=slurm_option)
    found = looked_at(paths, options)
    if json:
        document.say([_document(tier, found) for tier in found])
        return 0
    _tell(found)
    return 0


def _document(tier: Tier, found: Sequence[Tier]) -> dict[str, Any]:
    same = [
        {"path": other.path, "host": other.host}
        for other in found
        if other is not tier and share_a_medium(tier, other)
    ]
    return {**tier.as_json(), "shares_a_medium_with": same, "meaning": meaning(tier, found)}


def _tell(found: Sequence[Tier]) -> None:
    """Print a table with a sentence below each row, hosts for which all is the same in one."""
    hosts = list(dict.fromkeys(tier.host for tier in found))
    groups = list(_groups(found))
    rows = [_cells(group, len(hosts)) for group in groups]
    titles = TITLES
    if len(hosts) > 1:
        titles = ("hosts", *TITLES)
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    typer.echo(_line(titles, widths))
    for group, row in zip(groups, rows, strict=True):
        typer.echo(_line(row, widths))
        typer.echo(f"  {meaning(group[0], found)}")
    for path in dict.fromkeys(tier.path for tier in found):
        if text := _difference([group for group in groups if group[0].path == path]):
            typer.echo(f"\n{path} {text}")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()


def _cells(group: Sequence[Tier], hosts: int) -> tuple[str, ...]:
    """A row; of several hosts the least free space."""
    least = min(group, key=lambda tier: tier.free_nbytes or 0)
    tier = group[0]
    cells = (
        kind_words(tier),
        tier.path,
        tier.file_system or "?",
        medium_words(tier),
        space_words(least),
    )
    if hosts == 1:
        return cells
    return (_hosts(group, hosts), *cells)


def _hosts(group: Sequence[Tier], hosts: int) -> str:
    if len(group) == hosts:
        return f"all {hosts}"
    if len(group) > HOSTS_NAMED:
        return show_count(len(group), "host")
    return show_list([tier.host for tier in group])


def _groups(found: Sequence[Tier]) -> Iterator[list[Tier]]:
    """Tiers of one path that are the same on several hosts, but for their numbers."""
    for _, of_path in groupby(found, key=lambda tier: tier.path):
        groups: dict[Tier | str, list[Tier]] = {}
        for tier in of_path:
            groups.setdefault(_sameness(tier), []).append(tier)
        yield from groups.values()


def _sameness(tier: Tier) -> str:
    """What two hosts have in common whose tiers are told in one row."""
    alike = replace(
        tier,
        host="",
        total_nbytes=None,
        free_nbytes=None,
        free_inodes=None,
        dirty=None,
        backing=None,
    )
    backing = ""
    if tier.backing is not None:
        backing = _sameness(tier.backing)
    return f"{alike} {backing}"


def _difference(groups: Sequence[Sequence[Tier]]) -> str:
    """How hosts differ in a path; '' where they do not."""
    kinds = {
        (tier.exists, kind_words(tier), tier.file_system) for group in groups for tier in group
    }
    if len(kinds) < 2:
        return ""
    told = [f"{_state(group[0])} on {show_list([tier.host for tier in group])}" for group in groups]
    return f"is not the same on all hosts: {'; '.join(told)}"


def _state(tier: Tier) -> str:
    if tier.exists is None:
        return "not known"
    if not tier.exists:
        return "missing"
    return f"{kind_words(tier)} ({tier.file_system})"
