"""netCDF classic and netCDF-4: the conformance suite on real files, and files of every kind that
netCDF4 writes.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

# before netCDF4, which would have HDF5 look for filters in its own folder
import hdf5plugin  # noqa: F401
import netCDF4
import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource, Scaling, Values
from hyperslab.blocks import reading, writing
from hyperslab.errors import UsageError
from hyperslab.formats import hdf5, nifti
from hyperslab.formats.netcdf import classic
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, slabs
from tests.examples import examples
from tests.formats.files import DATA, few_real_files, large_real_files, real_files
from tests.formats.reference import minc_image, netcdf_whole
from tests.repetitions import only

CLASSIC: list[Any] = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
KINDS: list[Any] = [*CLASSIC, "NETCDF4", "NETCDF4_CLASSIC"]
SMALL_TYPES = ["i1", "i2", "i4", "f4", "f8"]
TYPES = [*SMALL_TYPES, "u1", "u2", "u4", "i8", "u8"]
TINY = DATA / "minc" / "tiny.mnc"


class NetcdfTests(FormatTests):
    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        path, name = formats.split_url(url)
        if path.endswith(".mnc") and name == "image":
            whole = (
                minc_image(path).values
                if values == "real"
                else netcdf_whole(url, "stored").view("u1")
            )
        else:
            whole = netcdf_whole(url, values)
        return np.asarray(whole[slab.slices()])


class TestClassic(NetcdfTests):
    @pytest.fixture(params=real_files("netcdf"))
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)


class TestNetcdf4(NetcdfTests):
    @pytest.fixture(params=few_real_files("hdf5", only=".nc"))
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)


@only({"test_contents_agree_with_sources"})
class TestManyVariables(NetcdfTests):
    @pytest.fixture(params=large_real_files("hdf5", only=".nc"))
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)


@pytest.mark.parametrize("path", few_real_files("hdf5", only=".nc"))
def test_variables_and_dimensions_are_those_of_netcdf4(path: Path) -> None:
    with netCDF4.Dataset(path) as file:
        expected = {f"/{name}": variable.dimensions for name, variable in file.variables.items()}
    names = [info.name for info in formats.arrays(str(path))]
    assert set(names) == set(expected)
    for name in names[:50]:
        assert formats.open_source(f"{path}::{name}").dims == expected[name]


def numbers(dtype: str) -> st.SearchStrategy[Any]:
    """Few different values, so that attributes meet them: small ones, extremes and netCDF's default
    fill value.
    """
    kind = np.dtype(dtype)
    near = list(range(0 if kind.kind == "u" else -3, 4))
    fill = netCDF4.default_fillvals[kind.str[1:]]
    if kind.kind == "f":
        return st.sampled_from([*near, 0.1, 1e20, np.nan, np.inf, fill]).map(kind.type)
    return st.sampled_from([*near, np.iinfo(kind).min, np.iinfo(kind).max, fill]).map(kind.type)


def factors(types: list[str]) -> st.SearchStrategy[Any]:
    plain = st.sampled_from([0, 1, 2, -3, 10])
    return st.one_of(
        st.sampled_from([0.0, 1.0, 0.1, -2.5, 1e-3, 3e4]).map(np.float32),
        st.sampled_from([0.0, 1.0, 0.1, -2.5, 1e-3, 3e4]).map(np.float64),
        st.tuples(plain, st.sampled_from(types)).map(
            lambda drawn: np.dtype(drawn[1]).type(abs(drawn[0]))
        ),
    )


@st.composite
def attributes(draw: st.DrawFn, dtype: str, types: list[str]) -> dict[str, Any]:
    """Attributes of packing and masking, mostly of the variable's own type."""
    own = st.one_of(*[numbers(dtype)] * 3, st.sampled_from(types).flatmap(numbers))
    choices: dict[str, st.SearchStrategy[Any]] = {
        "_FillValue": numbers(dtype),
        "missing_value": st.one_of(
            own, st.lists(numbers(dtype), min_size=1, max_size=3).map(np.array)
        ),
        "scale_factor": factors(types),
        "add_offset": factors(types),
        "valid_min": own,
        "valid_max": own,
        "valid_range": st.lists(numbers(dtype), min_size=2, max_size=2).map(np.array),
        "_Unsigned": st.sampled_from(["true", "True", "false"]),
    }
    names = draw(
        st.sets(st.sampled_from(sorted(choices)), max_size=draw(st.sampled_from([1, 2, 8])))
    )
    return {name: draw(choices[name]) for name in sorted(names)}


