"""Series whose first axis is time, as MINC has them: their place in every format, in blocks and
after these were merged, is that which nibabel reads.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import xarray

import hyperslab
import hyperslab.connectors.xarray  # images of other engines, too, say their place
from hyperslab.arrays import Array
from tests.formats.minc_made import SPACE, write_minc2
from tests.formats.minc_rows import volume
from tests.formats.reference import minc_affine
from tests.repetitions import few
from tests.system.end_to_end.command import DATA, call, outputs, real_values_of, succeed

pytestmark = pytest.mark.usefixtures("on_threads")

QUICK = ("--engine", "serial", "--no-report")
SERIES = DATA / "minc" / "minc2-4d-d.mnc"
"float64, time x xspace x yspace x zspace."
KEPT = (".h5", ".nc", ".zarr")


def placed(path: Path) -> Array:
    affine = hyperslab.open(path).affine
    assert affine is not None
    return affine


@pytest.fixture(
    scope="module",
    params=few([".nc"], KEPT, "formats keep the place: tests of converted images"),
)
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The series, as another file."""
    path = tmp_path_factory.mktemp("kept") / f"series{request.param}"
    succeed("convert", SERIES, path, *QUICK)
    return path


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The series in eight blocks."""
    folder = tmp_path_factory.mktemp("series") / "blocks"
    succeed("convert", SERIES, folder, "--format", "h5", "--blocks", "2x2x2x1", *QUICK)
    assert len(outputs(folder)) == 8
    return folder


def test_every_format_keeps_the_place(kept: Path) -> None:
    array = hyperslab.open(kept)
    assert np.array_equal(placed(kept), minc_affine(str(SERIES)))
    assert array.source.header.space == (1, 2, 3)
    assert np.array_equal(array[...], hyperslab.open(SERIES)[...])
    assert "(of xspace, yspace, zspace)" in succeed("info", kept)


def test_xarray_finds_the_same_place(kept: Path) -> None:
    engine = "zarr" if kept.suffix == ".zarr" else "hyperslab"
    with xarray.open_dataset(kept, engine=engine) as found:
        (image,) = found.data_vars.values()
        assert np.array_equal(image.hyperslab.affine, minc_affine(str(SERIES)))


def test_what_was_converted_is_the_same(kept: Path) -> None:
    assert "headers" not in succeed("diff", SERIES, kept)


def test_every_block_lies_where_its_voxels_did(blocks: Path) -> None:
    whole = minc_affine(str(SERIES))
    values = hyperslab.open(SERIES)[...]
    for path in outputs(blocks):
        array = hyperslab.open(path)
        first = tuple(map(int, path.stem.split("_")[-4:]))
        affine = placed(path)
        assert np.allclose(affine[:, 3], whole @ (*first[1:], 1), rtol=0, atol=1e-12)
        assert np.array_equal(affine[:3, :3], whole[:3, :3])
        slices = tuple(slice(n, n + m) for n, m in zip(first, array.shape, strict=True))
        assert np.array_equal(array[...], values[slices])


@pytest.mark.parametrize("suffix", few([".nc"], KEPT, "blocks become the series again"))
def test_blocks_become_the_series_again(blocks: Path, tmp_path: Path, suffix: str) -> None:
    merged = tmp_path / f"merged{suffix}"
    succeed("convert", blocks, merged, "--sources", "mosaic", *QUICK)
    assert np.array_equal(placed(merged), minc_affine(str(SERIES)))
    assert np.array_equal(hyperslab.open(merged)[...], hyperslab.open(SERIES)[...])


def test_blocks_become_an_image_of_nifti(blocks: Path, tmp_path: Path) -> None:
    merged = tmp_path / "merged.nii"
    succeed("convert", blocks, merged, "--sources", "mosaic", *QUICK)
    image: Any = nib.load(merged)
    assert np.allclose(image.affine, minc_affine(str(SERIES)), rtol=1e-6)
    expected = np.moveaxis(hyperslab.open(SERIES)[...], 0, -1)
    assert np.array_equal(real_values_of(merged), expected)
    assert "headers" not in succeed("diff", SERIES, merged)


def test_a_missing_block_is_noticed(blocks: Path, tmp_path: Path) -> None:
    some = outputs(blocks)[:-1]
    refused = call("convert", *some, tmp_path / "merged.nii", "--sources", "mosaic")
    assert refused.code == 2
    assert "a block is missing" in refused.err


ORDERS = list(enumerate(itertools.permutations(SPACE)))
CYCLIC = [ORDERS[0], ORDERS[3], ORDERS[4]]
"Those in which every axis comes once at every place."


@pytest.mark.parametrize(("number", "order"), few(CYCLIC, ORDERS, "any order of axes is kept"))
def test_any_order_of_axes_is_kept(tmp_path: Path, order: tuple[str, ...], number: int) -> None:
    dims = list(order)
    dims.insert(number % 4, "time")
    steps = {"time": 2.5, "zspace": 4.0, "yspace": 3.0, "xspace": -2.0}
    path = tmp_path / "any.mnc"
    write_minc2(path, volume("i2", 1, dims, steps=steps, tilt=True))
    expected = minc_affine(str(path))
    assert np.array_equal(placed(path), expected)
    for suffix in KEPT:
        made = tmp_path / f"any{suffix}"
        hyperslab.convert(path, made, engine="serial", report=False)
        assert np.array_equal(placed(made), expected), suffix


def test_a_region_in_millimetres_is_one_of_space(tmp_path: Path) -> None:
    path = tmp_path / "timed.mnc"
    steps = {"time": 2.5, "zspace": 4.0, "yspace": 3.0, "xspace": 2.0}
    write_minc2(path, volume("f4", None, ["time", *SPACE], steps=steps))
    affine = placed(path)
    z_mm = affine[2] @ (1, 0, 0, 1)
    out = tmp_path / "out"
    region = f"mm::,:,{z_mm - 1}:{z_mm + 1}"
    line = ("run", "increment", path, "-o", out, "--region", region, "--keep", "blocks")
    succeed(*line, "--format", "h5", *QUICK)
    (made,) = outputs(out)
    assert np.array_equal(hyperslab.open(made)[...], hyperslab.open(path)[:, 1:2] + 1)
    assert np.allclose(placed(made)[:3, 3], (affine @ (1, 0, 0, 1))[:3])


def test_a_series_elsewhere_is_refused_beside_one_that_has_its_shape(tmp_path: Path) -> None:
    paths = []
    for start in (0.0, 30.0):
        path = tmp_path / f"from{start:.0f}.mnc"
        said = {name: {"start": start} for name in SPACE}
        write_minc2(path, volume("f4", None, ["time", *SPACE], dimensions=said))
        paths.append(path)
    function = tmp_path / "mine.py"
    function.write_text("def add(block, other):\n    return block + other\n")
    line = ("run", f"{function}:add", paths[0], "-o", tmp_path / "out", "--format", "h5")
    refused = call(*line, "--with", f"other={paths[1]}")
    assert refused.code == 2
    assert "do not overlap" in refused.err or "not in the same space" in refused.err
    assert call(*line, "--with", f"other={paths[0]}", *QUICK).code == 0


def test_its_page_shows_the_series(tmp_path: Path) -> None:
    succeed("run", "increment", SERIES, "-o", tmp_path / "out", "--format", "h5")
    page = next((tmp_path / "out").rglob("*.html")).read_text()
    assert page.count("data:image/png") == 6


def test_files_of_earlier_versions_lie_where_they_did(tmp_path: Path) -> None:
    affine = minc_affine(str(SERIES))
    counted = np.eye(4)
    counted[:3, 3] = (5, 1, 2)
    path = tmp_path / "earlier.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("data", data=np.zeros((2, 3, 4, 5)))
        made.attrs.update(affine=counted, space_affine=affine, corner=np.array([3.0]))
        made.attrs.update(affine_dims="xspace yspace zspace", affine_shape=np.array([3, 4, 5]))
        for axis, name in enumerate(("time", "xspace", "yspace", "zspace")):
            file[name] = np.arange(float(made.shape[axis]))
            file[name].make_scale(name)
            made.dims[axis].attach_scale(file[name])
    header = hyperslab.open(f"{path}::data").source.header
    assert header.affine is not None
    assert np.array_equal(header.affine, affine)
    assert header.space == (1, 2, 3)
    assert header.corner == (5.0,)
