"""What a run makes has the unit of its source as long as it may measure the same, and no other
statement on values that are not those of the source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import nibabel as nib
import numpy as np
import pytest
import xarray
import zarr

import hyperslab
from hyperslab.arrays import Array
from hyperslab.arrays.quantities import may_measure_same
from hyperslab.errors import FormatError
from tests.system.end_to_end.command import call

QUANTITY = {"units": "K", "standard_name": "air_temperature", "long_name": "temperature"}
OTHER = {"comment": "measured", "coordinates": "height"}
RANGE = {"actual_range": [0.0, 1.0]}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Temperatures, stored as floats, as whole numbers that are packed, and as plain ones."""
    dims = ("time", "y", "x")
    values = np.random.default_rng(0).random((4, 3, 5))
    said = {**QUANTITY, **OTHER, **RANGE}
    packed = {**QUANTITY, "scale_factor": 0.01, "add_offset": 3.0}
    whole = (values * 100).astype(np.int16)
    made = xarray.Dataset(
        {
            "t2m": (dims, values, said),
            "packed": (dims, whole, packed),
            "whole": (dims, whole, QUANTITY),
            "mask": (dims, (values > 0.5).astype(np.int8), QUANTITY),
            "height": ((), 2.0, {"units": "m"}),
        }
    )
    path = tmp_path_factory.mktemp("quantities") / "grid.nc"
    made.to_netcdf(path, engine="h5netcdf")
    return path


def _mask(block: Array) -> Array:
    return block > 0.5


def _masked(block: Array, mask: Array) -> Array:
    out = np.zeros_like(block)
    out[mask] = block[mask]
    out[~mask] = 0
    return out


def _labels(block: Array) -> Array:
    return np.digitize(block, [0.3, 0.6]).astype(np.int32)


def _warmest(block: Array) -> Array:
    found: Array = block.argmax(axis=0)
    return found


def _mean(block: Array) -> Array:
    found: Array = block.mean(axis=0)
    return found


def _plus(block: Array) -> Array:
    return block + 1


def _as_float(block: Array) -> Array:
    return block.astype(np.float32)


def _named(block: Array) -> dict[str, Array]:
    return {"slope": block - 1, "warm": block > 0.5}


