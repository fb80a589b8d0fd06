"""What Boutiques descriptors say beside inputs: variables, files that a tool makes, inputs that
need or exclude others, and lines for a shell.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hyperslab.apps.bids.app import task_of
from hyperslab.apps.bids.boutiques import called
from hyperslab.apps.bids.running import Asked, select
from hyperslab.apps.bids.template import words_app
from hyperslab.errors import FormatError, UsageError
from hyperslab.plan.command import CommandTask, Execute
from hyperslab.plan.commanded import digest_of, pipeline_of
from tests.apps.bids.datasets import make, t1w
from tests.system.end_to_end.command import Finished, call


def described(line: str, **more: Any) -> dict[str, Any]:
    """A descriptor with two inputs, and a flag that the command line has not."""
    inputs = [
        {"id": "image", "name": "a", "type": "File", "value-key": "[IMAGE]", "optional": True},
        {"id": "name", "name": "b", "type": "String", "value-key": "[NAME]", "optional": True},
        {"id": "fast", "name": "c", "type": "Flag", "optional": True},
        {"id": "mode", "name": "d", "type": "String", "optional": True},
    ]
    return {"name": "tool", "command-line": line, "inputs": inputs, **more}


def needing(**needs: Any) -> dict[str, Any]:
    """A descriptor whose flag, or mode, needs or excludes other inputs."""
    tool = described("tool [IMAGE] [NAME]", groups=[{"id": "both", "members": ["image", "name"]}])
    for one in tool["inputs"]:
        one |= {key.replace("_", "-"): value for key, value in needs.get(one["id"], {}).items()}
    return tool


@pytest.mark.parametrize(
    ("needs", "values", "sentence"),
    [
        ({"fast": {"requires_inputs": ["mode"]}}, {"fast": True}, "fast needs mode in the invoc"),
        ({"fast": {"requires_inputs": ["both"]}}, {"fast": True}, "fast needs image or name in"),
        (
            {"fast": {"disables_inputs": ["mode", "name"]}},
            {"fast": True, "name": "x"},
            "give fast or name, not both",
        ),
        ({"mode": {"value_requires": {"x": ["name"]}}}, {"mode": "x"}, "mode needs name in the"),
        (
            {"mode": {"value_disables": {"x": ["fast"]}}},
            {"mode": "x", "fast": True},
            "give mode or fast, not both",
        ),
    ],
)
def test_inputs_that_need_or_exclude_others(
    needs: dict[str, Any], values: dict[str, Any], sentence: str
) -> None:
    """A flag that is not set, and another value, need nothing."""
    tool = needing(**needs)
    with pytest.raises(UsageError, match=f"tool.json: {sentence}"):
        called(tool, values, "tool.json")
    assert called(tool, {"name": "x", "fast": False, "mode": "y"}, "t").words == ["tool", "x"]


@pytest.mark.parametrize("count", [0, 3])
def test_lists_that_are_too_short_or_too_long(count: int) -> None:
    tool = described("tool [NAME]")
    tool["inputs"][1] |= {"list": True, "min-list-entries": 1, "max-list-entries": 2}
    with pytest.raises(UsageError, match=f"name: takes a list of 1 to 2 values, not {count}"):
        called(tool, {"name": ["x"] * count}, "t")
    assert called(tool, {"name": ["x", "y"]}, "t").words == ["tool", "x", "y"]


def test_lines_that_take_a_shell() -> None:
    """A newline ends a command, and what stands before one with = is a variable."""
    for line in ("one [NAME]\ntwo", "X=1 one [NAME]", "ls *.nii [NAME]"):
        filled = line.replace("[NAME]", "'a b'")
        assert called(described(f"{line}\n"), {"name": "a b"}, "t").words == ["sh", "-c", filled]
    assert called(described("one --x=[NAME]\n"), {"name": "a b"}, "t").words == ["one", "--x=a b"]


def test_paths_of_files_that_are_made() -> None:
    """As the reference implementation makes them: without extensions, and of files within a path
    without their folders; a path has a key of its own in the command line.
    """
    files = [
        {"id": "a", "path-template": "[NAME]_x.nii", "value-key": "[A]", "command-line-flag": "-o"},
        {
            "id": "b",
            "path-template": "{out}/of_[IMAGE]",
            "path-template-stripped-extensions": [".x"],
        },
        {"id": "c", "path-template": "[A].json"},
        {"id": "d", "path-template": "log.txt"},
        {"id": "e", "path-template": "{out}/*.txt"},
        {"id": "f", "path-template": "[A].txt", "optional": True},
        {"id": "g", "conditional-path-template": [{"default": "x"}]},
    ]
    tool = described("tool [IMAGE] [A]", **{"output-files": files, "error-codes": []})
    made = called(tool, {"image": "/far/head.x", "name": "{out}/{prefix}"}, "tool.json")
    assert made.words == ["tool", "/far/head.x", "-o", "{out}/{prefix}_x.nii"]
    assert made.outputs == ("{prefix}_x.nii", "of_head", "{prefix}_x.nii.json")
    assert made.notes == (
        "not used   error-codes of tool.json: the tool runs as it is on PATH",
        "not seen   output-files d, e, g of tool.json: nobody looks whether they are there",
    )


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"path-template": "x", "file-template": ["a"]}, "output-files o: has a file-template"),
        ({"conditional-path-template": [{"default": "x"}]}, "output-files o: has no path-template"),
    ],
)
def test_files_without_which_no_tool_can_be_called(more: dict[str, Any], sentence: str) -> None:
    tool = described("tool [O]", **{"output-files": [{"id": "o", "value-key": "[O]", **more}]})
    with pytest.raises(FormatError, match=f"tool.json: {sentence}"):
        called(tool, {}, "tool.json")


def run(folder: Path, tool: dict[str, Any], **values: Any) -> Finished:
    """A tool over a participant with two images, by the command."""
    home = make(folder / "data", t1w("1"), t1w("1", more="_run-2"), content=b"head\n")
    (folder / "tool.json").write_text(json.dumps(tool))
    (folder / "values.json").write_text(json.dumps(values))
    line = ("bids", home, folder / "out", "participant", "--engine", "serial", "--retries", 0)
    app = ("--app", folder / "tool.json", "--invocation", folder / "values.json")
    return call(*line, *app, "--no-report")


def test_variables_that_a_tool_finds(tmp_path: Path) -> None:
    """As they stand, or the value of an input."""
    variables = [
        {"name": "PLAIN", "value": "as {out} stands"},
        {"name": "OF_INPUT", "value": "[NAME]"},
        {"name": "NONE", "value": "[IMAGE]"},
    ]
    text = 'printf \'%s|%s|%s\' "$PLAIN" "$OF_INPUT" "${NONE-unset}" > [TARGET]'
    tool = described(text, **{"environment-variables": variables})
    target = {"id": "target", "name": "t", "type": "String", "value-key": "[TARGET]"}
    tool["inputs"].append(target)
    done = run(tmp_path, tool, name="of {prefix}", target="{out}/{prefix}.txt")
    assert done.code == 0, done
    made = (tmp_path / "out/sub-1/sub-1.txt").read_text()
    assert made == "as {out} stands|of sub-1|unset"
    said = json.loads((tmp_path / "out/dataset_description.json").read_text())["GeneratedBy"]
    assert said[1]["Description"].startswith("'PLAIN=as {{out}} stands' 'OF_INPUT=of {prefix}'")


def test_a_file_that_has_to_be_there(tmp_path: Path) -> None:
    """Its name is in the failure; a folder counts as well, and one that may be missing is not
    missed.
    """
    files = [
        {"id": "copy", "path-template": "[NAME].nii"},
        {"id": "more", "path-template": "[NAME]_more"},
        {"id": "log", "path-template": "[NAME].log", "optional": True},
    ]
    text = "mkdir [NAME]_more; cp [IMAGE] [NAME]_more/x; test -e [NAME]_more/y || cp [IMAGE] "
    tool = described(f"{text} [NAME].nii", **{"output-files": files, "container-image": {}})
    values = {"image": "{t1w}", "name": "{out}/{prefix}"}
    done = run(tmp_path, tool, **values)
    assert done.code == 0, done
    assert f"not used   container-image of {tmp_path / 'tool.json'}: " in done.err
    lacking = described(f"{text} [NAME].log", **{"output-files": files})
    (tmp_path / "out").rename(tmp_path / "before")
    failed = run(tmp_path, lacking, **values)
    assert failed.code == 1, failed
    missing = "it has not made sub-1/anat/sub-1.nii"
    assert f"exit status 0, but {missing}" in failed.err


def of_one(home: Path, *outputs: str) -> CommandTask:
    """The task of a participant without sessions, by a tool that makes these for certain."""
    words = ("cp", "{t1w}", "{out}/x")
    app = words_app(words, {"Name": "cp", "Description": "cp"}, outputs=outputs)
    selection = select(make(home, t1w("1")), Asked())
    return task_of(app, selection.units[0], selection.root)


def test_what_is_said_of_files_repeats_no_task(tmp_path: Path) -> None:
    """Results of a version that did not listen to it are results."""
    task = of_one(tmp_path, "{prefix}.nii")
    assert task.expected == ("sub-1/anat/sub-1.nii",)
    assert digest_of(task) == digest_of(of_one(tmp_path))
    twice = (task, replace(task, label="sub-2"))
    with pytest.raises(UsageError, match="would both write"):
        pipeline_of(Execute(twice, "t", "", ""))


def test_paths_of_which_a_part_is_empty(tmp_path: Path) -> None:
    """As that of a session is for who has none; what leaves {out} is the fault of one unit."""
    empty = of_one(tmp_path, "{session}/x", "{session}//y/", "{session}")
    assert empty.expected == ("sub-1/anat/x", "sub-1/anat/y", "sub-1/anat")
    assert pipeline_of(Execute((empty,), "t", "", "")).source.sources
    beyond = of_one(tmp_path, "{session}../x")
    said = subprocess.run(beyond.argv, capture_output=True, text=True, check=False)
    sentence = "sub-1/x is not in sub-1/anat, which {out} is\n"
    assert (said.returncode, said.stderr) == (1, sentence.replace("{out}", "{{out}}"))
