"""What `hyperslab bids` takes of containers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from hyperslab.apps.bids.containers.images import AUTO, CHOICES
from hyperslab.apps.bids.containers.runtimes import Container
from hyperslab.apps.bids.wanted import read_json
from hyperslab.cli.flags import choice
from hyperslab.errors import UsageError
from hyperslab.machine.words import words_of
from hyperslab.plan.written import parse_size

Opt = typer.Option

PANEL = "Containers, as in: --container nipreps/mriqc:24.0.2 --container-memory 8GB"
Image = Annotated[
    str,
    Opt(
        "--container",
        metavar="IMAGE",
        help="Run the BIDS App in this image, a name or a file of Apptainer's, instead of --app.",
        rich_help_panel=PANEL,
    ),
]
Runtime = Annotated[
    str,
    Opt(
        help="What runs containers; auto takes what is on PATH and has the image.",
        rich_help_panel=PANEL,
        **choice(*CHOICES),
    ),
]
RuntimeOption = Annotated[
    list[str],
    Opt(
        metavar="WORD",
        help="Further word for the runtime, such as --volume=/licence:/licence:ro, with absolute"
        " paths; may be repeated.",
        rich_help_panel=PANEL,
    ),
]
AppArguments = Annotated[
    str,
    Opt(
        metavar="WORDS",
        help="Further words for the app in the container, such as '--no-sub'.",
        rich_help_panel=PANEL,
    ),
]
Memory = Annotated[
    str,
    Opt(
        "--container-memory",
        metavar="SIZE",
        help="Memory that each container may use, such as 8GB; the kernel ends one that uses more.",
        rich_help_panel=PANEL,
    ),
]
Cpus = Annotated[
    float | None,
    Opt(
        "--container-cpus",
        metavar="N",
        help="Processors that each container may use, such as 1.5.",
        rich_help_panel=PANEL,
    ),
]


def wanted(
    image: str,
    runtime: str = AUTO,
    options: list[str] | None = None,
    arguments: str = "",
    memory: str = "",
    cpus: float | None = None,
) -> Container | None:
    """The container that the flags ask for; None without --container. Raises UsageError."""
    if runtime not in CHOICES:
        raise UsageError(f"--runtime {runtime}: choose one of {', '.join(CHOICES)}")
    if not image:
        _require_none({"--runtime-option": options, "--app-arguments": arguments})
        _require_none({"--container-memory": memory, "--container-cpus": cpus})
        return None
    if cpus is not None and cpus <= 0:
        raise UsageError(f"--container-cpus {cpus:g}: give a number above 0, such as 1.5")
    words = words_of(arguments, "--app-arguments ")
    nbytes = None
    if memory:
        nbytes = parse_size("--container-memory", memory)
    return Container(
        image,
        runtime,
        memory_nbytes=nbytes,
        cpus=cpus,
        options=tuple(options or ()),
        arguments=tuple(words),
    )


def narrowed(
    asked: Container | None, sessions: Sequence[str], filter_file: str
) -> Container | None:
    """The container that sees some sessions, and is told which images are wanted. Raises
    UsageError, FormatError.
    """
    if asked is None:
        return None
    return replace(asked, sessions=tuple(sessions), filter_file=_readable(filter_file))


def _readable(filter_file: str) -> str:
    """The absolute path of a filter file, which the app has to understand. Raises UsageError,
    FormatError.
    """
    if not filter_file:
        return ""
    read_json(filter_file)
    return os.path.abspath(filter_file)


def without_effect(asked: Container) -> Iterator[str]:
    """What people read of flags that choose images, at the group level, which reads results;
    wrappers give the same words to both levels.
    """
    given = {"--session-label": asked.sessions, "--bids-filter-file": asked.filter_file}
    for flag, value in given.items():
        if value:
            yield f"no effect  {flag}: the group level of an app reads what participants have left"


def _require_none(given: dict[str, object]) -> None:
    for flag, value in given.items():
        if value:
            raise UsageError(f"{flag} is for --container: name an image, or leave it out")
