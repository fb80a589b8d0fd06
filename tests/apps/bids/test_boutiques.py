"""Boutiques descriptors: the words that the reference implementation makes, and a tool run so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyperslab.apps.bids.boutiques import called, is_descriptor
from hyperslab.errors import FormatError, UsageError
from tests.apps.bids.datasets import make, t1w
from tests.system.end_to_end.command import call

TOOL: dict[str, Any] = {
    "name": "tool",
    "tool-version": "1.2",
    "description": "A tool that nobody has",
    "schema-version": "0.5",
    "command-line": "tool [INPUT] [OUTPUT]_x [FRACTION] [VERBOSE] [MODES] [NAMES] [CENTRE]",
    "inputs": [
        {"id": "input", "name": "a", "type": "File", "value-key": "[INPUT]"},
        {"id": "output", "name": "b", "type": "String", "value-key": "[OUTPUT]"},
        {
            "id": "fraction",
            "name": "c",
            "type": "Number",
            "value-key": "[FRACTION]",
            "command-line-flag": "-f",
            "optional": True,
            "minimum": 0,
            "maximum": 1,
        },
        {
            "id": "verbose",
            "name": "d",
            "type": "Flag",
            "value-key": "[VERBOSE]",
            "command-line-flag": "-v",
            "optional": True,
        },
        {
            "id": "mode",
            "name": "e",
            "type": "String",
            "value-key": "[MODES]",
            "command-line-flag": "--mode",
            "command-line-flag-separator": "=",
            "value-choices": ["fast", "exact"],
            "default-value": "fast",
            "optional": True,
        },
        {
            "id": "names",
            "name": "f",
            "type": "String",
            "value-key": "[NAMES]",
            "list": True,
            "list-separator": ",",
            "command-line-flag": "-n",
            "optional": True,
        },
        {
            "id": "centre",
            "name": "g",
            "type": "Number",
            "value-key": "[CENTRE]",
            "list": True,
            "command-line-flag": "-c",
            "optional": True,
        },
    ],
    "groups": [
        {"id": "g", "name": "g", "members": ["verbose", "names"], "mutually-exclusive": True}
    ],
}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({}, "tool a.nii out_x --mode=fast"),
        ({"fraction": 0.3, "verbose": True}, "tool a.nii out_x -f 0.3 -v --mode=fast"),
        ({"verbose": False, "mode": "exact"}, "tool a.nii out_x --mode=exact"),
        (
            {"names": ["x", "y"], "centre": [1, 2, 3.5]},
            "tool a.nii out_x --mode=fast -n x,y -c 1 2 3.5",
        ),
    ],
)
def test_words_are_those_of_the_reference(values: dict[str, Any], line: str) -> None:
    """The lines are what `bosh exec simulate` of boutiques 0.5.33 prints."""
    given = {"input": "a.nii", "output": "out", **values}
    assert called(TOOL, given, "tool.json").words == line.split()


def test_values_with_blanks_stay_one_word() -> None:
    given = {"input": "a b.nii", "output": "$x"}
    assert called(TOOL, given, "t").words[1:3] == ["a b.nii", "$x_x"]
    shell = {**TOOL, "command-line": "tool [INPUT] | sort > [OUTPUT]"}
    assert called(shell, given, "t").words == ["sh", "-c", "tool 'a b.nii' | sort > '$x'"]
    given = {"input": "a b{t1w}", "output": "{out}/my {prefix} {{t1w}}"}
    line = "tool 'a b'{t1w} | sort > {out}'/my '{prefix}' {{t1w}}'"
    assert called(shell, given, "t").words == ["sh", "-c", line]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"inptu": "x"}, r"has no input inptu \(did you mean 'input'\?\)"),
        ({"output": None}, "the input output needs a value"),
        ({"fraction": "much"}, 'fraction: is a Number, and "much" is none'),
        ({"fraction": 2}, "fraction: 2 is not between 0 and 1"),
        ({"mode": "slow"}, "mode: slow is none of fast, exact"),
        ({"names": "x"}, 'names: takes a list, not "x"'),
        ({"verbose": True, "names": ["x"]}, "give one of verbose, names, not verbose and names"),
    ],
)
def test_what_is_said_of_values(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        called(TOOL, {"input": "a", "output": "b", **values}, "tool.json")


def test_what_is_no_descriptor() -> None:
    with pytest.raises(FormatError, match="is no Boutiques descriptor"):
        called({"name": "x"}, {}, "tool.json")


def test_what_names_a_descriptor(tmp_path: Path) -> None:
    """A command may make a file of JSON; the name of a file may have a blank."""
    assert is_descriptor("tool.json")
    assert not is_descriptor("tool {t1w} {out}/{prefix}.json")
    blank = tmp_path / "my tool.json"
    blank.write_text("{}")
    assert is_descriptor(str(blank))


def test_a_dataset_by_a_descriptor(tmp_path: Path) -> None:
    copying = {**TOOL, "command-line": "cp [INPUT] [OUTPUT]", "inputs": TOOL["inputs"][:2]}
    copying["groups"] = []
    home = make(tmp_path / "my data", t1w("1"), t1w("2"), content=b"x" * 9)
    tool, values = tmp_path / "tool.json", tmp_path / "values.json"
    tool.write_text(json.dumps(copying))
    values.write_text(json.dumps({"input": "{t1w}", "output": "{out}/{prefix}_copy.nii.gz"}))
    out = tmp_path / "out"
    line = ("bids", home, out, "participant", "--engine", "serial", "--app", tool)
    refused = call(*line)
    assert refused.code == 2
    assert "needs --invocation FILE" in refused.err
    done = call(*line, "--invocation", values)
    assert done.code == 0, done
    assert (out / "sub-2/anat/sub-2_copy.nii.gz").read_bytes() == b"x" * 9
    piped = {**copying, "command-line": "cat < [INPUT] | tee [OUTPUT] > /dev/null"}
    tool.write_text(json.dumps(piped))
    by_shell = ("bids", home, tmp_path / "by shell", *line[3:])
    done = call(*by_shell, "--invocation", values)
    assert done.code == 0, done
    assert (tmp_path / "by shell/sub-2/anat/sub-2_copy.nii.gz").read_bytes() == b"x" * 9
    said = json.loads((out / "dataset_description.json").read_text())["GeneratedBy"]
    assert (said[1]["Name"], said[1]["Version"]) == ("tool", "1.2")
