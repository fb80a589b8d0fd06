"""The section of a run's page about operations on files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from hyperslab.report.files import META
from hyperslab.report.files.lines import COLUMNS, sentence
from hyperslab.report.files.numbers import FileNumbers, Group
from hyperslab.units import show_bytes, show_seconds

PHASES, DIRECTORIES = "phases", "directories"
ROWS_SHOWN = 20
_HINT = (
    "Operations of all processes of the run on this host, counted by {way}: those asked for, those"
    " that failed in brackets. Times are those of all threads together, with what counting adds."
)


def phases_in(meta: Mapping[str, Any]) -> FileNumbers | None:
    """Numbers by phase and kind in the meta of a trace; None where none were counted."""
    if META not in meta:
        return None
    return FileNumbers.from_json(meta[META][PHASES])


def files_html(meta: Mapping[str, Any]) -> str:
    """The section about files; '' for a run of which none were counted."""
    phases = phases_in(meta)
    if phases is None:
        return ""
    directories = FileNumbers.from_json(meta[META][DIRECTORIES])
    hint = escape(_HINT.format(way=phases.way))
    notes = "".join(f'<p class="hint">{escape(note)}.</p>\n' for note in phases.notes)
    return (
        f'<section class="files">\n<h2>Operations on files</h2>\n<p class="hint">{hint}</p>\n'
        f"{notes}<p>{escape(sentence(phases))}</p>\n"
        f"{_table('By phase', phases.groups, ('phase', 'kind'))}"
        f"{_table('By directory', directories.groups, ('kind', 'directory'))}</section>"
    )


def _table(title: str, groups: Sequence[Group], names: Sequence[str]) -> str:
    heads = (*names, "files", "open", *COLUMNS, "bytes read", "bytes written", "time")
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    rows = "".join(_row(group, names) for group in groups[:ROWS_SHOWN])
    more = ""
    if len(groups) > ROWS_SHOWN:
        more = f'<p class="hint">The {ROWS_SHOWN} that took most of {len(groups)}.</p>\n'
    return (
        f'<h2>{escape(title)}</h2>\n<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div>\n{more}"
    )


def _row(group: Group, names: Sequence[str]) -> str:
    words = "".join(f'<td class="text">{escape(group.names[name])}</td>' for name in names)
    numbers = [
        f"{group.files or 0:,}",
        *(_count(group, name) for name in ("open", *COLUMNS)),
        *(show_bytes(group.nbytes(name)) for name in ("read", "write")),
        show_seconds(group.seconds() or 0.0),
    ]
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    return f"<tr>{words}{cells}</tr>\n"


def _count(group: Group, name: str) -> str:
    count = group.operations.get(name)
    if count is None:
        return ""
    failed = f" ({count.failed:,})" if count.failed else ""
    return f"{count.requested:,}{failed}"
