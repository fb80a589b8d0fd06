"""Places in object stores that are named as destinations: written to with care, or refused before
anything happens.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import hyperslab
from hyperslab import Pipeline
from hyperslab.errors import UsageError
from hyperslab.workloads.synth import synth
from tests.system.end_to_end.command import call


@pytest.mark.parametrize("dest", ["s3://bucket/out", Path("s3://bucket/out"), "https://host/out"])
def test_runs_write_to_this_machine(
    dest: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    image = str(folder / "plain.nii")
    with pytest.raises(
        UsageError,
        match=r"://.*/out: give a directory on this machine.* 'hyperslab convert', or in Python"
        r" with hyperslab\.upload\(path, url\)",
    ):
        Pipeline(image).write(dest)
    with pytest.raises(UsageError, match="give a directory on this machine"):
        hyperslab.run(
            Pipeline(image).reduce("hyperslab.workloads.stats:FOLD"), engine="serial", out=dest
        )
    with pytest.raises(UsageError, match="give a directory on this machine"):
        synth("climate", dest, 10_000)
    assert callable(hyperslab.upload)
    done = call("run", "increment", image, "-o", "s3://bucket/out")
    assert done.code == 2
    assert "give a directory on this machine" in done.err
    assert os.listdir(tmp_path) == []
