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
from hyperslab.driver.admission import JOURNAL_BYTES_PER_TASK
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
        file["y"] = np.zeros(3, np.int16)
        file["x"].attrs["missing"] = np.nan
    table = document("info", tmp_path / "a.h5")
    assert [(entry["name"], entry["shape"]) for entry in table] == [("/x", [4, 6]), ("/y", [3])]
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
        "sigma": None,
        "fwhm": None,
        "truncate": 4.0,
    }
    assert "-p truncate=4.0" in succeed("functions", "smooth")
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


PLAN_KEYS = {
    *("plan", "partition", "blocks", "largest_block", "note", "tasks", "tasks_done"),
    *("read_nbytes", "read_operations", "times_read"),
    *("written_nbytes", "written_is_bound", "write_operations", "files", "out", "free_nbytes"),
    *("workers", "threads", "processors", "processors_from", "tasks_at_a_time"),
    *("task_nbytes", "tasks_nbytes", "allowed_nbytes", "interpreters_nbytes"),
    *("all_nbytes", "available_nbytes", "notes", "warning", "obstacle", "fits", "why_not"),
    *("failing", "why_again"),
}


def test_what_a_run_would_do(tmp_path: Path) -> None:
    line = ("run", "increment", ANATOMICAL, "-o", tmp_path / "out", "--blocks", "1x1x5")
    said = document(*line, "--workers", 2, "--memory", "1GB", "--dry-run")
    image: Any = nib.load(ANATOMICAL)
    nbytes = int(np.prod(image.shape)) * 2
    assert set(said) == PLAN_KEYS
    assert (said["blocks"], said["tasks"], said["tasks_done"], said["files"]) == (5, 5, 0, 5)
    assert said["largest_block"] == [*image.shape[:2], 5]
    assert (said["read_nbytes"], said["times_read"]) == (nbytes, 1)
    assert said["written_nbytes"] == nbytes + 5 * JOURNAL_BYTES_PER_TASK
    assert (said["workers"], said["allowed_nbytes"]) == (2, 10**9)
    assert (said["fits"], said["why_not"], said["obstacle"]) == (True, "", "")
    assert not (tmp_path / "out").exists()
    assert call(*line, "--json").code == 2, "a run says nothing to programs, its report does"


def test_what_does_not_fit_and_what_is_in_the_way(tmp_path: Path) -> None:
    line = ("run", "increment", ANATOMICAL, "--dry-run", "--json", "-o")
    small = call(*line, tmp_path / "out", "--memory", "1kB", "--blocks", "1")
    assert small.code == 2
    assert json.loads(small.out)["fits"] is False
    assert json.loads(small.out)["why_not"] in small.err
    (tmp_path / "file").touch()
    hindered = call(*line, tmp_path / "file" / "out")
    assert hindered.code == 2
    assert "is a file" in json.loads(hindered.out)["obstacle"]


def test_what_a_conversion_would_do(tmp_path: Path) -> None:
    said = document("convert", FUNCTIONAL, tmp_path / "a.h5", "--compression", "gzip", "--dry-run")
    assert set(said) == PLAN_KEYS
    assert said["written_is_bound"] is True
    assert said["out"] == str(tmp_path / "a.h5")
    assert call("convert", FUNCTIONAL, tmp_path / "a.h5", "--json").code == 2
    assert list(tmp_path.iterdir()) == []


def test_what_is_installed() -> None:
    said = document("doctor")
    assert list(said["builtins"]) == list(workloads.BUILTINS)
    assert said["libraries"]["numpy"] == np.__version__
    assert said["processors"] >= 1
    assert said["memory_nbytes"] > 2**20
    engines = {one["engine"]: (one["state"], one["why"]) for one in said["engines"]}
    assert engines["serial"] == ("installed", "")
    lines = succeed("doctor").splitlines()
    assert f"library    numpy {np.__version__}" in lines
    assert "engine     serial: installed" in lines


def test_secrets_stay_out_and_what_json_has_no_word_for_is_text() -> None:
    said = plain({"url": "s3://me:word@host/a", "raw": b"\xff", "inf": np.inf, 3: np.arange(2)})
    assert said == {"url": "s3://***@host/a", "raw": "\ufffd", "inf": None, "3": [0, 1]}
