"""What `hyperslab bids` takes of containers."""

from __future__ import annotations

from typing import Annotated

import typer

from hyperslab.apps.bids.containers.images import AUTO, CHOICES
from hyperslab.apps.bids.containers.runtimes import Container
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
        help="Further word for the runtime, such as --volume=/licence:/licence:ro; may be"
        " repeated.",
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


def refuse(given: dict[str, object]) -> None:
    """Raise UsageError for flags that were given, and do not go with a container."""
    for flag, value in given.items():
        if value:
            raise UsageError(
                f"{flag} is not for --container: the interface of BIDS Apps has participants alone;"
                " what else the app understands goes into --app-arguments"
            )


def _require_none(given: dict[str, object]) -> None:
    for flag, value in given.items():
        if value:
            raise UsageError(f"{flag} is for --container: name an image, or leave it out")
