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
    """A unit for each participant, or for each session. Raises FormatError, as `images` does."""
    for participant, sessions in chosen.items():
        of_sessions = [(session.label, tuple(images(session, kind))) for session in sessions]
        if per == "session":
            yield from (Unit(participant, label, found) for label, found in of_sessions)
            continue
        together = tuple(image for _, found in of_sessions for image in found)
        yield Unit(participant, "", together)


def require_content(several: Sequence[Unit]) -> None:
    """Raise UsageError, with the command that fetches them, for images that are only links."""
    paths = [image.path for unit in several for image in unit.images]
    absent = [path for path in paths if content.is_absent(path)]
    if absent:
        images_absent = f"{len(absent):,} of {show_count(len(paths), 'image')}"
        raise UsageError(
            f"{images_absent} are links whose content is not here: type"
            f" '{content.line_to_get(absent)}', or name other participants with --participant-label"
        )
