"""`hyperslab verify`: are the outputs still what the run wrote?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperslab.driver import manage
from hyperslab.units import show_count


def verify(out: Annotated[Path, typer.Argument(help="Output directory of a run.")]) -> int:
    """Read every output of OUT again and compare its checksum with the manifest. Exit status 1 when
    one differs.
    """
    count = wrong = 0
    for name, problem in manage.verify(out):
        count += 1
        if problem is not None:
            wrong += 1
            typer.echo(f"wrong: {name}: {problem}")
    outputs = show_count(count, "output")
    typer.echo(f"{count - wrong:,} of {outputs} unchanged since the run")
    return 1 if wrong else 0
