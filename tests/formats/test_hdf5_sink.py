"""New HDF5 and netCDF-4 files as h5py, h5dump, netCDF4-python and ncdump read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.encoding import Encoding
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Scaling
from hyperslab.blocks import reading, writing
from hyperslab.errors import BlockError, FormatError, UsageError
from hyperslab.formats import deflating
from hyperslab.formats.conventions.packing import DEFAULT_FILL
from hyperslab.storage import renaming
from hyperslab.testing.formats import assert_same
from tests.formats.written import (
    NUMBERS,
    RGB,
    assert_read_back,
    h5dump_values,
    h5py_values,
    netcdf_values,
    sink_of,
    tool,
    values_of,
    write_by_many,
)
from tests.repetitions import each_value

AFFINE = np.array([[0, -2.0, 0, 5], [1.5, 0, 0, -7], [0, 0, 3.25, 11], [0, 0, 0, 1]])
KINDS: Mapping[str, Encoding] = {
    "contiguous": Encoding(),
    "chunked": Encoding(chunks=(3, 4, 2)),
    "gzip": Encoding(chunks=(4, 3, 5), compression="gzip"),
    "gzip:9": Encoding(chunks=(2, 5, 7), compression="gzip", level=9),
    "gzip, chunks unsaid": Encoding(compression="gzip"),
    "virtual": Encoding(virtual=True),
    "virtual gzip": Encoding(chunks=(4, 4, 4), compression="gzip", virtual=True),
}
SHAPES = ((1,), (17,), (1, 9), (9, 1), (5, 6), (7, 5, 9), (1, 1, 1), (3, 1, 4, 5), (2, 3, 1, 4, 3))


@pytest.fixture(autouse=True)
def _does_not_wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tests/blocks/test_writing.py` sees that files are synchronised."""
    monkeypatch.setattr(renaming, "synchronise", lambda *_, **__: None)


@each_value("every dtype is written")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [*NUMBERS, "f2", "?", "c8", "c16", "S3", RGB], ids=str)
def test_every_dtype_in_every_kind_of_file(tmp_path: Path, kind: str, dtype: Any) -> None:
    values, path = values_of(dtype, (7, 8, 9)), tmp_path / "new.h5"
    write_by_many(sink_of(path, values, KINDS[kind]), values)
    found = h5py_values(path)
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()
    if values.dtype.kind in "iuf" and dtype != "f2" and kind != "virtual":
        assert h5dump_values(path, values.dtype, values.shape).tobytes() == values.tobytes()
    assert_read_back(path, values, "data")


@each_value("every shape is written")
@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape(tmp_path: Path, shape: tuple[int, ...], compression: str) -> None:
    """Chunks of edge 2 and 3 leave parts at the far edges, and are longer than some axes."""
    values, path = values_of("u2", shape), tmp_path / "new.h5"
    for seed, chunks in enumerate(((), tuple(2 + axis % 2 for axis in range(len(shape))), shape)):
        write_by_many(
            sink_of(path, values, Encoding(chunks=chunks, compression=compression)), values, seed
        )
        assert_same(h5py_values(path), values)
        assert h5dump_values(path, values.dtype, shape).tobytes() == values.tobytes()
        assert_read_back(path, values)


@pytest.mark.parametrize("suffix", [".h5", ".nc"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)], ids=str)
def test_arrays_of_one_element_or_none(tmp_path: Path, shape: tuple[int, ...], suffix: str) -> None:
    values, path = np.full(shape, 7, "i4"), tmp_path / f"new{suffix}"
    for encoding in (Encoding(), Encoding(compression="gzip")):
        writing.write(sink_of(path, values, encoding), values)
        assert_same(h5py_values(path), values)
        tool("h5dump", path)
        if suffix == ".nc":
            assert_same(netcdf_values(path)[0], values)


