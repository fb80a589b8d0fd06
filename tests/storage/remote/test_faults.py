"""Stores that deny, slow down, fall silent or lie: a clear sentence within bounded time, never a
wrong value.
"""

from __future__ import annotations

import pickle
import socket
import time
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pytest
import xarray
from fsspec.registry import _registry, known_implementations

import hyperslab
from hyperslab import formats
from hyperslab.arrays import Array
from hyperslab.connectors.xarray import HyperslabBackend
from hyperslab.errors import (
    FormatError,
    HyperslabError,
    MissingExtra,
    SourceChanged,
    Unavailable,
    UsageError,
)
from hyperslab.storage.location import Remote
from hyperslab.storage.remote import connections, objects
from hyperslab.storage.remote.faults import Refused, understand
from hyperslab.storage.remote.file import RemoteIO
from tests.storage.remote.conftest import S3, asking
from tests.storage.remote.server import Server

PATIENCE_S = 100.0
"After so long, something hangs; nothing is measured by it."
QUICK = {"hyperslab_timeout_s": 0.4, "hyperslab_attempts": 3}
"For who is not answered at all."


def limits(fault: str, attempts: int = 3) -> dict[str, Any]:
    """How often and how long who meets a fault waits for an answer: not for long if none comes."""
    limit_s = 1.0 if fault == "hang" else PATIENCE_S
    return {"hyperslab_timeout_s": limit_s, "hyperslab_attempts": attempts}


@pytest.fixture(autouse=True)
def _no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_FIRST_PAUSE_S", 0.01)


@pytest.fixture
def made(folder: Path, s3: S3) -> hyperslab.ArrayView:
    """A view of chunks in S3, opened."""
    url = s3.put("made.h5", (folder / "made.h5").read_bytes())
    view = hyperslab.open(f"{url}::gzip", storage_options=s3.options)
    s3.server.seen.clear()
    return view


@pytest.mark.parametrize("fault", ["503", "429", "500", "drop", "short", "hang"])
def test_what_fails_in_passing_is_tried_again(
    fault: str, made: hyperslab.ArrayView, values: Array, s3: S3, web: Server, folder: Path
) -> None:
    options = limits(fault, attempts=9)  # a busy machine may not answer in time, either
    s3.server.faults.extend([fault, fault])
    np.testing.assert_array_equal(asking(made, options)[...], values)
    assert not s3.server.faults
    web.objects["/plain.nii"] = (folder / "plain.nii").read_bytes()
    web.faults.extend([fault, "", fault])
    view = hyperslab.open(f"{web.url}/plain.nii", "stored", storage_options=options)
    np.testing.assert_array_equal(view[...], values)
    assert not web.faults


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("503", Unavailable, "asks to slow down .503 .*at each of 3 attempts; use fewer workers"),
        ("429", Unavailable, "asks to slow down .429 .*at each of 3 attempts"),
        ("500", Unavailable, "the store fails .500 .*at each of 3 attempts; try again later"),
        ("drop", Unavailable, "the connection breaks off .*at each of 3 attempts"),
        ("short", Unavailable, "the connection breaks off .*at each of 3 attempts"),
        (
            "hang",
            Unavailable,
            "no answer within 1 s, at each of 3 attempts; check host and endpoint_url",
        ),
        ("403", FormatError, "access is denied .403.*; check the credentials"),
        ("404", SourceChanged, "is no longer there"),
        (
            "rangeless",
            FormatError,
            "ignores range requests, so that parts cannot be read; copy the file",
        ),
        ("shifted", FormatError, "other bytes than those asked for"),
        ("unsaid", FormatError, "ignores range requests"),
    ],
)
def test_what_goes_on_failing_is_a_sentence(
    fault: str, error: type[HyperslabError], words: str, folder: Path, web: Server
) -> None:
    web.objects["/made.h5"] = (folder / "made.h5").read_bytes()
    url = f"{web.url}/made.h5::contiguous"
    view = asking(hyperslab.open(url), limits(fault))
    web.always = fault
    began = time.monotonic()
    with pytest.raises(error, match=words) as raised:
        view[...]
    assert time.monotonic() - began < PATIENCE_S
    assert str(raised.value).startswith(f"{web.url}/made.h5: ")
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None
    web.always = ""
    assert view[0].any(), "the next read finds the store well again"


