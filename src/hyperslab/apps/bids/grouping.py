"""The group level as a command of a run; for the brain app `python -m
hyperslab.apps.bids.grouping`.

That looks at the dataset again, as what participants have left is there only when it begins.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hyperslab.apps.bids.described import GROUP
from hyperslab.apps.bids.description import names_of
from hyperslab.apps.bids.group import BY_IMAGE, BY_PARTICIPANT, BY_SITE, save_group
from hyperslab.apps.bids.running import Asked, Selection, gathered, select
from hyperslab.errors import HyperslabError
from hyperslab.plan.command import CommandTask
from hyperslab.plan.placeholders import literal

LABEL = "group"


def of_group(selection: Selection, argv: Sequence[str], after: Sequence[str] = ()) -> CommandTask:
    """A command of the group level, which may say something of each dataset."""
    names = [name for dataset in selection.datasets for name in names_of(dataset.site)]
    return CommandTask(
        LABEL, tuple(argv), after=tuple(after), statements=tuple(names), speaker=GROUP
    )


def group_task(
    selection: Selection, out: str | os.PathLike[str], allow_missing: bool = False
) -> CommandTask:
    """The command that puts together what the brain app has found in every participant."""
    asked = {**asdict(selection.asked), "allow_missing": allow_missing}
    asked["moved_from"] = selection.origin  # links may lead elsewhere on the host that runs it
    argv = (
        *(sys.executable, "-m", "hyperslab.apps.bids.grouping"),
        *(literal(selection.root), literal(os.path.abspath(out)), "{out}"),
        literal(json.dumps(asked)),
    )
    return CommandTask(LABEL, argv, outputs=(BY_IMAGE, BY_PARTICIPANT, BY_SITE))


def main(arguments: Sequence[str]) -> int:
    """Read the results of participants in one folder, and write tables into another one."""
    root, out, target, said = arguments
    asked = json.loads(said)
    allow_missing = asked.pop("allow_missing")
    try:
        group = gathered(select(root, Asked(**with_tuples(asked))), Path(out), allow_missing)
    except HyperslabError as error:
        print(error, file=sys.stderr)
        return 1
    save_group(group, Path(target))
    print("\n".join(group.lines()))
    return 0


def with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a record as JSON has them, whose lists were tuples."""
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return {**fields, **lists}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
