"""Boutiques descriptors: tools described in JSON, and the command lines that they make of values.

Schema 0.5 of Boutiques (T. Glatard and others, "Boutiques: a flexible framework to integrate
command-line applications in computing platforms", GigaScience 7, 2018). What a descriptor says of
containers, environments and outputs is not looked at.

- the words are those that the reference implementation passes to a shell
  (`tests/apps/bids/test_boutiques.py`)
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hyperslab.apps.bids.app import App
from hyperslab.apps.bids.template import quoted, words_app
from hyperslab.apps.bids.wanted import read_json
from hyperslab.errors import FormatError, UsageError, suggest

FLAG, NUMBER = "Flag", "Number"
_SHELL = re.compile(r"[|&;<>()$`]")
"Characters by which a command line needs a shell."


def is_descriptor(text: str) -> bool:
    """Whether an app is named as the file of a descriptor; a command may end with the name of a
    file of JSON that it makes.
    """
    if not text.endswith(".json"):
        return False
    return os.path.isfile(text) or len(text.split()) == 1


def boutiques_app(descriptor: str, invocation: str) -> App:
    """The tool of a descriptor, with the values of an invocation, both files of JSON; values may
    hold the placeholders of templates. Raises FormatError, UsageError.
    """
    if not invocation:
        raise UsageError(
            f"--app {descriptor}: needs --invocation FILE with values for its inputs, which may"
            " hold {t1w}, {out} and {prefix}"
        )
    said = read_json(descriptor)
    values = read_json(invocation)
    for path, read in ((descriptor, said), (invocation, values)):
        if not isinstance(read, dict):
            raise FormatError(f"{path}: has to be an object of JSON, {{...}}")
    words = command_words(said, values, descriptor)
    about = {"Name": str(said.get("name", descriptor)), "Description": shlex.join(words)}
    if isinstance(said.get("tool-version"), str):
        about["Version"] = said["tool-version"]
    return words_app(words, about, (descriptor, invocation))


def command_words(
    descriptor: Mapping[str, Any], invocation: Mapping[str, Any], where: str
) -> list[str]:
    """The words of the command line for some values of the inputs; `where` names the descriptor in
    messages. Raises FormatError for what is no descriptor, UsageError for values that do not fit.
    """
    line = descriptor.get("command-line")
    inputs = descriptor.get("inputs")
    if not isinstance(line, str) or not isinstance(inputs, list):
        raise FormatError(f"{where}: is no Boutiques descriptor: it has no command-line and inputs")
    values = _values(inputs, invocation, where)
    _require_groups(descriptor.get("groups", []), values, where)
    by_key = {one["value-key"]: _words(one, values[one["id"]]) for one in inputs if _has_key(one)}
    if _SHELL.search(line):
        return ["sh", "-c", _filled(line, {key: quoted(by_key[key]) for key in by_key})]
    return [word for each in shlex.split(line) for word in _expanded(each, by_key)]


def _has_key(one: Mapping[str, Any]) -> bool:
    return isinstance(one.get("value-key"), str)


def _expanded(word: str, by_key: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """The words that stand for one of the command line; none for an input without a value."""
    if word in by_key:
        return by_key[word]
    filled = _filled(word, {key: " ".join(words) for key, words in by_key.items()})
    return [filled] if filled else []


def _filled(text: str, by_key: Mapping[str, str]) -> str:
    """A text with values in place of their keys, longer keys first."""
    if not by_key:
        return text
    keys = "|".join(re.escape(key) for key in sorted(by_key, key=len, reverse=True))
    return re.sub(keys, lambda found: by_key[found[0]], text)


def _values(
    inputs: Sequence[Mapping[str, Any]], invocation: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """The value of each input by its id; None where it has none."""
    known = {str(one.get("id")): one for one in inputs}
    for name in invocation:
        if name not in known:
            raise UsageError(f"{where}: has no input {name}{suggest(name, known)}")
    values = {}
    for name, one in known.items():
        value = invocation.get(name, one.get("default-value"))
        if value is None and not one.get("optional", False):
            raise UsageError(f"{where}: the input {name} needs a value in the invocation")
        if value is not None:
            _require_value(one, value, f"{where}: {name}")
        values[name] = value
    return values


def _require_value(one: Mapping[str, Any], value: Any, where: str) -> None:
    is_list = one.get("list", False)
    if is_list != isinstance(value, list):
        kind = "a list" if is_list else "one value"
        raise UsageError(f"{where}: takes {kind}, not {json.dumps(value)}")
    for each in value if is_list else [value]:
        _require_one(one, each, where)


def _require_one(one: Mapping[str, Any], value: Any, where: str) -> None:
    kind = one.get("type")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {FLAG: isinstance(value, bool), NUMBER: is_number}.get(str(kind), isinstance(value, str))
    if not fits:
        raise UsageError(f"{where}: is a {kind}, and {json.dumps(value)} is none")
    choices = one.get("value-choices")
    if choices and value not in choices:
        listed = ", ".join(map(str, choices))
        raise UsageError(f"{where}: {value} is none of {listed}")
    if kind == NUMBER:
        _require_within(one, value, where)


def _require_within(one: Mapping[str, Any], value: float, where: str) -> None:
    least = one.get("minimum")
    most = one.get("maximum")
    is_below = least is not None and value < least
    is_above = most is not None and value > most
    is_least = value == least and one.get("exclusive-minimum", False)
    is_most = value == most and one.get("exclusive-maximum", False)
    if is_below or is_above or is_least or is_most:
        raise UsageError(f"{where}: {value} is not between {least} and {most}")
    if one.get("integer") and value != int(value):
        raise UsageError(f"{where}: {value} is no whole number")


def _require_groups(groups: Any, values: Mapping[str, Any], where: str) -> None:
    for group in groups or []:
        given = [name for name in group.get("members", []) if values.get(name) not in (None, False)]
        listed = ", ".join(group.get("members", []))
        if group.get("mutually-exclusive") and len(given) > 1:
            raise UsageError(f"{where}: give one of {listed}, not {' and '.join(given)}")
        if group.get("one-is-required") and not given:
            raise UsageError(f"{where}: give one of {listed}")
        if group.get("all-or-none") and given and len(given) < len(group.get("members", [])):
            raise UsageError(f"{where}: give all of {listed}, or none")


def _words(one: Mapping[str, Any], value: Any) -> list[str]:
    """The words that stand for the value of an input: its flag, where it has one, and the value."""
    flag = one.get("command-line-flag", "")
    if value is None or value is False:
        return []
    if one.get("type") == FLAG:
        return [flag] if flag else []
    texts = [_text(each) for each in value] if isinstance(value, list) else [_text(value)]
    between = one.get("list-separator", " ")
    words = texts if between == " " else [between.join(texts)]
    if not flag:
        return words
    sign = one.get("command-line-flag-separator", " ")
    if sign == " ":
        return [flag, *words]
    return [flag + sign + words[0], *words[1:]]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