@st.composite
def files(draw: st.DrawFn, path: Path) -> Path:
    """A file of any kind with up to four variables over up to four dimensions, records
    interleaved.
    """
    kind = draw(st.sampled_from(KINDS))
    types = (
        SMALL_TYPES
        if kind in ("NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF4_CLASSIC")
        else TYPES
    )
    with warnings.catch_warnings(), netCDF4.Dataset(path, "w", format=kind) as file:
        warnings.simplefilter("ignore")
        filled = draw(st.booleans())
        if not filled:
            file.set_fill_off()
        file.createDimension("t", None)
        for name, size in (
            ("z", 1),
            ("y", draw(st.integers(1, 4))),
            ("x", draw(st.integers(1, 7))),
        ):
            file.createDimension(name, size)
        file.title = "a title"
        records = draw(st.integers(0, 3))
        made = []
        for name in "abcd"[: draw(st.integers(1, 4))]:
            dims = draw(
                st.sampled_from(
                    [("t",), ("t", "x"), ("t", "z", "y", "x"), ("y", "x"), ("x",), ("x", "x"), ()]
                )
            )
            dtype = draw(st.sampled_from([*types, "S1"] if "_" not in kind else types))
            said = {} if dtype == "S1" else draw(attributes(dtype, types))
            options: dict[str, Any] = {"fill_value": said.pop("_FillValue", None)}
            if kind.startswith("NETCDF4") and dims and dtype != "S1":
                options |= draw(
                    st.sampled_from([{}, {"zlib": True}, {"endian": "big"}, {"fletcher32": True}])
                )
            made.append((file.createVariable(name, dtype, dims, **options), said, dims, dtype))
        for variable, said, _, _ in made:
            variable.set_auto_maskandscale(False)
            variable.setncatts(said)
        for variable, _, dims, dtype in made:
            shape = tuple(records if d == "t" else len(file.dimensions[d]) for d in dims)
            if 0 in shape or (filled and draw(st.integers(0, 5)) == 0):
                continue
            size = int(np.prod(shape))
            values = st.sampled_from([b"a", b"\0"]) if dtype == "S1" else numbers(dtype)
            variable[...] = np.array(
                draw(st.lists(values, min_size=size, max_size=size)), dtype
            ).reshape(shape)
    return path


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_any_variable_reads_as_netcdf4_reads_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = data.draw(files(tmp_path_factory.mktemp("netcdf") / "any.nc"))
    for info in formats.arrays(str(path)):
        url = f"{path}::{info.name}"
        source = formats.open_source(url)
        slab = data.draw(slabs(source.shape))
        region: Any = (..., *slab.slices())
        assert_same(
            reading.read(source, slab, values="stored"), netcdf_whole(url, "stored")[region]
        )
        assert_same(
            formats.module(source.format).read_reference(source, slab),
            netcdf_whole(url, "stored")[region],
        )
        try:
            expected = netcdf_whole(url, "real")[region]
        except (
            TypeError
        ):  # netCDF4 fails at the fill value of a masked array that it reads as unsigned
            continue
        note(f"{info}, {source.header.attributes}, {source.scaling}, {netcdf_whole(url, 'stored')}")
        if not wraps_around(source):
            assert_same(reading.read(source, slab), expected)


def wraps_around(source: ArraySource) -> bool:
    """Whether whole numbers may leave the range of whole factors there; here they are floating
    then, or stay.
    """
    said = [
        np.asarray(source.header.attributes.get(name, 0.0))
        for name in ("scale_factor", "add_offset")
    ]
    plain = source.dtype("stored")
    kept = source.real in (
        np.float64,
        plain,
        np.dtype(f"{'u' if plain.kind == 'i' else plain.kind}{plain.itemsize}"),
    )
    return kept and any(factor.dtype.kind in "iu" for factor in said)


def test_plain_hdf5_has_no_default_fill_value(tmp_path: Path) -> None:
    values = np.array([1, netCDF4.default_fillvals["f4"]], "f4")
    writing.write(hdf5.sink(str(tmp_path / "v.h5"), (2,), np.dtype("f4"), Header()), values)
    assert_same(
        reading.read(formats.open_source(str(tmp_path / "v.h5")), Hyperslab.full((2,))), values
    )


