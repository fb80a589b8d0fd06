"""Leaving: what a command leaves that has failed goes where a user wants to look at it.

Held by tests/apps/commands/test_kept.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hyperslab.plan.command import LOGS, Commands
from hyperslab.plan.task import State
from hyperslab.storage.mounts import require_unmounted
from hyperslab.storage.permitted import open_folders


def keep_of_failed(
    commands: Commands, state: State, attempt: str, folders: Mapping[str, Path]
) -> None:
    """Move the folders of an attempt that has failed, by their names, into one of the task and the
    attempt. Where that cannot be, the log of the command says so: it is the failure of the command
    that counts.
    """
    assert state.task.command is not None
    run = Path(commands.folder).name
    place = Path(commands.kept, state.task.command.label, f"{run}.{attempt}")
    said = f"what it has left is in {place}"
    try:
        place.mkdir(parents=True)
        for name, folder in folders.items():
            if folder.exists():
                with suppress(OSError):  # of somebody else: it may be moved all the same
                    open_folders(folder)
                require_unmounted(folder)
                shutil.move(folder, place / name)
    except (OSError, shutil.Error) as error:
        said = f"what it has left cannot be moved to {place}: {error}"
    _tell(commands, state, said)


def _tell(commands: Commands, state: State, text: str) -> None:
    """Write a line to the log of a command that has run."""
    if state.ran is None:
        return
    line = f"\nhyperslab: {text}\n".encode(errors="replace")
    with (
        suppress(OSError),  # a full disk, say, of which the command has died
        open(os.path.join(commands.folder, LOGS, state.ran.log), "ab") as log,
    ):
        state.ran = replace(state.ran, nbytes=state.ran.nbytes + log.write(line))
