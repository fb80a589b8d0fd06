"""`hyperslab netlab`: what goes over the network of a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from hyperslab.cli.verbs import SUB_VERBS
from hyperslab.errors import UsageError, suggest


def netlab(
    verb: Annotated[
        str | None, typer.Argument(metavar="[record|decode]", help="What to do.")
    ] = None,
) -> int:
    """Record the messages of a Dask program, or decode a capture of them."""
    following = SUB_VERBS["netlab"]
    named = ", ".join(following)
    if verb is None:
        raise UsageError(f"netlab: choose one of {named}")
    raise UsageError(
        f"netlab {verb}: there is no such verb{suggest(verb, following)}; choose one of {named}"
    )
