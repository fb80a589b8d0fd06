"""What a shell completes, as bash asks for it, and the panels of the help."""

from __future__ import annotations

import os
import re
import subprocess
from unittest import mock

import pytest

from hyperslab.cli import flags
from hyperslab.cli.help_page import FIRST, MOST_USED
from hyperslab.engines.facts import engine_names
from hyperslab.formats import written
from hyperslab.formats.zarr.sinks import LEVELS
from hyperslab.workloads import BUILTINS
from tests.system.end_to_end.command import AS_INSTALLED, call

PANELS = (flags.INPUTS, flags.BLOCKS, flags.ENGINE, flags.GOING_ON, flags.OUTPUTS, flags.FUNCTION)


def asked(line: str) -> dict[str, str]:
    """How a shell asks for the last word of a line."""
    words = line.split(" ")
    place = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return {**os.environ, **place, "_HYPERSLAB_COMPLETE": "complete_bash"}


def completed(line: str) -> list[str]:
    """What is offered for the last word of a line."""
    with mock.patch.dict(os.environ, asked(line)):
        return call().out.split()


def completed_by_program(line: str) -> list[str]:
    program = [*AS_INSTALLED[:2], f"import sys; sys.argv[0] = 'hyperslab'; {AS_INSTALLED[2]}"]
    done = subprocess.run(program, env=asked(line), capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_what_a_shell_completes() -> None:
    assert completed_by_program("hyperslab sy") == completed("hyperslab sy") == ["synth"]
    assert completed("hyperslab run hist") == ["histogram", "histogram-python"]
    assert completed("hyperslab functions s") == [name for name in BUILTINS if name[0] == "s"]
    assert completed("hyperslab synth b") == ["bigbrain"]
    for verb in ("run", "convert"):
        assert completed(f"hyperslab {verb} --format nii") == ["nii", "nii.gz"]
    assert completed("hyperslab run --engine dask") == [
        name for name in engine_names() if name.startswith("dask")
    ]
    assert completed("hyperslab run --partition ") == ["auto", "chunks", "slabs", "bytes="]
    for verb in ("run", "convert"):
        offered = completed(f"hyperslab {verb} --compression ")
        assert offered == ["none", "gzip", "zstd", "blosc"]
        assert set(offered) == set(LEVELS)


@pytest.mark.parametrize("columns", ["80", "200"])
def test_choices_are_shown_as_choices(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    said = call("run", "--help").out
    beside = re.search(r"^│ +--engine .*?(?=^│ +--)", said, re.MULTILINE | re.DOTALL)
    assert beside
    for name in engine_names():
        assert re.search(rf"(?<![\w-]){name}(?![\w-])", beside[0]), (name, beside[0])
    assert re.search(r"--partition +auto \| chunks \| slabs \|", said)
    assert re.search(r"--compression +none\|gzip\|zstd\|blosc ", said)


@pytest.mark.parametrize(
    ("words", "begun"),
    [(engine_names(), "s"), (written(), "nii"), ([*BUILTINS], "st"), (("bigbrain", "climate"), "")],
)
def test_words_that_begin_so(words: list[str], begun: str) -> None:
    found = flags.completing(lambda: words)(begun)
    assert found
    assert found == [word for word in words if word.startswith(begun)]


@pytest.mark.parametrize("verb", ["run", "convert", "diff", "bids"])
def test_flags_are_in_panels_with_an_example(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of flags that the verb has."""
    monkeypatch.setenv("COLUMNS", "80")
    said = call(verb, "--help").out
    titles = dict(re.findall(r"^╭─ (.*), as in: (.*?) ─+╮$", said, re.MULTILINE))
    panels = {
        "run": PANELS,
        "convert": PANELS[:4],
        "diff": PANELS[:2],
        "bids": (FIRST, flags.ENGINE),
    }
    assert titles.keys() >= set(panels[verb])
    for example in titles.values():
        for flag in re.findall(r"--[a-z-]+", example):
            assert re.search(rf"^│ +(\* +)?{flag} ", said, re.MULTILINE), (flag, example)
    if verb == "run":
        panels_of_run = re.findall(r"^╭─ ([A-Z][a-z ]+)", said, re.MULTILINE)
        assert panels_of_run[:3] == ["Arguments ", "Options ", FIRST]
        first = said.partition(FIRST)[2].partition("╰")[0]
        assert all(re.search(rf"^│ +(\* +)?{flag} ", first, re.MULTILINE) for flag in MOST_USED)
    alone = said.partition(" Options ")[2].partition("╰")[0]
    if verb != "diff":
        assert alone.count("--") == alone.count("--help"), "every flag has its panel"
