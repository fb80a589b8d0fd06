"""Operations on files as the terminal shows them: the sentence that matters, and a table."""

from __future__ import annotations

from collections.abc import Sequence

from hyperslab.accesses import ON_DATA, ON_NAMES
from hyperslab.report.files.numbers import FileNumbers, Group
from hyperslab.units import show_bytes, show_count, show_list, show_seconds, show_share

ROWS = 20
"Groups that are shown, those that take most time."
COLUMNS = ("create", "stat", "list", "unlink", "rename", "close", "read", "write")
"Operations that have a column of their own, beside opening."
_SHOWN = ("open", *COLUMNS)
_HALF = 0.5
_NAMED = 3


def sentence(numbers: FileNumbers) -> str:
    """What a reader has to know first."""
    total = numbers.total
    if not total.operations:
        return "There were no operations on files."
    read, written = (total.nbytes(name) for name in ("read", "write"))
    moved = f"{show_bytes(read)} read and {show_bytes(written)} written"
    seconds = total.seconds()
    on_names = total.seconds(*ON_NAMES)
    if not seconds or on_names is None:
        return f"{_counts(total)} on files, {moved}."
    share = on_names / seconds
    took = f"{show_seconds(seconds)} that {_counts(total)} on files took in all threads"
    if share < _HALF:
        told = f"Bytes, not names: {show_share(1 - share)} of the {took} moved data ({moved})"
    else:
        told = f"Names, not bytes: {show_share(share)} of the {took} were for names and attributes"
    return f"{told}{_mostly(numbers, share >= _HALF)}."


def _mostly(numbers: FileNumbers, is_of_names: bool) -> str:
    """Name the group that this is for the most part."""
    chosen = ON_NAMES if is_of_names else ON_DATA
    groups = [group for group in numbers.groups if group.names and group.seconds(*chosen)]
    if len(numbers.groups) < 2 or not groups:
        return ""
    first = max(groups, key=lambda group: group.seconds(*chosen) or 0.0)
    whole = numbers.total.seconds(*chosen)
    assert whole
    share = (first.seconds(*chosen) or 0.0) / whole
    named = sorted(
        (name for name in chosen if name in first.operations),
        key=lambda name: -first.requested(name),
    )
    counts = [_times(first, name) for name in named[:_NAMED]]
    return f"; {show_share(share)} of that for {told_of(first)}: {show_list(counts)}"


def told_of(group: Group) -> str:
    """What a group's operations have in common, in words."""
    words = [group.names.get("kind", ""), group.names.get("phase", "")]
    told = ", ".join(word for word in words if word)
    directory = group.names.get("directory", "")
    if directory and told:
        return f"{told} in {directory}"
    return told or directory


def _counts(group: Group) -> str:
    return show_count(group.requested(), "operation")


def _times(group: Group, name: str) -> str:
    return f"{group.requested(name):,} {name}"


def table(numbers: FileNumbers) -> list[str]:
    """A line for each group, after one of headings, and one of all groups."""
    labels = [name for name in ("kind", "phase") if _is_in(numbers, name)]
    headings = [*labels, "asked", "opened", *COLUMNS, "others", "read B", "written B", "time"]
    shown = numbers.groups[:ROWS]
    rows = [[*_labels(group, labels), *_row(group)] for group in shown]
    total = ["all", *[""] * (len(labels) - 1)][: len(labels)]
    rows.append([*total, *_row(numbers.total)])
    places = [*(group.names.get("directory", "") for group in shown), ""]
    last = ""
    if _is_in(numbers, "directory"):
        last = "directory"
    lines = _aligned([headings, *rows], len(labels), [last, *places])
    if len(numbers.groups) > ROWS:
        lines.append(f"  the {ROWS} that take most of {len(numbers.groups):,}")
    return lines


def _is_in(numbers: FileNumbers, name: str) -> bool:
    return any(name in group.names for group in numbers.groups)


def _labels(group: Group, labels: Sequence[str]) -> list[str]:
    return [group.names[name] for name in labels]


def _row(group: Group) -> list[str]:
    """Openings asked for and done, the other operations, bytes and time."""
    others = group.requested() - group.requested(*_SHOWN)
    seconds = group.seconds()
    took = ""
    if seconds is not None:
        took = show_seconds(seconds)
    return [
        f"{group.requested('open', 'create'):,}",
        f"{group.actual('open'):,}",
        *(f"{group.requested(name):,}" for name in COLUMNS),
        f"{others:,}",
        show_bytes(group.nbytes("read")),
        show_bytes(group.nbytes("write")),
        took,
    ]


def _aligned(rows: Sequence[Sequence[str]], words: int, last: Sequence[str]) -> list[str]:
    """Rows of which the first columns are words, and the others numbers; `last` ends each."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row, end in zip(rows, last, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row[:words], widths, strict=False)]
        cells += [
            cell.rjust(width) for cell, width in zip(row[words:], widths[words:], strict=True)
        ]
        lines.append(f"  {'  '.join([*cells, end])}".rstrip())
    return lines
