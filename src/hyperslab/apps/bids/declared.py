"""Declared: files that a Boutiques descriptor says a tool makes, by paths made of its inputs.

- a file that is not optional is looked for below {out}; whether another one is there nobody knows,
  as its path is relative to wherever the tool runs, or is a pattern

Held by tests/apps/bids/test_declared_outputs.py.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hyperslab.errors import FormatError

_BELOW_OUT = "{out}/"
_UNKNOWN = re.compile(r"[*?\[\]]|\{(?:t1w|index|slot|work)\}")
"What a path has that names no file before the command runs: patterns, keys without a value."


def filled(text: str, by_key: Mapping[str, str]) -> str:
    """A text with values in place of their keys, longer keys first."""
    if not by_key:
        return text
    keys = "|".join(re.escape(key) for key in sorted(by_key, key=len, reverse=True))
    return re.sub(keys, lambda found: by_key[found[0]], text)


def text_of(value: Any) -> str:
    """A value as a word of a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def paths_of(
    outputs: Iterable[Mapping[str, Any]],
    inputs: Sequence[Mapping[str, Any]],
    values: Mapping[str, Any],
) -> dict[str, str]:
    """Paths of the files that a tool makes, by their ids, for values of its inputs; without those
    whose path depends on conditions.
    """
    plain = {str(one.get("id")): one for one in outputs if "path-template" in one}
    found = {name: _path(one, inputs, values) for name, one in plain.items()}
    keys = {one["value-key"]: found[name] for name, one in plain.items() if "value-key" in one}
    return {name: filled(path, keys) for name, path in found.items()}


def require_understood(outputs: Iterable[Mapping[str, Any]], line: str, where: str) -> None:
    """Raise FormatError for files without which a tool cannot be called; `where` names the
    descriptor.
    """
    for one in outputs:
        place = f"{where}: output-files {one.get('id')}"
        if "file-template" in one:
            raise FormatError(
                f"{place}: has a file-template, a file of settings that nobody writes here: call"
                " the tool by --app \"sh -c '...'\", which writes it first"
            )
        key = one.get("value-key")
        if "path-template" not in one and key is not None and key in line:
            raise FormatError(
                f"{place}: has no path-template, and a conditional-path-template is not"
                " understood: write the path that fits into a copy of the descriptor"
            )


def expected(
    outputs: Iterable[Mapping[str, Any]], paths: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Paths of the files that have to be there below {out}, without that, and the ids of others
    that have to be there, and which nobody looks for.
    """
    seen: list[str] = []
    unseen: list[str] = []
    for name in _required(outputs):
        path = os.path.normpath(paths.get(name, ""))
        if path == "{out}":  # in which there has to be something anyway
            continue
        if path.startswith(_BELOW_OUT) and not _UNKNOWN.search(path):
            seen.append(path.removeprefix(_BELOW_OUT))
        else:
            unseen.append(name)
    return seen, unseen


def _required(outputs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Ids of the files that a tool makes for certain."""
    return (str(one.get("id")) for one in outputs if not one.get("optional", False))


def _path(
    one: Mapping[str, Any], inputs: Iterable[Mapping[str, Any]], values: Mapping[str, Any]
) -> str:
    """The path of a file: its template with the values of inputs, of which some extensions are
    taken away, and those of files that do not begin it are without their folders, as the reference
    implementation has it.
    """
    template = one["path-template"]
    stripped = one.get("path-template-stripped-extensions") or ()
    by_key = {}
    for each in inputs:
        key = each.get("value-key")
        value = values.get(str(each.get("id")))
        if isinstance(key, str) and value is not None:
            by_key[key] = _part(each, value, stripped, template.find(key) > 0)
    return filled(template, by_key)


def _part(one: Mapping[str, Any], value: Any, stripped: Iterable[str], is_within: bool) -> str:
    """What stands for an input in a path."""
    several = value if isinstance(value, list) else [value]
    text = str(one.get("list-separator", " ")).join(map(text_of, several))
    if one.get("type") not in ("File", "String"):
        return text
    for extension in stripped:
        text = text.replace(extension, "")
    if one.get("type") == "File" and is_within:
        return os.path.basename(text)
    return text
