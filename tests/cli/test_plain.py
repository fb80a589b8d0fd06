"""Values that need no conversion are what typer's conversion makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from typer.core import TyperCommand

from hyperslab.cli import WRONG_ARGUMENTS, verbs

PLAIN_LINES = [
    ["info", "a.nii"],
    ["info", "a.nii", "--json", "--storage-option", "key=1", "--storage-option", "x=y"],
    ["run", "stats", "a.nii", "b.nii", "-o", "out"],
    ["run", "f", "a", "-o", "o", "-p", "a=1", "--with", "m=b", "--workers", "3", "--keep-going"],
    ["run", "f", "a", "-o", "o", "--task-timeout", "1.5", "--axis", "-1", "--retries", "007", "-q"],
    ["convert", "a.nii", "b.h5", "--no-report", "--threads", "2"],
    ["diff", "a", "b"],
    ["report", "out"],
    ["doctor", "--start"],
]
WRONG_LINES = [
    ["run", "f", "-o", "o"],
    ["run", "f", "a"],
    ["run", "f", "a", "-o", "o", "--workers", "two"],
    ["run", "f", "a", "-o", "o", "--workers", "1.5"],
    ["run", "f", "a", "-o", "o", "--retries", ""],
    ["run", "f", "a", "-o", "o", "--task-timeout", "soon"],
    ["info"],
]


def parsed(command: Any, line: list[str]) -> Any:
    """What a verb is given, or what its user is told."""
    try:
        return command.make_context(line[0], line[1:]).params
    except WRONG_ARGUMENTS as error:
        return error.format_message()  # type: ignore[attr-defined]


@pytest.mark.parametrize("line", PLAIN_LINES + WRONG_LINES, ids=" ".join)
def test_plain_values_are_what_typer_makes_of_them(
    line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = parsed(verbs.load(line[0]), list(line))
    monkeypatch.setattr(verbs, "PlainCommand", TyperCommand)
    typers = parsed(verbs.load(line[0]), list(line))
    assert isinstance(ours, str) == (line in WRONG_LINES)
    assert repr(ours) == repr(typers)
