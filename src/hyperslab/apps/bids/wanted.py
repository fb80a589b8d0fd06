"""What is wanted of a dataset - participants, sessions, images - as BIDS Apps are told it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hyperslab.apps.bids.dataset import (
    DATATYPES,
    SESSION,
    SUBJECT,
    Dataset,
    File,
    Participant,
    Session,
    files,
    require_labels,
    sessions,
)
from hyperslab.apps.bids.names import ENTITIES, ENTITY_OF_WORD, is_label, same_label
from hyperslab.errors import FormatError, HyperslabError, UsageError, suggest

IMAGES = (".nii", ".nii.gz")
ANY = "*"
"What a filter file says for any label."
_SUFFIX, _DATATYPE, _EXTENSION = "suffix", "datatype", "extension"
_SEARCH = "regex_search"
"What filter files say of all their labels, as pybids has it: they are searched for."
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of images, such as T1w, and what narrows it down."""

    suffixes: tuple[str, ...] = ("T1w",)
    datatypes: tuple[str, ...] = ("anat",)
    entities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Labels of which one is wanted, or ANY, by the short form of their entity; () wants images
    without the entity.
    """
    extensions: tuple[str, ...] = IMAGES
    "Ends of the names of images, one of which is wanted."
    is_search: bool = False
    """Whether all of these are regular expressions that are searched for, in upper or lower case,
    as pybids does it (`regexp` in its bids/layout/db.py).
    """

    def record(self) -> dict[str, Any]:
        """What records say of it, as they did when there was one suffix and one datatype."""
        said: dict[str, Any] = {"entities": self.entities, "extensions": self.extensions}
        for name, several in ((_SUFFIX, self.suffixes), (_DATATYPE, self.datatypes)):
            said[name] = several[0] if len(several) == 1 else several
        if self.is_search:
            said[_SEARCH] = True
        return said


T1W = Kind()


def choose_participants(
    datasets: Sequence[Dataset], labels: Iterable[str], excluded: Iterable[str] = ()
) -> list[Participant]:
    """Participants by their labels, with or without sub-, of all sites; none chooses all. Those who
    are excluded are not looked at.

    Raises UsageError for a label that nobody has, and for one that BIDS does not allow.
    """
    everybody = [one for dataset in datasets for one in dataset.participants]
    known = {one.label for one in everybody}
    wanted = {label.removeprefix(SUBJECT) for label in labels}
    unwanted = {label.removeprefix(SUBJECT) for label in excluded}
    _require_known("--participant-label", SUBJECT, wanted, known)
    _require_known("--exclude-participant-label", SUBJECT, unwanted, known)
    left = (wanted or known) - unwanted
    if not left:
        raise UsageError("--exclude-participant-label: leaves nobody; leave out fewer")
    chosen = [one for one in everybody if one.label in left]
    require_labels(chosen)
    return chosen


def choose_sessions(
    participants: Sequence[Participant], labels: Iterable[str]
) -> dict[Participant, list[Session]]:
    """Sessions by their labels, with or without ses-, of each participant that has one of them. One
    whose folder cannot be listed has a session that says so, whichever are asked for.

    Raises UsageError for a label that no session has.
    """
    found = {one: _sessions(one) for one in participants}
    wanted = {label.removeprefix(SESSION) for label in labels}
    if not wanted:
        return found
    known = {session.label for several in found.values() for session in several}
    _require_known("--session-label", SESSION, wanted, known)
    chosen = {
        one: [session for session in several if session.label in wanted or session.fault]
        for one, several in found.items()
    }
    return {one: several for one, several in chosen.items() if several}


def _sessions(participant: Participant) -> list[Session]:
    try:
        return sessions(participant)
    except HyperslabError as error:
        return [Session(participant, "", participant.folder, str(error))]


def images(session: Session, kind: Kind = T1W) -> list[File]:
    """Images of a kind in a session. Raises FormatError for two files that are the same image."""
    found = [
        file
        for file in _of_kind(session, kind)
        if is_one(kind, kind.extensions, file.name.extension) and is_of(kind, file)
    ]
    stems: dict[str, File] = {}
    for file in found:
        stem = os.path.basename(file.path).removesuffix(file.name.extension)
        if stem in stems:
            raise FormatError(
                f"{file.path} and {os.path.basename(stems[stem].path)} are the same image of"
                f" {session.participant.name}; remove one"
            )
        stems[stem] = file
    return found


def _of_kind(session: Session, kind: Kind) -> list[File]:
    """Files of a session by their datatypes and suffixes."""
    if not kind.is_search:
        return files(session, kind.datatypes, kind.suffixes)
    datatypes = [one for one in DATATYPES if is_one(kind, kind.datatypes, one)]
    if not datatypes:
        return []
    found = files(session, datatypes)
    return [file for file in found if is_one(kind, kind.suffixes, file.name.suffix)]


def is_one(kind: Kind, wanted: Iterable[str], text: str) -> bool:
    """Whether a text is one of those that are wanted."""
    if kind.is_search:
        return any(re.search(one, text, re.IGNORECASE) for one in wanted)
    return text in wanted


def is_of(kind: Kind, file: File) -> bool:
    """Whether the entities of a file are those of a kind."""
    for entity, wanted in kind.entities.items():
        label = file.name.entities.get(entity)
        if label is None and wanted:
            return False
        if label is None or ANY in wanted:
            continue
        if kind.is_search:
            is_wanted = is_one(kind, wanted, label)
        else:
            is_wanted = any(same_label(entity, label, one) for one in wanted)
        if not is_wanted:
            return False
    return True


def read_filters(path: str | os.PathLike[str]) -> dict[str, Kind]:
    """Kinds of images by the names that a filter file gives them in lower case, such as t1w.

    The file is JSON as fMRIPrep has it, `{"t1w": {"session": "02", "run": [1, 2]}}`; null wants
    images without the entity, "*" those with any label of it, and with `"regex_search": true` all
    labels are regular expressions. Raises UsageError, FormatError.
    """
    said = read_json(path)
    if not isinstance(said, dict) or not all(isinstance(one, dict) for one in said.values()):
        raise FormatError(f'{path}: give filters by kinds of images, as {{"t1w": {{"run": 1}}}}')
    return {name.lower(): _kind(f"{path}: {name}", query) for name, query in said.items()}


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file says. Raises FormatError, with line and column, and UsageError."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return json.load(file)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{path}: is no JSON: {error.msg} in line {error.lineno}, column {error.colno}; correct"
            " the file"
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 ({error}); save it as UTF-8") from error


def _kind(where: str, query: Mapping[str, Any]) -> Kind:
    is_search = query.get(_SEARCH, False)
    if not isinstance(is_search, bool):
        given = json.dumps(is_search)
        raise FormatError(f"{where}: {_SEARCH} has to be true or false, not {given}")
    own = {_SUFFIX: T1W.suffixes, _DATATYPE: T1W.datatypes}
    own[_EXTENSION] = _whole(IMAGES) if is_search else IMAGES
    entities: dict[str, tuple[str, ...]] = {}
    for word, value in query.items():
        place = f"{where}: {word}"
        if word in own:
            own[word] = _texts(place, value, is_search)
        elif word != _SEARCH:
            entities[_entity(where, word)] = _labels(place, value, is_search)
    return Kind(own[_SUFFIX], own[_DATATYPE], entities, own[_EXTENSION], is_search)


def _whole(texts: Iterable[str]) -> tuple[str, ...]:
    """Regular expressions that find some texts, and no others."""
    return tuple(f"^{re.escape(text)}$" for text in texts)


def _texts(where: str, value: Any, is_search: bool) -> tuple[str, ...]:
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(one, str) for one in several):
        raise FormatError(f"{where}: give a text, or a list of them, not {json.dumps(value)}")
    if is_search:
        _require_expressions(where, several)
    return tuple(several)


def _require_expressions(where: str, texts: Iterable[str]) -> None:
    for text in texts:
        try:
            re.compile(text)
        except re.error as error:
            raise FormatError(f"{where}: {text!r} is no regular expression: {error}") from error


def _entity(where: str, word: str) -> str:
    """The short form of an entity. Raises FormatError for a word that is none of BIDS."""
    entity = ENTITY_OF_WORD.get(word, word)
    if entity not in ENTITIES:
        known = (*ENTITY_OF_WORD, *ENTITIES, _SUFFIX, _DATATYPE, _EXTENSION, _SEARCH)
        raise FormatError(f"{where}: {word} is no entity of BIDS{suggest(word, known)}")
    return entity


def _labels(where: str, value: Any, is_search: bool) -> tuple[str, ...]:
    labels = _values(where, value)
    if is_search:
        _require_expressions(where, (label for label in labels if label != ANY))
        return labels
    for label in labels:
        if label != ANY and not is_label(label):
            raise FormatError(
                f"{where}: {label!r} is no label: null wants images without it, {ANY!r} those with"
                " any"
            )
    return labels


def _values(where: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    several = value if isinstance(value, list) else [value]
    if not several or not all(
        isinstance(one, str | int) and not isinstance(one, bool) for one in several
    ):
        given = json.dumps(value)
        raise FormatError(f"{where}: give a label, a list of them, or null, not {given}")
    return tuple(map(str, several))


def _require_known(flag: str, prefix: str, wanted: set[str], known: set[str]) -> None:
    unknown = sorted(wanted - known)
    if unknown:
        named = ", ".join(prefix + label for label in unknown[:_NAMED])
        if len(unknown) > _NAMED:
            named += f" and {len(unknown) - _NAMED} more"
        raise UsageError(
            f"{flag}: the dataset has no {named}{_meant(unknown[0], prefix, known)}; labels are"
            f" compared as a whole{_on_commas(unknown)}"
        )


def _meant(label: str, prefix: str, known: set[str]) -> str:
    """What was perhaps meant by a label: the same number with other zeros, or what is like it."""
    same = sorted(one for one in known - {""} if one.lstrip("0") == label.lstrip("0"))
    if same:
        return f" (did you mean '{prefix}{same[0]}'?)"
    return suggest(label, known, prefix)


def _on_commas(labels: Sequence[str]) -> str:
    if not any("," in label for label in labels):
        return ""
    return ", and no comma divides them: give each a flag of its own, or hyperslab-bids blanks"
