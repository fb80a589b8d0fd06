"""What can go wrong with a Zarr store elsewhere: only a chunk that is said not to be there has the
fill value.
"""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pytest

import hyperslab
from hyperslab import formats
from hyperslab.arrays.slab import Hyperslab
from hyperslab.arrays.source import ArraySource
from hyperslab.blocks import reading
from hyperslab.errors import FormatError, HyperslabError, SourceChanged, Unavailable
from hyperslab.formats.zarr.objects import ChunkObjects
from hyperslab.testing.formats import assert_same
from tests.repetitions import each_value, few
from tests.storage.remote.conftest import BUCKET, S3
from tests.storage.remote.server import Server
from tests.storage.remote.test_secrets import HEAD, SECRETS
from tests.storage.remote.zarr_stores import KINDS, by_zarr, put

ALL = Hyperslab.full((24, 30, 36))
ONCE = {"hyperslab_attempts": 1}
HASTY = {"hyperslab_timeout_s": 3.0, **ONCE}


@pytest.fixture(params=["s3", "web"])
def place(request: pytest.FixtureRequest) -> S3 | Server:
    store: S3 | Server = request.getfixturevalue(request.param)
    return store


def server_of(place: S3 | Server) -> Server:
    return place.server if isinstance(place, S3) else place


def remove(place: S3 | Server, key: str) -> None:
    place.fs.rm(f"{BUCKET}/{key}") if isinstance(place, S3) else place.objects.pop(f"/{key}")


def replace(place: S3 | Server, key: str, data: bytes) -> None:
    if isinstance(place, S3):
        place.put(key, data)
    else:
        place.objects[f"/{key}"] = data


def opened(place: S3 | Server, path: Path, name: str, **more: Any) -> ArraySource:
    url, options = put(place, path, name)
    return formats.open_source(url, {**options, **more})


def is_there(place: S3 | Server, name: str) -> TypeGuard[S3]:
    """Whether another test has put a store there; a web server forgets."""
    return isinstance(place, S3) and place.fs.exists(f"{BUCKET}/{name}/zarr.json")


HOLED = ["v2", "v3", "raw", "sharded"]


@each_value("a chunk that is not there, at every place")
@pytest.mark.parametrize("kind", few(["v2", "sharded"], HOLED, "a chunk that is not there"))
def test_a_chunk_that_is_not_there_has_the_fill_value(
    kind: str, place: S3 | Server, tmp_path: Path
) -> None:
    source = opened(place, KINDS[kind](tmp_path / "a"), f"holes-{kind}.zarr")
    chunk = "0.1.0" if kind == "v2" else "c/0/1/0"
    (tmp_path / "a" / chunk).unlink()
    remove(place, f"holes-{kind}.zarr/{chunk}")
    found = reading.read(source, ALL)
    assert_same(found, by_zarr(tmp_path / "a"))
    assert (found[:8, 10:20, :12] == 7).all()


@each_value("an answer is an error, from every place")
@pytest.mark.parametrize("kind", few(["sharded"], ["v3", "sharded"], "an answer is an error"))
@pytest.mark.parametrize(
    ("fault", "error", "why"),
    [
        ("403", FormatError, "access is denied"),
        ("500", Unavailable, "the store fails"),
        ("503", Unavailable, "slow down"),
        ("hang", Unavailable, "no answer within 3 s"),
        ("short", Unavailable, "the connection breaks off"),
    ],
)
def test_any_other_answer_is_an_error(
    fault: str, error: type[Exception], why: str, kind: str, place: S3 | Server, tmp_path: Path
) -> None:
    name = f"fault-{kind}.zarr"
    options = HASTY if fault == "hang" else ONCE
    if is_there(place, name):
        source = formats.open_source(f"s3://{BUCKET}/{name}", {**place.options, **options})
    else:
        source = opened(place, KINDS[kind](tmp_path / "a"), name, **options)
    server = server_of(place)
    for region in (ALL, Hyperslab((9, 11, 13), (1, 1, 1))):
        server.forget()
        server.only = "c/1/1/1"
        server.faults.append(fault)
        with pytest.raises(error, match=rf"{name}/c/1/1/1.*: .*{why}"):
            reading.read(source, region)


def test_s3_denies_what_is_not_there_to_who_may_not_list(s3: S3, tmp_path: Path) -> None:
    """So that it cannot be told from what is denied, and is said."""
    source = opened(s3, KINDS["v3"](tmp_path / "a"), "hidden.zarr")
    remove(s3, "hidden.zarr/c/0/0/0")
    s3.server.only = "c/0/0/0"
    s3.server.faults.append("403")
    with pytest.raises(
        FormatError, match=r"denied \(403.*\), which S3 also says of what is not there.*ListBucket"
    ):
        reading.read(source, ALL)


def test_faults_that_pass_are_asked_again(place: S3 | Server, tmp_path: Path) -> None:
    path, server = KINDS["v3"](tmp_path / "a"), server_of(place)
    source = opened(place, path, "passing.zarr")
    server.forget()
    server.only = "c/1/1/1"
    server.faults.extend(["503", "short"])
    assert_same(reading.read(source, ALL), by_zarr(path))
    assert sum("c/1/1/1" in seen.path for seen in server.seen) == 3


def test_a_bucket_that_is_gone_is_no_missing_chunk(s3: S3, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"there is no such object .*NoSuchBucket"):
        hyperslab.open("s3://other/a.zarr", storage_options=s3.options)
    s3.fs.mkdir("passing-by")
    s3.fs.put(str(KINDS["v3"](tmp_path / "a")), "passing-by/a.zarr", recursive=True)
    source = formats.open_source("s3://passing-by/a.zarr", s3.options)
    s3.fs.rm("passing-by", recursive=True)
    with pytest.raises((FormatError, SourceChanged), match=r"no such object|no longer there"):
        reading.read(source, ALL)


