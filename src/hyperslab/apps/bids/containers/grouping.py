"""The group level of an app in a container as a command of a run: `python -m
hyperslab.apps.bids.containers.grouping`.

It looks at the dataset again, and at what participants have left, when it begins. Its container has
the name of its attempt, so that whoever ends the command removes it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hyperslab.apps.bids.containers.group import among_results, levels
from hyperslab.apps.bids.containers.links import settle_links
from hyperslab.apps.bids.containers.runtimes import Container, require_mountable
from hyperslab.apps.bids.group import named, require_complete
from hyperslab.apps.bids.grouping import of_group, with_tuples
from hyperslab.apps.bids.running import Asked, Selection, select
from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import HyperslabError
from hyperslab.plan.command import CommandTask
from hyperslab.plan.placeholders import filled, literal

SIGNALLED = 128
"Status from which on shells say by which signal a program was ended."


def container_group_task(
    selection: Selection, out: str | os.PathLike[str], container: Container
) -> CommandTask:
    """The command that runs the group level of a container, when participants have ended. Raises
    UsageError.
    """
    place = os.path.abspath(out)
    require_mountable(selection.root, place)
    said = {"asked": asdict(selection.asked), "container": asdict(container)}
    argv = (
        *(sys.executable, "-m", "hyperslab.apps.bids.containers.grouping"),
        *(literal(selection.root), literal(place), "{out}", "{work}", "{attempt}"),
        literal(json.dumps(said)),
    )
    return of_group(selection, argv, after=container.remove_words())


def main(arguments: Sequence[str]) -> int:
    """Run the container of every dataset; returns the exit status."""
    root, out, made, scratch, attempt, said = arguments
    told = json.loads(said)
    container = Container(**with_tuples(told["container"]))
    asked = Asked(**with_tuples(told["asked"]))
    directory = RunDirectory(Path(out))
    is_any = False
    try:
        selection = select(root, asked)
        for level in levels(selection, Path(out), Path(made), Path(scratch)):
            is_any = True
            with among_results(level, container, directory) as words:
                values = {"attempt": attempt, "work": str(level.work)}
                done = subprocess.run(filled(words, values, ()), check=False)
            if done.returncode:
                return _status(done.returncode)
            _tell_left_out(settle_links(level.private))
        require_complete(is_any, (), Path(out), allow_missing=True)
    except HyperslabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _tell_left_out(links: Sequence[str]) -> None:
    if links:
        print(f"hyperslab: left out, links to what is not in /out: {named(links)}", flush=True)


def _status(returncode: int) -> int:
    """The exit status of a program, or what shells say of one that was ended."""
    if returncode < 0:
        return SIGNALLED - returncode
    return returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
