"""Functions that change the shape of their blocks, and return several arrays, against NumPy and
nibabel on the whole image.
"""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import zarr

import hyperslab
from hyperslab.arrays import Array
from hyperslab.plan import sinks
from tests.system.end_to_end.command import (
    ANATOMICAL,
    DATA,
    FUNCTIONAL,
    ROOT,
    affine_of,
    call,
    call_program,
    image_of,
    only_output,
    outputs,
    real_values_of,
    save,
    succeed,
    values_of,
)

pytestmark = pytest.mark.usefixtures("on_threads", "hurried")

MINC = DATA / "minc" / "minc2-4d-d.mnc"
DOCS = ROOT / "docs" / "functions.md"
SLOPE = ROOT / "examples" / "slope.py"
QUIET = ("--engine", "serial", "-q", "--no-report")
MINE = """
from typing import NamedTuple

import numpy as np

class Range(NamedTuple):
    low: np.ndarray
    high: np.ndarray

def extremes(block):
    return Range(block.min(axis=3), block.max(axis=3))

def unnamed(block):
    return block.min(axis=3), block.max(axis=3)

def mean(block):
    return block.mean(axis=3)

def highest(block):
    return block.max(axis=3)

def thickest(block):
    return block.max(axis=2, keepdims=True)

def projected(block):
    return block.max(axis=0)

def stacked(block):
    return np.stack([block, -block], axis=-1)

def demeaned(block):
    mean = block.mean(axis=3, keepdims=True)
    return {"mean": mean[..., 0], "rest": block - mean}

def of_twenty(block):
    return block @ np.arange(20.0)

def fickle(block, slab):
    low = block.min(axis=3)
    if slab.start[0] == 0:
        return {"low": low}
    return {"low": low[:-1]} if slab.start[1] else {"high": low}

def inside(block, mask):
    return np.where(mask > 0, block, 0).mean(axis=3)

def smoothed(block):
    total = block.mean(axis=3)
    return total[1:-1] + total[:-2] + total[2:]
"""
INTERRUPTED = """
import os
import signal
from pathlib import Path

def interrupted(block, slab, once):
    if slab.start[1] > 9 and not os.path.exists(once):
        Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"low": block.min(axis=3), "mean": block.mean(axis=3)}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of a user's functions."""
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def names(folder: Path) -> list[str]:
    return [path.name for path in outputs(folder)]


def zooms(path: Path) -> tuple[float, ...]:
    return tuple(float(size) for size in image_of(path).header.get_zooms())


def units(path: Path) -> tuple[str, str]:
    space, time = image_of(path).header.get_xyzt_units()
    return space, time


