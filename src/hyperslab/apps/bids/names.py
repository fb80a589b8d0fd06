"""Names of BIDS files: pairs of an entity and its label, a suffix and an extension.

BIDS 1.11, "Common principles", file name structure: `sub-01_ses-2_run-1_T1w.nii.gz`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

LABEL = re.compile(r"[0-9A-Za-z+]+")
"Characters of a label, of BIDS 1.11: letters, digits and plus signs."

NUMBERED = frozenset(("run", "echo", "flip", "inv", "split", "chunk"))
"Entities whose labels are numbers, so that run-1 and run-01 are the same one."

ENTITY_OF_WORD = {
    "subject": "sub",
    "session": "ses",
    "acquisition": "acq",
    "nucleus": "nuc",
    "volume": "voi",
    "ceagent": "ce",
    "tracer": "trc",
    "staining": "stain",
    "reconstruction": "rec",
    "direction": "dir",
    "modality": "mod",
    "inversion": "inv",
    "mtransfer": "mt",
    "processing": "proc",
    "hemisphere": "hemi",
    "segmentation": "seg",
    "resolution": "res",
    "density": "den",
    "description": "desc",
}
"Short form of entities by the words that pybids has for them, as filter files use these."

_SAME_WORD = frozenset(
    (
        *("sample", "task", "tracksys", "part", "space"),
        *("recording", "label", "cohort", "atlas", "scale"),
    )
)
ENTITIES = _SAME_WORD | NUMBERED | {*ENTITY_OF_WORD.values()}
"Short form of all entities of BIDS 1.11."


@dataclass(frozen=True, slots=True)
class Name:
    """What the name of a file says."""

    entities: Mapping[str, str]
    "Labels by the short form of their entity, in the order of the name."
    suffix: str
    "Last part, which says what kind of data it is, such as T1w."
    extension: str
    "All from the first dot on, such as .nii.gz."

    def __str__(self) -> str:
        pairs = (f"{entity}-{label}" for entity, label in self.entities.items())
        return "_".join((*pairs, self.suffix)) + self.extension

    def derived(self, suffix: str, extension: str, **entities: str) -> Name:
        """The name of a file that was made of this one, with further entities at its end."""
        return Name({**self.entities, **entities}, suffix, extension)


def parse(text: str) -> Name | None:
    """What a file's name says; None for one that is not of BIDS."""
    stem, dot, extension = text.partition(".")
    *pairs, suffix = stem.split("_")
    if not pairs or "-" in suffix or not suffix:
        return None
    entities: dict[str, str] = {}
    for pair in pairs:
        entity, dash, label = pair.partition("-")
        if not dash or not label or entity in entities:
            return None
        entities[entity] = label
    return Name(entities, suffix, dot + extension)


def same_label(entity: str, one: str, other: str) -> bool:
    """Whether two labels of an entity mean the same."""
    if entity in NUMBERED and one.isdecimal() and other.isdecimal():
        return int(one) == int(other)
    return one == other


def is_label(text: str) -> bool:
    """Whether BIDS allows a text as a label."""
    return LABEL.fullmatch(text) is not None
