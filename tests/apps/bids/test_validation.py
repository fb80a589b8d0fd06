"""What is said of datasets that the official validator has looked at."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.heads_dataset import HALVED, TURNED
from benchmarks.heads_dataset import make as make_heads
from hyperslab.apps.bids.validation import PROGRAMS, validate
from hyperslab.errors import FormatError, UsageError
from tests.apps.bids.datasets import make, t1w
from tests.system.clusters.required import required
from tests.system.end_to_end.command import call

MISSING = "there is no bids-validator on PATH: pip install bids-validator-deno"

CURRENT = {
    "issues": {
        "issues": [
            {"code": "README_FILE_MISSING", "severity": "warning", "location": "/"},
            {
                "code": "JSON_KEY_REQUIRED",
                "subCode": "BIDSVersion",
                "severity": "error",
                "location": "/dataset_description.json",
            },
            {"code": "SHADOWED", "severity": "ignore"},
        ]
    }
}
"As version 3 of the validator prints it."
EARLIER = {"issues": {"errors": [{"code": 1, "key": "NOT_INCLUDED"}], "warnings": [{"code": 2}]}}
"As version 1 does."


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


def install(folder: Path, name: str, said: str) -> None:
    """Write a validator that prints this."""
    program = folder / name
    program.write_text(
        f'#!/bin/sh\ntest -d "$1" && test "$2" = --json\ncat <<\'END\'\n{said}\nEND\n'
    )
    program.chmod(0o755)


def test_errors_stop_a_run_and_warnings_do_not(tmp_path: Path, programs: Path) -> None:
    home = make(tmp_path / "data", t1w("1"))
    line = ("bids", home, tmp_path / "out", "participant", "--validate", "--dry-run")
    missing = call(*line)
    assert (missing.code, "there is no bids-validator on PATH" in missing.err) == (2, True)
    install(programs, PROGRAMS[1], json.dumps(CURRENT))
    wrong = call(*line)
    assert wrong.code == 1
    found = (
        "has found 1 error, such as JSON_KEY_REQUIRED (BIDSVersion) in /dataset_description.json"
    )
    assert found in wrong.err
    assert wrong.err.count("\n") == 1
    install(programs, PROGRAMS[1], json.dumps(CURRENT).replace("error", "warning"))
    right = call(*line)
    assert (right.code, "valid      with 2 warnings" in right.err) == (0, True), right


def test_what_we_make_is_a_dataset_of_derivatives(tmp_path: Path) -> None:
    """As the official validator sees it, both levels, and the dataset before them."""
    required("" if any(map(shutil.which, PROGRAMS)) else MISSING)
    home, out = tmp_path / "data", tmp_path / "out"
    make_heads(home, versions=(HALVED, TURNED))
    line = ("bids", home, out, "both", "--brain-extractor", "builtin", "--engine", "threads")
    done = call(*line, "--no-report", "--validate")
    assert done.code == 0, done
    assert "of 2 participants in 2 images\ntables     " in done.out
    assert re.search(r"^valid +with \d+ warnings?$", done.err, re.MULTILINE), done.err
    assert (out / "sub-010" / "figures").is_dir()
    validate(str(out))
    (home / "dataset_description.json").write_text('{"Name": "heads"}')
    with pytest.raises(FormatError, match=r"JSON_KEY_REQUIRED .* in /dataset_description\.json"):
        validate(str(home))


def test_other_versions_and_none(tmp_path: Path, programs: Path) -> None:
    install(programs, PROGRAMS[0], json.dumps(EARLIER))
    with pytest.raises(FormatError, match="bids-validator has found 1 error, such as NOT_INCLUDED"):
        validate(str(tmp_path))
    install(
        programs, PROGRAMS[0], json.dumps({"issues": {"errors": [], "warnings": [{"code": 2}]}})
    )
    assert validate(str(tmp_path)) == 1
    install(programs, PROGRAMS[0], "Segmentation fault")
    with pytest.raises(UsageError, match="exit status 0 and no list of issues: look at what"):
        validate(str(tmp_path))
