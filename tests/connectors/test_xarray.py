"""The engine of xarray: equal to xarray's own engines on every file, lazy, and open to threads and other processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401  # before netCDF4, which would have HDF5 look for filters in its own folder
import netCDF4
import nibabel as nib
import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st
from xarray.backends import plugins
from xarray.tests import create_test_data

import hyperslab
from hyperslab import blockio, formats, gzipindex, native
from hyperslab.array import Array
from hyperslab.connectors import xarray as connector
from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import FormatError, SourceChanged, UsageError
from tests.connectors.calls import noting
from tests.formats.files import DATA, ROOT, real_files

RAW: dict[str, Any] = {
    "mask_and_scale": False,
    "decode_times": False,
    "concat_characters": False,
    "decode_coords": False,
}
MANY = 20
LARGEST = 10**6


def ours(path: str | Path, **options: Any) -> xarray.Dataset:
    return xarray.open_dataset(path, engine=HyperslabBackend, **options)


def theirs(path: str | Path, engine: str = "netcdf4", **options: Any) -> xarray.Dataset:
    more: dict[str, Any] = {"phony_dims": "access"} if engine == "h5netcdf" else {}
    return xarray.open_dataset(path, engine=engine, **options, **more)


def assert_same(found: xarray.Dataset, expected: xarray.Dataset) -> None:
    """Identical, in dtypes and byte by byte but for the payload of NaN, and in how it is stored."""
    xarray.testing.assert_identical(found, expected)
    assert list(found.variables) == list(expected.variables)
    for name, variable in found.variables.items():
        assert variable.dtype == expected[name].dtype, name


def assert_stored_alike(found: xarray.DataArray, expected: xarray.DataArray) -> None:
    """With the same encoding; the fields of a compound are in native byte order to netCDF4, whatever the file has."""
    encodings = [dict(array.encoding) for array in (found, expected)]
    if found.dtype.fields:
        assert [encoding.pop("dtype").newbyteorder("=") == found.dtype for encoding in encodings] == [True, True]
    np.testing.assert_equal(encodings[0], encodings[1])


@pytest.mark.parametrize("path", [*real_files("hdf5", only=".nc"), *real_files("netcdf", without=(".mnc",))])
@pytest.mark.parametrize("options", [{}, RAW], ids=["decoded", "stored"])
def test_netcdf_files_are_as_netcdf4_gives_them(path: Path, options: dict[str, Any]) -> None:
    if path.name == "ref_tst_compounds.nc" and not options:
        with pytest.raises(TypeError, match="unhashable"), theirs(path):
            pass  # a fill value of a compound type is not for xarray with other engines
        assert ours(path).obs.shape == (3,)
        return
    with ours(path, **options) as found, theirs(path, **options) as expected:
        names = list(found.variables)
        assert names == list(expected.variables)
        assert found.encoding == expected.encoding
        assert_same(found[names[:MANY]], expected[names[:MANY]])
        for name in names[:MANY]:
            assert_stored_alike(found[name], expected[name])


@pytest.mark.filterwarnings("ignore:.*is left out")
@pytest.mark.parametrize("path", real_files("hdf5", without=("tbigdims.h5", "ref_hdf5_compat1.nc", ".mnc")))
def test_groups_of_hdf5_files_are_as_h5netcdf_gives_them(path: Path) -> None:
    found, expected = xarray.open_groups(path, engine=HyperslabBackend, **RAW), by_h5netcdf(path)
    assert not expected or list(found) == list(expected)
    with h5py.File(path) as file:
        for group, dataset in found.items():
            for name, variable in dataset.variables.items():
                assert_as_h5py(variable, file[f"{group}/{name}"])
            if expected:
                xarray.testing.assert_identical(dataset, expected[group])


def by_h5netcdf(path: Path) -> dict[str, xarray.Dataset]:
    """Nothing for files that it does not open or xarray does not compare: null dataspaces, lists as elements."""
    try:
        groups = xarray.open_groups(path, engine="h5netcdf", phony_dims="access", **RAW)
        for dataset in groups.values():
            xarray.testing.assert_identical(dataset, dataset.copy(deep=True))
    except (AttributeError, TypeError, ValueError, OSError, AssertionError):
        return {}
    return groups


def assert_as_h5py(variable: xarray.Variable, dataset: Any) -> None:
    """The same elements, unless there are very many; what h5py cannot read cannot be read here either."""
    if variable.size > LARGEST:
        return
    text = h5py.check_string_dtype(dataset.dtype)
    try:
        expected = dataset.asstr()[()] if text and text.length is None else dataset[()]
    except OSError:
        with pytest.raises(FormatError):
            variable.load()
        return
    assert plain(variable.values) == plain(expected)


def plain(value: Any) -> Any:
    """Elements as Python has them, to be compared; NaN as text, since it equals nothing."""
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, str | bytes):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    return str(value) if value != value else value


CLASSIC: list[Any] = ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"]
FORMATS: list[Any] = [*CLASSIC, "NETCDF4_CLASSIC", "NETCDF4"]


def write_all_kinds(path: Path, kind: Any) -> None:
    """Packed, missing, unsigned, text, times, scalars, coordinates, records of different numbers, odd attributes."""
    with netCDF4.Dataset(path, "w", format=kind) as file:
        file.set_auto_maskandscale(False)
        file.setncatts({"title": "täst", "empty": "", "many": np.arange(5, dtype="i2"), "large": np.arange(3000.0)})
        for name, size in (("time", None), ("lat", 4), ("lon", 6), ("length", 3), ("unused", 2)):
            file.createDimension(name, size)
        time = file.createVariable("time", "f8", ("time",))
        time.setncatts({"units": "days since 2000-01-01", "calendar": "noleap", "standard_name": "time"})
        lat = file.createVariable("lat", "f4", ("lat",))
        lat[:], lat.units = np.linspace(-60, 60, 4), "degrees_north"
        packed = file.createVariable("packed", "i2", ("time", "lat", "lon"), fill_value=-999)
        packed.setncatts({"scale_factor": 0.1, "add_offset": 270.0, "coordinates": "place", "one": np.float32(2)})
        counts = file.createVariable("counts", "i1", ("time", "lon"))
        counts.setncatts({"_Unsigned": "true", "valid_range": np.array([1, 100], "i1")})
        file.createVariable("place", "S1", ("lat", "length"), fill_value=b"-")[:2] = [
            [b"a", b"b", b"c"],
            [b"d", b"e", b""],
        ]
        scalar = file.createVariable("crs", "i4", ())
        scalar.grid_mapping_name, scalar[...] = "latitude_longitude", 7
        time[:] = [0, 31, 365.5]
        packed[:3] = np.arange(72).reshape(3, 4, 6)
        counts[:1] = np.arange(6) - 3
        if kind.startswith("NETCDF4"):
            chunked = file.createVariable("chunked", ">f4", ("lat", "lon"), zlib=True, chunksizes=(2, 3), endian="big")
            chunked[:] = np.arange(24).reshape(4, 6)
            chunked.least_significant_digit = 1
        if kind == "NETCDF4":
            _write_of_netcdf4_only(file)


def _write_of_netcdf4_only(file: Any) -> None:
    file.texts = ["a", "list", "of texts"]
    file.createVariable("words", str, ("lat",))[:] = np.array(["ä", "", "long " * 9, "x"], object)
    file.createVariable("late", str, ("time", "length"))[0] = np.array(["only", "one", "record"], object)
    file.createVariable("tall", "u8", ("time",), fill_value=9)[:2] = [2**63, 1]
    cloud = file.createEnumType("u1", "cloud", {"clear": 0, "cloudy": 5})
    file.createVariable("clouds", cloud, ("lat",), fill_value=0)[:] = [0, 5, 5, 0]
    station = file.createCompoundType(np.dtype([("x", "i4"), ("y", "f8")]), "station")
    file.createVariable("stations", station, ("lat",))[:] = np.zeros(4, station.dtype)
    inside = file.createGroup("inside")
    inside.createDimension("deep", 2)
    inside.createVariable("lon", "f8", ("lon",))[:] = np.arange(6)
    inside.createVariable("of_both", "i8", ("time", "deep"))[:2] = np.arange(4).reshape(2, 2)
    inside.createVariable("deep", "i2", ("lat",))[:] = 5  # not the coordinate of the dimension of its name
    inside.createGroup("below").createVariable("clouds", cloud, ("deep",))[:] = [5, 0]


@pytest.fixture(scope="module", params=FORMATS)
def kinds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kinds") / f"{request.param}.nc"
    write_all_kinds(path, request.param)
    return path


@pytest.fixture(scope="module")
def netcdf4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("netcdf4") / "all.nc"
    write_all_kinds(path, "NETCDF4")
    return path


WAYS: list[dict[str, Any]] = [
    {},
    RAW,
    {"mask_and_scale": False},
    {"decode_times": False, "decode_coords": "all"},
    {"concat_characters": False},
    {"drop_variables": ["packed", "time"]},
    {"drop_variables": "place"},
    {"chunks": {}},
]


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_every_kind_of_variable_is_as_netcdf4_gives_it(kinds: Path, options: dict[str, Any]) -> None:
    with ours(kinds, **options) as found, theirs(kinds, **options) as expected:
        assert_same(found.load(), expected.load())
        assert found.encoding == expected.encoding
        for name in found.variables:
            assert_stored_alike(found[name], expected[name])


def test_files_that_h5netcdf_writes(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    made = create_test_data(add_attrs=True)
    made["words"] = ("dim2", np.array(["ä", "", *"abcdefg"], object))
    made.to_netcdf(path, engine="h5netcdf", encoding={"var1": {"compression": "lzf", "chunksizes": (3, 4)}})
    with ours(path) as found, theirs(path, "h5netcdf") as expected:
        assert_same(found, expected)
        xarray.testing.assert_identical(found, made)


@pytest.mark.parametrize("group", ["inside", "/inside/", "/inside/below"])
def test_groups_are_as_netcdf4_gives_them(netcdf4: Path, group: str) -> None:
    with ours(netcdf4, group=group) as found, theirs(netcdf4, group=group) as expected:
        assert_same(found, expected)


@pytest.mark.parametrize("group", [None, "inside"])
def test_trees_are_as_netcdf4_gives_them(netcdf4: Path, group: str | None) -> None:
    with (
        xarray.open_datatree(netcdf4, engine=HyperslabBackend, group=group) as tree,
        xarray.open_datatree(netcdf4, engine="netcdf4", group=group) as other,
    ):
        xarray.testing.assert_identical(tree, other)
    found, expected = (
        xarray.open_groups(netcdf4, engine=engine, group=group) for engine in (HyperslabBackend, "netcdf4")
    )
    assert list(found) == list(expected)
    for dataset in expected.values():
        dataset.close()


def test_several_files_are_one_dataset(tmp_path: Path) -> None:
    for year in range(3):
        file = xarray.Dataset({"v": (("time", "x"), np.full((2, 4), year))}, {"time": [2 * year, 2 * year + 1]})
        file.to_netcdf(tmp_path / f"{year}.nc")
    with xarray.open_mfdataset(f"{tmp_path}/*.nc", engine=HyperslabBackend, combine="by_coords") as found:
        np.testing.assert_array_equal(found.v.compute().values[:, 0], [0, 0, 1, 1, 2, 2])


def indexers(extent: int) -> st.SearchStrategy[Any]:
    """Slices select something: xarray itself fails to compose an empty one of negative step with others."""
    inside = st.integers(-extent, extent - 1)
    parts = st.tuples(st.none() | inside, st.none() | inside, st.sampled_from([None, 1, 2, -1, -3]))
    slices = parts.map(lambda part: slice(*part)).filter(lambda part: np.arange(extent)[part].size > 0)
    return inside | slices | st.lists(inside, max_size=5).map(lambda part: np.array(part, int))


@pytest.fixture(scope="module")
def loaded(netcdf4: Path) -> xarray.Dataset:
    with theirs(netcdf4, **RAW) as dataset:
        return dataset.load()


@pytest.fixture(scope="module")
def lazy(netcdf4: Path) -> Iterator[xarray.Dataset]:
    with ours(netcdf4, cache=False, **RAW) as dataset:
        yield dataset


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_any_index_selects_what_it_selects_in_memory(
    lazy: xarray.Dataset, loaded: xarray.Dataset, data: st.DataObject
) -> None:
    """Of what is chunked, what is shorter than its records, and text; twice, since the second is composed lazily."""
    for name in ("packed", "chunked", "counts", "late", "tall"):
        found, expected = lazy[name].variable, loaded[name].variable
        for step in ("first", "second"):
            where = data.draw(indices(found.sizes, step), label=name)
            found, expected = found.isel(where), expected.isel(where)
        xarray.testing.assert_identical(found, expected)


@st.composite
def indices(draw: st.DrawFn, sizes: Any, new: str) -> dict[Any, Any]:
    """What selects along some dimensions; lists each along their own, or together along a new one."""
    where = {dim: draw(indexers(size)) for dim, size in sizes.items() if size and draw(st.booleans())}
    lists = {dim: part for dim, part in where.items() if isinstance(part, np.ndarray)}
    if draw(st.booleans()):
        shortest = min((len(part) for part in lists.values()), default=0)
        where |= {dim: xarray.Variable(new, part[:shortest]) for dim, part in lists.items()}
    return where


def test_values_are_read_when_they_are_asked_for(netcdf4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[Any] = []
    module = formats.module("hdf5")
    monkeypatch.setattr(module, "open", noting(described, module.open))
    with ours(netcdf4, decode_times=False) as dataset:
        first = {name for _, name in described}
        assert "/packed" not in first
        dataset.packed[0].load()
        dataset.packed[1].load()
        assert [name for _, name in described if name not in first] == ["/packed"]


def test_threads_share_a_dataset(netcdf4: Path) -> None:
    with ours(netcdf4) as dataset, theirs(netcdf4) as expected:
        values, found = expected.packed.values, []
        workers = [threading.Thread(target=lambda: found.append(dataset.packed.variable[...].values)) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(found) == 8
    for each in found:
        np.testing.assert_array_equal(each, values)


def test_variables_load_at_the_same_time(netcdf4: Path) -> None:
    if not hasattr(xarray.Dataset, "load_async"):
        pytest.skip("this xarray loads nothing asynchronously")
    with ours(netcdf4) as dataset, theirs(netcdf4) as expected:
        assert_same(asyncio.run(dataset.load_async()), expected)


def test_a_pickled_dataset_knows_where_the_bytes_are(netcdf4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ours(netcdf4) as dataset:
        sent = pickle.dumps(dataset[["packed", "chunked", "counts"]])
    with theirs(netcdf4) as expected:
        wanted = expected[["packed", "chunked", "counts"]].load()
    monkeypatch.setattr(h5py, "File", None)
    assert_same(pickle.loads(sent), wanted)


def test_a_closed_dataset_keeps_no_file_open(netcdf4: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_bytes(netcdf4.read_bytes())

    def held() -> int:
        return sum(os.path.realpath(entry) == str(path) for entry in Path("/proc/self/fd").iterdir())

    with ours(path, decode_times=False) as dataset:
        dataset.packed.load()
        assert held() > 0
    assert held() == 0


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    xarray.Dataset({"v": ("x", np.arange(10.0)), "w": ("x", np.arange(10.0))}).to_netcdf(path)
    with ours(path, cache=False) as dataset:
        np.testing.assert_array_equal(dataset.v.values, np.arange(10.0))
        with h5py.File(path, "r+") as file:
            file["v"][0] = 5
        with pytest.raises(SourceChanged):
            np.asarray(dataset.v[1:])
        with pytest.raises(SourceChanged, match=r"a\.nc: was written to after it had been opened; open it again"):
            np.asarray(dataset.w)
    with ours(path) as dataset:
        assert dataset.v[0] == 5


def test_what_this_process_is_writing_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["v"] = np.arange(10.0)
        with ours(path) as dataset:
            np.testing.assert_array_equal(dataset.v, np.arange(10.0))


def test_dask_reads_on_one_thread_for_each_task(netcdf4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(native, "all_threads", lambda: 5)
    monkeypatch.setattr(blockio, "read", noting(asked, blockio.read))
    with ours(netcdf4, chunks={}) as dataset:
        asked.clear()
        dataset.chunked.sum().compute(scheduler="threads")
        assert {given[4] for given in asked} == {1}
    with ours(netcdf4) as dataset:
        asked.clear()
        dataset.chunked.load()
        assert [given[4] for given in asked] == [5]


IMAGES = [p for p in (*(DATA / "mri").iterdir(), *(DATA / "minc").iterdir()) if p.is_file()]


@pytest.mark.parametrize("path", sorted(IMAGES), ids=lambda path: path.name)
def test_an_image_is_one_variable_of_real_values(path: Path) -> None:
    view = hyperslab.open(str(path))
    with ours(path) as dataset:
        image = dataset.image
        assert list(dataset.variables) == ["image"]
        assert (image.dims, image.dtype) == (view.dims, view.dtype)
        np.testing.assert_array_equal(image.values, np.asarray(view))
        if view.affine is not None:
            np.testing.assert_array_equal(np.reshape(image.attrs["affine"], (4, 4)), view.affine)


@pytest.mark.filterwarnings("ignore:saving variable image with floating point data as an integer dtype")
@pytest.mark.parametrize("path", sorted(IMAGES), ids=lambda path: path.name)
def test_an_image_can_be_saved_as_netcdf(path: Path, tmp_path: Path) -> None:
    with ours(path) as dataset:
        dataset.to_netcdf(tmp_path / "a.nc")
        with ours(tmp_path / "a.nc") as again:
            np.testing.assert_array_equal(again.image, dataset.image)
            np.testing.assert_array_equal(again.image.attrs.get("affine"), dataset.image.attrs.get("affine"))


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f4", "f8", "i8"])
@pytest.mark.parametrize(("slope", "inter"), [(1, 0), (2, 0), (1, -1024), (0.1, 7.3), (3e-5, 1e6), (np.nan, np.nan)])
def test_images_are_packed_only_where_that_is_exact(tmp_path: Path, dtype: str, slope: float, inter: float) -> None:
    path, numbers = tmp_path / "a.nii", np.random.default_rng(0)
    values = numbers.integers(0, 100, (4, 5, 6)).astype(dtype)
    if values.dtype.kind in "iu":
        values[0, 0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    image: Any = nib.Nifti1Image(values, np.eye(4), dtype=values.dtype)  # type: ignore[no-untyped-call]
    image.header.set_slope_inter(slope, inter)
    nib.save(image, path)
    expected = np.asarray(nib.load(path).dataobj)  # type: ignore[attr-defined]
    with ours(path) as dataset, ours(path, mask_and_scale=False) as stored:
        assert dataset.image.dtype == expected.dtype
        np.testing.assert_array_equal(dataset.image.values, expected)
        if "scale_factor" in stored.image.attrs:
            np.testing.assert_array_equal(stored.image.values, hyperslab.open(str(path), "stored")[...])


def test_large_images_have_chunks_in_long_runs_of_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "BLOCK_NBYTES", 16 * 1024)
    with ours(DATA / "mri" / "anatomical.nii", chunks={}) as dataset:
        assert dataset.image.chunks == ((33,), (41,), (6, 6, 6, 6, 1))
        np.testing.assert_array_equal(dataset.image, hyperslab.open(str(DATA / "mri" / "anatomical.nii"))[...])


def test_a_compressed_image_is_inflated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path, passes = DATA / "mri" / "colin27_ch2bet_brain.nii.gz", list[Any]()
    monkeypatch.setattr(gzipindex, "index", noting(passes, gzipindex.index))
    with ours(path, chunks={"z": 20}) as dataset:
        found = dataset.image.max().compute(scheduler="threads")
        sent = pickle.dumps(dataset)
    assert found == nib.load(path).get_fdata().max()  # type: ignore[attr-defined]
    assert pickle.loads(sent).image[90, 100, 90] == hyperslab.open(str(path))[90, 100, 90]
    assert len(passes) == 2  # that of `hyperslab.open` is its own


def test_the_groups_of_minc2_are_there_by_name() -> None:
    path = DATA / "minc" / "small.mnc"
    with ours(path, group="/minc-2.0/image/0", **RAW) as dataset, h5py.File(path) as file:
        np.testing.assert_array_equal(dataset.image, file["/minc-2.0/image/0/image"])


def test_what_cannot_be_read_is_left_out_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(3)
        file.create_dataset("links", (2,), h5py.ref_dtype)
        file["nothing"] = h5py.Empty("f4")
        file["lost"] = h5py.SoftLink("/nowhere")
        file["good"].attrs["to"] = file["good"].ref
    with pytest.warns(UserWarning, match="is left out") as seen:
        dataset = ours(path)
    assert list(dataset.variables) == ["good"]
    assert dataset.good.attrs == {}
    words = sorted(str(warning.message).split(f"{path}")[0] for warning in seen)
    assert words == ["links is left out: ", "lost is left out: ", "nothing is left out: "]
    with ours(path, drop_variables=["links", "nothing", "lost"]) as dataset:
        np.testing.assert_array_equal(dataset.good, np.arange(3))


def test_links_to_groups_above_come_to_an_end(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/b/v"] = np.arange(3)
        file["a/b/up"] = file["a"]
        file["again"] = file["a/b"]
    assert list(xarray.open_groups(tmp_path / "a.h5", engine=HyperslabBackend)) == [
        "/",
        "/a",
        "/a/b",
        "/again",
        "/again/up",
    ]


def test_a_variable_in_another_file_is_read_there(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["v"] = np.arange(3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["v"] = h5py.ExternalLink("other.h5", "/v")
    with ours(tmp_path / "a.h5") as dataset:
        np.testing.assert_array_equal(dataset.v, np.arange(3))


WRONG: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    ("none.nc", {}, FormatError, "there is no such file"),
    ("text.nc", {}, FormatError, "its format is unknown"),
    ("all.nc", {"group": "outside"}, UsageError, r"holds no group '/outside'; those in '/' are: inside"),
    ("all.nc", {"group": "inside/none"}, UsageError, r"those in '/inside' are: below"),
    ("all.nc", {"group": 3}, UsageError, "group must be a string, not 3"),
    ("a.nii", {"group": "a"}, UsageError, "only HDF5 files have groups"),
    (b"CDF\x01", {}, UsageError, "opens files by their name, which a bytes is not"),
]


@pytest.mark.parametrize(("name", "options", "error", "words"), WRONG)
def test_wrong_use_gets_a_sentence(
    netcdf4: Path, tmp_path: Path, name: Any, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    (tmp_path / "text.nc").write_text("what somebody wrote")
    (tmp_path / "all.nc").symlink_to(netcdf4)
    (tmp_path / "a.nii").symlink_to(DATA / "mri" / "anatomical.nii")
    with pytest.raises(error, match=words):
        ours(tmp_path / name if isinstance(name, str) else name, **options)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """xarray as it is where this package is installed: with the entry points that the project names."""
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["xarray.backends"]
    points = EntryPoints(EntryPoint(name, value, "xarray.backends") for name, value in named.items())
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    plugins.list_engines.cache_clear()
    yield
    plugins.list_engines.cache_clear()


@pytest.mark.usefixtures("installed")
def test_the_engine_has_a_name(netcdf4: Path) -> None:
    with xarray.open_dataset(netcdf4, engine="hyperslab") as found, theirs(netcdf4) as expected:
        assert_same(found, expected)


@pytest.mark.usefixtures("installed")
def test_only_what_no_other_engine_opens_is_taken_unasked(netcdf4: Path) -> None:
    path = DATA / "mri" / "icbm152_sym09a_brain_T1w.nii.gz"
    assert plugins.guess_engine(str(path)) == "hyperslab"
    with xarray.open_dataset(path) as dataset:
        assert dataset.image.dims == ("x", "y", "z")
    assert plugins.guess_engine(str(netcdf4)) == "netcdf4"
    engine = HyperslabBackend()
    guesses: list[tuple[Callable[[], Any], bool]] = [
        (lambda: str(netcdf4), True),
        (lambda: path, True),
        (lambda: ROOT / "pyproject.toml", False),
        (lambda: "https://somewhere/a.nc", False),
        (lambda: b"CDF\x01", False),
    ]
    assert [engine.guess_can_open(named()) for named, _ in guesses] == [expected for _, expected in guesses]


def test_the_text_of_any_file_is_text(tmp_path: Path) -> None:
    words: Array = np.array([["ä", ""], ["b" * 100, "c"]], object)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["words"] = words
        file["fixed"] = np.array([b"abc", b"d"])
        file["one"] = "text"
        file.create_dataset("chunked", data=words, chunks=(1, 2), compression="gzip")
    with ours(tmp_path / "a.h5") as found, theirs(tmp_path / "a.h5", "h5netcdf") as expected:
        assert_same(found, expected)
        assert found.words.values.tolist() == words.tolist()
        assert found.one.item() == "text"
