"""Mistakes of a TOML file: the file, the line and the field of each, in a sentence.

Tables of such files are models of pydantic, which finds what is wrong with their fields.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from hyperslab.errors import UsageError, suggest

MOST_TOLD = 8
"Mistakes of a file that are told at a time."
Field = tuple[str | int, ...]
"Names of tables and fields from the top of a file, and numbers of elements of its arrays."
_POSITION = re.compile(r" \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
"Where tomllib says that a file is no TOML."
_CLAUSES = {
    "string_type": "should be text in quotes",
    "model_type": "should be a table",
    "dict_type": "should be a table",
}
"Clauses on values of other types than fields of a file have, by pydantic's names of these."


class Table(BaseModel):
    """A table of a file: fields of other names, or of other types, are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something that is wrong with a file."""

    path: Field
    "Field that it is about."
    text: str
    "Clause about it."


def read_toml(text: str, label: str) -> dict[str, Any]:
    """The tables of a file's text; `label` is what errors call the file. Raises UsageError with the
    line on which it is no TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        clause = str(error)
        line = len(text.splitlines())
        if found := _POSITION.search(clause):
            clause = clause.removesuffix(found[0])
            line = int(found["line"] or line)
        raise UsageError(f"{label}:{line}: {clause}") from error


def mistakes_of(error: ValidationError, table: type[Table]) -> list[Mistake]:
    """What pydantic has found to be wrong with a file, whose top is such a table."""
    return [_mistake(found, table) for found in error.errors()]


def _mistake(found: Mapping[str, Any], table: type[Table]) -> Mistake:
    path = tuple(found["loc"])
    if found["type"] == "extra_forbidden":
        known = _fields_at(table, path[:-1])
        return Mistake(path, f"there is no such field{suggest(str(path[-1]), known)}")
    if found["type"] == "missing":
        return Mistake(path, "is missing")
    return Mistake(path, clause_of(found))


def clause_of(error: Mapping[str, Any]) -> str:
    """What pydantic says is wrong with a value, as a clause."""
    text = str(error["msg"]).removeprefix("Value error, ")
    text = _CLAUSES.get(error["type"], text.replace("Input should be", "should be"))
    if error["type"] in ("missing", "value_error") or isinstance(error["input"], dict | list):
        return text
    return f"{text}, not {error['input']!r}"


def _fields_at(table: Any, path: Field) -> list[str]:
    """Names of the fields of a table that is somewhere in another one."""
    for name in path:
        if get_origin(table) is dict:
            table = get_args(table)[1]
        else:
            table = table.model_fields[name].annotation
    return list(table.model_fields)


def sentences(
    mistakes: Sequence[Mistake], label: str, line_of: Callable[[Field], int]
) -> Iterator[str]:
    """Each mistake with file, line and field; `label` is what they call the file."""
    for mistake in mistakes[:MOST_TOLD]:
        field = ".".join(map(str, mistake.path)) or "spec"
        yield f"{label}:{line_of(mistake.path)}: {field}: {mistake.text}"
    if len(mistakes) > MOST_TOLD:
        yield f"and {len(mistakes) - MOST_TOLD} more"
