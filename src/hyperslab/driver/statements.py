"""Statements: what commands say of all that is in an output directory, as others do, too.

Each is a file beside the records of runs, for whoever makes one text of them all; none is a result.
Of many that may say the same each different statement is kept once; what somebody says who speaks
alone takes the place of what they said before. Held by tests/apps/commands/test_statements.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hyperslab.storage.whole import replace_text

FOLDER = "statements"
"Folder beside the submissions: one for each name, in which each statement is a file."
_OF_MANY = "said-"
_SHOWN = 16
"Characters of a checksum that tell statements apart."


@dataclass(frozen=True, slots=True)
class Statement:
    """What was said under one name."""

    speaker: str
    "Who has said it; '' for one or more of many."
    text: str


def said(top: Path, name: str) -> list[Statement]:
    """All that was said under a name, in an order that rests on nothing else; `top` is the folder
    of all records.
    """
    place = top / FOLDER / name
    if not place.is_dir():
        return []
    return list(_statements(place))


def _statements(place: Path) -> Iterator[Statement]:
    for path in sorted(place.iterdir()):
        if path.name.startswith("."):  # it is being written
            continue
        speaker = path.name
        if speaker.startswith(_OF_MANY):
            speaker = ""
        yield Statement(speaker, path.read_text(encoding="utf-8"))


def is_of_several(top: Path, name: str) -> bool:
    """Whether the file of this name is made of what was said, so that it is nobody's result: an
    earlier version may have recorded it as one.
    """
    return (top / FOLDER / name).is_dir()


def text_of(path: Path) -> str | None:
    """What a file says; None where there is none. Raises OSError."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def keep(top: Path, name: str, text: str | None, speaker: str = "") -> bool:
    """Keep a statement; with None, take back what somebody has said who speaks alone. Whether
    something is other than before. Raises OSError.
    """
    if text is None:
        return _withdraw(top, name, speaker)
    place = top / FOLDER / name
    path = place / (speaker or f"{_OF_MANY}{_digest(text)}")
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    place.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)
    return True


def _withdraw(top: Path, name: str, speaker: str) -> bool:
    if not speaker:
        return False
    path = top / FOLDER / name / speaker
    was_said = path.exists()
    path.unlink(missing_ok=True)
    return was_said


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_SHOWN]