@pytest.mark.parametrize("level", range(1, 10))
def test_levels_are_streams_that_libhdf5_inflates(tmp_path: Path, level: int) -> None:
    values, path = np.arange(60000, dtype="i4").reshape(100, 600) // 7, tmp_path / "new.h5"
    write_by_many(
        sink_of(path, values, Encoding(chunks=(50, 300), compression="gzip", level=level)), values
    )
    assert_same(h5py_values(path), values)
    with h5py.File(path) as file:
        dataset = file["data"]
        assert (dataset.chunks, dataset.compression, dataset.compression_opts) == (
            (50, 300),
            "gzip",
            level,
        )
        assert dataset.shuffle


def test_a_compressed_file_is_as_small_as_that_of_h5py(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = (rng.normal(size=(96, 96, 96)).cumsum(axis=2) * 40).astype("i2")
    writing.write(
        sink_of(tmp_path / "new.h5", values, Encoding(chunks=(96, 96, 48), compression="gzip")),
        values,
    )
    with h5py.File(tmp_path / "theirs.h5", "w") as file:
        file.create_dataset("data", data=values, chunks=(96, 96, 48), compression=1, shuffle=True)
    assert (tmp_path / "new.h5").stat().st_size <= 1.01 * (tmp_path / "theirs.h5").stat().st_size


@pytest.mark.parametrize("kind", ["contiguous", "chunked", "gzip", "virtual"])
def test_the_same_array_makes_the_same_bytes(tmp_path: Path, kind: str) -> None:
    """Whenever it is, and whoever is first where each value has its place; one writer has chunks in
    their order.
    """
    values = values_of("i2", (9, 8, 7))
    header = Header(base_affine=AFFINE, dims=("x", "y", "z"), attributes={"units": "mm"})
    made = []
    for order in range(3):
        path = tmp_path / str(order) / "new.h5"
        path.parent.mkdir()
        sink = sink_of(path, values, KINDS[kind], header)
        (
            writing.write(sink, values)
            if sink.form == "pieces"
            else write_by_many(sink, values, order=order)
        )
        made.append(path.read_bytes())
    assert made[0] == made[1] == made[2]


def test_a_placed_file_is_whole_as_soon_as_it_is_allocated(tmp_path: Path) -> None:
    """Its size and head are known before the first value, so that writers need no HDF5."""
    values = values_of("f4", (30, 20, 10))
    sink = sink_of(tmp_path / "new.h5", values, header=Header(attributes={"note": "x" * 3000}))
    writing.write(sink, values)
    assert Path(sink.path).stat().st_size == sink.nbytes
    with h5py.File(sink.path) as file:
        assert file["data"].id.get_offset() == len(sink.head or b"")
        assert file.id.get_filesize() == sink.nbytes


@each_value("every dtype is written")
@pytest.mark.parametrize("kind", [k for k in KINDS if "virtual" not in k])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_netcdf_of_every_dtype(tmp_path: Path, dtype: str, kind: str) -> None:
    values, path = values_of(dtype, (7, 8, 9)), tmp_path / "new.nc"
    header = Header(dims=("time", "lat", "lon"), attributes={"units": "K", "long_name": "Länge"})
    write_by_many(sink_of(path, values, KINDS[kind], header), values)
    found, masked = netcdf_values(path)
    assert found.dtype == values.dtype
    assert found.tobytes() == values.tobytes()
    np.testing.assert_array_equal(
        masked, np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, "?")
    )
    assert_read_back(path, values)
    with netCDF4.Dataset(path) as file:
        assert list(file.variables) == ["data"]
        assert {name: len(dim) for name, dim in file.dimensions.items()} == {
            "time": 7,
            "lat": 8,
            "lon": 9,
        }
        assert file["data"].dimensions == ("time", "lat", "lon")
        assert (file["data"].units, file["data"].long_name) == ("K", "Länge")
        chunks = KINDS[kind].chunks or (values.shape if KINDS[kind].compression else ())
        assert file["data"].chunking() == (list(chunks) or "contiguous")
    said = tool("ncdump", "-s", "-h", path)
    assert re.search(r"\w+ data\(time, lat, lon\) ;", said), said
    assert re.search(r'^\t\tdata ?:units = "K" ;', said, re.MULTILINE), said
    assert "float time" not in said, "a dimension is no variable"


