"""Sweeping: what submissions that have ended left on fast tiers, and in folders of commands."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import DamagedRecord
from hyperslab.plan.command import PRIVATE
from hyperslab.storage.recordfile import load_list
from hyperslab.storage.staging import area

RECORD = "staging.json"
"Record of a submission with the tiers that it uses."


def sweep(directory: RunDirectory, kept: Collection[Path] = ()) -> None:
    """Remove what earlier submissions have left on their tiers, and of private folders all that are
    not kept; none of them may write now.
    """
    for folder in directory.submissions():
        _sweep_private(folder / PRIVATE, kept)
        _sweep_tiers(folder)


def sweep_submission(folder: Path, keeps_private: bool = False) -> None:
    """Remove what one submission has left on its tiers, and unless they are kept its private
    folders; it may not write now.
    """
    if not keeps_private:
        _sweep_private(folder / PRIVATE, ())
    _sweep_tiers(folder)


def _sweep_private(private: Path, kept: Collection[Path]) -> None:
    places = set(private.absolute().glob("*"))
    if places.isdisjoint(kept):
        shutil.rmtree(private, ignore_errors=True)
        return
    for place in places.difference(kept):
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


def _sweep_tiers(folder: Path) -> None:
    try:
        tiers = load_list(folder / RECORD, "tiers", "")
    except (FileNotFoundError, DamagedRecord, KeyError):
        return  # the next run that stages there removes it
    for tier in tiers:
        area.sweep(Path(tier), str(folder.absolute()))
