"""What a BIDS dataset holds, found folder by folder with os.scandir when it is asked for.

The dataset is one listing, a participant another one, a session one, and so is each folder of a
datatype; a folder of images that nobody asks for is not looked at. A collection of sites, as in
CoRR, is a folder of datasets.

- labels are compared as a whole: sub-1 is not sub-10 (`tests/apps/bids/test_dataset.py`)
- links to folders and files are followed; no deeper than these levels, so that no circle of links
  is walked
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from hyperslab.apps.bids.names import Name, is_label, parse
from hyperslab.errors import FormatError, Missing, UsageError

SUBJECT, SESSION = "sub-", "ses-"
ELSEWHERE = frozenset(("derivatives", "sourcedata", "code", "stimuli", "phenotype", "logs"))
"Folders of a dataset, or beside those of sites, that hold no participants of it."
DATATYPES = frozenset(
    (
        *("anat", "beh", "dwi", "eeg", "fmap", "func", "ieeg", "meg"),
        *("micr", "motion", "mrs", "nirs", "perf", "pet"),
    )
)
"Folders of a session, or of a participant without any, of BIDS 1.11."
_NAMED = 3
"Names that a message lists."


@dataclass(frozen=True, slots=True)
class Participant:
    """A participant of a dataset."""

    label: str
    "Label without sub-."
    folder: str
    site: str = ""
    "Folder of the site's dataset in a collection; '' where the dataset is not in one."

    @property
    def name(self) -> str:
        """Path of the participant's folder in the dataset or collection, such as BNU_1/sub-01."""
        return os.path.join(self.site, SUBJECT + self.label)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset and its participants, by their labels."""

    folder: str
    participants: tuple[Participant, ...]
    site: str = ""
    "Name of its folder in a collection of sites; '' where it is not in one."


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a participant, or all of one whose images are not divided into sessions."""

    participant: Participant
    label: str
    "Label without ses-; '' for a participant without sessions."
    folder: str
    fault: str = ""
    "Why nobody can say what the participant has; '' otherwise."


@dataclass(frozen=True, slots=True)
class File:
    """A file of a participant."""

    path: str
    name: Name
    datatype: str
    "Folder that it lies in, such as anat."
    session: Session


def find_datasets(folder: str | os.PathLike[str]) -> list[Dataset]:
    """The dataset in a folder, or those of its sites. Raises UsageError for a folder without
    participants.
    """
    root = os.path.abspath(folder)
    own = _participants(root, "")
    if own:
        return [Dataset(root, own)]
    sites = _sites(root)
    if not sites:
        raise UsageError(_without_participants(root))
    return sites


def derivatives(dataset: Dataset) -> list[str]:
    """Folders of the datasets that were made of this one and lie in it."""
    folder = os.path.join(dataset.folder, "derivatives")
    if not os.path.isdir(folder):
        return []
    return [entry.path for entry in _folders(folder)]


def sessions(participant: Participant) -> list[Session]:
    """The sessions of a participant, by their labels; one without a label where it has none, and
    first of all where it has folders of datatypes beside them.
    """
    found = []
    is_divided = True
    for entry in _folders(participant.folder):
        if entry.name.startswith(SESSION):
            label = entry.name.removeprefix(SESSION)
            found.append(Session(participant, label, entry.path))
        elif entry.name in DATATYPES:
            is_divided = False
    if is_divided and found:
        return found
    return [Session(participant, "", participant.folder), *found]


def is_divided(participant: Participant) -> bool:
    """Whether all that a participant has is of sessions, or none of it."""
    return len({bool(session.label) for session in sessions(participant)}) == 1


def files(
    session: Session, datatypes: Collection[str] = (), suffixes: Collection[str] = ()
) -> list[File]:
    """Files of a session by their names: of some datatypes and suffixes, or () for all of them.

    What is not named as BIDS names files is left out. Raises FormatError for a file that is named
    for another participant or session than it lies with.
    """
    found: list[File] = []
    for folder in _folders(session.folder):
        if datatypes and folder.name not in datatypes:
            continue
        for entry in _entries(folder.path):
            name = parse(entry.name)
            if name is None or (suffixes and name.suffix not in suffixes):
                continue
            _require_own(session, entry.path, name)
            found.append(File(entry.path, name, folder.name, session))
    return found


def _participants(folder: str, site: str) -> tuple[Participant, ...]:
    return tuple(
        Participant(entry.name.removeprefix(SUBJECT), entry.path, site)
        for entry in _folders(folder)
        if entry.name.startswith(SUBJECT)
    )


def _sites(root: str) -> list[Dataset]:
    found = []
    for entry in _folders(root):
        if entry.name in ELSEWHERE:
            continue
        participants = _participants(entry.path, entry.name)
        if participants:
            found.append(Dataset(entry.path, participants, entry.name))
    return found


def require_labels(participants: Sequence[Participant]) -> None:
    """Raise UsageError for participants whose labels BIDS does not allow."""
    odd = [one.name for one in participants if not is_label(one.label)]
    if not odd:
        return
    named = ", ".join(repr(name) for name in odd[:_NAMED])
    if len(odd) > _NAMED:
        named += f" and {len(odd) - _NAMED} more"
    raise UsageError(
        f"{named}: a label of BIDS has letters, digits and + alone; rename the folder and its"
        " files, or name the others with --participant-label"
    )


def _require_own(session: Session, path: str, name: Name) -> None:
    participant = session.participant
    own = {"sub": participant.label, "ses": session.label}
    for entity, label in own.items():
        said = name.entities.get(entity, "")
        if said != label:
            meant = f"{entity}-{label}" if label else f"no {entity}- in their names"
            raise FormatError(
                f"{path}: is named for {entity}-{said} but lies with files of {meant}; rename or"
                " move it"
            )


def _without_participants(root: str) -> str:
    """Why a folder cannot be used, and what may have been meant."""
    name = os.path.basename(root)
    if name.startswith(SUBJECT):
        return (
            f"{root} is the folder of a participant: give {os.path.dirname(root)} and"
            f" --participant-label {name.removeprefix(SUBJECT)}"
        )
    if os.path.exists(os.path.join(root, ".gitmodules")):
        return (
            f"{root} holds no participants: the datasets in it are not installed; type 'datalad get"
            f" --no-data --recursive {root}'"
        )
    return (
        f"{root} holds no participants: neither it nor a folder in it has a folder named sub-LABEL;"
        " give the folder of a BIDS dataset, or one with datasets of several sites"
    )


def _folders(path: str) -> Iterator[os.DirEntry[str]]:
    """Folders in a folder by their names, without hidden ones."""
    return (entry for entry in _entries(path) if entry.is_dir())


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            found = [entry for entry in listing if not entry.name.startswith(".")]
    except FileNotFoundError as error:
        raise Missing(f"{path}: there is no such folder; give that of a BIDS dataset") from error
    except NotADirectoryError as error:
        raise UsageError(f"{path}: is a file; give the folder of a BIDS dataset") from error
    except OSError as error:
        raise FormatError(
            f"{path}: cannot be listed ({error.strerror}); let its owner change that"
        ) from error
    return sorted(found, key=lambda entry: entry.name)
