"""Flags that several commands take: said once, so that they mean the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from hyperslab.cli.parse import parse_size
from hyperslab.engines.facts import engine_help
from hyperslab.redaction import OPTION

Opt = typer.Option

Engine = Annotated[str, Opt(help=engine_help())]
StorageOption = Annotated[
    list[str],
    Opt(
        OPTION,
        help="What fsspec is given with URLs, as NAME=VALUE (a value may be JSON); never recorded.",
    ),
]
Quiet = Annotated[bool, Opt("--quiet", "-q", help="Print failures and nothing else.")]
Retries = Annotated[int, Opt(help="Further attempts at a task that failed.")]
Threads = Annotated[int | None, Opt(help="Tasks at a time in one worker.")]
Workers = Annotated[
    int | None, Opt(help="Worker processes; by default one per processor this process may use.")
]


def memory_bytes(text: str | None) -> int | None:
    """Bytes that --memory asks for; None where it is left out."""
    if text is None:
        return None
    return parse_size("--memory", text)
