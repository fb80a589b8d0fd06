"""Making of emulated tiers: nothing is mounted where something is, and nothing pretends."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hyperslab.errors import UsageError
from hyperslab.storage.emulation import network, program, registry
from hyperslab.storage.emulation.measured import Measured
from hyperslab.storage.emulation.measuring import measure
from hyperslab.storage.emulation.program import EmulationFailed
from hyperslab.storage.emulation.registry import Emulation
from hyperslab.storage.emulation.removing import remove
from hyperslab.storage.emulation.settings import NETWORK, Settings, require
from hyperslab.units import show_list

COUNTED = "counted"
"Kind of a tier that makes nothing later, and only counts."
TOLERANCE = 0.1
"Share by which a tier may differ from what was asked for."


def emulate(
    kind: str,
    directory: Path,
    settings: Settings,
    backing: Path | None = None,
    tolerance: float = TOLERANCE,
    has_lifeline: bool = False,
) -> Emulation:
    """Make a directory a tier of such a kind, and measure it.

    The directory has to be empty; it is made if it is not there. The files lie in `backing`, or in
    the directory itself, beneath the tier. With a lifeline the tier is there as long as this
    process is, however that ends, but for a network tier, which stays. Raises UsageError where none
    can be made, and EmulationFailed of one that is not what was asked for by more than `tolerance`,
    a share: it is removed again.
    """
    require(kind, settings)
    program.require_fuse()
    if kind == NETWORK:
        network.require()
    else:
        program.PROGRAM.find()
    with registry.locked():
        emulation = _made(kind, directory, settings, backing, has_lifeline)
    try:
        measured = _measured(emulation)
        _require_asked(emulation, measured, tolerance)
    except BaseException:
        remove(emulation, by_force=True)
        raise
    emulation = replace(emulation, measured=tuple(measured))
    registry.record(emulation)
    return emulation


def pass_through(directory: Path) -> Emulation:
    """Put a tier over a directory that is as fast as the directory, to see what is asked of it; it
    shows the files that are there. It ends with this process, and with whom it gives the lifeline.
    Raises UsageError where that cannot be, and EmulationFailed.
    """
    program.require_fuse()
    program.PROGRAM.find()
    place = Path(os.path.realpath(directory))
    if not place.is_dir():
        raise UsageError(f"{directory} is no directory")
    with registry.locked():
        _require_free(place)
        settings = Settings(page_cache=True)
        return _started(COUNTED, place, settings, place, made=False, has_lifeline=True)


def _made(
    kind: str, directory: Path, settings: Settings, backing: Path | None, has_lifeline: bool
) -> Emulation:
    place = Path(os.path.realpath(directory))
    _require_free(place)
    lies_in = place
    if backing is not None:
        lies_in = _existing(backing, place)
    made = _make_directory(place)
    return _started(kind, place, settings, lies_in, made, has_lifeline)


def _started(
    kind: str,
    place: Path,
    settings: Settings,
    lies_in: Path,
    made: bool,
    has_lifeline: bool = False,
) -> Emulation:
    """A tier, written down and mounted."""
    emulation = Emulation(
        name=secrets.token_hex(4),
        kind=kind,
        directory=str(place),
        backing=str(lies_in),
        settings=settings,
        made_directory=made,
    )
    if kind == NETWORK:
        emulation = replace(emulation, parts=network.parts_of(emulation.name))
    registry.record(emulation)
    try:
        emulation = registry.with_process(emulation, _serving(emulation, has_lifeline))
        registry.record(emulation)
    except BaseException:
        remove(emulation, by_force=True)
        raise
    return emulation


def _serving(emulation: Emulation, has_lifeline: bool) -> int:
    """Process that serves a tier from now on. Raises EmulationFailed."""
    if emulation.kind == NETWORK:
        return network.start(emulation)
    return program.start(emulation, has_lifeline)


def _require_free(place: Path) -> None:
    """Raise UsageError where another tier is in the way."""
    for other in registry.recorded():
        if registry.state_of(other) == "gone":
            remove(other)
            continue
        taken = Path(other.directory)
        if place == taken:
            raise UsageError(_taken(other))
        if taken in place.parents or place in taken.parents:
            raise UsageError(
                f"{place} and the emulated tier {taken} lie in each other: take another directory"
            )


def _taken(other: Emulation) -> str:
    remedy = f"'hyperslab tiers remove {other.directory}' takes it away"
    if registry.state_of(other) == "stale":
        return f"{other.directory} is a tier whose program has died: {remedy}"
    return f"{other.directory} is emulated already, as a {other.kind} tier: {remedy}"


def _make_directory(place: Path) -> bool:
    """Make the directory of a tier: whether it was not there. Raises UsageError where there cannot
    be one.
    """
    try:
        place.mkdir()
        return True
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"{place} cannot be made: {error.strerror}") from error
    try:
        with os.scandir(place) as entries:
            is_empty = next(entries, None) is None
    except OSError as error:
        raise UsageError(f"{place} cannot be a tier: {error.strerror}") from error
    if not is_empty:
        raise UsageError(
            f"{place} is not empty: a tier needs an empty directory; with --backing {place}, it"
            " shows these files in another one"
        )
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        raise UsageError(
            f"{place} is on a file system that is mounted read-only: take another directory"
        )
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{place} may not be written by this user: take another directory")
    return False


def _existing(backing: Path, place: Path) -> Path:
    """The directory of the files, without links. Raises UsageError where there is none, or where
    the tier lies in it: its program would wait for itself.
    """
    lies_in = Path(os.path.realpath(backing))
    if not lies_in.is_dir():
        raise UsageError(f"--backing {backing} is no directory")
    if lies_in in place.parents:
        raise UsageError(
            f"--backing {backing} holds the tier {place} itself: take a directory outside of it for"
            " one of them"
        )
    return lies_in


def _measured(emulation: Emulation) -> list[Measured]:
    def operations() -> dict[str, int]:
        counts: dict[str, int] = program.counters(emulation)["operations"]
        return counts

    count = None if emulation.kind == NETWORK else operations
    try:
        return measure(Path(emulation.directory), emulation.settings, count)
    except OSError as error:
        raise EmulationFailed(
            f"{emulation.directory} could not be measured, and was removed: {error}"
        ) from error


def _require_asked(emulation: Emulation, measured: Sequence[Measured], tolerance: float) -> None:
    """Raise EmulationFailed where the tier is not what was asked for."""
    wrong = [one for one in measured if one.deviation > tolerance]
    if not wrong:
        return
    off = max(one.deviation for one in wrong)
    raise EmulationFailed(
        f"{emulation.directory} is not the tier that was asked for, and was removed:"
        f" {show_list([one.sentence() for one in wrong])}; try again when the machine is less busy,"
        " ask for less, have the files lie on a faster medium with --backing, or take it as it is"
        f" with --tolerance {math.ceil(off * 100)}"
    )
