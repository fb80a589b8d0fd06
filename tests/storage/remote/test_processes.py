"""Remote objects in many processes and threads: forks, engines, resumed runs, and Python's
garbage.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pytest

import hyperslab
from hyperslab import Fold, Hyperslab, Pipeline
from hyperslab.arrays import Array
from hyperslab.blocks import reading
from hyperslab.errors import SourceChanged, Unavailable
from hyperslab.storage.location import Remote
from hyperslab.storage.remote import connections, objects
from tests.storage.remote.conftest import S3, asking
from tests.storage.remote.server import Server
from tests.system.end_to_end.command import succeed
from tests.system.faults.command import program as command

FORKING = """
import os, sys
import hyperslab
patience = {{"hyperslab_timeout_s": 60, "hyperslab_attempts": 1}}
views = [
    hyperslab.open(url, "stored", storage_options={{**patience, **more}})
    for url, more in {places!r}
]
expected = [view[...] for view in views]
child = os.fork()
if child == 0:
    assert all((view[...] == values).all() for view, values in zip(views, expected, strict=True))
    for (url, more), values in zip({places!r}, expected, strict=True):
        assert (hyperslab.open(url, "stored", storage_options=more)[...] == values).all()
    sys.exit(7)  # with all that Python does at its end
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert all((view[...] == values).all() for view, values in zip(views, expected, strict=True))
print("read")
"""


def test_a_forked_child_reads_and_its_parent_goes_on(folder: Path, s3: S3, web: Server) -> None:
    """The child opens connections of its own; its end does nothing to those of the parent."""
    web.objects["/made.h5"] = (folder / "made.h5").read_bytes()
    plain = s3.put("plain.nii", (folder / "plain.nii").read_bytes())
    places: list[tuple[str, dict[str, Any]]] = [(plain, s3.options)]
    places += [(f"{web.url}/made.h5::{name}", {}) for name in ("scaled", "gzip")]
    program = FORKING.format(places=places)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.stdout, done.returncode) == ("read\n", 0), done.stderr
    assert done.stderr == "" or "DeprecationWarning" in done.stderr, (
        "no connection complains at the end"
    )


def test_a_child_that_is_forked_in_the_middle_of_a_request(folder: Path, web: Server) -> None:
    web.objects["/made.h5"] = (folder / "made.h5").read_bytes()
    view = hyperslab.open(f"{web.url}/made.h5::raw")
    expected = view[...]
    web.delay_s = 0.3
    with ThreadPoolExecutor(1) as pool, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of forking a process of several threads
        pending = pool.submit(view.__getitem__, ...)
        while not web._at_once:
            pass
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() and (view[...] == expected).all() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (pending.result() == expected).all()


def test_threads_share_a_view(folder: Path, web: Server) -> None:
    web.objects["/made.h5"] = (folder / "made.h5").read_bytes()
    views = [hyperslab.open(f"{web.url}/made.h5::{name}") for name in ("gzip", "scaled", "raw")]
    expected = [view[...] for view in views]
    with ThreadPoolExecutor(6) as pool:
        for number, block in enumerate(
            pool.map(lambda number: views[number % 3][number:], range(12))
        ):
            np.testing.assert_array_equal(block, expected[number % 3][number:])


def test_garbage_is_not_collected_while_h5py_waits(
    folder: Path, web: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Freeing objects of h5py takes its lock, which is held by who waits for the thread that would
    free them.
    """
    web.objects["/made.h5"] = (folder / "made.h5").read_bytes()
    options = {"hyperslab_timeout_s": 60, "hyperslab_attempts": 1}
    view = hyperslab.open(f"{web.url}/made.h5::scaled", storage_options=options)
    assert isinstance(view.source.url, Remote)
    remote = Remote(view.source.url.target, options, view.source.url.size, view.source.url.tag)
    kept, plain, thresholds = [], objects._ASK["http"], gc.get_threshold()

    async def making_garbage(*args: Any) -> objects.Answer:
        gc.set_threshold(1, 1, 1)
        kept.extend([[n] for n in range(1000)])
        return await plain(*args)

    monkeypatch.setitem(objects._ASK, "http", making_garbage)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = [1]
    gc.set_threshold(10**9)
    cycle: list[object] = [h5py.File(tmp_path / "a.h5")["a"]]
    try:
        cycle.append(cycle)
        del cycle
        source = pickle.loads(pickle.dumps(view.source))
        object.__setattr__(source, "url", remote)
        np.testing.assert_array_equal(reading.read(source, Hyperslab.full(source.shape)), view[...])
    finally:
        gc.set_threshold(*thresholds)
    assert gc.isenabled()


