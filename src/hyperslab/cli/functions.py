"""`hyperslab functions`: the built-ins and what they take."""

from __future__ import annotations

from typing import Annotated

import typer

from hyperslab.cli import document
from hyperslab.cli.flags import Json, completing
from hyperslab.workloads import BUILTINS, unknown_builtin
from hyperslab.workloads.described import Builtin, described


def functions(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One built-in; all by default.",
            autocompletion=completing(lambda: BUILTINS),
        ),
    ] = None,
    json: Json = False,
) -> int:
    """List the built-in functions with their parameters."""
    found = [one for one in described() if name in (None, one.name)]
    if not found:
        raise unknown_builtin(str(name))
    if json:
        document.say(found)
        return 0
    typer.echo("\n\n".join(_lines(one) for one in found))
    return 0


def _lines(builtin: Builtin) -> str:
    rows = [f"{builtin.name:<18} {builtin.summary}"]
    for one in builtin.parameters:
        given = one.name
        if one.default is not None:
            given += f"={one.default}"
        rows.append(f"  -p {given:<13} {one.about} ({one.kind})")
    return "\n".join(rows)
