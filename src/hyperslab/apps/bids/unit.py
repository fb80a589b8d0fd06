"""Unit: a participant, or one session of it, which one task works on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, get_args

from hyperslab.apps.bids import content
from hyperslab.apps.bids.dataset import SESSION, SUBJECT, File, Participant, Session
from hyperslab.apps.bids.wanted import Kind, images
from hyperslab.errors import HyperslabError, UsageError
from hyperslab.units import show_count

Per = Literal["participant", "session"]
_NAMED = 5
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
    fault: str = ""
    "Why nobody can say what it has, as of files that are named for somebody else; '' otherwise."

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
    sessions.
    """
    for participant, sessions in chosen.items():
        of_sessions = [_of_session(session, kind) for session in sessions]
        if per == "session":
            yield from [one for one in of_sessions if one.session] or of_sessions
            continue
        together = tuple(image for one in of_sessions for image in one.images)
        fault = next((one.fault for one in of_sessions if one.fault), "")
        if fault:
            together = ()
        yield Unit(participant, "", together, fault)


def _of_session(session: Session, kind: Kind) -> Unit:
    if session.fault:
        return Unit(session.participant, session.label, (), session.fault)
    try:
        found = tuple(images(session, kind))
    except HyperslabError as error:
        return Unit(session.participant, session.label, (), str(error))
    return Unit(session.participant, session.label, found)


def fault_lines(faulty: Sequence[Unit]) -> Iterator[str]:
    """What people read of units whose task fails before it begins."""
    for unit in faulty[:_NAMED]:
        yield f"fails      {unit.label}: {unit.fault}"
    if len(faulty) > _NAMED:
        yield f"fails      {len(faulty) - _NAMED:,} more, for reasons like these"


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
    data = [list(_data_of(unit)) for unit in several]
    absent = [list(_absent(files)) for files in data]
    without = [place for place, files in enumerate(data) if len(absent[place]) == len(files)]
    lost = [path for place in without for path in absent[place]]
    _refuse(lost, show_count(sum(map(len, data)), "file"))
    return [path for paths in absent for path in paths]


def absent_words(absent: Sequence[str]) -> str:
    """What is said of links without content of which nobody knows whether they are read."""
    links = f"{show_count(len(absent), 'link')} without content"
    return f"not here   {links}: if the app reads them, type '{content.line_to_get(absent)}'"


def _refuse(absent: Sequence[str], all_of_them: str) -> None:
    if absent:
        raise UsageError(
            f"{len(absent):,} of {all_of_them} are links whose content is not here: type"
            f" '{content.line_to_get(absent)}', or leave them out with --exclude-participant-label"
        )


def _absent(files: Iterable[os.DirEntry[str]]) -> Iterator[str]:
    """Files that are links without content."""
    links = (entry.path for entry in files if entry.is_symlink())
    return filter(content.is_absent, links)


def _data_of(unit: Unit) -> Iterator[os.DirEntry[str]]:
    """All files of a unit but those that only describe others."""
    folder = unit.participant.folder
    if unit.session:
        folder = os.path.join(folder, SESSION + unit.session)
    return (entry for entry in _files_below(folder) if not entry.name.endswith(_DESCRIBING))


def _files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Files in a folder and those below, each of which is listed once, and none is looked at. Links
    to folders are not followed; of a folder that cannot be listed the app will say so.
    """
    found: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(folder) as listing:
        found = list(listing)
    for entry in found:
        if not entry.is_dir():
            yield entry
        elif not entry.is_symlink():
            yield from _files_below(entry.path)