def test_the_example_is_a_regression() -> None:
    from scipy.stats import linregress  # half a second of every process that collects tests

    (documented,) = re.findall(r"```python\n(# slope.py\n.*?)```", DOCS.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(documented, names)
    series = real_values_of(FUNCTIONAL)
    time = 2.0 * np.arange(series.shape[3])
    maps = expected_maps()
    for name, values in names["fit"](series, tr=2.0).items():
        assert np.array_equal(values, maps[name])
    for voxel in ((8, 10, 1), (3, 15, 2), (12, 4, 0)):
        line = linregress(time, series[voxel])
        assert np.isclose(maps["slope"][voxel], line.slope, rtol=1e-5)
        assert np.isclose(maps["t"][voxel], line.slope / line.stderr, rtol=1e-4)


def expected_maps() -> dict[str, Array]:
    """The maps of all of FUNCTIONAL at once."""
    fit = runpy.run_path(str(SLOPE))["fit"]
    found: dict[str, Array] = fit(real_values_of(FUNCTIONAL), tr=2.0)
    return found


@pytest.mark.parametrize(
    "how", [("--blocks", "3"), ("--partition", "slabs", "--granularity", "stepwise")]
)
def test_three_maps_of_a_time_series(tmp_path: Path, how: tuple[str, ...]) -> None:
    out = tmp_path / "maps"
    succeed(
        "run", f"{SLOPE}:fit", FUNCTIONAL, "-o", out, "-p", "tr=2.0", "--format", "nii.gz", *how,
        *QUIET,
    )  # fmt: skip
    assert names(out) == [f"functional_{name}.nii.gz" for name in ("residual", "slope", "t")]
    for name, values in expected_maps().items():
        path = out / f"functional_{name}.nii.gz"
        assert values_of(path).dtype == np.float32
        assert np.array_equal(real_values_of(path), values)
        assert np.array_equal(affine_of(path), affine_of(FUNCTIONAL))
        assert zooms(path) == zooms(FUNCTIONAL)[:3]
        assert units(path) == ("mm", "unknown")
        header = image_of(path).header
        assert header["pixdim"][4:].tolist() == [1, 1, 1, 1]
        assert header.get_slope_inter() in ((None, None), (1, 0))
        assert (int(header["sform_code"]), int(header["qform_code"])) == (2, 2)
    assert "3 of 3 outputs unchanged" in succeed("verify", out)
    assert succeed("diff", out / "functional_t.nii.gz", out / "functional_t.nii.gz")
    assert "state      done" in succeed("status", out)


def test_files_of_blocks_are_named_by_array_and_place(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeed(
        "run", f"{mine}:extremes", FUNCTIONAL, "-o", out, "--blocks", "2x1x1x1", "--keep", "blocks",
        *QUIET,
    )  # fmt: skip
    places = ("00_00_0", "08_00_0")
    assert names(out) == [f"functional_{n}_{at}.nii" for n in ("high", "low") for at in places]
    second = out / "functional_low_08_00_0.nii"
    assert np.array_equal(real_values_of(second), real_values_of(FUNCTIONAL)[8:].min(axis=3))
    assert np.allclose(affine_of(second)[:3, 3], (affine_of(FUNCTIONAL) @ (8, 0, 0, 1))[:3])
    assert succeed("verify", out) == "4 of 4 outputs unchanged since the run\n"


def test_one_map_under_a_name_of_its_own(mine: Path, tmp_path: Path) -> None:
    out = tmp_path / "mean.nii.gz"
    succeed("run", f"{mine}:mean", FUNCTIONAL, "-o", out, "--blocks", "3", *QUIET)
    assert sorted(os.listdir(tmp_path)) == [".mean.nii.gz.hyperslab", "mean.nii.gz", "mine.py"]
    assert np.array_equal(real_values_of(out), real_values_of(FUNCTIONAL).mean(axis=3))
    assert zooms(out) == zooms(FUNCTIONAL)[:3]
    assert "state      done" in succeed("status", out)
    done = call("run", f"{mine}:mean", FUNCTIONAL, "-o", out, *QUIET)
    assert (done.code, "exists already: give another name, --overwrite to" in done.err) == (2, True)
    before = out.read_bytes()
    succeed("run", f"{mine}:mean", FUNCTIONAL, "-o", out, "--blocks", "3", "--resume", *QUIET)
    assert out.read_bytes() == before


@pytest.mark.parametrize("ending", ["nii", "h5", "zarr"])
def test_a_function_that_keeps_the_shape_writes_one_file_of_a_name(
    tmp_path: Path, ending: str
) -> None:
    out = tmp_path / f"made.{ending}"
    succeed("run", "numpy:negative", ANATOMICAL, "-o", out, "--blocks", "3", *QUIET)
    assert np.array_equal(hyperslab.open(out)[...], -values_of(ANATOMICAL))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("extremes", "-o", "x.nii"), "the run makes 2 arrays (low, high), a file each"),
        (("mean", "-o", "x.nii", "--keep", "blocks"), "--keep blocks: "),
        (("mean", "-o", "x.nii", "--format", "h5"), "is a name of another format"),
        (("mean", "-o", "x.mnc"), "files of this kind cannot be written"),
        (("mean", "-o", "x", "--blocks", "1x1x1x2"), "cuts axis 3, but mean drops it"),
        (("mean", "-o", "x", "--block-shape", "5,5,3,7"), "cuts axis 3, but mean drops it"),
        (("mean", "-o", "x", "--halo", "1"), "say --halo 1,1,1,0"),
        (("mean", "-o", "x", "--drop-axis", "4"), "--drop-axis 4: the block has axes 0 to 3"),
        (("mean", "-o", "x", "--new-axis", "a"), "--new-axis a: give AXIS or AXIS:LENGTH"),
        (("unnamed", "-o", "x", "--outputs", "low"), "--outputs low: unnamed returned 2"),
        (("unnamed", "-o", "x", "--outputs", "a/b,c"), "--outputs 'a/b': files are named by it"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    mine: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    function, flag, out, *more = arguments
    done = call(
        "run", f"{mine}:{function}", FUNCTIONAL, flag, tmp_path / out, *more, *QUIET
    )  # fmt: skip
    assert (done.code, done.err.count("\n")) == (2, 1), done
    assert sentence in done.err
    assert sorted(os.listdir(tmp_path)) == ["mine.py"]


def test_several_sources_do_not_become_one_file(tmp_path: Path) -> None:
    done = call(
        "run", "numpy:negative", ANATOMICAL, FUNCTIONAL.parent / "anatomical.nii", "-o",
        tmp_path / "x.nii", *QUIET,
    )  # fmt: skip
    assert (done.code, "the run makes 2 arrays, a file each" in done.err) == (2, True)


def test_a_tuple_gets_its_names_from_the_user_or_is_numbered(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:unnamed", FUNCTIONAL, "-o", tmp_path / "numbered", *QUIET)
    assert names(tmp_path / "numbered") == ["functional_0.nii", "functional_1.nii"]
    succeed(
        "run", f"{mine}:unnamed", FUNCTIONAL, "-o", tmp_path / "named", "--outputs", "low,high",
        *QUIET,
    )  # fmt: skip
    high = tmp_path / "named" / "functional_high.nii"
    assert np.array_equal(real_values_of(high), real_values_of(FUNCTIONAL).max(axis=3))


def test_numbers_may_be_names(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(ANATOMICAL).map(lambda block: {0: block, 7: block.max(axis=2)})
    result = hyperslab.run(pipeline.write(tmp_path / "out"), engine="serial")
    assert [path.name for path in result.outputs] == ["anatomical_0.nii", "anatomical_7.nii"]
    assert np.array_equal(values_of(result.outputs[1]), values_of(ANATOMICAL).max(axis=2))


def test_arrays_of_one_function_may_have_different_axes(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:demeaned", FUNCTIONAL, "-o", tmp_path / "out", "--blocks", "2", *QUIET)
    mean, rest = outputs(tmp_path / "out")
    values = real_values_of(FUNCTIONAL)
    assert np.array_equal(real_values_of(mean), values.mean(axis=3))
    assert np.array_equal(real_values_of(rest), values - values.mean(axis=3, keepdims=True))
    assert zooms(rest) == zooms(FUNCTIONAL)
    assert units(rest) == units(FUNCTIONAL) == ("mm", "sec")


def test_stored_values_of_a_map_keep_slope_and_intercept(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run", f"{mine}:highest", FUNCTIONAL, "-o", tmp_path / "out", "--values", "stored", *QUIET
    )
    written = only_output(tmp_path / "out")
    assert values_of(written).dtype == np.int16
    assert np.array_equal(values_of(written), values_of(FUNCTIONAL).max(axis=3))
    assert np.array_equal(real_values_of(written), real_values_of(FUNCTIONAL).max(axis=3))


def test_of_several_arrays_of_stored_values_none_is_scaled(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run", f"{mine}:extremes", FUNCTIONAL, "-o", tmp_path / "out", "--values", "stored", *QUIET
    )
    high, _ = outputs(tmp_path / "out")
    assert np.array_equal(real_values_of(high), values_of(FUNCTIONAL).max(axis=3))


def test_a_projection_along_an_axis_of_space_is_one_voxel_thick(mine: Path, tmp_path: Path) -> None:
    turned = np.array([[0, 0, 3.0, 5], [2, 0, 0, 6], [0, 4, 0, 7], [0, 0, 0, 1]])
    source = save(tmp_path / "in.nii", np.random.default_rng(1).random((5, 6, 7)), turned)
    succeed("run", f"{mine}:thickest", source, "-o", tmp_path / "kept", "--blocks", "2", *QUIET)
    kept = only_output(tmp_path / "kept")
    assert values_of(kept).shape == (5, 6, 1)
    middle = turned @ (2, 3, 3, 1)  # the seven voxels' middle
    assert np.allclose(affine_of(kept) @ (2, 3, 0, 1), middle)
    assert np.allclose(zooms(kept), (2, 4, 21))
    succeed("run", f"{mine}:projected", source, "-o", tmp_path / "flat", *QUIET)
    flat = only_output(tmp_path / "flat")
    assert np.array_equal(values_of(flat), values_of(source).max(axis=0))
    assert np.allclose(zooms(flat), (4, 3))
    assert np.allclose(affine_of(flat) @ (3, 4, 0, 1), turned @ (2, 3, 4, 1))


def test_a_new_axis(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:stacked", ANATOMICAL, "-o", tmp_path / "out", "--blocks", "3", *QUIET)
    made = only_output(tmp_path / "out")
    values = real_values_of(ANATOMICAL)
    assert np.array_equal(real_values_of(made), np.stack([values, -values], axis=-1))
    assert np.array_equal(affine_of(made), affine_of(ANATOMICAL))


def test_a_function_that_fits_one_length_alone(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:of_twenty", FUNCTIONAL, "-o", tmp_path / "out", "--blocks", "2", *QUIET)
    expected = real_values_of(FUNCTIONAL) @ np.arange(20.0)
    assert np.allclose(real_values_of(only_output(tmp_path / "out")), expected, rtol=1e-12)


def test_a_halo_around_what_is_left(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run", f"{mine}:smoothed", FUNCTIONAL, "-o", tmp_path / "out", "--halo", "1,0,0,0",
        "--boundary", "nearest", "--blocks", "4x2x1x1", *QUIET,
    )  # fmt: skip
    mean = np.pad(real_values_of(FUNCTIONAL).mean(axis=3), ((1, 1), (0, 0), (0, 0)), mode="edge")
    found = real_values_of(only_output(tmp_path / "out"))
    assert np.array_equal(found, mean[1:-1] + mean[:-2] + mean[2:])


def test_blocks_that_break_the_promise_are_told_with_both_shapes(
    mine: Path, tmp_path: Path
) -> None:
    done = call(
        "run", f"{mine}:fickle", FUNCTIONAL, "-o", tmp_path / "out", "--outputs", "low",
        "--drop-axis", "3", "--blocks", "2x2x1x1", "--retries", "0", *QUIET,
    )  # fmt: skip
    assert done.code == 1
    assert "[8:17, 0:10, 0:3, 0:20]: fickle returned high, not low: return the same" in done.err
    assert (
        "[8:17, 10:21, 0:3, 0:20]: fickle returned as 'low' an array of shape (8, 11, 3) for a"
        " block of shape (9, 11, 3, 20), not (9, 11, 3)"
    ) in done.err
    assert outputs(tmp_path / "out") != [tmp_path / "out" / "functional_low.nii"]


def test_hdf5_and_zarr_maps_have_the_axes_that_are_left(tmp_path: Path, mine: Path) -> None:
    with h5py.File(tmp_path / "in.h5", "w") as file:
        series = file.create_dataset("bold", data=np.random.default_rng(3).random((6, 5, 4, 20)))
        series.attrs["affine"] = np.diag([2.0, 3.0, 4.0, 1.0])
        for axis, name in enumerate(("x", "y", "z", "time")):
            series.dims[axis].label = name
        expected = series[...].mean(axis=3)
    for ending in ("h5", "zarr"):
        succeed(
            "run", f"{mine}:mean", tmp_path / "in.h5", "-o", tmp_path / f"map.{ending}", "--blocks",
            "2", *QUIET,
        )  # fmt: skip
    with h5py.File(tmp_path / "map.h5") as file:
        made = file["bold"]
        assert np.array_equal(made[...], expected)
        assert [dim.label for dim in made.dims] == ["x", "y", "z"]
        assert np.array_equal(made.attrs["affine"], np.diag([2.0, 3.0, 4.0, 1.0]).ravel())
    store = zarr.open_array(tmp_path / "map.zarr" / "bold", mode="r")
    assert np.array_equal(store[...], expected)
    assert store.metadata.to_dict()["dimension_names"] == ("x", "y", "z")
    assert np.array_equal(np.array(store.attrs["affine"]), np.diag([2.0, 3.0, 4.0, 1.0]).ravel())


def test_a_map_in_hdf5_becomes_nifti_again_with_its_header(mine: Path, tmp_path: Path) -> None:
    succeed("run", f"{mine}:mean", FUNCTIONAL, "-o", tmp_path / "map.h5", *QUIET)
    succeed("convert", tmp_path / "map.h5", tmp_path / "map.nii", "--engine", "serial", "-q")
    made = tmp_path / "map.nii"
    assert np.array_equal(real_values_of(made), real_values_of(FUNCTIONAL).mean(axis=3))
    assert np.array_equal(affine_of(made), affine_of(FUNCTIONAL))
    assert (zooms(made), units(made)) == (zooms(FUNCTIONAL)[:3], ("mm", "unknown"))


def test_python_says_what_dask_says(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(FUNCTIONAL).map(
        lambda block: (block.mean(axis=3), block[..., :2].astype("f4")),
        outputs={"mean": {"drop_axis": 3}, "first": {"dtype": "f4", "drop_axis": -1,
                                                       "new_axis": {3: 2}}},
    )  # fmt: skip
    result = hyperslab.run(
        pipeline.write(tmp_path / "out"), engine="serial", rule=hyperslab.Rule("blocks", (3,))
    )
    assert [path.name for path in result.outputs] == ["functional_first.nii", "functional_mean.nii"]
    values = real_values_of(FUNCTIONAL)
    assert np.array_equal(real_values_of(result.outputs[0]), values[..., :2].astype("f4"))
    assert np.array_equal(real_values_of(result.outputs[1]), values.mean(axis=3))


def test_a_run_that_was_killed_goes_on_with_all_its_arrays(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(INTERRUPTED)
    once = tmp_path / "once"
    order = [
        "run", f"{mine}:interrupted", FUNCTIONAL, "--blocks", "3x4x1x1", "-p", f"once={once}",
        "--engine", "serial", "--no-report", "-q",
    ]  # fmt: skip
    killed = call_program(*order, "-o", tmp_path / "out")
    assert killed.code == -9, killed
    assert not [path for path in outputs(tmp_path / "out") if not path.name.startswith(".")]
    succeed(*order, "-o", tmp_path / "out", "--resume")
    succeed(*order, "-o", tmp_path / "whole")
    assert names(tmp_path / "out") == names(tmp_path / "whole") == [
        "functional_low.nii",
        "functional_mean.nii",
    ]  # fmt: skip
    for name in names(tmp_path / "whole"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    (tmp_path / "out" / "functional_low.nii").unlink()
    succeed(*order, "-o", tmp_path / "out", "--resume")
    for name in names(tmp_path / "whole"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_nibabel_reads_the_maps_of_a_compressed_series(tmp_path: Path) -> None:
    values = np.random.default_rng(5).integers(0, 900, (6, 7, 5, 9)).astype(np.int16)
    image = nib.Nifti1Image(values, np.diag([2.0, 2.0, 3.0, 1.0]))  # type: ignore[no-untyped-call]
    image.header.set_zooms((2, 2, 3, 25.4))  # type: ignore[no-untyped-call]
    image.header.set_xyzt_units("mm", "sec")  # type: ignore[no-untyped-call]
    nib.save(image, tmp_path / "bold.nii.gz")
    succeed("run", f"{SLOPE}:fit", tmp_path / "bold.nii.gz", "-o", tmp_path / "maps", *QUIET)
    for path in outputs(tmp_path / "maps"):
        assert zooms(path) == (2, 2, 3)
        assert 25.4 not in image_of(path).header["pixdim"]


def test_chunks_of_maps_ask_for_no_more_than_a_block_of_the_series(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sinks, "SOURCE_OF_CHUNK_NBYTES", 100_000)
    out = tmp_path / "out"
    succeed(
        "run", f"{mine}:extremes", FUNCTIONAL, "-o", out, "--format", "zarr", "--partition",
        "bytes=1kB", *QUIET,
    )  # fmt: skip
    whole = zarr.open_array(out / "functional_low.zarr" / "low", mode="r")
    other = zarr.open_array(out / "functional_high.zarr" / "high", mode="r")
    assert whole.chunks == other.chunks
    assert np.prod(whole.chunks) * 20 * 8 <= 100_000
    assert np.array_equal(np.asarray(whole[...]), real_values_of(FUNCTIONAL).min(axis=3))
    done = succeed("status", out)
    assert int(done.partition(" of ")[2].partition(" done")[0]) > 1


def test_a_mean_over_time_lies_where_the_axes_of_space_do(tmp_path: Path) -> None:
    source = hyperslab.open(MINC).source
    assert source.dims[0] == "time"
    result = hyperslab.run(
        hyperslab.Pipeline(MINC).map(lambda block: block.mean(axis=0)).write(tmp_path / "mean.nii"),
        engine="serial",
    )
    (written,) = result.outputs
    assert np.allclose(real_values_of(written), hyperslab.open(MINC)[...].mean(axis=0), rtol=1e-12)
    spacing = source.header.affine
    assert spacing is not None
    assert np.allclose(affine_of(written), spacing)


def test_a_mask_of_space_goes_with_a_series_that_becomes_a_map(mine: Path, tmp_path: Path) -> None:
    values = real_values_of(FUNCTIONAL)
    mask = (values[..., 0] > values.mean()).astype(np.uint8)
    path = save(tmp_path / "mask.nii", mask, affine_of(FUNCTIONAL))
    succeed(
        "run", f"{mine}:inside", FUNCTIONAL, "--with", f"mask={path}", "-o", tmp_path / "out.nii",
        "--blocks", "3", *QUIET,
    )  # fmt: skip
    expected = np.where(mask[..., None] > 0, values, 0).mean(axis=3)
    assert np.array_equal(real_values_of(tmp_path / "out.nii"), expected)


def test_a_dtype_that_is_asked_for_is_that_of_all_arrays(mine: Path, tmp_path: Path) -> None:
    succeed(
        "run", f"{mine}:extremes", FUNCTIONAL, "-o", tmp_path / "out", "--dtype", "float32", *QUIET
    )
    for path, extreme in zip(outputs(tmp_path / "out"), (np.max, np.min), strict=True):
        expected = extreme(real_values_of(FUNCTIONAL), axis=3).astype(np.float32)
        assert values_of(path).dtype == np.float32
        assert np.array_equal(real_values_of(path), expected)


def test_truth_becomes_uint8_in_nifti_maps(tmp_path: Path) -> None:
    pipeline = hyperslab.Pipeline(FUNCTIONAL).map(lambda block: block.min(axis=3) > 1000)
    hyperslab.run(pipeline.write(tmp_path / "above.nii"), engine="serial")
    made = tmp_path / "above.nii"
    assert values_of(made).dtype == np.uint8
    assert np.array_equal(values_of(made), real_values_of(FUNCTIONAL).min(axis=3) > 1000)
