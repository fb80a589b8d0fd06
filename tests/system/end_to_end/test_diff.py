"""`hyperslab diff`: exit statuses, what it prints, trouble in one sentence, memory, progress and
Ctrl-C.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest

from tests.system.end_to_end.command import (
    ANATOMICAL,
    BRAIN,
    DATA,
    FUNCTIONAL,
    LAYOUT,
    PROGRAM,
    call,
    call_program,
    outputs,
    succeed,
    values_of,
)
from tests.system.end_to_end.test_progress import LINE, pipe
from tests.system.faults.command import PATIENCE_S

pytestmark = pytest.mark.usefixtures("on_threads")

MIB = 2**20


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """The anatomical image with three other voxels."""
    values = values_of(ANATOMICAL).astype(np.int16)
    values[3, 7, 0] += 2
    values[4, 8, 0] -= 1
    values[20, 30, 11] = -5
    image: Any = nib.load(ANATOMICAL)
    nib.save(nib.Nifti1Image(values, image.affine, image.header), tmp_path / "changed.nii")  # type: ignore[no-untyped-call]
    return tmp_path / "changed.nii"


def test_the_same(tmp_path: Path) -> None:
    done = call("diff", ANATOMICAL, ANATOMICAL)
    assert done == (
        0,
        (
            f"A           {ANATOMICAL}\nB           {ANATOMICAL}\nvalues      equal: 33,825"
            " elements\nthe same\n"
        ),
        "",
    )
    succeed("run", "numpy:positive", ANATOMICAL, "-o", tmp_path / "blocks", "--blocks", "3x2x2")
    lines = succeed("diff", ANATOMICAL, tmp_path / "blocks").splitlines()
    assert lines[1:5] == [
        f"B           12 files of {tmp_path}/blocks, mosaic",
        "values      equal: 33,825 elements",
        "the same",
        "stored      byte order: big in A, little in B (no difference)",
    ]
    assert call("diff", tmp_path / "blocks", ANATOMICAL).code == 0
    assert call("diff", BRAIN, BRAIN, "--memory", "20MB", "--threads", "2").code == 0


def test_different(changed: Path) -> None:
    done = call("diff", ANATOMICAL, changed)
    before, largest = values_of(ANATOMICAL)[3, 7, 0], int(values_of(ANATOMICAL)[20, 30, 11]) + 5
    assert done.code == 1
    assert done.err == ""
    assert done.out.splitlines() == [
        f"A           {ANATOMICAL}",
        f"B           {changed}",
        (
            f"values      3 of 33,825 elements differ; largest difference {largest}, relative to B"
            f" {largest / 5:.6g}"
        ),
        f"first at    [3, 7, 0]: {before} in A, {before + 2} in B",
        "all within  [3:21, 7:31, 0:12]",
    ]
    assert call("diff", ANATOMICAL, changed, "--quiet") == (1, "", "")
    assert call("diff", ANATOMICAL, changed, "--atol", "10000").code == 0
    assert call("diff", ANATOMICAL, changed, "--first").code == 1


def test_json(changed: Path, tmp_path: Path) -> None:
    done = call("diff", ANATOMICAL, changed, "--json")
    found = json.loads(done.out)
    assert (done.code, done.err, found["same"]) == (1, "", False)
    (pair,) = found["pairs"]
    assert pair["same"] is False
    assert pair["values"]["differing"] == 3
    assert pair["values"]["first"]["index"] == [3, 7, 0]
    assert pair["values"]["box"] == {"start": [3, 7, 0], "count": [18, 24, 12], "stride": [1, 1, 1]}
    assert pair["values"]["files_b"] == {str(changed): 3}
    assert pair["headers"] == []
    with h5py.File(tmp_path / "nan.h5", "w") as file:
        file["a"], file["b"], file["c"] = [1.0, np.nan], [1.0, 0.0], [0j, 1 + 2j]
    done = call("diff", f"{tmp_path}/nan.h5::a", f"{tmp_path}/nan.h5::b", "--json")
    values = json.loads(done.out, parse_constant=pytest.fail)["pairs"][0]["values"]
    assert (values["first"], values["absolute"]) == ({"index": [1], "a": "nan", "b": 0.0}, None)
    done = call("diff", f"{tmp_path}/nan.h5::a", f"{tmp_path}/nan.h5::c", "--json")
    values = json.loads(done.out, parse_constant=pytest.fail)["pairs"][0]["values"]
    assert values["first"] == {"index": [0], "a": 1.0, "b": "0j"}


def test_headers(changed: Path, tmp_path: Path) -> None:
    image: Any = nib.load(ANATOMICAL)
    image.affine[0, 3] += 1
    make: Any = nib.Nifti1Image
    moved = make(values_of(ANATOMICAL), image.affine, image.header)
    nib.save(moved, tmp_path / "moved.nii")
    done = call("diff", ANATOMICAL, tmp_path / "moved.nii")
    assert done.code == 1
    assert "values      equal: 33,825 elements\n" in done.out
    assert re.search(
        r"^headers     affine: .* in A, .* in B \(corners up to 1 mm apart, ",
        done.out,
        re.MULTILINE,
    )
    assert "the same" not in done.out
    assert call("diff", ANATOMICAL, tmp_path / "moved.nii", "--values-only").code == 0
    assert call("diff", ANATOMICAL, tmp_path / "moved.nii", "--ignore-attributes").code == 1
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["b"] = np.arange(9), np.arange(9)
        file["a"].attrs["history"] = "long"
    urls = f"{tmp_path}/a.h5::a", f"{tmp_path}/a.h5::b"
    assert "headers     attribute history: long in A, none in B\n" in call("diff", *urls).out
    assert call("diff", *urls, "--ignore-attributes").code == 0


def test_shapes_are_told_first_and_alone() -> None:
    done = call("diff", ANATOMICAL, FUNCTIONAL)
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[2:] == ["headers     shape: 33x41x25 in A, 17x21x3x20 in B"]


def test_directories(changed: Path, tmp_path: Path) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        for name in ("one.nii", "two.nii", "three.nii"):
            shutil.copy(ANATOMICAL, tmp_path / folder / name)
    assert succeed("diff", tmp_path / "a", tmp_path / "b") == "0 of 3 pairs of files differ\n"
    shutil.copy(changed, tmp_path / "b" / "two.nii")
    done = call("diff", tmp_path / "a", tmp_path / "b")
    assert done.code == 1
    assert done.out.splitlines()[0] == f"A           {tmp_path}/a/two.nii"
    assert done.out.splitlines()[-1] == "1 of 3 pairs of files differ"
    (tmp_path / "b" / "one.nii").unlink()
    done = call("diff", tmp_path / "a", tmp_path / "b", "--sources", "independent")
    assert done.code == 1
    assert done.out.splitlines()[-2:] == [
        f"only in A   {tmp_path}/a/one.nii",
        "1 of 2 pairs of files differ",
    ]
    (tmp_path / "b" / "three.nii").write_bytes(b"no image")
    done = call("diff", tmp_path / "a", tmp_path / "b", "--sources", "independent")
    assert done.code == 2
    assert done.out.splitlines()[-1] == "1 of 2 pairs of files differ, 1 could not be compared"
    assert re.fullmatch(r"hyperslab: .*/b/three\.nii is not a NIfTI file although .*\n", done.err)


def test_blocks_in_which_something_differs(tmp_path: Path) -> None:
    succeed("run", "numpy:positive", ANATOMICAL, "-o", tmp_path / "blocks", "--blocks", "3x3x3")
    for path in outputs(tmp_path / "blocks")[:7]:
        image: Any = nib.load(path)
        values = values_of(path).astype(np.int16)
        values[1, 2] += 1
        nib.save(nib.Nifti1Image(values, image.affine, image.header), path)  # type: ignore[no-untyped-call]
    done = call("diff", ANATOMICAL, tmp_path / "blocks", "--sources", "mosaic")
    assert done.code == 1
    assert (
        len(
            re.findall(
                rf"^in B        \d+ in {tmp_path}/blocks/anatomical_", done.out, re.MULTILINE
            )
        )
        == 5
    )
    assert "in B        and in 2 other files\n" in done.out


@pytest.mark.parametrize(
    ("a", "b", "flags", "said"),
    [
        (ANATOMICAL, "missing.nii", [], "there is no such file"),
        ("missing*.nii", ANATOMICAL, [], "no file matches this pattern"),
        (ANATOMICAL, DATA / "README.md", [], "its format is unknown"),
        (ANATOMICAL, DATA / "hdf5" / "corrupt" / "tmisc38b.h5", [], "HDF5 cannot read it"),
        (LAYOUT / "tfilters.h5", ANATOMICAL, [], "choose one as"),
        (ANATOMICAL, DATA / "mri", [], "are taken for blocks of one array, but"),
        (ANATOMICAL, ANATOMICAL, ["--values", "raw"], "--values raw: choose one of real, stored"),
        (ANATOMICAL, ANATOMICAL, ["--atol", "-1"], "--atol -1: give a number of 0 or more"),
        (ANATOMICAL, ANATOMICAL, ["--rtol", "x"], "--rtol"),
        (
            ANATOMICAL,
            ANATOMICAL,
            ["--axis", "1"],
            "--axis 1 is for --sources concatenated, not auto",
        ),
        (ANATOMICAL, ANATOMICAL, ["--sources", "tiles"], "--sources tiles: choose one of auto, "),
        (ANATOMICAL, ANATOMICAL, ["--threads", "0"], "--threads 0: give 1 or more"),
        (ANATOMICAL, ANATOMICAL, ["--memory", "much"], "--memory much: give a positive size"),
        (BRAIN, ANATOMICAL, ["--bogus"], "--bogus"),
        (BRAIN, BRAIN, ["--memory", "1MB"], "--memory 1.00 MB: one block takes"),
    ],
)
def test_trouble_is_one_sentence(a: object, b: object, flags: list[str], said: str) -> None:
    done = call("diff", a, b, *flags)
    assert (done.code, done.out) == (2, ""), done
    assert done.err.startswith("hyperslab: ")
    assert done.err.count("\n") == 1
    assert said in done.err


def test_a_corrupt_compressed_file_is_trouble_and_no_difference(tmp_path: Path) -> None:
    damaged = bytearray(BRAIN.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (tmp_path / "brain.nii.gz").write_bytes(damaged)
    for flags in ([], ["--memory", "20MB"]):
        done = call("diff", BRAIN, tmp_path / "brain.nii.gz", *flags)
        assert (done.code, done.out) == (2, "")
        assert f"{tmp_path}/brain.nii.gz" in done.err


def test_an_unforeseen_error_is_trouble_and_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> object:
        raise KeyError("a defect")

    monkeypatch.setattr("hyperslab.apps.difference.diff", broken)
    done = call("diff", ANATOMICAL, ANATOMICAL)
    assert (done.code, done.out) == (2, "")
    assert "report the traceback" in done.err


def test_the_program_by_itself(changed: Path) -> None:
    assert call_program("diff", ANATOMICAL, changed, "-q") == (1, "", "")
    assert call("diff", ANATOMICAL, ANATOMICAL).code == 0
    assert call("--debug", "diff", ANATOMICAL, DATA / "README.md").code == 2


def large(path: Path, planes: int, written: int = 0) -> Path:
    """A scaled uint16 image of so many planes of 2 MiB, of which the first few are written and the
    others are holes.
    """
    header: Any = nib.Nifti1Header()  # type: ignore[no-untyped-call]
    header.set_data_dtype(np.uint16)
    header.set_data_shape((1024, 1024, planes))
    header.set_slope_inter(0.5, 0)
    header["vox_offset"], header["magic"] = 352, b"n+1"
    with path.open("wb") as file:
        file.write(header.binaryblock + bytes(4))
        file.truncate(352 + planes * 2 * MIB)
        file.seek(352)
        file.writelines(np.full(MIB, plane, np.uint16).tobytes() for plane in range(written))
    return path


PROMPT = f"import hyperslab.report.progress as told; told.FIRST_LINE_S = 0.0; {PROGRAM[2]}"
"The program, which says at once that a tenth is done."


def test_progress_and_interruption(tmp_path: Path) -> None:
    for name in ("a.nii", "b.nii"):
        large(tmp_path / name, 800)  # which take long
    process = subprocess.Popen(
        [*PROGRAM[:2], PROMPT, "diff", tmp_path / "a.nii", tmp_path / "b.nii"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert LINE.fullmatch(pipe(process.stderr).readline().rstrip("\n"))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "hyperslab: interrupted"
    assert "Traceback" not in err