SCALINGS = [
    Scaling(0.5, 3.0),
    Scaling(np.float32(0.1), np.float32(-1)),
    Scaling(inter=2.5, missing=(np.int16(7), np.int16(-32000))),
    Scaling(missing=(np.uint16(65535),), valid=(None, np.uint16(40000)), unsigned=True),
    Scaling(valid=(np.int16(-5), np.int16(5))),
]


@pytest.mark.parametrize("scaling", SCALINGS, ids=range(len(SCALINGS)))
def test_a_scaling_that_hdf5_keeps_is_read_again(tmp_path: Path, scaling: Scaling) -> None:
    path, values = tmp_path / "out.h5", np.array([-32000, -5, 0, 5, 6, 7, -1], "i2")
    writing.write(hdf5.sink(str(path), values.shape, values.dtype, Header(), scaling), values)
    source = formats.open_source(str(path))
    assert source.scaling is not None
    assert set(source.scaling.missing) == set(scaling.missing)
    assert (source.scaling.valid, source.scaling.unsigned) == (scaling.valid, scaling.unsigned)
    block = reading.read(source, Hyperslab.full(values.shape))
    assert_same(block, netcdf_whole(f"{path}::/data", "real"))
    again = hdf5.sink(
        str(tmp_path / "again.h5"), values.shape, values.dtype, Header(), source.scaling
    )
    writing.write(again, values)
    assert formats.open_source(again.path).scaling == source.scaling


def test_what_a_format_cannot_say_of_stored_values_is_refused() -> None:
    for scaling in SCALINGS[2:]:
        with pytest.raises(UsageError, match="--values real"):
            nifti.sink("/nowhere/out.nii", (7,), np.dtype("i2"), Header(), scaling)
    for slope in (0.1, np.float64(0.1)):
        with pytest.raises(UsageError, match=r"rounds the slope 0\.1.*--values real"):
            nifti.sink("/nowhere/out.nii", (7,), np.dtype("i2"), Header(), Scaling(slope, 0.0))
    with pytest.raises(UsageError, match="which mean other float32; use --values real"):
        nifti.sink(
            "/nowhere/out.nii", (7,), np.dtype("i2"), Header(), Scaling(np.float32(0.1), 0.0)
        )
    with pytest.raises(UsageError, match="--values real"):
        hdf5.sink("/nowhere/out.h5", (7,), np.dtype("i2"), Header(), Scaling(1.0, 0.0, clip=(0, 9)))
    with pytest.raises(UsageError, match="not written"):
        classic.sink("/nowhere/out.nc", (7,), np.dtype("i2"), Header())


def test_names_of_dimensions_that_are_not_coordinates(tmp_path: Path) -> None:
    path = tmp_path / "named.nc"
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("x", 2), ("y", 3), ("t", None)):
            file.createDimension(name, size)
        file.createVariable("y", "f4", ("y", "x"))[:] = np.ones((3, 2))
        file.createVariable("x", "f4", ("t",))[:] = np.arange(4)
        file.createVariable("v", "f4", ("t", "y", "x"))[:] = np.zeros((4, 3, 2))
    found = {
        info.name: formats.open_source(f"{path}::{info.name}").dims
        for info in formats.arrays(str(path))
    }
    assert found == {"/y": ("y", "x"), "/_nc4_non_coord_x": ("t",), "/v": ("t", "y", "x")}
    assert_same(
        reading.read(formats.open_source(f"{path}::x"), Hyperslab.full((4,))),
        np.arange(4, dtype="f4"),
    )
    with pytest.raises(UsageError, match="::t is a netCDF dimension without values"):
        formats.open_source(f"{path}::t")


def test_scalings_are_equal_by_their_numbers() -> None:
    slope = np.arange(4.0).reshape(4, 1)
    assert Scaling(slope) == Scaling(slope.copy())
    assert hash(Scaling(slope)) == hash(Scaling(slope.copy()))
    different = [
        Scaling(),
        Scaling(slope),
        Scaling(slope + 1),
        Scaling(missing=(np.int8(1),)),
        Scaling(clip=(0, 1)),
    ]
    different += [
        Scaling(valid=(np.int8(1), None)),
        Scaling(valid=(None, np.int8(1))),
        Scaling(unsigned=True),
    ]
    assert all(a != b for a, b in itertools.combinations(different, 2))
