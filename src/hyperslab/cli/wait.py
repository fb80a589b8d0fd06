"""`hyperslab wait`: see a run to its end from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperslab.cli.flags import Quiet
from hyperslab.cli.status import tell
from hyperslab.driver import manage
from hyperslab.report.progress import progress_for


def wait(
    out: Annotated[Path, typer.Argument(help="Output directory of a run.")], quiet: Quiet = False
) -> int:
    """Wait for the end of the run in OUT, wherever it goes on. Exit status 0 when all is done, 1
    otherwise, also where that cannot be known here.
    """
    ended = manage.wait(out, progress_for(quiet))
    if not quiet:
        tell(ended, out)
    return 0 if ended.state == "done" else 1
