"""Boutiques descriptors: tools described in JSON, and the command lines that they make of values.

Schema 0.5 of Boutiques (T. Glatard and others, "Boutiques: a flexible framework to integrate
command-line applications in computing platforms", GigaScience 7, 2018). What a descriptor says, and
nobody looks at here, is told.

- the words are those that the reference implementation passes to a shell
  (`tests/apps/bids/test_boutiques.py`)
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyperslab.apps.bids.app import App
from hyperslab.apps.bids.declared import expected, filled, paths_of, require_understood, text_of
from hyperslab.apps.bids.template import quoted, words_app
from hyperslab.apps.bids.wanted import read_json
from hyperslab.errors import FormatError, UsageError, suggest
from hyperslab.plan.placeholders import literal

FLAG, NUMBER = "Flag", "Number"
_SHELL = re.compile(r"[|&;<>()$`\n*?~#]|^\s*[A-Za-z_]\w*=")
"What makes a command line need a shell: its characters, and a variable before the command."
_IGNORED = ("container-image", "shell", "suggested-resources", "error-codes")
"What descriptors say of how a tool is run that makes no difference here."


@dataclass(frozen=True, slots=True)
class Call:
    """A tool with values for its inputs."""

    words: list[str]
    environment: Mapping[str, str]
    "Variables that it finds."
    outputs: tuple[str, ...]
    "Paths below {out} of the files, or folders, that it makes for certain."
    notes: tuple[str, ...]
    "Lines that say what of its descriptor is not looked at."


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
    call = called(said, values, descriptor)
    variables = [f"{name}={value}" for name, value in call.environment.items()]
    line = shlex.join((*variables, *call.words))
    about = {"Name": str(said.get("name", descriptor)), "Description": line}
    if isinstance(said.get("tool-version"), str):
        about["Version"] = said["tool-version"]
    files = (descriptor, invocation)
    app = words_app(call.words, about, files, call.environment, call.outputs)
    return replace(app, notes=call.notes)


def called(descriptor: Mapping[str, Any], invocation: Mapping[str, Any], where: str) -> Call:
    """A tool as it is called with some values of its inputs; `where` names the descriptor in
    messages. Raises FormatError for what is no descriptor, UsageError for values that do not fit.
    """
    line = descriptor.get("command-line")
    inputs = descriptor.get("inputs")
    if not isinstance(line, str) or not line.strip() or not isinstance(inputs, list):
        raise FormatError(f"{where}: is no Boutiques descriptor: it has no command-line and inputs")
    values = _values(inputs, invocation, where)
    _require_groups(descriptor.get("groups", []), values, where)
    _require_together(inputs, descriptor.get("groups") or [], values, where)
    outputs = descriptor.get("output-files") or []
    require_understood(outputs, line, where)
    paths = paths_of(outputs, inputs, values)
    worth = {**paths, **values}
    keyed = [one for one in (*inputs, *outputs) if _has_key(one) and one["id"] in worth]
    by_key = {one["value-key"]: _words(one, worth[one["id"]]) for one in keyed}
    there, unseen = expected(outputs, paths)
    return Call(
        _line(line.strip(), by_key),
        dict(_environment(descriptor, inputs, values)),
        tuple(there),
        tuple(_notes(descriptor, unseen, where)),
    )


def _line(line: str, by_key: Mapping[str, Sequence[str]]) -> list[str]:
    """The words of a command line, or of a shell that reads it: then newlines end commands."""
    if _SHELL.search(filled(line, dict.fromkeys(by_key, ""))):
        return ["sh", "-c", filled(line, {key: quoted(by_key[key]) for key in by_key})]
    return [word for each in shlex.split(line) for word in _expanded(each, by_key)]


def _environment(
    descriptor: Mapping[str, Any], inputs: Iterable[Mapping[str, Any]], values: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Variables and their values: as they stand, or of an input where one is its key."""
    by_key = {one["value-key"]: values[one["id"]] for one in inputs if _has_key(one)}
    for variable in descriptor.get("environment-variables") or []:
        value = variable.get("value", "")
        if value not in by_key:
            yield variable["name"], literal(text_of(value))
        elif by_key[value] is not None:
            yield variable["name"], text_of(by_key[value])


