"""Sweeping: what submissions that have ended left on fast tiers, and in folders of commands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hyperslab.driver.directory import RunDirectory
from hyperslab.errors import DamagedRecord
from hyperslab.plan.command import PRIVATE
from hyperslab.storage.recordfile import load_list
from hyperslab.storage.staging import area

RECORD = "staging.json"
"Record of a submission with the tiers that it uses."


def sweep(
    directory: RunDirectory,
    kept: Collection[Path] = (),
    tasks: Mapping[Path, Container[int]] | None = None,
) -> None:
    """Remove what earlier submissions have left on their tiers, and all private folders that are
    not kept; none of them may write now.

    `tasks` are those of each submission, as it numbers them, that are in nobody else's hands: what
    others have made stays, as another call may be taking it. None: all are.
    """
    for folder in directory.submissions():
        own = None
        if tasks is not None:
            own = tasks.get(folder, ())
        _sweep_private(folder / PRIVATE, kept, own)
        _sweep_tiers(folder)


def sweep_submission(folder: Path, keeps_private: bool = False) -> None:
    """Remove what one submission has left on its tiers, and unless they are kept its private
    folders; it may not write now.
    """
    if not keeps_private:
        _sweep_private(folder / PRIVATE, ())
    _sweep_tiers(folder)


def sweep_own(folder: Path) -> list[Path]:
    """Remove the private folders of a submission that ends. Returns where something is mounted."""
    private = folder / PRIVATE
    if not private.is_dir():
        return []
    from hyperslab.storage.permitted import remove_tree  # which runs without commands do without

    return remove_tree(private)


def tell_mounted(places: Sequence[Path], tell: Callable[[str], None]) -> None:
    """Say where something is mounted, which stays."""
    from hyperslab.storage.trees import still_mounted  # which few runs need

    tell(still_mounted(places))


def _sweep_private(
    private: Path, kept: Collection[Path], tasks: Container[int] | None = None
) -> None:
    """Remove what is in the private folders of a submission but for those that are kept, and those
    of tasks that are not among these; None: all are.
    """
    if not private.is_dir():
        return
    from hyperslab.storage.permitted import remove_tree  # which runs without commands do without

    if not kept and tasks is None:
        remove_tree(private)
        return
    for place in private.absolute().glob("*"):
        if place in kept or not _is_of(tasks, place):
            continue
        if place.is_dir():
            remove_tree(place)
        else:
            place.unlink(missing_ok=True)
    with suppress(OSError):  # it is gone, or holds more
        private.rmdir()


def _is_of(tasks: Container[int] | None, place: Path) -> bool:
    """Whether something private is of one of these tasks, or of none, as a copy that was cut."""
    number, _, attempt = place.name.partition(".")
    if tasks is None or not (attempt and number.isdecimal()):
        return True
    return int(number) in tasks


def _sweep_tiers(folder: Path) -> None:
    try:
        tiers = load_list(folder / RECORD, "tiers", "")
    except (FileNotFoundError, DamagedRecord, KeyError):
        return  # the next run that stages there removes it
    for tier in tiers:
        area.sweep(Path(tier), str(folder.absolute()))