DAMAGED = ["v3", "raw", "sharded"]


@each_value("a damaged chunk is noticed, from every place")
@pytest.mark.parametrize("kind", few(["raw", "sharded"], DAMAGED, "a damaged chunk is noticed"))
def test_damaged_chunks(kind: str, place: S3 | Server, tmp_path: Path) -> None:
    path = KINDS[kind](tmp_path / "a")
    whole = (path / "c/1/1/1").read_bytes()
    url, options = put(place, path, f"damaged-{kind}.zarr")
    for data in (b"", whole[:40], whole[:-1]):
        replace(place, f"damaged-{kind}.zarr/c/1/1/1", data)
        source = formats.open_source(url, options)
        for region in (ALL, Hyperslab((9, 11, 13), (1, 1, 1))):
            with pytest.raises(FormatError, match="copy the store again"):
                reading.read(source, region)


def test_a_document_that_is_written_again_is_noticed(s3: S3, tmp_path: Path) -> None:
    """Also with the same text: the values may be others."""
    source = opened(s3, KINDS["v3"](tmp_path / "a"), "again.zarr")
    time.sleep(1.1)  # S3 tells times in seconds
    s3.put("again.zarr/zarr.json", (tmp_path / "a/zarr.json").read_bytes())
    with pytest.raises(SourceChanged, match=r"again\.zarr/zarr\.json: was written to"):
        reading.read(source, ALL)
    assert formats.open_source(str(source.url), s3.options).version != source.version
    remove(s3, "again.zarr/zarr.json")
    with pytest.raises(SourceChanged, match="no longer there"):
        reading.read(source, ALL)


def test_a_shard_that_is_replaced_while_it_is_read(
    web: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = KINDS["sharded"](tmp_path / "a")
    source, plain = opened(web, path, "moving.zarr"), ChunkObjects.get_ranges

    async def replaced(self: ChunkObjects, key: str, ranges: Any) -> Any:
        web.objects[f"/moving.zarr/{key}"] = bytes(len(web.objects[f"/moving.zarr/{key}"]))
        return await plain(self, key, ranges)

    monkeypatch.setattr(ChunkObjects, "get_ranges", replaced)
    with pytest.raises(SourceChanged, match="was written to"):
        reading.read(source, Hyperslab((0, 0, 0), (1, 1, 1)))


def test_documents_that_are_denied(s3: S3, tmp_path: Path) -> None:
    """One that is denied may be missing, where S3 does not say; with another that is there, it
    is.
    """
    path = KINDS["v2"](tmp_path / "a")
    url, options = put(s3, path, "denied.zarr")
    s3.server.only = "zarr.json"
    s3.server.faults.append("403")
    assert_same(hyperslab.open(url, storage_options=options)[...], by_zarr(path))
    for document in (".zattrs", ".zarray"):
        s3.server.forget()
        s3.server.only = document
        s3.server.faults.append("403")
        with pytest.raises(HyperslabError, match=r"access is denied|no such Zarr store"):
            hyperslab.open(url, storage_options=options)
    s3.put("wrong/zarr.json", b"{")
    with pytest.raises(FormatError, match=r"wrong/zarr\.json is not JSON"):
        hyperslab.open("s3://bucket/wrong", storage_options=options)
    s3.server.forget()
    s3.server.always = "403"
    with pytest.raises(FormatError, match=r"bucket/private: access is denied"):
        hyperslab.open("s3://bucket/private", storage_options=options)
    with pytest.raises(FormatError, match="access is denied"):
        hyperslab.open(url, storage_options=options)


def test_nothing_that_is_shown_holds_a_secret(web: Server, tmp_path: Path) -> None:
    url, _ = put(web, KINDS["v3"](tmp_path / "a"), "a b.zarr")
    signed = f"{url.replace('://', f'://me:{SECRETS[2]}@')}?X-Amz-Signature={SECRETS[3]}"
    view = hyperslab.open(signed, storage_options={**HEAD, **HASTY})
    source = pickle.loads(pickle.dumps(view.source))
    assert all(f"X-Amz-Signature={SECRETS[3]}" in seen.path for seen in web.seen)
    assert all(seen.headers["x-pass"] == f"for {SECRETS[4]}" for seen in web.seen)
    np.testing.assert_array_equal(reading.read(source, ALL), view[...])
    shown = [repr(source), repr(view), str(source.url), view._repr_html_()]
    for fault in ("403", "500", "hang", "drop", "short"):
        web.always = fault
        with pytest.raises(HyperslabError) as raised:
            reading.read(source, ALL)
        shown += [repr(raised.value), str(raised.value), repr(raised.value.__cause__)]
    web.forget()
    web.objects["/a b.zarr/c/0/0/0"] = b"garbage"
    with pytest.raises(FormatError) as raised:
        reading.read(source, ALL)
    shown.append(str(raised.value))
    assert not [text for text in shown for secret in SECRETS if secret in text]


def test_a_server_without_ranges_gives_whole_chunks(web: Server, tmp_path: Path) -> None:
    """Not parts of shards, and not how much is stored."""
    path = KINDS["v3"](tmp_path / "a")
    web.always = "rangeless"
    source = opened(web, path, "plain.zarr")
    assert source.nbytes_stored == source.nbytes
    assert_same(reading.read(source, ALL), by_zarr(path))
    with pytest.raises(FormatError, match="ignores range requests"):
        reading.read(
            opened(web, KINDS["sharded"](tmp_path / "b"), "shards.zarr"),
            Hyperslab((0, 0, 0), (1, 1, 1)),
        )
