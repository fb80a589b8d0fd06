"""Flags that several commands take: said once, so that they mean the same everywhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hyperslab.cli.parse import parse_size
from hyperslab.engines.facts import engine_help
from hyperslab.redaction import OPTION

Opt = typer.Option

Axis = Annotated[int | None, Opt(help="Axis of --sources concatenated; 0 if left out.")]
Engine = Annotated[str, Opt(help=engine_help())]
StorageOption = Annotated[
    list[str],
    Opt(
        OPTION,
        help="What fsspec is given with URLs, as NAME=VALUE (a value may be JSON); never recorded.",
    ),
]
Json = Annotated[
    bool, Opt("--json", help="Print one JSON document instead of lines, for programs.")
]
Quiet = Annotated[bool, Opt("--quiet", "-q", help="Print failures and nothing else.")]
Verbose = Annotated[
    bool, Opt("--verbose", "-v", help="Print the numbers of the run, too, and all that limited it.")
]
RealOrStored = Annotated[str, Opt(help="real (slope and intercept applied) or stored.")]
Report = Annotated[
    bool,
    Opt(help="Write the page at the end; 'hyperslab report' does so later."),
]
Retries = Annotated[int, Opt(help="Further attempts at a task that failed.")]
Threads = Annotated[int | None, Opt(help="Tasks at a time in one worker.")]
FailFast = Annotated[
    bool | None,
    Opt(
        "--fail-fast/--keep-going",
        help=(
            "End the run at the first failure, or try all tasks whatever fails. By default it ends"
            " early if the first tasks all fail at the same line of the function."
        ),
        show_default=False,
    ),
]
Workers = Annotated[
    int | None, Opt(help="Worker processes; by default one per processor this process may use.")
]


def memory_flag(pieces: str, example: str) -> Any:
    """Flag --memory of a command that works on such pieces, with a size as an example."""
    return Opt(
        help=f"For all {pieces} at a time, such as {example}; by default 80 % of what is available."
    )


def resume_flag(meaning: str) -> Any:
    """Flag --resume, which has no opposite; `meaning` is a sentence."""
    return Opt("--resume", help=meaning)


def dry_run_flag(meaning: str) -> Any:
    """Flag --dry-run, which has no opposite; `meaning` is what it says instead of doing it."""
    return Opt("--dry-run", help=f"{meaning}; do nothing.")


def memory_bytes(text: str | None) -> int | None:
    """Bytes that --memory asks for; None where it is left out."""
    if text is None:
        return None
    return parse_size("--memory", text)
