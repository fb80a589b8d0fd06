"""Values that need no conversion are what typer's conversion makes of them."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperCommand

from hyperslab.cli import WRONG_ARGUMENTS, app, plain, verbs

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


@pytest.mark.parametrize("verb", verbs.SUMMARIES)
def test_typer_asks_the_hook_for_every_parameter(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another typer may keep its parameters elsewhere, or convert them by another method."""
    asked = []
    value = plain._value

    def noted(parameter: Any, *rest: Any) -> Any:
        asked.append(parameter.name)
        return value(parameter, *rest)

    monkeypatch.setattr(plain, "_value", noted)
    command = verbs.load(verb)
    context = command.make_context(verb, ["a"] * 3 + ["-o", "out"], resilient_parsing=True)
    assert set(asked) == {one.name for one in command.get_params(context)}
    assert asked


def test_typer_keeps_what_the_command_relies_on() -> None:
    assert WRONG_ARGUMENTS.__name__ == "UsageError"
    with pytest.raises(WRONG_ARGUMENTS):
        app(args=["info"], standalone_mode=False)


def test_typer_is_of_a_version_that_was_tried() -> None:
    (wanted,) = (one for one in dependencies() if one.startswith("typer"))
    found = re.fullmatch(r"typer>=(\d+)\.(\d+),<(\d+)\.(\d+)", wanted)
    assert found, "plain.py rests on what typer does inside: both ends are pinned"
    least, beyond = (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
    here = tuple(map(int, version("typer").split(".")[:2]))
    assert least <= here < beyond


def dependencies() -> list[str]:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    return list(tomllib.loads(text)["project"]["dependencies"])
