"""HDF5: the conformance suite on real files, and datasets of every layout that h5py writes."""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.arrays.header import Header
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import Values
from hyperslab.blocks import reading, view, writing
from hyperslab.errors import FormatError, UsageError
from hyperslab.formats import hdf5
from hyperslab.formats.hdf5 import storage
from hyperslab.testing import FormatTests
from hyperslab.testing.formats import assert_same, slabs
from tests.examples import examples
from tests.formats.files import DATA, few_real_files, large_real_files
from tests.repetitions import only

DTYPES = [
    "i1",
    "u1",
    "<i2",
    ">i2",
    "<u2",
    "<i4",
    ">u4",
    "<i8",
    ">u8",
    "<f2",
    ">f2",
    "<f4",
    ">f4",
    "<f8",
    ">f8",
]
FILTERS: list[dict[str, Any]] = [
    {},
    {"compression": "gzip"},
    {"shuffle": True},
    {"compression": "gzip", "shuffle": True},
    {"compression": "gzip", "shuffle": True, "fletcher32": True},
    {"compression": "lzf"},
    {"compression": "lzf", "shuffle": True, "fletcher32": True},
    {"compression": hdf5plugin.LZ4()},
    {"compression": hdf5plugin.Zstd(), "shuffle": True},
]
LAYOUT = DATA / "hdf5" / "layout"


@lru_cache(maxsize=512)
def whole(path: str, name: str) -> Array:
    with h5py.File(path, "r", locking=False) as file:
        return np.asarray(file[name][()])


class Hdf5Tests(FormatTests):
    def companions(self, path: Path) -> list[Path]:
        return list(path.parent.glob("1_*.h5")) if path.name == "1_vds.h5" else []

    def reference(self, url: str, slab: Hyperslab, values: Values) -> Array:
        path, name = formats.split_url(url)
        with h5py.File(path, "r", locking=False) as file:
            dataset = file[name]
            if slab.size == 0:
                return np.empty(slab.count, dataset.dtype)
            if dataset.size > 2**24:
                low, high = slab.bounds
                forward = tuple(
                    slice(a, z, abs(s)) for a, z, s in zip(low, high, slab.stride, strict=True)
                )
                block: Array = dataset[forward][
                    tuple(slice(None, None, int(np.sign(s))) for s in slab.stride)
                ]
                return block
        return np.asarray(whole(path, name)[slab.slices()])


class TestHdf5(Hdf5Tests):
    @pytest.fixture(params=few_real_files("hdf5", without=(".nc", ".mnc")))
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)


@only({"test_contents_agree_with_sources"})
class TestManyDatasets(Hdf5Tests):
    @pytest.fixture(params=large_real_files("hdf5", without=(".nc", ".mnc")))
    def path(self, request: pytest.FixtureRequest) -> Path:
        return Path(request.param)


