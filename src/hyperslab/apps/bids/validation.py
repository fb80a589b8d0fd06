"""Validation of a dataset by the official validator, a program that is looked for on PATH."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from hyperslab.errors import FormatError, UsageError
from hyperslab.machine.asking import asked
from hyperslab.units import show_count

PROGRAMS = ("bids-validator", "bids-validator-deno")
"Names of the validator, as npm and pip install it."


def validate(folder: str) -> int:
    """How many warnings the validator has for a dataset. Raises FormatError where it finds errors,
    UsageError where it is not there, or does not do its work.
    """
    program = _program()
    issues = _issues(program, folder)
    errors = [one for one in issues if one["severity"] == "error"]
    if errors:
        raise FormatError(
            f"{folder}: {program} has found {show_count(len(errors), 'error')}, such as"
            f" {_named(errors[0])}: '{program} {folder}' lists all; correct the dataset, or leave"
            " out --validate"
        )
    return sum(one["severity"] == "warning" for one in issues)


def _program() -> str:
    for name in PROGRAMS:
        if shutil.which(name) is not None:
            return name
    raise UsageError(
        "--validate: there is no bids-validator on PATH: install it, as by"
        " 'pip install bids-validator-deno', or leave it out"
    )


def _issues(program: str, folder: str) -> Sequence[Mapping[str, Any]]:
    """What the validator has found, in the words of its JSON."""
    done = asked([program, folder, "--json"])
    try:
        found = json.loads(done.stdout)["issues"]
        return _listed(found)
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(
            f"--validate: {program} ended with exit status {done.returncode} and no list of issues:"
            f" look at what '{program} {folder}' says"
        ) from error


def _listed(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Issues of one list; those of versions before 2 lie in a list for each severity."""
    if "issues" in found:
        return list(found["issues"])
    return [
        {**one, "code": one.get("key", one["code"]), "severity": severity}
        for severity in ("error", "warning")
        for one in found[f"{severity}s"]
    ]


def _named(issue: Mapping[str, Any]) -> str:
    """An error in few words."""
    said = str(issue["code"])
    if issue.get("subCode"):
        said += f" ({issue['subCode']})"
    if issue.get("location"):
        said += f" in {issue['location']}"
    return said
