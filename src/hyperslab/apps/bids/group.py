"""The group level of the brain app: volumes of all participants and sites."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab.apps.bids.brain import sidecar_of
from hyperslab.apps.bids.brains import brain_names
from hyperslab.apps.bids.dataset import File
from hyperslab.apps.bids.unit import Unit
from hyperslab.apps.bids.wanted import read_json
from hyperslab.errors import FormatError, UsageError
from hyperslab.storage.whole import replace_text
from hyperslab.units import show_count

BY_IMAGE = "group_brain_volumes.tsv"
BY_PARTICIPANT = "group_brain_volumes_by_participant.tsv"
BY_SITE = "group_brain_volumes_by_site.tsv"
UNKNOWN = "n/a"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Volume:
    """The volume of a brain in one image."""

    participant: str
    "Path of the participant's folder in the dataset, or collection, such as BNU_1/sub-01."
    session: str
    site: str
    image: str
    "Path of the image in the dataset, or collection."
    volume_ml: float

    @property
    def participant_id(self) -> str:
        """Name of the participant, such as sub-01, which two sites may have in common."""
        return os.path.basename(self.participant)


@dataclass(frozen=True, slots=True)
class Group:
    """What the participants of a dataset come to."""

    volumes: tuple[Volume, ...]
    missing: tuple[str, ...]
    "Labels of the units of which an image has no brain."

    @property
    def mean_ml(self) -> float:
        """The mean of the participants, each of which counts once however many images it has."""
        return statistics.fmean(_of_participants(self.volumes))

    def lines(self) -> list[str]:
        """What people read of it."""
        people = show_count(len(_of_participants(self.volumes)), "participant")
        images = show_count(len(self.volumes), "image")
        lines = [f"mean brain volume {self.mean_ml:.0f} ml, of {people} in {images}"]
        if self.missing:
            lines.append(f"left out   {named(self.missing)}")
        return lines


def gather_volumes(
    several: Iterable[Unit],
    root: str,
    out: Path,
    sites: Mapping[str, str],
    tried: Mapping[str, bool],
    allow_missing: bool = False,
) -> Group:
    """Volumes of all images, as the participant level has left them; `sites` are those of the
    participants, by their folders, and `tried` says of units that were tried, by their labels,
    whether they were done then.

    Raises UsageError for units without a result, or whose result is older than what has failed
    since, unless these may be missing, and where there is none at all.
    """
    found: list[Volume] = []
    missing: dict[str, None] = {}
    for unit in several:
        if unit.fault:
            missing[unit.label] = None
        for image in unit.images:
            path = out / sidecar_of(brain_names(image, root)[1])
            if not path.is_file():
                missing[unit.label] = None
                continue
            if _has_failed_since(image, tried):
                missing[failed_since(unit.label)] = None
                continue
            participant = unit.participant
            found.append(
                Volume(
                    participant.name,
                    image.session.label or UNKNOWN,
                    sites.get(participant.folder, "") or UNKNOWN,
                    os.path.relpath(image.path, root),
                    _volume_ml(path),
                )
            )
    require_complete(bool(found), tuple(missing), out, allow_missing)
    return Group(tuple(found), tuple(missing))


def _has_failed_since(image: File, tried: Mapping[str, bool]) -> bool:
    """Whether the brain of an image is older than what was tried last: of its participant, or of
    its session, as one of these alone may be done.
    """
    whole = Unit(image.session.participant, "", ())
    part = Unit(image.session.participant, image.session.label, ())
    ends = [tried[label] for label in (whole.label, part.label) if label in tried]
    return bool(ends) and not any(ends)


def save_group(group: Group, out: Path) -> list[Path]:
    """Write three tables: with a row for each image, each participant, and each site."""
    rows = [
        (one.participant_id, one.session, one.site, one.image, f"{one.volume_ml:.3f}")
        for one in group.volumes
    ]
    columns = ("participant_id", "session_id", "site", "image", "volume_ml")
    _save_table(out / BY_IMAGE, columns, rows)
    columns = ("participant_id", "site", "folder", "images", "mean_ml")
    _save_table(out / BY_PARTICIPANT, columns, _rows_of_participants(group.volumes))
    columns = ("site", "participants", "images", "mean_ml", "sd_ml")
    _save_table(out / BY_SITE, columns, _rows_of_sites(group.volumes))
    return [out / BY_IMAGE, out / BY_PARTICIPANT, out / BY_SITE]


def _rows_of_participants(volumes: Sequence[Volume]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for folder, several in _by_participant(volumes).items():
        one = several[0]
        mean = f"{_mean_ml(several):.3f}"
        rows.append((one.participant_id, one.site, folder, str(len(several)), mean))
    return rows


def _rows_of_sites(volumes: Sequence[Volume]) -> list[Sequence[str]]:
    by_site: dict[str, list[Volume]] = {}
    for one in volumes:
        by_site.setdefault(one.site, []).append(one)
    rows: list[Sequence[str]] = []
    for site, several in sorted(by_site.items()):
        means = _of_participants(several)
        spread = f"{statistics.stdev(means):.3f}" if len(means) > 1 else UNKNOWN
        mean = f"{statistics.fmean(means):.3f}"
        rows.append((site, str(len(means)), str(len(several)), mean, spread))
    return rows


def _of_participants(volumes: Iterable[Volume]) -> list[float]:
    """The mean volume of each participant."""
    return [_mean_ml(several) for several in _by_participant(volumes).values()]


def _by_participant(volumes: Iterable[Volume]) -> dict[str, list[Volume]]:
    """Volumes by the folders of their participants: those of two datasets may have one name, and
    tables of two datasets may name one site.
    """
    of: dict[str, list[Volume]] = {}
    for one in volumes:
        of.setdefault(one.participant, []).append(one)
    return of


def _mean_ml(volumes: Iterable[Volume]) -> float:
    return statistics.fmean(one.volume_ml for one in volumes)


def _volume_ml(path: Path) -> float:
    said = read_json(path)
    volume_ml = said.get("VolumeMillilitres") if isinstance(said, dict) else None
    if not isinstance(volume_ml, int | float):
        raise FormatError(
            f"{path}: says no VolumeMillilitres; run the participant level again in a new directory"
        )
    return float(volume_ml)


def require_complete(is_any: bool, missing: Sequence[str], out: Path, allow_missing: bool) -> None:
    """Raise UsageError for a group level that lacks participants, unless these may be missing, or
    all of them.
    """
    if missing and not allow_missing:
        raise UsageError(
            f"{out} has no result of {named(missing)}: run the participant level for them first,"
            " or leave them out with --allow-missing"
        )
    if not is_any:
        raise UsageError(f"{out} has no result of any participant: run the participant level first")


def failed_since(label: str) -> str:
    """Somebody of whom what is there is older than what has failed, or was never come to."""
    return f"{label} (whose last attempt has failed or was interrupted)"


def lacking_words(labels: Sequence[str]) -> str:
    """What is said of participants without a result, of whom something may be there."""
    return f"lacking    {named(labels)}: the group level finds what is there of them"


def named(labels: Sequence[str]) -> str:
    """The first of some labels, and how many more there are."""
    listed = ", ".join(labels[:_NAMED])
    if len(labels) > _NAMED:
        listed += f" and {len(labels) - _NAMED} more"
    return listed


def _save_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = ["\t".join(row) for row in (columns, *rows)]
    replace_text(path, "\n".join(lines) + "\n")
