"""Detached runs: what a driver leaves to the job that goes on with its submission, and whether that
job is still to come.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from hyperslab import engines
from hyperslab.driver.directory import RunDirectory, load_status
from hyperslab.engines.jobs import LAST_LOG, JobsLeft
from hyperslab.errors import DamagedRecord, OutputBusy, RunStopped
from hyperslab.plan.shipment import Shipment, unpack

FILE = "detached.pickle"
"File of a submission with all that another process needs to go on with it."


def save(folder: Path, shipment: Shipment, left: Any) -> None:
    """Keep what is left to the next driver of a submission, with the user's code as it is now."""
    import cloudpickle

    from hyperslab.engines.batches.orders import write_secret

    write_secret(folder / FILE, pickle.dumps((shipment, cloudpickle.dumps(left))))


def load(folder: Path) -> tuple[Shipment, Any]:
    """What was left, loaded with the code that came with it. Raises RunStopped where it is gone."""
    try:
        shipment, left = pickle.loads((folder / FILE).read_bytes())
    except (OSError, EOFError, pickle.UnpicklingError) as error:
        raise RunStopped(
            f"{folder / FILE} cannot be read ({error}): the same command with --resume continues"
        ) from error
    unpack(shipment)
    return shipment, pickle.loads(left)


def going_on(directory: RunDirectory) -> JobsLeft | None:
    """The jobs to which the newest submission was left, as long as they may go on with it; None
    where there are none.
    """
    newest = directory.newest()
    if newest is None:
        return None
    return going_on_with(newest)


def going_on_with(folder: Path) -> JobsLeft | None:
    """The same for one submission."""
    left = engines.jobs_left(folder)
    if left is None or not may_end(folder, left):
        return None
    return left


def may_end(folder: Path, left: JobsLeft) -> bool:
    """Whether the jobs that a submission has left may see it to its end."""
    return left.is_detached and left.are_there is not False and not has_ended(folder)


def why_died(folder: Path) -> str:
    """Why a run that was left to jobs has died, as far as the last of them has said."""
    log = folder / LAST_LOG
    lines: list[str] = []
    if log.is_file():
        lines = log.read_text(errors="replace").strip().splitlines()
    if lines:
        return f"the job that was to go on with it has ended: {lines[-1].strip()} (see {log})"
    return (
        f"the job that was to go on with it is gone without a word in {log}: it was cancelled or"
        " killed, or does not see that folder"
    )


def has_ended(folder: Path) -> bool:
    """Whether a submission has said how it ended."""
    try:
        return bool(load_status(folder).get("state", "running") != "running")
    except DamagedRecord:
        return False


def require_none(directory: RunDirectory) -> None:
    """Raise OutputBusy for a directory whose run was left to jobs that may go on with it."""
    newest = directory.newest()
    if newest is not None:
        require_not_left(directory, newest)


def require_not_left(directory: RunDirectory, folder: Path) -> None:
    """The same for one submission."""
    left = going_on_with(folder)
    if left is not None:
        raise OutputBusy(
            f"{directory.out} is in use by a run that was left to jobs ({left.told}): 'hyperslab"
            f" wait {directory.place}' waits for it, 'hyperslab cancel {directory.place}' stops it"
        )