def _attributes(path: Path, name: str) -> dict[str, Any]:
    if path.suffix == ".zarr":
        return dict(zarr.open_group(path, mode="r")[name].attrs)
    with h5py.File(path) as file:
        return {key: _plain(value) for key, value in file[name].attrs.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return value


@pytest.mark.parametrize(
    ("function", "end"),
    [(_mask, "h5"), (_mask, "zarr"), (_labels, "nc"), (_labels, "zarr"), (_warmest, "nc")],
)
def test_what_measures_something_else_has_no_unit(
    source: Path, tmp_path: Path, function: Any, end: str
) -> None:
    """But where it lies, and what else is said of it."""
    path = tmp_path / f"o.{end}"
    pipeline = hyperslab.Pipeline(f"{source}::t2m").map(function).write(path)
    prepared = hyperslab.prepare(pipeline, hyperslab.Options(engine="serial"))
    (left,) = prepared.notes
    assert left == (
        f"left out of results of {source}::/t2m: attributes units, standard_name, long_name,"
        " actual_range (they describe other values)"
    )
    hyperslab.run(pipeline, engine="serial")
    found = _attributes(path, "t2m")
    assert not {*QUANTITY, *RANGE}.intersection(found)
    assert OTHER.items() <= found.items()


def test_the_command_says_what_is_left_out(source: Path, tmp_path: Path) -> None:
    (tmp_path / "warm.py").write_text("def warm(block):\n    return block > 0.5\n")
    done = call("run", f"{tmp_path / 'warm.py'}:warm", f"{source}::t2m", "-o", tmp_path / "o.h5")
    assert done.code == 0, done.err
    (note,) = [line for line in done.err.splitlines() if "left out of results" in line]
    assert note.startswith("note       left out of results of ")
    assert "attributes units, standard_name, long_name, actual_range" in note
    order = (f"{tmp_path / 'warm.py'}:warm", f"{source}::t2m", "-o", tmp_path / "quiet.h5", "-q")
    quiet = call("run", *order)
    assert quiet.err == f"{note}\n"


@pytest.mark.parametrize(
    ("name", "functions", "is_same"),
    [
        ("t2m", [_plus], True),
        ("t2m", [_mean], True),
        ("t2m", [_as_float], True),
        ("t2m", ["smooth"], True),
        ("whole", [_mean], True),
        ("whole", [_plus], True),
        ("mask", ["smooth"], True),
        ("packed", [_plus], True),
        ("whole", [_mask], False),
        ("packed", [_labels], False),
        ("t2m", [_mask, _as_float], False),
        ("t2m", [_labels, _as_float], False),
    ],
)
def test_a_unit_stays_while_dtypes_allow_it(
    source: Path, tmp_path: Path, name: str, functions: list[Any], is_same: bool
) -> None:
    pipeline = hyperslab.Pipeline(f"{source}::{name}")
    for function in functions:
        pipeline = pipeline.map(function)
    hyperslab.run(pipeline.write(tmp_path / "o.h5"), engine="serial")
    found = _attributes(tmp_path / "o.h5", name)
    wanted = QUANTITY if is_same else {}
    assert {key: found[key] for key in QUANTITY if key in found} == wanted
    assert "actual_range" not in found


def test_truth_values_are_those_of_xarray(source: Path, tmp_path: Path) -> None:
    """And what a function makes of them is numbers again."""
    mask = tmp_path / "mask.nc"
    hyperslab.run(hyperslab.Pipeline(f"{source}::t2m").map(_mask).write(mask), engine="serial")
    with xarray.open_dataset(source) as wanted, xarray.open_dataset(mask) as found:
        assert found.t2m.dtype == np.bool_
        np.testing.assert_array_equal(found.t2m, wanted.t2m > 0.5)
    hyperslab.convert(mask, tmp_path / "same.zarr", engine="serial")
    with xarray.open_zarr(tmp_path / "same.zarr") as found:
        assert found.t2m.dtype == np.bool_
    for name, function in {"means": _mean, "sums": _plus}.items():
        path = tmp_path / f"{name}.nc"
        hyperslab.run(hyperslab.Pipeline(mask).map(function).write(path), engine="serial")
        with xarray.open_dataset(path) as found:
            assert found.t2m.dtype != np.bool_
    hyperslab.convert(mask, tmp_path / "wide.nc", dtype="float32", engine="serial")
    with xarray.open_dataset(tmp_path / "wide.nc") as found:
        assert found.t2m.dtype == np.float32


@pytest.mark.parametrize("form", ["NETCDF4", "NETCDF3_CLASSIC"])
def test_truth_values_of_netcdf_are_bool_wherever_they_are_read(tmp_path: Path, form: Any) -> None:
    values = np.random.default_rng(0).random((6, 4, 5))
    expected = values > 0.5
    path = tmp_path / "mask.nc"
    xarray.Dataset({"data": (("a", "b", "c"), expected)}).to_netcdf(path, format=form)
    found = hyperslab.open(path)
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found[::-2, 1], expected[::-2, 1])
    masked = hyperslab.Pipeline(values, mask=path).map(_masked).compute(engine="serial")
    np.testing.assert_array_equal(masked, np.where(expected, values, 0))
    for name in ("same.nc", "same.h5", "same.zarr"):
        hyperslab.convert(path, tmp_path / name, engine="serial")
        same = hyperslab.open(tmp_path / name)
        assert same.dtype == np.bool_
        np.testing.assert_array_equal(same[...], expected)
    with xarray.open_dataset(tmp_path / "same.nc") as theirs:
        assert theirs["data"].dtype == np.bool_


def test_what_is_said_to_be_truth_and_is_not_is_refused(tmp_path: Path) -> None:
    said = {"dtype": "bool"}
    for name, more in {"other": {}, "packed": {"scale_factor": 2.0}}.items():
        values = np.array([0, 1, 2, -1], np.int8)
        made = xarray.Dataset({"data": ("a", values, {**said, **more})})
        made.to_netcdf(tmp_path / f"{name}.nc", engine="h5netcdf")
    view = hyperslab.open(tmp_path / "other.nc")
    for part in (np.s_[...], np.s_[::-1], np.s_[2]):
        with pytest.raises(FormatError, match="said to be truth values, and are not all 0 or 1"):
            view[part]
    assert hyperslab.open(tmp_path / "packed.nc")[...].tolist() == [0, 2, 4, -2]


