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
    files = set()
    wrong = set()
    for one in manage.verified(out):
        files.add(one.file)
        if one.problem is not None:
            wrong.add(one.file)
            typer.echo(f"wrong: {one.name}: {one.problem}")
    good = len(files - wrong - {""})
    count = len(files - {""})
    typer.echo(f"{good:,} of {show_count(count, 'output')} unchanged since the run")
    return 1 if wrong else 0
