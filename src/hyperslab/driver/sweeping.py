"""Sweeping: what submissions that have ended left on fast tiers, and in folders of commands."""

from __future__ import annotations

import shutil
from pathlib import Path

from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import DamagedRecord
from hyperslab.plan.command import PRIVATE
from hyperslab.storage.recordfile import load_list
from hyperslab.storage.staging import area

RECORD = "staging.json"
"Record of a submission with the tiers that it uses."


def sweep(directory: RunDirectory) -> None:
    """Remove what earlier submissions have left on their tiers; none of them may write now."""
    for folder in directory.submissions():
        sweep_submission(folder)


def sweep_submission(folder: Path) -> None:
    """Remove what one submission has left on its tiers; it may not write now."""
    shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    try:
        tiers = load_list(folder / RECORD, "tiers", "")
    except (FileNotFoundError, DamagedRecord, KeyError):
        return  # the next run that stages there removes it
    for tier in tiers:
        area.sweep(Path(tier), str(folder.absolute()))