def test_a_local_file_needs_no_client_of_stores(folder: Path) -> None:
    code = (
        "import sys, hyperslab; hyperslab.open(sys.argv[1])[0]; hyperslab.open('file://' +"
        " sys.argv[2])[0];print(sorted({'fsspec', 'aiohttp', 'asyncio', 's3fs', 'botocore'} &"
        " set(sys.modules)))"
    )
    paths = [str(folder / "plain.nii"), f"{folder}/made.h5::gzip"]
    done = subprocess.run(
        [sys.executable, "-c", code, *paths],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert done.stdout == "[]\n"


SUM = Fold(lambda block: int(block.sum()), lambda a, b: a + b)


def test_a_run_is_resumed(folder: Path, web: Server, tmp_path: Path, values: Array) -> None:
    """What was done is not fetched again; what was denied is."""
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    options = {"hyperslab_attempts": 1}

    def submit(resume: bool = False) -> hyperslab.Result:
        pipeline = Pipeline(f"{web.url}/a.nii", values="stored", storage_options=options).reduce(
            SUM
        )
        rule = hyperslab.Rule("blocks", (6,))
        return hyperslab.run(
            pipeline,
            engine="serial",
            retries=0,
            rule=rule,
            out=tmp_path / "out",
            resume=resume,
            check=False,
        )

    web.faults.extend(["", "", "", "403", "", "500", ""])
    first = submit()
    assert (first.state, len(first.failures)) == ("failed", 2)
    web.seen.clear()
    second = submit(resume=True)
    assert second.ok
    assert second.value == values.sum()
    assert len(web.gets()) == 1 + 2, "a look at the file, and two blocks"


def test_what_fails_in_passing_is_tried_again_by_the_driver(
    folder: Path, web: Server, values: Array
) -> None:
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    pipeline = Pipeline(
        f"{web.url}/a.nii", values="stored", storage_options={"hyperslab_attempts": 1}
    ).reduce(SUM)
    web.faults.extend(["500", "403"])
    rule = hyperslab.Rule("blocks", (3,))
    result = hyperslab.run(pipeline, engine="serial", retries=1, rule=rule, check=False)
    assert [failed.error for failed in result.failures] == ["FormatError"], (
        "what is denied is not asked again"
    )
    assert [failed.attempts for failed in result.failures] == [1]


def test_an_object_that_is_replaced_before_the_run(folder: Path, web: Server) -> None:
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    pipeline = Pipeline(f"{web.url}/a.nii").reduce(SUM)
    web.objects["/a.nii"] = web.objects["/a.nii"][:-1] + b"X"
    result = hyperslab.run(pipeline, engine="serial", check=False)
    assert {failed.error for failed in result.failures} == {"SourceChanged"}


def test_blocks_of_a_remote_file_are_written(
    folder: Path, s3: S3, tmp_path: Path, values: Array
) -> None:
    """The real command, on processes, from several objects that a list names."""
    for name in ("sub 1.nii", "sub#2.nii"):
        s3.put(f"study/{name}", (folder / "plain.nii").read_bytes())
    (tmp_path / "list.txt").write_text("s3://bucket/study/sub 1.nii\ns3://bucket/study/sub#2.nii\n")
    options = [f"--storage-option={name}={value}" for name, value in s3.options.items()]
    done = command(
        "run",
        "increment",
        tmp_path / "list.txt",
        "-o",
        tmp_path / "out",
        "--values",
        "stored",
        "--workers",
        1,
        "--keep",
        "volume",
        *options,
    )
    assert done.returncode == 0, done.stderr
    for name in ("sub 1.nii", "sub#2.nii"):
        np.testing.assert_array_equal(
            hyperslab.open(str(tmp_path / "out" / name), "stored")[...], values + 1
        )
    shown = succeed("info", "s3://bucket/study/sub#2.nii", *options)
    assert "read by      range requests: contiguous" in shown


@pytest.fixture
def memory() -> Iterator[fsspec.AbstractFileSystem]:
    fs = fsspec.filesystem("memory", skip_instance_cache=True)
    yield fs
    fs.rm("/shelf", recursive=True)


def test_any_store_of_fsspec(
    memory: fsspec.AbstractFileSystem, folder: Path, values: Array
) -> None:
    """Of stores whose answers do not say what they are of, the object is looked at once more."""
    raw = (folder / "made.h5").read_bytes()
    memory.pipe("/shelf/made.h5", raw)
    views = [
        hyperslab.open(f"memory://shelf/made.h5::{name}")
        for name in ("gzip", "contiguous", "scaled")
    ]
    for view in views:
        np.testing.assert_array_equal(view[3:9, ::-2], values[3:9, ::-2])
    memory.pipe("/shelf/made.h5", raw)
    for view in views:
        with pytest.raises(SourceChanged, match="written to after"):
            view[3:9]
    memory.pipe("/shelf/made.h5", raw[:-10])
    with pytest.raises(SourceChanged, match="bytes when it was opened"):
        views[0][0]
    memory.rm("/shelf/made.h5")
    memory.pipe("/shelf/other", b"")
    with pytest.raises(SourceChanged, match="no longer there"):
        views[0][0]


def test_a_thread_of_fsspec_that_is_stuck(
    folder: Path, web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that should end a request does: who waits for it ends by itself."""
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    limits = {"hyperslab_timeout_s": 0.1, "hyperslab_attempts": 1}
    view = asking(hyperslab.open(f"{web.url}/a.nii"), limits)
    monkeypatch.setattr(connections, "LONGEST_PAUSE_S", 0.1)
    released = threading.Event()

    async def stuck() -> None:
        released.wait(100)

    future = connections.submit(stuck())
    try:
        with pytest.raises(Unavailable, match="no answer within"):
            view[0]
    finally:
        released.set()
        future.result(100)


def test_only_so_many_stores_are_kept(
    folder: Path, web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEPT", 2)
    web.objects["/a.nii"] = (folder / "plain.nii").read_bytes()
    views = [
        hyperslab.open(f"{web.url}/a.nii", storage_options={"headers": {"n": str(n)}})
        for n in range(5)
    ]
    assert len(connections._stores) == 2
    for view in views:
        assert view[0].any()
