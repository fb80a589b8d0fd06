"""Reads of a file that is opened once, or for every read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import h5py
import nibabel
import numpy as np
import pytest

from hyperslab.apps.experiment.programs.reads import (
    PARTS,
    READERS,
    Reads,
    Task,
    contents,
    make,
    require_right,
    run_rounds,
)
from hyperslab.errors import RunStopped, UsageError
from hyperslab.storage.accounting import strace
from tests.system.clusters.required import required

PROGRAM = (sys.executable, "-m", "hyperslab.apps.experiment.programs.table", "file-reads")


def numbers_of(tmp_path: Path, reader: str, opens: str) -> dict[str, float]:
    out = tmp_path / f"{reader}-{opens}"
    given = ["--param", "reads=5", "--param", "rounds=2", "--param", f"opens={opens}"]
    words = [*PROGRAM, reader, "--out", str(out), *given]
    subprocess.run(words, check=True, capture_output=True, timeout=100)
    numbers = out / ".hyperslab" / "run-0001" / "numbers.json"
    found: dict[str, float] = json.loads(numbers.read_text())
    return found


def test_opens_are_those_that_were_asked_for(tmp_path: Path) -> None:
    """Counted over 100 reads; making a view opens a file more than once."""
    required(strace.why_not())
    assert numbers_of(tmp_path, "plain", "each")["opens_per_read"] == 1
    kept = numbers_of(tmp_path, "hyperslab", "once")
    assert 0 < kept["opens_per_read"] <= 0.05
    assert 0 < kept["round_min_s"] <= kept["round_max_s"]


@pytest.mark.parametrize("nbytes", [300, 4096])
def test_a_file_holds_the_parts_in_their_order(tmp_path: Path, nbytes: int) -> None:
    data = contents(nbytes)
    assert data.shape == (PARTS, nbytes)
    for suffix in (".nii", ".h5"):
        path = tmp_path / f"parts{suffix}"
        layout = make(path, data)
        assert path.read_bytes()[layout.head_nbytes :] == data.tobytes()
    image = np.asarray(nibabel.Nifti1Image.from_filename(tmp_path / "parts.nii").dataobj)
    np.testing.assert_array_equal(image.reshape(nbytes, PARTS, order="F").T, data)
    with h5py.File(tmp_path / "parts.h5") as file:
        (dataset,) = file.values()
        np.testing.assert_array_equal(dataset[...].reshape(PARTS, nbytes), data)


@pytest.mark.parametrize("name", READERS)
def test_a_wrong_read_is_seen(tmp_path: Path, name: str) -> None:
    reader = READERS[name]
    path = tmp_path / f"parts{reader.suffix}"
    data = contents(2048)
    task = Task(path, make(path, data), "once", 1)
    require_right(reader, task, data)
    data[7, 3] += 1
    with pytest.raises(RunStopped, match="part 7 is read otherwise"):
        require_right(reader, task, data)


def test_what_cannot_be_read_so_is_refused(tmp_path: Path) -> None:
    for wrong in (Reads("plane"), Reads("plain", opens="never"), Reads("plain", reads=0)):
        with pytest.raises(UsageError):
            run_rounds(wrong, tmp_path / "out", 0, "")
