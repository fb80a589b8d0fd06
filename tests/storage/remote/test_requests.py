"""How often a store is asked, and for how much: few, joined requests, as planned."""

from __future__ import annotations

import io
import re
from itertools import pairwise
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperslab
from hyperslab import Hyperslab, formats
from hyperslab.arrays import Array
from hyperslab.blocks import reading
from hyperslab.storage.remote import file as remotefile
from hyperslab.storage.remote.file import (
    BLOCK_NBYTES,
    GAP_NBYTES,
    LARGEST_NBYTES,
    RemoteIO,
    describe,
    join,
    joined_nbytes,
)
from hyperslab.testing.formats import slabs, traced_memory
from hyperslab.trace import recording
from tests.examples import examples
from tests.storage.remote.conftest import S3
from tests.storage.remote.server import Server

CHUNKS = 20 * 20 * 20


@pytest.fixture(scope="module")
def many_chunks(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Array]:
    """An HDF5 file of 8,000 chunks, 2 MB."""
    path = tmp_path_factory.mktemp("many") / "many.h5"
    values = np.random.default_rng(0).integers(0, 2**15, (120, 120, 120), "i2") & 0xF0F
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset(
            "data", data=values, chunks=(6, 6, 6), compression="gzip", compression_opts=1
        )
    return path.read_bytes(), values


def fetched(server: Server) -> int:
    """Bytes that were asked for."""
    asked = [re.fullmatch(r"bytes=(\d+)-(\d+)", seen.range) for seen in server.gets()]
    return sum(int(found[2]) - int(found[1]) + 1 for found in asked if found)


def test_opening_takes_few_requests(many_chunks: tuple[bytes, Array], s3: S3) -> None:
    """One tells what the object is and brings its beginning; the chunk index lies together behind
    it.
    """
    url = s3.put("many.h5", many_chunks[0])
    source = formats.open_source(f"{url}::data", s3.options)
    assert source.chunks is not None
    assert len(source.chunks) == CHUNKS
    assert len(s3.server.seen) <= 8
    assert all(seen.method == "GET" and seen.range for seen in s3.server.seen)


def test_a_large_chunk_is_fetched_by_no_more_requests_at_a_time_than_others(
    web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = np.random.default_rng(0).bytes(40 * 2**10)
    web.objects["/a"] = raw
    monkeypatch.setattr(remotefile, "LARGEST_NBYTES", 2**10)
    remote = describe(f"{web.url}/a", {})
    web.forget()
    web.delay_s = 0.02
    assert (
        b"".join(remotefile.RemoteFile(remote).fetch([(0, 30 * 2**10), (30 * 2**10, 10 * 2**10)]))
        == raw
    )
    assert len(web.seen) == 40
    assert 1 < web.most_at_once <= remotefile.DEPTH


def test_a_small_file_is_opened_by_one_request(folder: Path, web: Server) -> None:
    web.objects["/plain.nii"] = (folder / "plain.nii").read_bytes()
    view = hyperslab.open(f"{web.url}/plain.nii")
    assert [seen.range for seen in web.seen] == [f"bytes=0-{BLOCK_NBYTES - 1}"]
    view[3:5]
    assert len(web.seen) == 2


def test_a_region_of_many_chunks_takes_few_requests(
    many_chunks: tuple[bytes, Array], s3: S3
) -> None:
    raw, values = many_chunks
    source = formats.open_source(f"{s3.put('many.h5', raw)}::data", s3.options)
    for slab, chunks, most in (
        (((6, 0, 0), (60, 120, 120)), 4000, 2),
        (((0, 0, 0), (120, 60, 6)), 200, 2),
    ):
        s3.server.seen.clear()
        block = reading.read(source, region := Hyperslab(*slab))
        np.testing.assert_array_equal(block, values[region.slices()])
        assert source.chunks is not None
        assert len(source.chunks.overlapping(region)) == chunks
        assert 1 <= len(s3.server.seen) <= most
        assert fetched(s3.server) == reading.read_nbytes(source, region)


def test_several_requests_are_under_way_at_a_time(
    web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remotefile, "LARGEST_NBYTES", 1000)
    web.objects["/a"], web.delay_s = bytes(range(250)) * 80, 0.05
    remote = describe(f"{web.url}/a")
    web.seen.clear()
    (data,) = remotefile.RemoteFile(remote).fetch([(5, 19_000)])
    assert data == web.objects["/a"][5:19_005]
    assert len(web.seen) == 19
    assert (
        3 <= web.most_at_once <= remotefile.DEPTH + 11
    )  # one range of 19 parts is asked for at once
    web.most_at_once = 0
    assert (
        len(list(remotefile.RemoteFile(remote).fetch((n, 900) for n in range(0, 20_000, 1000))))
        == 20
    )
    assert 3 <= web.most_at_once <= remotefile.DEPTH


@pytest.mark.parametrize(
    "array", ["made.h5::contiguous", "made.h5::gzip", "made.h5::raw", "classic.nc::packed"]
)
@given(data=st.data())
@settings(max_examples=12)
def test_as_much_is_fetched_as_was_planned(
    array: str, data: st.DataObject, folder: Path, lasting_web: Server
) -> None:
    file = array.partition("::")[0]
    lasting_web.objects[f"/planned/{file}"] = (folder / file).read_bytes()
    source = formats.open_source(f"{lasting_web.url}/planned/{array}")
    slab = data.draw(slabs(source.shape))
    lasting_web.seen.clear()
    with recording() as phases, traced_memory() as peak:
        reading.read(source, slab)
    planned = reading.read_nbytes(source, slab)
    assert fetched(lasting_web) == planned == sum(phase.nbytes for phase in phases)
    assert {phase.kind for phase in phases} == ({"read"} if slab.size else set())
    assert peak[0] <= reading.read_peak(source, slab) + 2**16


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, GAP_NBYTES, GAP_NBYTES + 1, 2**30]),
            st.sampled_from([1, 10**6, 9 * 2**20]),
        ),
        max_size=30,
    )
)
def test_joining(steps: list[tuple[int, int]]) -> None:
    """Nothing is left out, no request is too long unless a range is, and no gap is too long."""
    ranges, end = [], 0
    for gap, nbytes in steps:
        ranges.append((end + gap, nbytes))
        end += gap + nbytes
    joined = list(join(ranges))
    assert [found for held in joined for found in held] == ranges
    for held in joined:
        assert len(held) == 1 or sum(held[-1]) - held[0][0] <= LARGEST_NBYTES
        assert all(later[0] - sum(before) <= GAP_NBYTES for before, later in pairwise(held))
    for one, other in pairwise(joined):
        fits = (
            other[0][0] - sum(one[-1]) <= GAP_NBYTES and sum(other[0]) - one[0][0] <= LARGEST_NBYTES
        )
        assert not fits, "these could have been one request"
    assert joined_nbytes(ranges) == sum(sum(held[-1]) - held[0][0] for held in joined)


