"""A run into one file: what it says of that file while it is complete, and while it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import hyperslab
from tests.system.end_to_end.command import (
    ANATOMICAL,
    FUNCTIONAL,
    call,
    image_of,
    outputs,
    save,
    succeed,
    values_of,
)

pytestmark = pytest.mark.usefixtures("on_threads")

SERIAL = ("--engine", "serial", "--no-report")
HALF = """
def half(block, slab):
    if slab.start[2]:
        raise ValueError("the other half")
    return block
"""


def test_the_file_is_named_and_verified_as_one(tmp_path: Path) -> None:
    out = tmp_path / "made.nii.gz"
    given = ("run", "numpy:negative", ANATOMICAL, "-o", out, *SERIAL)
    done = call(*given, "--blocks", "1x1x3")
    assert f"\noutputs    {out}\n" in done.out
    assert call("verify", out).out == "1 of 1 output unchanged since the run\n"
    again = call(*given, "--blocks", "1x1x2", "--resume")
    assert f"--resume: {out} holds the results of a run that differs in the partition" in again.err
    assert f"'hyperslab clean --all {out}'" in again.err


def test_what_is_not_complete_is_no_output(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(HALF)
    given = ("run", f"{mine}:half", ANATOMICAL, *SERIAL, "--blocks", "1x1x2", "--retries", "0")
    out = tmp_path / "made.nii"
    done = call(*given, "-o", out)
    assert done.code == 1
    assert f"outputs    none: {out} is not complete, what is done of it is kept" in done.out
    assert "0 of 1 output unchanged since the run" in call("verify", out).out
    folder = tmp_path / "out"
    done = call(*given, "-o", folder, "--keep", "volume")
    assert f"outputs    0 files in {folder}" in done.out
    done = call(*given, "-o", tmp_path / "blocks")
    assert f"outputs    1 file in {tmp_path / 'blocks'}" in done.out
    assert len(outputs(tmp_path / "blocks")) == 1


def test_results_name_the_files_that_there_are(tmp_path: Path) -> None:
    def half(block: object, slab: hyperslab.Hyperslab) -> object:
        if slab.start[2]:
            raise ValueError("the other half")
        return block

    pipeline = hyperslab.Pipeline(ANATOMICAL).map(half).write(tmp_path / "made.nii")
    result = hyperslab.run(
        pipeline, engine="serial", report=False, blocks="1x1x2", retries=0, check=False
    )
    assert (result.state, result.outputs) == ("failed", [])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("made.nii.gzz", "(did you mean '.nii.gz'?)"),
        ("made.hdf", "(did you mean '.hdf5'?)"),
        ("made.tif", "give a name that ends in .nii, .nii.gz, .h5,"),
    ],
)
def test_a_name_that_no_format_has_is_no_directory(tmp_path: Path, name: str, said: str) -> None:
    out = tmp_path / name
    for line in (
        ("run", "increment", ANATOMICAL, "-o", out),
        ("run", "stats", ANATOMICAL, "-o", out),
        ("convert", ANATOMICAL, out),
    ):
        refused = call(*line)
        assert refused.code == 2
        assert said in refused.err
        assert f"or {out}/ for a directory" in refused.err
    assert not out.exists()


def test_a_directory_may_have_such_a_name(tmp_path: Path) -> None:
    given = ("run", "increment", ANATOMICAL, *SERIAL, "-o")
    succeed(*given, f"{tmp_path}/made.tif/")
    (tmp_path / "there.tif").mkdir()
    succeed(*given, tmp_path / "there.tif")
    succeed(*given, tmp_path / "sub-01.smoothed")
    for name in ("made.tif", "there.tif", "sub-01.smoothed"):
        assert len(outputs(tmp_path / name)) == 1
    succeed("convert", ANATOMICAL, f"{tmp_path}/converted.v2/", *SERIAL)
    assert len(outputs(tmp_path / "converted.v2")) == 1


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("roi.nii.gz", ["--blocks", "2x2x1"]),
        ("roi.nii", []),
        ("roi.h5", ["--chunks", "4,4,4", "--blocks", "2x2x2"]),
    ],
)
def test_a_region_is_one_volume_where_it_lay(tmp_path: Path, name: str, more: list[str]) -> None:
    out = tmp_path / name
    region = ("--region", "3:9,5:20,:-2")
    succeed("run", "increment", ANATOMICAL, "-o", out, *region, *more, *SERIAL)
    expected: Any = image_of(ANATOMICAL).slicer[3:9, 5:20, :-2]
    made: Any = hyperslab.open(out)
    assert made.shape == expected.shape
    assert np.array_equal(made[...], np.asarray(expected.dataobj) + 1)
    np.testing.assert_allclose(made.source.header.affine, expected.affine, rtol=1e-6)
    if name != "roi.h5":
        np.testing.assert_allclose(image_of(out).affine, expected.affine, rtol=1e-6)


@pytest.mark.parametrize(
    ("image", "region", "axis"),
    [(ANATOMICAL, np.s_[2:9, 3:17, 1:20], 2), (FUNCTIONAL, np.s_[2:9, 3:17, 1:, 4:15], 3)],
)
def test_a_region_without_an_axis_is_what_its_own_file_becomes(
    tmp_path: Path, image: Path, region: tuple[slice, ...], axis: int
) -> None:
    whole: Any = image_of(image)
    part = save(tmp_path / "part.nii", values_of(image)[region], whole.slicer[region].affine)
    found: list[tuple[Any, Any]] = []
    for source, asked in ((part, None), (image, region)):
        out = tmp_path / f"map_{len(found)}.nii"
        pipeline = hyperslab.Pipeline(source, region=asked, values="stored")
        averaged = pipeline.map(lambda block: block.max(axis=axis), drop_axis=axis, dtype="int16")
        hyperslab.run(averaged.write(out), engine="serial", blocks="2", report=False)
        made: Any = image_of(out)
        found.append((made.dataobj.get_unscaled(), made.affine))
    (own, own_affine), (cut, cut_affine) = found
    assert np.array_equal(own, cut)
    np.testing.assert_allclose(own_affine, cut_affine, rtol=1e-6)


def test_a_region_that_is_one_volume_is_cut_by_the_chunks_of_its_source(tmp_path: Path) -> None:
    source = tmp_path / "a.h5"
    values = np.arange(20.0 * 8 * 8).reshape(20, 8, 8)
    with h5py.File(source, "w") as file:
        file.create_dataset("a", data=values, chunks=(8, 8, 8))
    pipeline = hyperslab.Pipeline(source, region="3:20,:,:").map(np.negative)
    cuts = {}
    for name, encoding in (
        ("part.nii", hyperslab.Encoding()),
        ("part.h5", hyperslab.Encoding(chunks=(4, 8, 8))),
    ):
        written = pipeline.write(tmp_path / name, encoding=encoding)
        plan = hyperslab.prepare(written, hyperslab.Options(partition="chunks")).plan
        hyperslab.run(written, engine="serial", partition="chunks", report=False)
        assert np.array_equal(hyperslab.open(tmp_path / name)[...], -values[3:])
        cuts[name] = [(task.core.start[0], task.core.count[0]) for task in plan.tasks]
    assert cuts["part.nii"] == [(3, 5), (8, 8), (16, 4)]
    assert cuts["part.h5"] == [(3, 8), (11, 8), (19, 1)], "chunks of the new file are not shared"


def test_a_region_is_computed_in_memory() -> None:
    values = np.arange(120.0).reshape(4, 5, 6)
    pipeline = hyperslab.Pipeline(values, region="1:3,2:,:5").map(lambda block: -block)
    assert np.array_equal(pipeline.compute(engine="serial", blocks="4"), -values[1:3, 2:, :5])


@pytest.mark.parametrize("name", ["new/deep/out", "new/one.nii", "new/deep/one.nii.gz"])
def test_folders_above_the_output_are_created_with_a_word(tmp_path: Path, name: str) -> None:
    line = ("run", "smooth", ANATOMICAL, "--engine", "serial", "--no-report", "-o", tmp_path / name)
    done = call(*line)
    said = f"created {tmp_path / 'new'}, which did not exist, for {tmp_path / name}"
    assert done.err.splitlines().count(said) == 1
    assert "created" not in call(*line[:-1], tmp_path / "beside").err


def test_a_refused_run_creates_nothing(tmp_path: Path) -> None:
    done = call("run", "smooth", ANATOMICAL, "-p", "sigma=-1", "-o", tmp_path / "new" / "out")
    assert (done.code, "created" in done.err) == (2, False)
    assert not (tmp_path / "new").exists()


def test_a_conversion_says_so_too(tmp_path: Path) -> None:
    done = call("convert", ANATOMICAL, tmp_path / "new" / "a.h5", "--engine", "serial")
    assert f"created {tmp_path / 'new'}, which did not exist" in done.err


def test_compressed_bytes_depend_on_the_blocks_and_not_on_the_engine(tmp_path: Path) -> None:
    """As docs/engines.md says: the values are always the same."""
    made = {}
    for engine, blocks in (("serial", 4), ("threads", 4), ("processes", 4), ("serial", 2)):
        path = tmp_path / f"{engine}-{blocks}.nii.gz"
        line = ("run", "increment", ANATOMICAL, "-o", path, "--no-report", "--blocks", blocks)
        succeed(*line, "--engine", engine)
        made[engine, blocks] = path
    four = {path.read_bytes() for (_, blocks), path in made.items() if blocks == 4}
    assert len(four) == 1
    assert made["serial", 2].read_bytes() not in four
    assert np.array_equal(values_of(made["serial", 2]), values_of(made["serial", 4]))


def test_a_file_that_is_gone_is_made_again(tmp_path: Path) -> None:
    out = tmp_path / "copy.nii"
    order = ("convert", ANATOMICAL, out)
    succeed(*order, "-q")
    made = out.read_bytes()
    out.unlink()
    done = call(*order)
    assert done.code == 0
    assert "was made by an earlier run and is gone: it is made again" in done.err
    assert out.read_bytes() == made
    assert call("verify", out).code == 0
    assert "exists already" in call(*order, "-q").err
