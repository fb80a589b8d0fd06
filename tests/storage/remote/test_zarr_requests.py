"""How often a store is asked for a Zarr array, and for what: no metadata in a task, several chunks
at a time.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

import hyperslab
from hyperslab import Hyperslab, formats
from hyperslab.blocks import reading
from hyperslab.errors import FormatError
from hyperslab.formats.zarr import objects
from hyperslab.storage.remote import file
from hyperslab.testing.formats import assert_same
from tests.formats.zarr_made import make
from tests.storage.remote.conftest import S3
from tests.storage.remote.server import Server
from tests.storage.remote.zarr_stores import KINDS, by_zarr, put

DOCUMENTS = 4
"Requests in which the documents of a place come, or that they are not there."
SAMPLE = 8


def asked(server: Server) -> list[str]:
    """Names of the objects that were asked for."""
    return [seen.path.partition(".zarr/")[2] for seen in server.seen]


@pytest.mark.parametrize("kind", ["v2", "v3", "sharded"])
def test_opening_takes_few_requests_and_no_listing(kind: str, s3: S3, tmp_path: Path) -> None:
    url, options = put(s3, KINDS[kind](tmp_path / "a"), f"opened-{kind}.zarr")
    s3.server.forget()
    formats.open_source(url, options)
    assert len(s3.server.seen) == DOCUMENTS + SAMPLE
    assert all(seen.method == "GET" and seen.range for seen in s3.server.seen)


def test_an_array_of_a_group_is_opened_by_its_own_documents(s3: S3, tmp_path: Path) -> None:
    KINDS["v3"](tmp_path / "a", name="in/b")
    url, options = put(s3, tmp_path / "a", "grouped.zarr")
    s3.server.forget()
    source = formats.open_source(f"{url}::in/b", options)
    assert len(s3.server.seen) == DOCUMENTS + SAMPLE
    assert all(name.startswith("in/b/") for name in asked(s3.server))
    s3.server.forget()
    reading.read(source, Hyperslab((1, 1, 1), (9, 9, 9)))
    assert sorted(asked(s3.server)) == ["in/b/c/0/0/0", "in/b/c/1/0/0", "in/b/zarr.json"]


def test_a_table_of_contents_takes_few_requests(s3: S3, tmp_path: Path) -> None:
    for number in range(10):
        make(tmp_path / "a", name=f"in/{number}")
    url, options = put(s3, tmp_path / "a", "listed.zarr")
    s3.server.forget()
    assert len(formats.arrays(url, options)) == 10
    assert sum("list-type" in seen.path for seen in s3.server.seen) == 2
    assert len(s3.server.seen) == 2 + DOCUMENTS * 12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that version 3 does not specify it
        zarr.consolidate_metadata(tmp_path / "a")
    put(s3, tmp_path / "a", "listed.zarr")
    s3.server.forget()
    assert len(formats.arrays(url, options)) == 10
    assert len(s3.server.seen) == DOCUMENTS


@pytest.mark.parametrize(
    ("name", "requests"), [("none.zarr", DOCUMENTS), ("none", 1 + DOCUMENTS), ("none.nii", 1)]
)
def test_what_is_not_there_takes_few_requests(name: str, requests: int, s3: S3) -> None:
    with pytest.raises(FormatError, match="there is no such"):
        hyperslab.open(f"s3://bucket/{name}", storage_options=s3.options)
    assert len(s3.server.seen) == requests


@pytest.mark.parametrize("kind", ["v2", "v3", "raw"])
def test_a_region_takes_its_chunks_and_one_look(kind: str, s3: S3, tmp_path: Path) -> None:
    path = KINDS[kind](tmp_path / "a")
    url, options = put(s3, path, f"region-{kind}.zarr")
    source = formats.open_source(url, options)
    s3.server.forget()
    block = reading.read(source, Hyperslab((7, 0, 0), (2, 10, 36)))
    assert_same(np.asarray(block), by_zarr(path)[7:9, :10])
    assert len(s3.server.seen) == 2 * 3 + 1
    assert [name for name in asked(s3.server) if not re.fullmatch(r"(c/)?\d[./]0[./]\d", name)] == [
        source.document
    ]


def test_of_a_shard_what_is_needed_is_fetched(web: Server, tmp_path: Path) -> None:
    """Its index, and the chunks that lie near each other together; all of it by one request."""
    path = KINDS["sharded"](tmp_path / "a", compressors=None)
    url, _ = put(web, path, "parts.zarr")
    source = formats.open_source(url)
    for slab, ranges in (
        (Hyperslab((0, 0, 0), (1, 1, 1)), 2),
        (Hyperslab((0, 0, 0), (8, 10, 11)), 1),
        (Hyperslab((0, 0, 0), (8, 10, 6)), 2),
        (Hyperslab((4, 5, 6), (8, 1, 1)), 4),
    ):
        web.forget()
        assert_same(reading.read(source, slab), by_zarr(path)[slab.slices()])
        assert len(web.seen) == ranges + 1
    sizes = [int(seen.headers["range"].rpartition("-")[2]) for seen in web.seen]
    assert max(sizes) <= len(web.objects["/parts.zarr/c/0/0/0"])


def test_several_chunks_are_asked_for_at_a_time(
    web: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many as byte ranges of a file, by any number of threads; a large one in parts."""
    path = KINDS["raw"](tmp_path / "a")
    url, _ = put(web, path, "many.zarr")
    source = formats.open_source(url)
    for threads, largest in ((1, 2**23), (4, 2**23), (2, 500)):
        monkeypatch.setattr(objects, "LARGEST_NBYTES", largest)
        web.forget()
        web.delay_s = 0.02
        assert_same(
            reading.read(source, Hyperslab.full(source.shape), threads=threads), by_zarr(path)
        )
        assert file.DEPTH // 2 < web.most_at_once <= file.DEPTH
        assert len(web.seen) == 1 + 27 * -(-8 * 10 * 12 * 2 // largest)