@pytest.mark.parametrize(
    ("fault", "words"),
    [("503", "slow down .503 SlowDown"), ("403", "denied .403"), ("hang", "within 1 s")],
)
def test_s3_says_the_same(fault: str, words: str, made: hyperslab.ArrayView, s3: S3) -> None:
    s3.server.always = fault
    with pytest.raises(HyperslabError, match=words):
        asking(made, limits(fault))[...]
    assert len(s3.server.seen) <= 3, "nobody else insists, too"
    s3.server.always = ""


def test_a_server_that_accepts_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/a.nii"
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"no answer within 0.4 s, at each of 3 attempts"):
            hyperslab.open(url, storage_options=QUICK)
        assert 1.2 <= time.monotonic() - began < PATIENCE_S


def test_a_connection_that_drips_comes_to_an_end(
    web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SLOWEST_NBYTES_PER_S", 2**20)
    web.objects["/a.nii"], web.always = bytes(1000), "drip"
    with pytest.raises(Unavailable, match="no answer"):
        hyperslab.open(f"{web.url}/a.nii", storage_options={**QUICK, "hyperslab_timeout_s": 0.5})


def test_a_store_that_blocks_comes_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    fs = fsspec.filesystem("memory", skip_instance_cache=True)
    fs.pipe("/blocks/a.nii", b"x" * 400)
    monkeypatch.setattr(type(fs), "info", lambda *_, **__: time.sleep(3))
    with pytest.raises(Unavailable, match=r"no answer within 0.2 s"):
        hyperslab.open(
            "memory://blocks/a.nii",
            storage_options={"hyperslab_timeout_s": 0.2, "hyperslab_attempts": 1},
        )


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    s3 = {"endpoint_url": f"http://127.0.0.1:{port}", "key": "a", "secret": "b"}
    for url, options in ((f"http://127.0.0.1:{port}/a.nii", {}), ("s3://b/a.nii", s3)):
        with pytest.raises(
            Unavailable, match=r"cannot be reached .*3 attempts; check host and endpoint_url"
        ):
            hyperslab.open(url, storage_options={**limits(""), **options})


@pytest.mark.parametrize(
    ("url", "options", "error", "words"),
    [
        ("s3://bucket/none.h5", {}, FormatError, "no such object .404 NoSuchKey"),
        ("s3://nobucket/none.h5", {}, FormatError, "no such object .404 NoSuchBucket"),
        (
            "s3://bucket/a",
            {"nonsense": 1},
            UsageError,
            "nonsense.*check the URL and the storage options",
        ),
        ("s3://bucket/a", {"config_kwargs": 7}, UsageError, "its store cannot be opened"),
        ("s3:///a", {}, UsageError, "cannot be asked for"),
        ("s3://bucket/a", {"hyperslab_attempts": 0}, UsageError, "at least 1"),
        ("s3://bucket/a", {"hyperslab_timeout_s": "soon"}, UsageError, "more than 0"),
        ("nowhere://bucket/a", {}, UsageError, "not a scheme that fsspec knows"),
        ("http:///a", {}, UsageError, "cannot be asked for"),
    ],
)
def test_wrong_use(
    url: str, options: dict[str, Any], error: type[HyperslabError], words: str, s3: S3
) -> None:
    with pytest.raises(error, match=words):
        hyperslab.open(
            url, storage_options={**(s3.options if url.startswith("s3") else {}), **options}
        )


def test_no_credentials(s3: S3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"no credentials .*anon=true for public data"):
        hyperslab.open("s3://bucket/a.h5", storage_options={"endpoint_url": s3.server.url})


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = {"class": "nopackage.It", "err": "Install it"}
    monkeypatch.setitem(known_implementations, "strange", lacking)
    with pytest.raises(MissingExtra, match=r"strange:// needs another package: Install it"):
        hyperslab.open("strange://a/b.h5")
    monkeypatch.setitem(known_implementations, "s3a", lacking)
    monkeypatch.delitem(_registry, "s3a", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'hyperslab\[remote\]'"):
        hyperslab.open("s3a://a/b.h5")


def test_fsspec_itself_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingExtra, match=r"needs fsspec: pip install 'hyperslab\[remote\]'"):
        hyperslab.open("s3://a/b.h5", storage_options={"key": "another"})


@pytest.mark.parametrize("size", [0, 1, 100])
def test_objects_that_are_no_arrays(size: int, s3: S3, web: Server) -> None:
    words = "is empty" if size == 0 else "its format is unknown"
    with pytest.raises(FormatError, match=words):
        hyperslab.open(s3.put("few", b"\xff" * size), storage_options=s3.options)
    web.objects["/few"] = b"\xff" * size
    with pytest.raises(FormatError, match=words):
        hyperslab.open(f"{web.url}/few")


def test_a_server_without_ranges_is_found_out_at_once(folder: Path, web: Server) -> None:
    web.objects["/a.nii"], web.always = (folder / "plain.nii").read_bytes(), "rangeless"
    with pytest.raises(FormatError, match="ignores range requests"):
        hyperslab.open(f"{web.url}/a.nii")
    web.objects["/long.nii"] = web.objects["/a.nii"] + bytes(300_000)
    with pytest.raises(FormatError, match="ignores range requests"):
        hyperslab.open(f"{web.url}/long.nii")


def replaced(view: hyperslab.ArrayView) -> None:
    with pytest.raises(SourceChanged, match="run again with --resume"):
        view[3:5]


def test_an_object_that_was_replaced(made: hyperslab.ArrayView, s3: S3, folder: Path) -> None:
    raw = (folder / "made.h5").read_bytes()
    s3.put("made.h5", raw[:-1] + b"X")
    replaced(made)
    s3.put("made.h5", raw + b"X")
    replaced(made)
    s3.put("made.h5", raw[:5000])
    replaced(made)
    s3.put("made.h5", b"")
    replaced(made)
    s3.fs.rm_file("bucket/made.h5")
    replaced(made)
    s3.put("made.h5", raw)
    assert made[3:5].any(), "the same bytes are the same object"


@pytest.mark.parametrize("says_state", [True, False])
def test_a_page_that_was_replaced(says_state: bool, folder: Path, web: Server) -> None:
    web.says_state = says_state
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    view = hyperslab.open(f"{web.url}/a.nii")
    web.objects["/a.nii"] += b"more"
    with pytest.raises(SourceChanged, match="bytes when it was opened"):
        view[0]
    web.objects["/a.nii"] = web.objects["/a.nii"][:300]
    with pytest.raises(SourceChanged, match="it was opened"):
        view[0]
    del web.objects["/a.nii"]
    with pytest.raises(SourceChanged, match="no longer there"):
        view[0]


def test_an_object_replaced_while_it_is_opened(folder: Path, web: Server) -> None:
    """The metadata that are read later are those of another object."""
    raw = (folder / "made.h5").read_bytes()
    web.objects["/a.h5"] = raw + bytes(2**20)
    remote, _ = formats.find(f"{web.url}/a.h5")
    web.objects["/a.h5"] = raw + bytes(2**20 - 1) + b"X"
    assert isinstance(remote, Remote)
    with pytest.raises(SourceChanged, match="written to after"):
        RemoteIO(remote).readall()


def test_chunks_beyond_the_object(web: Server, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data=np.arange(10_000), chunks=(1000,), compression="gzip")
    raw = bytearray((tmp_path / "a.h5").read_bytes())
    web.objects["/a.h5"] = bytes(raw[: len(raw) - 900])
    with pytest.raises(FormatError, match="truncated"):
        hyperslab.open(f"{web.url}/a.h5")


def test_a_chunk_that_is_corrupt_is_named(web: Server, folder: Path) -> None:
    source = formats.open_source(f"{folder}/made.h5::small")
    assert source.chunks is not None
    raw = bytearray((folder / "made.h5").read_bytes())
    raw[int(source.chunks.offset[7]) + 3] ^= 0xFF
    web.objects["/made.h5"] = bytes(raw)
    with pytest.raises(FormatError, match=f"the chunk at byte {source.chunks.offset[7]}: "):
        hyperslab.open(f"{web.url}/made.h5::small")[...]


@pytest.fixture
def leads_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """A file whose parts name another file, in which the same names are."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("b.h5", "w") as other:
        other["x"] = np.ones(10)
    np.zeros(10).tofile("raw.bin")
    with h5py.File("a.h5", "w") as file:
        file["x"] = np.arange(10.0)
        file["linked"] = h5py.ExternalLink("b.h5", "/x")
        file["softly"] = h5py.SoftLink("/linked")
        for name, other_name in (("virtual", "b.h5"), ("inside", ".")):
            layout = h5py.VirtualLayout((10,), "f8")
            layout[:] = h5py.VirtualSource(other_name, "x", shape=(10,))
            file.create_virtual_dataset(name, layout, fillvalue=-1)
        file.create_dataset("outside", (10,), "f8", external=[("raw.bin", 0, 80)])
    return Path("a.h5").read_bytes()


@pytest.mark.parametrize("name", ["linked", "softly", "virtual", "outside"])
def test_other_files_are_not_taken_for_those_that_are_meant(
    name: str, leads_out: bytes, web: Server
) -> None:
    """HDF5 would look for them in the same object, and find values there, or none."""
    web.objects["/a.h5"] = leads_out
    with pytest.raises(FormatError, match="leads to other files, which are not followed"):
        hyperslab.open(f"{web.url}/a.h5::{name}")
    np.testing.assert_array_equal(hyperslab.open(f"{web.url}/a.h5::inside")[...], np.arange(10.0))


def test_the_engine_of_xarray_leaves_out_what_leads_to_other_files(
    leads_out: bytes, web: Server
) -> None:
    web.objects["/a.h5"] = leads_out
    with pytest.warns(UserWarning, match="leads to other files, which are not followed") as warned:
        found = xarray.open_dataset(f"{web.url}/a.h5", engine=HyperslabBackend)
    assert {str(one.message).split()[0] for one in warned} == {
        "linked",
        "softly",
        "virtual",
        "outside",
    }
    assert set(found.variables) == {"x", "inside"}
    np.testing.assert_array_equal(found["inside"], np.arange(10.0))
    found.close()


@pytest.mark.parametrize("fault", ["403", "short"])
def test_whichever_request_fails(fault: str, web: Server, tmp_path: Path) -> None:
    """Those that libhdf5 waits for in the middle of opening and reading are no different."""
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        for number in range(3):
            file[f"{number}/raw"] = np.random.default_rng(number).integers(0, 9, 40_000)
            file.create_dataset(
                f"{number}/data",
                data=np.arange(8000).reshape(20, 400),
                chunks=(4, 4),
                scaleoffset=0,
            )
    web.objects["/wide.h5"] = (tmp_path / "wide.h5").read_bytes()

    def read() -> None:
        hyperslab.open(f"{web.url}/wide.h5::2/data", storage_options={"hyperslab_attempts": 1})[...]

    read()
    requests = len(web.seen)
    assert requests > 2
    for number in range(requests):
        web.faults.extend([""] * number + [fault])
        with pytest.raises(
            FormatError if fault == "403" else Unavailable, match=r"access is denied|breaks off"
        ):
            read()
        assert not web.faults


def test_errors_travel(web: Server) -> None:
    with pytest.raises(FormatError) as raised:
        hyperslab.open(f"{web.url}/none")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Refused("", "", 503, "7"), "slow"),
        (Refused("", "", 418), "refused"),
        (Refused("", "", 301), "elsewhere"),
        (ConnectionResetError(), "cut"),
        (ConnectionRefusedError(), "unreached"),
        (TimeoutError(), "silent"),
        (OSError(5, "whatever"), "failing"),
        (FileExistsError(), "there"),
        (TypeError(), "senseless"),
    ],
)
def test_faults_are_told_apart(error: Exception, kind: str) -> None:
    assert understand(error).kind == kind
    if kind == "slow":
        assert understand(error).pause_s == 7