def test_ranges_in_another_order_are_all_there(web: Server) -> None:
    web.objects["/a"] = bytes(range(256))
    ranges = [(9, 4), (2, 3), (2, 3), (0, 256), (255, 1)]
    found = remotefile.RemoteFile(describe(f"{web.url}/a")).fetch(ranges)
    assert list(found) == [web.objects["/a"][first : first + nbytes] for first, nbytes in ranges]


@given(data=st.data())
@settings(max_examples=examples(40))
def test_the_file_like_object_is_a_file(data: st.DataObject, lasting_web: Server) -> None:
    raw = np.random.default_rng(0).bytes(3 * BLOCK_NBYTES + 77)
    lasting_web.objects["/like"] = raw
    file, plain = RemoteIO(describe(f"{lasting_web.url}/like")), io.BytesIO(raw)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(
            st.integers(0, len(raw) + 5) | st.sampled_from([0, BLOCK_NBYTES - 1, 2 * BLOCK_NBYTES])
        )
        assert file.seek(place) == plain.seek(place) == file.tell()
        nbytes = data.draw(st.sampled_from([0, 1, 9, BLOCK_NBYTES, 2 * BLOCK_NBYTES + 1, -1]))
        assert file.read(nbytes) == plain.read(nbytes)
    assert file.seek(-7, io.SEEK_END) == len(raw) - 7
    assert file.seek(3, io.SEEK_CUR) == len(raw) - 4
    assert file.readall() == raw[-4:]


def test_reading_from_front_to_back_reads_ahead(web: Server) -> None:
    web.objects["/long"] = np.random.default_rng(0).bytes(60 * BLOCK_NBYTES)
    file = RemoteIO(describe(f"{web.url}/long"))
    pieces = [file.read(50_000) for _ in range(60 * BLOCK_NBYTES // 50_000)]
    assert b"".join(pieces) == web.objects["/long"][: 50_000 * len(pieces)]
    assert len(web.seen) <= 10
    jumping = RemoteIO(describe(f"{web.url}/long"))
    web.seen.clear()
    for number in (50, 3, 40, 8):
        jumping.seek(number * BLOCK_NBYTES)
        jumping.read(10)
    assert fetched(web) == 4 * BLOCK_NBYTES


def test_what_was_read_of_one_state_is_not_given_for_another(web: Server) -> None:
    web.objects["/a"] = b"one" * 10
    first = describe(f"{web.url}/a")
    web.objects["/a"] = b"two" * 10
    assert RemoteIO(describe(f"{web.url}/a")).read() == b"two" * 10
    assert RemoteIO(first).read() == b"one" * 10, "this came with the description"
