"""Unmatched: why no image of some participants is what a filter file wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from hyperslab.apps.bids.dataset import File, Session, files
from hyperslab.apps.bids.names import ENTITY_OF_WORD
from hyperslab.apps.bids.wanted import IMAGES, Kind, is_of, is_one

_WORD_OF_ENTITY = {entity: word for word, entity in ENTITY_OF_WORD.items()}
_NAMED = 5

Condition = tuple[str, Sequence[str], Callable[[File], str], Callable[[File], bool]]
"A word, what it wants, what a file has of that, and whether this is wanted."


def why_none(sessions: Iterable[Session], kind: Kind) -> str:
    """The first condition of a kind that no image meets which has met those before it, and what
    these images have instead.
    """
    left = [file for one in sessions for file in files(one) if file.name.extension in IMAGES]
    if not left:
        return "the participants have no images"
    for word, wanted, has, is_wanted in _conditions(kind):
        meeting = list(filter(is_wanted, left))
        if not meeting:
            there = _listed(sorted({has(file) for file in left}))
            if not wanted:
                return f"every image has a {word}: {there}"
            return f"no image has {word} {_listed(wanted)}: they have {there}"
        left = meeting
    return "no image is wanted"


def _conditions(kind: Kind) -> Iterator[Condition]:
    texts: dict[str, tuple[Sequence[str], Callable[[File], str]]] = {
        "datatype": (kind.datatypes, lambda file: file.datatype),
        "suffix": (kind.suffixes, lambda file: file.name.suffix),
        "extension": (kind.extensions, lambda file: file.name.extension),
    }
    for word, (wanted, has) in texts.items():
        yield word, wanted, has, _text_is_wanted(kind, wanted, has)
    for entity, wanted in kind.entities.items():
        yield _WORD_OF_ENTITY.get(entity, entity), wanted, _label(entity), _is_of(kind, entity)


def _text_is_wanted(
    kind: Kind, wanted: Sequence[str], has: Callable[[File], str]
) -> Callable[[File], bool]:
    return lambda file: is_one(kind, wanted, has(file))


def _label(entity: str) -> Callable[[File], str]:
    without = f"no {_WORD_OF_ENTITY.get(entity, entity)}"
    return lambda file: file.name.entities.get(entity, without)


def _is_of(kind: Kind, entity: str) -> Callable[[File], bool]:
    alone = replace(kind, entities={entity: kind.entities[entity]})
    return lambda file: is_of(alone, file)


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return f"{', '.join(texts[:_NAMED])}{more}"