@st.composite
def datasets(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A shape and the arguments of create_dataset: contiguous or chunked, in any combination of
    filters.
    """
    shape = draw(st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple))
    options: dict[str, Any] = {"dtype": draw(st.sampled_from(DTYPES))}
    if draw(st.booleans()):
        options["fillvalue"] = draw(
            st.integers(-5, 5) if "u" not in options["dtype"] else st.integers(0, 5)
        )
    if draw(st.integers(0, 3)):
        options["chunks"] = tuple(draw(st.integers(1, n)) for n in shape)
        options["maxshape"] = tuple(draw(st.sampled_from([n, None, 2 * n])) for n in shape)
        options |= draw(st.sampled_from(FILTERS))
    return shape, options


@given(data=st.data(), dataset=datasets(), libver=st.sampled_from(["earliest", "latest", "v110"]))
@settings(max_examples=examples(200), deadline=None)
def test_any_dataset_reads_as_h5py_reads_it(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    dataset: tuple[tuple[int, ...], dict[str, Any]],
    libver: str,
) -> None:
    shape, options = dataset
    path = tmp_path_factory.mktemp("hdf5") / "any.h5"
    parts = data.draw(st.lists(slabs(shape), max_size=3))
    with h5py.File(path, "w", libver=libver) as file:
        made = file.create_dataset("group/values", shape, **options)
        values = np.random.default_rng(7).integers(0, 120, shape).astype(made.dtype)
        for part in parts:
            low, high = part.bounds
            box = tuple(map(slice, low, high))
            made[box] = values[box]
        expected = made[()]
    source, slab = formats.open_source(str(path)), data.draw(slabs(shape))
    assert_same(reading.read(source, slab), expected[slab.slices()])
    assert source.chunks is not None or "edge" in source.reason or "later axis" in source.reason, (
        source.reason
    )


def eligibility(path: Path, name: str) -> str | None:
    with h5py.File(path, "r", locking=False) as file:
        return storage.eligible(file[name])


@pytest.mark.parametrize(
    ("file", "name", "reason"),
    [
        ("deflate.h5", "Dataset1", None),
        ("h5repack_filters.h5", "dset_shuffle", None),
        ("h5repack_filters.h5", "dset_fletcher32", None),
        ("h5repack_filters.h5", "dset_nbit", "use 31 of 32 bits"),
        ("h5repack_soffset.h5", "dset_scaleoffset", "scaleoffset"),
        ("h5repack_szip.h5", "dset_szip", "szip"),
        ("vds/1_vds.h5", "vds_dset", "virtual"),
    ],
)
def test_real_datasets_are_eligible_or_say_why_not(
    file: str, name: str, reason: str | None
) -> None:
    found = eligibility(LAYOUT / file, name)
    assert found is None if reason is None else reason in str(found)


@pytest.mark.parametrize("order", [["deflate", "shuffle"], ["deflate", "deflate"]])
def test_filters_in_unusual_order(tmp_path: Path, order: list[str]) -> None:
    path, values = (
        tmp_path / "order.h5",
        np.random.default_rng(1).integers(0, 50, (16, 6)).astype("<u4"),
    )
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk((4, 6))
    for name in order:
        creation.set_deflate(6) if name == "deflate" else creation.set_shuffle()
    with h5py.File(path, "w") as file:
        h5py.h5d.create(
            file.id, b"data", h5py.h5t.STD_U32LE, h5py.h5s.create_simple((16, 6)), creation
        )
        file["data"][...] = values
    source = formats.open_source(str(path))
    assert [codec.name for codec in source.codecs] == order
    assert_same(reading.read(source, Hyperslab((15, 5), (8, 3), (-2, -2))), values[15::-2, 5::-2])


def test_never_written_datasets_hold_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "empty.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("contiguous", (5, 4), ">f4", fillvalue=-3.5)
        file.create_dataset(
            "chunked", (5, 4), "<i2", fillvalue=7, chunks=(2, 2), compression="gzip"
        )
    for name, fill in (("contiguous", -3.5), ("chunked", 7)):
        source = formats.open_source(f"{path}::{name}")
        assert source.chunks is not None
        assert len(source.chunks) == 0
        assert reading.read_nbytes(source, Hyperslab.full((5, 4))) == 0
        assert (reading.read(source, Hyperslab.full((5, 4))) == fill).all()


def test_dimensions_are_named_by_labels_and_scales(tmp_path: Path) -> None:
    path = tmp_path / "named.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("field", data=np.zeros((2, 3, 4)))
        file["lat"] = np.arange(3)
        file["lat"].make_scale("latitude")
        dataset.dims[0].label = "time"
        dataset.dims[1].attach_scale(file["lat"])
    source = formats.open_source(str(path))
    assert source.name == "/field", "a dimension scale is not a candidate"
    assert source.dims == ("time", "lat", "dim_2")


def test_the_dataset_has_to_be_named_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "many.h5"
    with h5py.File(path, "w") as file:
        for i in range(25):
            file[f"group/array{i:02d}"] = np.zeros(3)
        file["word"] = "text"
    with pytest.raises(UsageError, match=r"holds 25 arrays.*::NAME.*array19 and 5 more"):
        formats.open_source(str(path))
    with pytest.raises(UsageError, match="holds no 'nowhere'"):
        formats.open_source(f"{path}::nowhere")
    with pytest.raises(UsageError, match="is a group"):
        formats.open_source(f"{path}::group")
    assert formats.open_source(f"{path}::word").stored == np.dtype(object)


def test_written_blocks_carry_their_affine(tmp_path: Path) -> None:
    affine, values = np.diag([2.0, 3.0, 4.0, 1.0]), np.arange(24, dtype="f2").reshape(2, 3, 4)
    parent = tmp_path / "parent.h5"
    writing.write(
        hdf5.sink(str(parent), values.shape, values.dtype, Header(base_affine=affine)), values
    )
    source = formats.open_source(str(parent))
    np.testing.assert_array_equal(source.header.affine, affine)
    slab = Hyperslab((1, 2, 0), (1, 2, 2), (1, -1, 2))
    block = reading.read(source, slab)
    sink = hdf5.sink(
        str(tmp_path / "block.h5"), block.shape, block.dtype, source.header.for_slab(slab)
    )
    first, second = writing.write(sink, block), writing.write(sink, block)
    assert first == second, "the same array gives the same bytes"
    with h5py.File(sink.path) as file:
        assert_same(file["data"][()], values[slab.slices()])
        np.testing.assert_array_equal(
            file["data"].attrs["affine"].reshape(4, 4) @ [0, 1, 1, 1], affine @ [1, 1, 2, 1]
        )


def test_a_place_without_an_affine_is_counted_in_voxels(tmp_path: Path) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros((4, 4))
    header = formats.open_source(str(path)).header.for_slab(Hyperslab((2, 3), (1, 1)))
    assert header.affine is not None
    np.testing.assert_array_equal(header.affine @ [0, 0, 0, 1], [2, 3, 0, 1])


@pytest.mark.parametrize("dtype", ["O", "M8[s]", "U4"])
def test_what_hdf5_cannot_hold_is_refused(dtype: str) -> None:
    with pytest.raises(UsageError, match="convert the block"):
        hdf5.sink("/nowhere/out.h5", (3,), np.dtype(dtype), Header())


def test_a_truncated_file_is_a_format_error(tmp_path: Path) -> None:
    path = tmp_path / "short.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.zeros(10000)
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(FormatError, match=r"short\.h5.*truncated"):
        formats.open_source(str(path))


def test_a_corrupt_chunk_is_named(tmp_path: Path) -> None:
    path, values = (
        tmp_path / "rot.h5",
        np.random.default_rng(3).integers(0, 9, (20, 20)).astype("i4"),
    )
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=values, chunks=(10, 10), compression="gzip")
    source = formats.open_source(str(path))
    assert source.chunks is not None
    raw = bytearray(path.read_bytes())
    offset, nbytes = int(source.chunks.offset[3]), int(source.chunks.nbytes[3])
    for damage in (bytes(nbytes), raw[offset : offset + 10] + bytes(nbytes - 10)):
        path.write_bytes(raw[:offset] + damage + raw[offset + nbytes :])
        damaged = formats.open_source(str(path))
        good = Hyperslab((0, 0), (10, 20))
        assert_same(reading.read(damaged, good), values[good.slices()])
        with pytest.raises(
            FormatError, match=rf"rot\.h5::/data: the chunk at byte {offset}: .*deflate"
        ):
            reading.read(damaged, Hyperslab.full((20, 20)))


def test_a_missing_filter_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = formats.open_source(str(DATA / "hdf5" / "corrupt" / "filter_error.h5"))
    with pytest.raises(FormatError, match=r"filter that is not installed, .*\(305\)"):
        reading.read(source, Hyperslab.full(source.shape))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(FormatError, match=r"pip install 'hyperslab\[codecs\]'"):
        reading.read(source, Hyperslab.full(source.shape))


def test_a_plugin_filter_is_read_through_the_library(tmp_path: Path) -> None:
    path, values = tmp_path / "bzip2.h5", np.arange(4096, dtype="i4").reshape(16, 256)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=values, chunks=(4, 64), compression=hdf5plugin.BZip2())
    source = formats.open_source(str(path))
    assert source.chunks is None
    np.testing.assert_array_equal(reading.read(source, Hyperslab.full(source.shape)), values)


def test_an_external_link_leads_to_the_other_file(tmp_path: Path) -> None:
    here, there = tmp_path / "here.h5", tmp_path / "there.h5"
    for path, values in ((here, np.arange(10)), (there, np.arange(10) * 7)):
        with h5py.File(path, "w") as file:
            file["group/data"] = values
    with h5py.File(here, "r+") as file:
        file["link"] = h5py.ExternalLink("there.h5", "group/data")
        file["own"] = h5py.ExternalLink("here.h5", "group/data")
    source = formats.open_source(f"{here}::link")
    assert (source.url, source.name) == (str(there), "/group/data")
    assert_same(reading.read(source, Hyperslab.full((10,))), np.arange(10) * 7)
    assert formats.open_source(f"{here}::own").url == str(here)


def test_text_and_lists_are_read_as_objects(tmp_path: Path) -> None:
    path = tmp_path / "words.h5"
    with h5py.File(path, "w") as file:
        file["words"] = ["one", "zwölf", ""]
        file.create_dataset("lists", (2,), h5py.vlen_dtype("i2"))[0] = [1, 2, 3]
    words = reading.read(formats.open_source(f"{path}::words"), Hyperslab.full((3,)))
    lists = reading.read(formats.open_source(f"{path}::lists"), Hyperslab((1,), (2,), (-1,)))
    assert words.tolist() == [b"one", "zwölf".encode(), b""]
    assert [part.tolist() for part in lists] == [[], [1, 2, 3]]
    assert [(info.name, info.dtype) for info in formats.arrays(str(path))] == [
        ("/lists", "lists"),
        ("/words", "text"),
    ]


SWMR_WRITER = """
import h5py, numpy, sys
with h5py.File(sys.argv[1], "w", libver="latest") as file:
    made = file.create_dataset("data", (0, 4), maxshape=(None, 4), chunks=(10, 4), dtype="i4")
    if sys.argv[2] == "swmr":
        file.swmr_mode = True
    made.resize((20, 4))
    made[:] = numpy.arange(80).reshape(20, 4)
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("mode", ["swmr", "alone"])
def test_a_file_that_another_process_writes(tmp_path: Path, mode: str) -> None:
    path = str(tmp_path / "made.h5")
    line = [sys.executable, "-c", SWMR_WRITER, path, mode]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        if mode == "swmr":
            assert np.array_equal(view.open(path)[3:], np.arange(80).reshape(20, 4)[3:])
        else:
            with pytest.raises(FormatError, match="already open for write"):
                view.open(path)
        assert writer.stdin is not None
        writer.stdin.close()
