"""Unkept: files that several tasks have made under one name, with other contents than the one that
is kept.

Held by tests/apps/bids/test_shared_names.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab.blocks import checksums
from hyperslab.blocks.writing import Written
from hyperslab.units import show_count

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Unkept:
    """Files of one name that are gone, as another one has the name."""

    name: str
    "Name below the output directory."
    kept_of: str
    "Label of the task whose file is kept; '' where that is of an earlier run, or another call."
    labels: tuple[str, ...]
    "Labels of the tasks whose files are gone."


class Shared:
    """What tasks of one submission have made under names that several may give."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._kept: dict[str, tuple[str, str]] = {}
        "Checksum of the file of each name that was given here, and the label of its task."
        self._left_out: dict[str, dict[str, list[str]]] = {}
        "Labels of the tasks whose files were left out, by name and checksum."
        self._lock = threading.Lock()

    def see(self, label: str, kept: Iterable[Written], left_out: Iterable[Written]) -> None:
        """Note what a task has made: files that have their names, and others that have not."""
        with self._lock:
            for written in kept:
                self._kept[written.path] = (written.checksum, label)
            for written in left_out:
                by_checksum = self._left_out.setdefault(written.path, {})
                by_checksum.setdefault(written.checksum, []).append(label)

    def differing(self) -> Iterator[Unkept]:
        """Files that were left out, and are no copies of what is kept, by name."""
        for name, by_checksum in sorted(self._left_out.items()):
            checksum, label = self._kept.get(name) or (self._checksum_there(name), "")
            others = [labels for other, labels in by_checksum.items() if other != checksum]
            gone = tuple(sorted(one for labels in others for one in labels if one != label))
            if gone:
                yield Unkept(name, label, gone)

    def _checksum_there(self, name: str) -> str:
        """The checksum of a file that somebody else has made; '' where it cannot be read."""
        try:
            return checksums.of_file(self._out / name)
        except OSError:
            return ""


def unkept_lines(several: Sequence[Unkept]) -> list[str]:
    """What people read of them."""
    lines = []
    for one in several[:_NAMED]:
        labels = ", ".join(one.labels[:_NAMED])
        if len(one.labels) > _NAMED:
            labels += f" and {len(one.labels) - _NAMED} more"
        kept_of = one.kept_of or "another call"
        lines.append(
            f"not kept   {one.name} of {labels}: it differs from that of {kept_of}, which is kept"
        )
    if several:
        more = ""
        if len(several) > _NAMED:
            more = f"and so it is with {show_count(len(several) - _NAMED, 'other name')}; "
        lines.append(f"           {more}let names say whose files they are, such as by {{prefix}}")
    return lines
