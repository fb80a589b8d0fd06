"""What commands say to programs: one JSON document, of the facts that people see."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

from hyperslab import workloads
from hyperslab.cli.document import plain
from tests.system.end_to_end.command import ANATOMICAL, FUNCTIONAL, call, succeed


def document(*arguments: object) -> Any:
    return json.loads(succeed(*arguments, "--json"))


@pytest.mark.parametrize("path", [ANATOMICAL, FUNCTIONAL], ids=lambda path: path.stem)
def test_an_image(path: Path) -> None:
    image: Any = nib.load(path)
    (said,) = document("info", path)
    assert said["url"] == str(path)
    assert tuple(said["shape"]) == image.shape
    assert np.dtype(said["stored_dtype"]) == image.get_data_dtype()
    assert np.array_equal(said["affine"], image.affine)
    assert said["nbytes_stored"] == int(np.prod(image.shape)) * 2
    if said["scaling"]:
        assert said["scaling"]["slope"] == image.dataobj.slope
        assert said["scaling"]["inter"] == image.dataobj.inter


def test_a_file_of_several_arrays_and_one_of_them(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((4, 6), "f8"), chunks=(2, 3), compression="gzip")
        file["y"] = np.int16(3)
        file["x"].attrs["missing"] = np.nan
    table = document("info", tmp_path / "a.h5")
    assert [(entry["name"], entry["shape"]) for entry in table] == [("/x", [4, 6]), ("/y", [])]
    (said,) = document("info", f"{tmp_path / 'a.h5'}::/x")
    assert said["chunks"] == [2, 3]
    assert [codec["name"] for codec in said["codecs"]] == ["deflate"]
    assert said["attributes"]["missing"] is None, "JSON has no NaN"


def test_of_several_files_the_broken_one_is_told_beside_the_others(tmp_path: Path) -> None:
    shutil.copy(ANATOMICAL, tmp_path / "a.nii")
    (tmp_path / "b.nii").write_bytes(b"no image")
    done = call("info", tmp_path, "--json")
    assert done.code == 1
    assert "b.nii" in done.err
    assert [entry["url"] for entry in json.loads(done.out)] == [str(tmp_path / "a.nii")]


def test_functions_and_their_parameters() -> None:
    listed = document("functions")
    assert [entry["name"] for entry in listed] == list(workloads.BUILTINS)
    assert all(one["about"] for entry in listed for one in entry["parameters"])
    (smooth,) = document("functions", "smooth")
    assert {one["name"]: one["default"] for one in smooth["parameters"]} == {
        "sigma": 1.0,
        "truncate": 4.0,
    }
    assert "-p sigma=1.0" in succeed("functions", "smooth")
    wrong = call("functions", "smoth")
    assert wrong.code == 2
    assert "did you mean 'smooth'?" in wrong.err


def test_a_run_that_is_done(tmp_path: Path) -> None:
    succeed("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--engine", "serial", "-q")
    said = document("status", tmp_path / "out")
    assert (said["state"], said["done"], said["failing"]) == ("done", said["tasks"], [])


def test_the_report_of_a_run(tmp_path: Path) -> None:
    succeed("run", "stats", ANATOMICAL, "-o", tmp_path / "out", "--engine", "serial", "-q")
    said = document("report", tmp_path / "out", "-o", tmp_path / "page.html")
    assert said["state"] == "done"
    assert said["summary"]["tasks"] >= 1
    assert said["summary"]["makespan_s"] > 0
    assert said["provenance"]["engine"] == "serial"
    assert Path(said["page"]).is_file()


def test_secrets_stay_out_and_what_json_has_no_word_for_is_text() -> None:
    said = plain({"url": "s3://me:word@host/a", "raw": b"\xff", "inf": np.inf, 3: np.arange(2)})
    assert said == {"url": "s3://***@host/a", "raw": "\ufffd", "inf": None, "3": [0, 1]}
