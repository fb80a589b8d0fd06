"""Described: what hyperslab and apps say of a dataset of derivatives, as one description.

BIDS Apps write dataset_description.json and .bidsignore at both levels, whatever is there. What
each writes is a statement (`driver.statements`), and the files are made of all of them:

- of a field that several have, the words of the participants' app count before ours, and ours
  before those of the group level, but for what we know better: what it was made of, and that it is
  a dataset of derivatives
- GeneratedBy names whoever is named by one of them, in that order (BIDS 1.11, "Derived dataset and
  pipeline description")
- a description that is there, and is none of ours, stays, and so do lines of .bidsignore

Held by tests/apps/bids/test_described.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperslab.apps.bids.description import FILE, IGNORE, NAME, NOT_OF_BIDS, names_of
from hyperslab.blocks.gathering import Tell, unheard
from hyperslab.driver import statements
from hyperslab.driver.directory import RunDirectory
from hyperslab.driver.statements import Statement
from hyperslab.storage.whole import replace_text

DRIVER, GROUP = "driver", "group"
"Who speaks alone: hyperslab, and the group level."
_GENERATED, _SOURCES, _LINKS = "GeneratedBy", "SourceDatasets", "DatasetLinks"
_KNOWN = "DatasetType"
"What hyperslab knows, whatever others say."

Fields = Mapping[str, Any]
"A description, or a part of one, as JSON has it."


def say(directory: RunDirectory, site: str, own: Fields) -> None:
    """Keep what hyperslab says of the dataset of a site, or ''."""
    description, ignored = names_of(site)
    _adopt_lines(directory, ignored)
    statements.keep(directory.top, description, _text(own), DRIVER)
    statements.keep(directory.top, ignored, NOT_OF_BIDS, DRIVER)


def adopt(directory: RunDirectory, site: str) -> None:
    """Keep what was said of the dataset of a site, or '', before anybody has kept that."""
    _adopt(directory, site)
    _adopt_lines(directory, names_of(site)[1])


def _adopt(directory: RunDirectory, site: str) -> None:
    """Take a description of ours for what hyperslab says, where no record has that: an earlier
    version has written it.
    """
    name = names_of(site)[0]
    text = statements.text_of(directory.out / name)
    if text is None or statements.said(directory.top, name):
        return
    if not _is_of_others(directory.out / name):
        statements.keep(directory.top, name, text, DRIVER)


def _adopt_lines(directory: RunDirectory, name: str) -> None:
    """Keep the lines of a file that somebody has made before any was made here."""
    text = statements.text_of(directory.out / name)  # first: we write it behind what we say
    speakers = {one.speaker for one in statements.said(directory.top, name)}
    if text is not None and speakers.isdisjoint((DRIVER, GROUP)):
        statements.keep(directory.top, name, text)


def describe(directory: RunDirectory, site: str, tell: Tell = unheard) -> None:
    """Write what was said of the dataset of a site, or '', and tell whom it names that hyperslab
    has not named by itself.
    """
    home = directory.out / site
    if not home.is_dir():
        return
    before = None
    while before != (now := said_of(directory, site)):  # another call may say something meanwhile
        _describe(home, now[0], tell)
        _replace(home / IGNORE, _lines(now[1], home / IGNORE))
        before = now


def without_group(directory: RunDirectory, site: str) -> str | None:
    """The description of the dataset of a site, or '', without what the group level has said; None
    where there is none.
    """
    path = directory.out / site / FILE
    said = said_of(directory, site)[0]
    known = [(one.speaker, _fields(one)) for one in said if one.speaker != GROUP]
    others = [(speaker, fields) for speaker, fields in known if fields is not None]
    if len(known) == len(said) or not others or not path.is_file() or _is_of_others(path):
        return statements.text_of(path)
    return _text(merged(others))


def said_of(directory: RunDirectory, site: str) -> tuple[list[Statement], list[Statement]]:
    """All that was said of the dataset of a site, or '': of its description, and of what is ignored
    there.
    """
    description, ignored = names_of(site)
    return _ordered(directory.top, description), _ordered(directory.top, ignored)


def _ordered(top: Path, name: str) -> list[Statement]:
    """What was said under a name, by those first whose words count first."""
    ranks = {"": 0, DRIVER: 1, GROUP: 2}
    return sorted(statements.said(top, name), key=lambda one: ranks[one.speaker])


def _describe(home: Path, said: Sequence[Statement], tell: Tell) -> None:
    path = home / FILE
    fields = {one: _fields(one) for one in said}
    for one in said:
        if fields[one] is None:
            tell(f"left out   what {_who(one)} says in {path}, as that is no object of JSON")
    known = [(one.speaker, said) for one, said in fields.items() if said is not None]
    if not known:
        return
    if _is_of_others(path):
        tell(f"kept       {path}, which hyperslab has not written")
        return
    whole = merged(known)
    if _replace(path, _text(whole)) and any(speaker != DRIVER for speaker, _ in known):
        names = [entry["Name"] for entry in _entries(whole)]
        tell(f"described  {path} by what is said of it: made by {', '.join(names)}")


def _who(one: Statement) -> str:
    return "the group level" if one.speaker == GROUP else "an app"


def _fields(one: Statement) -> Fields | None:
    """What a statement says; None where that is no object of JSON."""
    try:
        found = json.loads(one.text)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    return found


def _is_of_others(path: Path) -> bool:
    """Whether a description is there in which hyperslab is not named."""
    text = statements.text_of(path)
    if text is None:
        return False
    found = _fields(Statement("", text)) or {}
    return all(entry["Name"] != NAME for entry in _entries(found))


def merged(said: Sequence[tuple[str, Fields]]) -> dict[str, Any]:
    """One description of several, by their speakers, those first whose words count first."""
    whole: dict[str, Any] = {}
    for _, fields in said:
        whole |= {name: value for name, value in fields.items() if name not in whole}
    in_order = [fields for _, fields in said]
    ours = [fields for speaker, fields in said if speaker == DRIVER]
    first_ours = [*ours, *(fields for fields in in_order if fields not in ours)]
    for fields in ours:
        whole |= {name: value for name, value in fields.items() if name == _KNOWN}
    found = {
        _GENERATED: _generated_by(in_order),
        _SOURCES: _sources(first_ours),
        _LINKS: _links(first_ours),
    }
    return whole | {name: value for name, value in found.items() if value}


def _generated_by(several: Sequence[Fields]) -> list[dict[str, Any]]:
    """Entries of all, of which those are one that have a name in common and contradict each other
    in nothing.
    """
    found: list[dict[str, Any]] = []
    for fields in several:
        for entry in _entries(fields):
            same = next((known for known in found if _agree(known, entry)), None)
            if same is None:
                found.append(dict(entry))
            else:
                same |= {**entry, **same}
    return found


def _entries(fields: Fields) -> Iterator[Fields]:
    """Entries of whoever has made a dataset."""
    listed = fields.get(_GENERATED)
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("Name"), str):
            yield entry


def _agree(one: Fields, other: Fields) -> bool:
    """Whether two entries may be of the same program, however its name is written."""
    both = (one.keys() & other.keys()) - {"Name"}
    is_same_name = one["Name"].casefold() == other["Name"].casefold()
    return is_same_name and all(one[key] == other[key] for key in both)


def _sources(several: Sequence[Fields]) -> list[Any]:
    found: list[Any] = []
    for fields in several:
        listed = fields.get(_SOURCES)
        new = listed if isinstance(listed, list) else []
        found += [entry for entry in new if entry not in found]
    return found


def _links(several: Sequence[Fields]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for fields in several:
        links = fields.get(_LINKS)
        if isinstance(links, dict):
            found = {**links, **found}
    return found


def _lines(said: Sequence[Statement], path: Path) -> str:
    """Lines of all, and those that somebody has added to the file, each once."""
    texts = [*(one.text for one in said), statements.text_of(path) or ""]
    lines = dict.fromkeys(line for text in texts for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines)


def _text(fields: Fields) -> str:
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def _replace(path: Path, text: str) -> bool:
    """Write a file, unless it says that already, or nothing is to be said; whether it was
    written.
    """
    if not text or statements.text_of(path) == text:
        return False
    replace_text(path, text)
    return True