def _notes(descriptor: Mapping[str, Any], unseen: Sequence[str], where: str) -> Iterator[str]:
    """What people read of what is not looked at."""
    ignored = [name for name in _IGNORED if name in descriptor]
    if ignored:
        named = ", ".join(ignored)
        yield f"not used   {named} of {where}: the tool runs as it is on PATH"
    if unseen:
        named = ", ".join(unseen)
        yield f"not seen   output-files {named} of {where}: nobody looks whether they are there"


def _has_key(one: Mapping[str, Any]) -> bool:
    return isinstance(one.get("value-key"), str)


def _expanded(word: str, by_key: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """The words that stand for one of the command line; none for an input without a value."""
    if word in by_key:
        return by_key[word]
    whole = filled(word, {key: " ".join(words) for key, words in by_key.items()})
    return [whole] if whole else []


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
    if is_list:
        _require_count(one, len(value), where)
    for each in value if is_list else [value]:
        _require_one(one, each, where)


def _require_count(one: Mapping[str, Any], count: int, where: str) -> None:
    least = one.get("min-list-entries", 0)
    most = one.get("max-list-entries", count)
    if not least <= count <= most:
        raise UsageError(f"{where}: takes a list of {least} to {most} values, not {count}")


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
        given = _given(group.get("members", []), values)
        listed = ", ".join(group.get("members", []))
        if group.get("mutually-exclusive") and len(given) > 1:
            raise UsageError(f"{where}: give one of {listed}, not {' and '.join(given)}")
        if group.get("one-is-required") and not given:
            raise UsageError(f"{where}: give one of {listed}")
        if group.get("all-or-none") and given and len(given) < len(group.get("members", [])):
            raise UsageError(f"{where}: give all of {listed}, or none")


def _given(names: Iterable[str], values: Mapping[str, Any]) -> list[str]:
    """Inputs that have a value; a flag has one that is set."""
    return [name for name in names if values.get(name) not in (None, False)]


def _require_together(
    inputs: Iterable[Mapping[str, Any]],
    groups: Iterable[Mapping[str, Any]],
    values: Mapping[str, Any],
    where: str,
) -> None:
    """Raise UsageError for inputs that need others, or exclude them."""
    members = {str(group.get("id")): group.get("members", []) for group in groups}
    known = {str(one.get("id")): one for one in inputs}
    for name in _given(known, values):
        one = known[name]
        for other in _named(one, "requires", values[name]):
            if not _given(members.get(other, [other]), values):
                needed = " or ".join(members.get(other, [other]))
                raise UsageError(f"{where}: {name} needs {needed} in the invocation, too")
        others = _given(_named(one, "disables", values[name]), values)
        if others:
            raise UsageError(f"{where}: give {name} or {others[0]}, not both")


def _named(one: Mapping[str, Any], what: str, value: Any) -> Iterator[str]:
    """The inputs, or groups, that one requires or disables, or that its value does."""
    yield from one.get(f"{what}-inputs") or ()
    of_values = one.get(f"value-{what}") or {}
    for each in value if isinstance(value, list) else [value]:
        yield from of_values.get(text_of(each)) or ()


def _words(one: Mapping[str, Any], value: Any) -> list[str]:
    """The words that stand for the value of an input, or the path of an output: its flag, where it
    has one, and the value.
    """
    flag = one.get("command-line-flag", "")
    if value is None or value is False:
        return []
    if one.get("type") == FLAG:
        return [flag] if flag else []
    texts = [text_of(each) for each in value] if isinstance(value, list) else [text_of(value)]
    between = one.get("list-separator", " ")
    words = texts if between == " " else [between.join(texts)]
    if not flag:
        return words
    sign = one.get("command-line-flag-separator", " ")
    if sign == " ":
        return [flag, *words]
    return [flag + sign + words[0], *words[1:]]