def test_the_values_that_ncdump_prints(tmp_path: Path) -> None:
    values, path = np.arange(-12, 12, dtype="i2").reshape(2, 3, 4), tmp_path / "new.nc"
    write_by_many(sink_of(path, values, Encoding(chunks=(1, 2, 3), compression="gzip")), values)
    printed = tool("ncdump", "-v", "data", path).partition("\n data =")[2]
    assert [int(n) for n in re.findall(r"-?\d+", printed)] == list(range(-12, 12))


@pytest.mark.parametrize(
    ("dims", "kept"),
    [
        (("x", "y"), ("x", "y")),
        (("größe", "zeit achse"), ("größe", "zeit achse")),
        (("x", "x"), ("x", "dim_0")),
        (("data", "y"), ("dim_0", "y")),
        (("a/b", "y"), ("dim_0", "y")),
        (("", "y"), ("dim_0", "y")),
        (("x", "y", "z"), ("dim_0", "dim_1")),
        ((), ("dim_0", "dim_1")),
    ],
)
def test_dimensions_of_netcdf_have_names_that_it_allows(
    tmp_path: Path, dims: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    values, path = values_of("i2", (3, 4)), tmp_path / "new.nc"
    writing.write(sink_of(path, values, header=Header(dims=dims)), values)
    assert_same(netcdf_values(path)[0], values)
    with netCDF4.Dataset(path) as file:
        assert file["data"].dimensions == kept
    assert formats.open_source(str(path)).dims == kept


@pytest.mark.parametrize("dtype", NUMBERS)
def test_what_netcdf_reads_as_missing_is_refused(tmp_path: Path, dtype: str) -> None:
    """But for bytes, and for floats, whose _FillValue is NaN."""
    fill = np.array(DEFAULT_FILL[dtype], dtype)
    values, path = np.array([1, fill, 3], dtype), tmp_path / "new.nc"
    if np.dtype(dtype).kind == "f" or np.dtype(dtype).itemsize == 1:
        writing.write(sink_of(path, values), values)
        assert not netcdf_values(path)[1].any()
        return
    for scaling in (None, Scaling(np.float64(0.5), np.float64(1))):
        sink = sink_of(path, values, scaling=scaling)
        with pytest.raises(
            BlockError, match=rf"the value {fill} would be taken for a missing one .* --dtype"
        ):
            writing.write(sink, values)
    assert list(tmp_path.iterdir()) == []
    writing.write(sink_of(tmp_path / "new.h5", values), values)
    assert_same(h5py_values(tmp_path / "new.h5"), values)


@pytest.mark.parametrize("suffix", [".h5", ".nc"])
@pytest.mark.parametrize(
    "scaling",
    [
        Scaling(0.25, -3),
        Scaling(np.float32(0.1), np.float32(2)),
        Scaling(np.float64(2), np.float64(1), missing=(np.int16(-9), np.int16(7))),
        Scaling(missing=(np.int16(4),), valid=(np.int16(-100), None)),
        Scaling(np.float32(3), valid=(None, np.int16(50))),
        Scaling(missing=(np.uint16(65000),), unsigned=True),
    ],
    ids=str,
)
def test_scaling_is_said_and_means_the_same(tmp_path: Path, scaling: Scaling, suffix: str) -> None:
    """Stored values stay; the real ones are those of netCDF4-python, whose packing it is."""
    stored = np.array([-9, 7, 4, 50, 51, -101, 0, -536, 3], "i2")
    if suffix == ".nc" and scaling.missing:
        stored[-1] = -32767  # netCDF's default fill value, which is none where another is said
    path = tmp_path / f"new{suffix}"
    writing.write(sink_of(path, stored, Encoding(compression="gzip"), scaling=scaling), stored)
    source, whole = formats.open_source(str(path)), Hyperslab.full(stored.shape)
    assert_same(reading.read(source, whole, values="stored"), stored)
    expected = _real(scaling, stored)
    np.testing.assert_array_equal(reading.read(source, whole, values="real"), expected)
    with netCDF4.Dataset(path) as file:
        found = file["data"][:]
    np.testing.assert_array_equal(np.ma.filled(found.astype("f8"), np.nan), expected)


def _real(scaling: Scaling, stored: Array) -> Array:
    """What a scaling means, by hand."""
    plain = stored.view("u2") if scaling.unsigned else stored
    slope, inter = np.asarray(scaling.slope), np.asarray(scaling.inter)
    made = np.asarray(plain * slope + inter).astype("f8")
    low, high = scaling.valid or (None, None)
    gone = np.isin(plain, [int(value) for value in scaling.missing])
    gone |= plain < (plain.min() if low is None else low)
    gone |= plain > (plain.max() if high is None else high)
    made[gone] = np.nan
    return made


def test_real_floats_keep_nan_and_a_missing_one_stays_missing(tmp_path: Path) -> None:
    stored, path = np.array([1.5, -999, np.nan], "f4"), tmp_path / "new.nc"
    writing.write(sink_of(path, stored, scaling=Scaling(missing=(np.float32(-999),))), stored)
    plain, masked = netcdf_values(path)
    assert plain.tobytes() == stored.tobytes()
    assert masked.tolist() == [False, True, False]
    real = reading.read(formats.open_source(str(path)), Hyperslab.full((3,)), values="real")
    np.testing.assert_array_equal(real, [1.5, np.nan, np.nan])


@pytest.mark.parametrize("suffix", [".h5", ".nc"])
def test_place_names_and_attributes_are_carried(tmp_path: Path, suffix: str) -> None:
    attributes = {
        "units": "K",
        "text": "ä ö",
        "empty": "",
        "number": 3,
        "float": 2.5,
        "list": np.arange(4, dtype="i2"),
        "table": np.eye(2),
        "words": ("a", "bc"),
        "truth": np.True_,
        "half": np.float16(1.5),
        "bytes": b"raw",
        "_FillValue": -1,
        "scale_factor": 4.0,
        "_Netcdf4Dimid": 3,
    }
    values, path = values_of("i2", (4, 5, 6)), tmp_path / f"new{suffix}"
    header = Header(base_affine=AFFINE, attributes=attributes, dims=("z", "y", "x"))
    write_by_many(
        sink_of(path, values, Encoding(chunks=(2, 2, 2), name="group/signal"), header), values
    )
    source = formats.open_source(f"{path}::group/signal")
    assert source.dims == ("z", "y", "x")
    np.testing.assert_array_equal(source.header.affine, AFFINE)
    assert source.scaling is None, "packing attributes of the source are not those of these values"
    with h5py.File(path) as file:
        found = file["group/signal"].attrs
        assert {"_FillValue", "scale_factor", "_Netcdf4Dimid"}.isdisjoint(found)
        texts = {name: found[name] for name in ("units", "text", "bytes", "empty")}
        decoded = {name: t.decode() if isinstance(t, bytes) else t for name, t in texts.items()}
        assert decoded == {"units": "K", "text": "ä ö", "bytes": "raw", "empty": ""}
        assert (found["number"], found["float"], found["half"], found["truth"]) == (3, 2.5, 1.5, 1)
        assert found["list"].tolist() == [0, 1, 2, 3]
        assert found["words"].tolist() == ["a", "bc"]
        assert found["table"].ravel().tolist() == [1, 0, 0, 1]
    if suffix == ".nc":
        with netCDF4.Dataset(path) as netcdf:
            signal = netcdf["group/signal"]
            assert (signal.units, signal.text, signal.words, signal.truth) == (
                "K",
                "ä ö",
                ["a", "bc"],
                1,
            )
        assert 'signal:units = "K"' in tool("ncdump", "-h", path), "characters, not NC_STRING"
    else:
        with h5py.File(path) as file:
            assert [dim.label for dim in file["group/signal"].dims] == ["z", "y", "x"]


def test_a_block_lies_where_it_was_cut(tmp_path: Path) -> None:
    values, path = values_of("i2", (4, 5, 6, 3, 2)), tmp_path / "new.h5"
    slab = Hyperslab((1, 2, 3, 1, 0), (2, 3, 2, 2, 2))
    header = Header(base_affine=AFFINE, corner=(10.0,)).for_slab(slab)
    block = values[slab.slices()]
    writing.write(sink_of(path, block, header=header), block)
    found = formats.open_source(str(path)).header
    moved = AFFINE.copy()
    moved[:3, 3] += AFFINE[:3, :3] @ [1, 2, 3]
    assert found.affine is not None
    np.testing.assert_allclose(found.affine, moved, rtol=1e-15)
    assert found.corner == (11.0, 0.0)


def test_parts_stay_beside_the_file_that_says_where_they_are(tmp_path: Path) -> None:
    values, folder = values_of("u2", (9, 8, 7)), tmp_path / "here"
    folder.mkdir()
    write_by_many(sink_of(folder / "new.h5", values, KINDS["virtual gzip"]), values)
    (parts,) = folder.glob("new.h5.parts-*")
    with h5py.File(folder / "new.h5") as file:
        assert file["data"].is_virtual
        named = {source.file_name for source in file["data"].virtual_sources()}
    assert named == {f"{parts.name}/{part.name}" for part in parts.iterdir()}
    folder.rename(tmp_path / "moved")
    assert_same(h5py_values(tmp_path / "moved" / "new.h5"), values)
    one = min((tmp_path / "moved" / parts.name).iterdir())
    one.unlink()
    with pytest.raises(
        FormatError, match=rf"its part {parts.name}/{one.name} is missing.* put the part back"
    ):
        formats.open_source(str(tmp_path / "moved" / "new.h5"))


@pytest.mark.parametrize("stem", ["50% b", "50%b", "a%%b", "ü d"])
def test_parts_of_files_of_any_name(tmp_path: Path, stem: str) -> None:
    """HDF5 takes a % in the name of a part for a place where numbers go."""
    values, path = values_of("u2", (5, 4, 3)), tmp_path / f"{stem}.h5"
    for seed in range(2):
        write_by_many(sink_of(path, values, Encoding(virtual=True, name=f"{stem}/x")), values, seed)
        assert_same(h5py_values(path, f"{stem}/x"), values)
        assert_read_back(path, values, f"{stem}/x")
    assert len(list(tmp_path.iterdir())) == 2, "the replaced file's parts are gone"


def test_only_the_parts_of_the_replaced_file_go(tmp_path: Path) -> None:
    """Not those of a file that had the name once, nor a folder that looks like it."""
    first, second = values_of("u2", (5, 4, 3)), values_of("u2", (5, 4, 3), seed=8)
    path, kept = tmp_path / "new.h5", tmp_path / "kept.h5"
    (tmp_path / "new.h5.parts-mine").mkdir()
    write_by_many(sink_of(path, first, KINDS["virtual"]), first, seed=1)
    path.rename(kept)
    write_by_many(sink_of(path, second, KINDS["virtual"]), second, seed=2)
    write_by_many(sink_of(path, second, KINDS["virtual"]), second, seed=3)
    assert_same(h5py_values(kept), first)
    assert_same(h5py_values(path), second)
    assert sorted(p.name for p in tmp_path.glob("*.parts-*")) == [
        "new.h5.parts-000001",
        "new.h5.parts-000003",
        "new.h5.parts-mine",
    ]
    write_by_many(sink_of(path, second), second, seed=4)
    assert_same(h5py_values(path), second)
    assert not (tmp_path / "new.h5.parts-000003").exists()


@pytest.mark.parametrize(
    ("name", "dtype", "encoding", "sentence"),
    [
        ("a.h5", "O", Encoding(), "HDF5 cannot hold object"),
        ("a.h5", "M8[s]", Encoding(), "HDF5 cannot hold datetime64"),
        ("a.h5", "U3", Encoding(), "HDF5 cannot hold <U3"),
        ("a.nc", "f2", Encoding(), "netCDF cannot hold float16"),
        ("a.nc", "c8", Encoding(), "netCDF cannot hold complex64"),
        ("a.nc", RGB, Encoding(), "netCDF cannot hold"),
        ("a.nc", "i2", Encoding(virtual=True), "netCDF has no virtual variables"),
        ("a.h5", "i2", Encoding(shards=(2, 2)), "HDF5 has no shards"),
        ("a.h5", "i2", Encoding(version=3), "no choice of versions"),
        (
            "a.h5",
            "i2",
            Encoding(chunks=(2,)),
            "--chunks 2: give one extent of at least 1 for each axis",
        ),
        (
            "a.h5",
            "i2",
            Encoding(compression="zstd"),
            "--compression zstd: .* gzip:1 to gzip:9, or none",
        ),
        ("a.h5", "i2", Encoding(compression="gzip", level=0), "--compression gzip:0"),
        ("a.h5", "i2", Encoding(compression="gzip", level=10), "--compression gzip:10"),
    ],
    ids=str,
)
def test_what_the_format_cannot_hold_is_refused(
    tmp_path: Path, name: str, dtype: Any, encoding: Encoding, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        sink_of(tmp_path / name, np.zeros((3, 4), dtype), encoding)


@pytest.mark.parametrize("kind", ["contiguous", "gzip"])
def test_netcdf_holds_truth_values_as_xarray_does(tmp_path: Path, kind: str) -> None:
    values = values_of("?", (7, 8, 9))
    write_by_many(sink_of(tmp_path / "new.nc", values, KINDS[kind]), values)
    xarray.Dataset({"data": (("a", "b", "c"), values)}).to_netcdf(tmp_path / "theirs.nc")
    for engine in ("netcdf4", "h5netcdf", "hyperslab"):
        with xarray.open_dataset(tmp_path / "new.nc", engine=engine) as found:
            assert_same(found["data"].to_numpy(), values)
    with netCDF4.Dataset(tmp_path / "new.nc") as ours, netCDF4.Dataset(tmp_path / "theirs.nc") as t:
        ours.set_auto_mask(False)
        assert ours["data"].dtype == t["data"].dtype
        assert ours["data"].getncattr("dtype") == t["data"].getncattr("dtype")
        assert_same(ours["data"][...], t["data"][...])
    assert_read_back(tmp_path / "new.nc", values, "data")


def test_packed_truth_values_have_no_place_in_netcdf(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="netCDF cannot hold bool"):
        sink_of(tmp_path / "a.nc", np.zeros((3, 4), "?"), scaling=Scaling(2.0, 1.0))


def test_chunks_that_libhdf5_cannot_hold_are_refused(tmp_path: Path) -> None:
    shape = (2**16, 2**15, 4)
    describe = formats.module("hdf5").sink
    with pytest.raises(UsageError, match="less than 4 GiB"):
        describe(
            str(tmp_path / "a.h5"), shape, np.dtype("i2"), Header(), None, Encoding(chunks=shape)
        )
    with pytest.raises(UsageError, match="HDF5 holds up to 32 axes"):
        describe(str(tmp_path / "a.h5"), (1,) * 33, np.dtype("i2"), Header())


def test_shuffled_is_the_order_of_the_filter() -> None:
    values = np.arange(1000, dtype="<i4")
    with h5py.File.in_memory() as file:
        dataset = file.create_dataset("a", data=values, chunks=(1000,), shuffle=True)
        stored = dataset.id.read_direct_chunk((0,))[1]
    room = np.empty(values.nbytes, np.uint8)
    assert deflating.shuffle(values.view(np.uint8), 4, room).tobytes() == stored
