"""Unit: a participant, or one session of it, which one task works on."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hyperslab.apps.bids import content
from hyperslab.apps.bids.dataset import SESSION, SUBJECT, File, Participant, Session
from hyperslab.apps.bids.wanted import Kind, images
from hyperslab.errors import UsageError
from hyperslab.units import show_count

Per = Literal["participant", "session"]
PER: tuple[Per, ...] = get_args(Per)
_DESCRIBING = (".json", ".tsv", ".bval", ".bvec")
"Ends of the names of small files, which datasets keep in git itself."


@dataclass(frozen=True, slots=True)
class Unit:
    """What one task works on."""

    participant: Participant
    session: str
    "Label of the session; '' where the unit is all of a participant, or has no sessions."
    images: tuple[File, ...]
    "Images of the kind that is wanted; () where there are none."

    @property
    def stem(self) -> str:
        """What the names of its files begin with, such as sub-01 or sub-01_ses-2."""
        stem = SUBJECT + self.participant.label
        return f"{stem}_{SESSION}{self.session}" if self.session else stem

    @property
    def label(self) -> str:
        """Name of the unit among all of the dataset or collection, such as BNU_1/sub-01."""
        return os.path.join(self.participant.site, self.stem)

    @property
    def folder(self) -> str:
        """Path of its folder in the dataset or collection."""
        name = self.participant.name
        return os.path.join(name, SESSION + self.session) if self.session else name


def units(
    chosen: Mapping[Participant, Sequence[Session]], kind: Kind, per: Per = "participant"
) -> Iterator[Unit]:
    """A unit for each participant, or for each session, without what lies beside folders of
    sessions. Raises FormatError, as `images` does.
    """
    for participant, sessions in chosen.items():
        of_sessions = [(session.label, tuple(images(session, kind))) for session in sessions]
        if per == "session":
            divided = [one for one in of_sessions if one[0]] or of_sessions
            yield from (Unit(participant, label, found) for label, found in divided)
            continue
        together = tuple(image for _, found in of_sessions for image in found)
        yield Unit(participant, "", together)


def require_distinct(unit: Unit) -> None:
    """Raise UsageError for two images whose names differ in their suffix alone, as those may that a
    filter file chooses: results that are named without it would replace each other.
    """
    by_stem: dict[str, str] = {}
    for image in unit.images:
        name = image.name
        stem = image.path.removesuffix(f"{name.suffix}{name.extension}")
        if stem in by_stem:
            raise UsageError(
                f"{unit.label}: results of {by_stem[stem]} and {os.path.basename(image.path)} would"
                " have the same names: let the filter file choose one suffix, and give each an"
                " OUT_DIR of its own"
            )
        by_stem[stem] = os.path.basename(image.path)


def require_content(several: Sequence[Unit], needs_images: bool = True) -> list[str]:
    """Raise UsageError, with the command that fetches them, for images that are only links.

    Where an app takes no images by name, nobody knows what it reads: then for units of whose data
    nothing is here; what is not here of others is returned.
    """
    if needs_images:
        paths = [image.path for unit in several for image in unit.images]
        _refuse(list(filter(content.is_absent, paths)), show_count(len(paths), "image"))
        return []
    by_unit = {unit.label: _data_of(unit) for unit in several}
    absent = {label: list(filter(content.is_absent, data)) for label, data in by_unit.items()}
    without = [label for label, data in by_unit.items() if len(absent[label]) == len(data)]
    lost = [path for label in without for path in absent[label]]
    _refuse(lost, show_count(sum(map(len, by_unit.values())), "file"))
    return [path for paths in absent.values() for path in paths]


def _refuse(absent: Sequence[str], all_of_them: str) -> None:
    if absent:
        raise UsageError(
            f"{len(absent):,} of {all_of_them} are links whose content is not here: type"
            f" '{content.line_to_get(absent)}', or leave them out with --exclude-participant-label"
        )


def _data_of(unit: Unit) -> list[str]:
    """Paths of all files of a unit but those that only describe others."""
    folder = unit.participant.folder
    if unit.session:
        folder = os.path.join(folder, SESSION + unit.session)
    below = (os.path.join(top, name) for top, _, names in os.walk(folder) for name in names)
    return [path for path in below if not path.endswith(_DESCRIBING)]