def test_stored_numbers_without_their_factors_have_no_unit(source: Path, tmp_path: Path) -> None:
    """They have while they are packed as before."""
    pipeline = hyperslab.Pipeline(f"{source}::packed", values="stored")
    hyperslab.run(pipeline.map(_plus).write(tmp_path / "kept.nc"), engine="serial")
    hyperslab.run(pipeline.map("smooth").write(tmp_path / "lost.nc"), engine="serial")
    kept = _attributes(tmp_path / "kept.nc", "packed")
    assert (kept["units"], kept["scale_factor"], kept["add_offset"]) == ("K", 0.01, 3.0)
    assert not {*QUANTITY, "scale_factor"}.intersection(_attributes(tmp_path / "lost.nc", "packed"))


def test_arrays_that_a_function_names_are_quantities_of_its_own(
    source: Path, tmp_path: Path
) -> None:
    pipeline = hyperslab.Pipeline(f"{source}::t2m").map(_named).write(tmp_path / "o.h5")
    prepared = hyperslab.prepare(pipeline, hyperslab.Options(engine="serial"))
    assert prepared.notes[0].endswith("(they describe other values) of slope, warm")
    hyperslab.run(pipeline, engine="serial")
    for name in ("slope", "warm"):
        found = _attributes(tmp_path / "o.h5", name)
        assert not {*QUANTITY, *RANGE}.intersection(found)
        assert OTHER.items() <= found.items()


def test_a_conversion_keeps_the_unit_of_values_of_another_dtype(
    source: Path, tmp_path: Path
) -> None:
    hyperslab.convert(f"{source}::whole", tmp_path / "wide.nc", dtype="float64", engine="serial")
    hyperslab.convert(f"{tmp_path / 'wide.nc'}", tmp_path / "o.nc", dtype="int16", engine="serial")
    found = _attributes(tmp_path / "o.nc", "whole")
    assert QUANTITY.items() <= found.items()


@pytest.mark.parametrize("intent", ["vector", "displacement vector"])
@pytest.mark.parametrize(("function", "is_same"), [(_plus, True), (_mask, False)])
def test_vectors_stay_some_as_their_unit_would(
    tmp_path: Path, function: Any, is_same: bool, intent: str
) -> None:
    image = nib.Nifti1Image(np.ones((5, 4, 3, 1, 3), np.float32), np.eye(4))  # type: ignore[no-untyped-call]
    image.header.set_intent(intent)  # type: ignore[no-untyped-call]
    nib.save(image, tmp_path / "image.nii")
    pipeline = hyperslab.Pipeline(tmp_path / "image.nii").map(function)
    hyperslab.run(pipeline.write(tmp_path / "made.nii"), engine="serial")
    found: Any = nib.load(tmp_path / "made.nii").header
    assert found.get_intent()[0] == (intent if is_same else "none")


@pytest.mark.parametrize("end", ["nii", "h5"])
@pytest.mark.parametrize(("function", "is_same"), [(_plus, True), ("smooth", True), (_mask, False)])
def test_a_mask_of_an_image_is_shown_by_its_own_range(
    tmp_path: Path, function: Any, is_same: bool, end: str
) -> None:
    """And has no intent of the image's, be it in a file of another format in between."""
    image = nib.Nifti1Image(np.ones((5, 4, 3), np.float32), np.eye(4))  # type: ignore[no-untyped-call]
    image.header["cal_max"] = 500
    image.header.set_intent("z score", name="z")  # type: ignore[no-untyped-call]
    nib.save(image, tmp_path / "image.nii")
    made = tmp_path / f"made.{end}"
    pipeline = hyperslab.Pipeline(tmp_path / "image.nii").map(function)
    hyperslab.run(pipeline.write(made), engine="serial")
    if end != "nii":
        hyperslab.convert(made, tmp_path / "made.nii", values="real", dtype="float32")
    found: Any = nib.load(tmp_path / "made.nii").header
    said = (float(found["cal_max"]), found.get_intent())
    wanted = (500.0, ("z score", (), "z")) if is_same else (0.0, ("none", (), ""))
    assert said == wanted


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ("f4", "f8", True),
        ("u1", "i4", True),
        ("i2", "f4", True),
        ("c8", "c16", True),
        ("?", "?", True),
        ("f4", "i4", False),
        ("f8", "?", False),
        ("i4", "?", False),
        ("?", "i4", False),
        ("?", "f4", False),
        ("f4", "c8", False),
        ("c8", "f4", False),
        ("i4", "c8", False),
    ],
)
def test_which_dtypes_may_measure_the_same(before: str, after: str, is_same: bool) -> None:
    assert may_measure_same(np.dtype(before), np.dtype(after)) is is_same
