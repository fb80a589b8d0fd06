"""Options of spark.read.format("hyperslab"): text, in names of any case, as the arguments of the
readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hyperslab.errors import UsageError

KNOWN = (
    "path",
    "paths",
    "dataset",
    "partitions",
    "axis",
    "region",
    "columns",
    "values",
    "layout",
    "skip",
    "catalogue",
    "storage_options",
)
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Options:
    """What was given, by lower-case names. Raises UsageError for names that nobody reads."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): text for name, text in given.items()}
        if unknown := sorted(self._given.keys() - set(KNOWN)):
            raise UsageError(
                f"option {unknown[0]}: there is no such option; the options are {', '.join(KNOWN)}"
            )

    def require_only(self, *names: str) -> None:
        """Raise UsageError where other options are given than these."""
        if odd := sorted(self._given.keys() - set(names)):
            raise UsageError(
                f"option {odd[0]}: a catalogue does not take it; its options are {', '.join(names)}"
            )

    def text(self, name: str, default: str = "") -> str:
        return self._given.get(name, default)

    def truth(self, name: str) -> bool:
        text = self.text(name, "false").strip().lower()
        if text not in _TRUTH:
            raise UsageError(f"option {name}: {text!r}; it can be true or false")
        return _TRUTH[text]

    def number(self, name: str) -> int | None:
        text = self._given.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"\s*-?\d+\s*", text):
            raise UsageError(f"option {name}: {text!r} is not a whole number")
        return int(text)

    def paths(self) -> list[str]:
        """What load() was given: one path, or several, which Spark gives as a list in JSON."""
        if "path" in self._given:
            return [local(self.text("path"))]
        if "paths" in self._given:
            return [local(path) for path in json.loads(self.text("paths"))]
        raise UsageError(
            "there is no path: name a file, a directory, a glob or a list of paths in load()"
        )

    def selection(self) -> dict[str, Any]:
        """The arguments of `analyze`."""
        axis = self.number("axis")
        region = None
        if "region" in self._given:
            region = _index(self.text("region"))
        columns = None
        if "columns" in self._given:
            columns = _columns(self.text("columns"))
        return {
            "axis": axis,
            "region": region,
            "columns": columns,
            "values": self.text("values", "real"),
            "skip": self.truth("skip"),
            "storage_options": self.storage(),
        }

    def storage(self) -> dict[str, Any] | None:
        text = self._given.get("storage_options")
        try:
            found = None
            if text is not None:
                found = json.loads(text)
        except ValueError:
            found = ()
        if found is not None and not isinstance(found, dict):
            raise UsageError(
                'option storage_options: give an object in JSON, such as {"anon": true}'
            )
        return found


def local(path: str) -> str:
    """A path as the system has it, of one before which Hadoop has put its scheme; file:// is
    understood elsewhere.
    """
    if path.startswith("file://"):
        return path
    return path.removeprefix("file:")


def _index(text: str) -> tuple[Any, ...]:
    """'100:200, :, 5' as an index of NumPy."""
    return tuple(_part("region", part.strip()) for part in text.split(","))


def _columns(text: str) -> Any:
    """'3:7', or '1, 5, 2'."""
    if ":" in text:
        return _part("columns", text.strip())
    numbers = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"-?\d+", number) for number in numbers):
        raise UsageError(
            f"option columns: {text!r}; give a slice such as 3:7, or numbers such as 1,5,2"
        )
    return [int(number) for number in numbers]


def _part(name: str, text: str) -> Any:
    if text == "...":
        return ...
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"(-?\d+)?:(-?\d+)?(:(-?\d+)?)?", text):
        numbers: list[int | None] = []
        for number in text.split(":"):
            numbers.append(None)
            if number:
                numbers[-1] = int(number)
        return slice(*numbers)
    raise UsageError(
        f"option {name}: {text!r}; give numbers and slices as NumPy does, such as 100:200, :"
    )
