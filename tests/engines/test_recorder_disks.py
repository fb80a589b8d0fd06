"""The recorder inside of Dask's processes where its disk is full, slow or gone, or where a cluster
does not answer: what is recorded goes on, and a note says what is missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hyperslab.engines.dask import recorder, recording
from tests.engines.recorded import beside
from tests.system.faults.command import await_that


def test_a_full_disk_ends_a_recorder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client, LocalCluster
    from distributed.comm.core import Comm
    from distributed.comm.tcp import TCP

    monkeypatch.setitem(recorder.Log._flush_often.__globals__, "FLUSH_S", 0.02)
    before = TCP.write
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
        Path("/dev/full").open("w") as full,
    ):
        recording_ = recording.Recording(client, tmp_path)
        (log,) = Comm.__dict__["hyperslab_recorder"].logs.values()
        await_that("the file of the recorder", lambda: log._file is not None)
        os.dup2(full.fileno(), log._file.fileno())
        deadline = time.monotonic() + 60
        while TCP.write != before:
            assert time.monotonic() < deadline, "it goes on"
            assert client.submit(sum, [1, 2], pure=False).result() == 3
        recording_.end(is_lost=False)
    assert not log._thread.is_alive()
    why = "could not record all of its messages ([Errno 28] No space left on device)"
    assert recording_.notes == [f"the scheduler {why}"]


@contextmanager
def _hanging_disk(folder: Path) -> Iterator[None]:
    """A recorder has begun there, and its disk takes no bytes any more until the block ends."""
    from distributed.comm.core import Comm

    recorder.start(str(folder))
    log = Comm.__dict__["hyperslab_recorder"].logs[str(folder)]
    await_that("the file of the recorder", lambda: log._file is not None)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(1 << 16))
    os.set_blocking(writing, True)
    os.dup2(writing, log._file.fileno())
    os.close(writing)
    log.take((1, (1, "a:1", "b:2"), (("x", 1),), 100))
    try:
        yield
    finally:
        os.close(reading)
        await_that("the end of the recorder", lambda: not log.is_writing())


def test_a_disk_that_hangs_holds_up_no_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "CLOSE_S", 0.3)

    async def turns_meanwhile() -> int:
        """How often others of the loop had their turn."""
        ending = asyncio.create_task(recorder.stopped(str(tmp_path)))
        turns = 0
        while not ending.done():
            turns += 1
            await asyncio.sleep(0.001)
        await ending
        return turns

    with _hanging_disk(tmp_path):
        assert beside(lambda: asyncio.run(turns_meanwhile())) > 5
        assert recorder.lost(str(tmp_path)) == "the disk did not answer within 0.3 s"


def test_a_driver_whose_disk_hangs_goes_on_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "CLOSE_S", 0.1)
    monkeypatch.setitem(recorder.Log.close.__globals__, "CLOSE_S", 0.1)  # as of MOST_ROWS
    with _hanging_disk(tmp_path):
        recorder.stop(str(tmp_path))
        assert recorder.lost(str(tmp_path)) == "the disk did not answer within 0.1 s"


def test_a_cluster_that_does_not_answer_in_time_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client, LocalCluster
    from distributed.comm.core import Comm

    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(recording, "LIMIT_S", 0.0)
            kept = recording.Recording(client, tmp_path)
        scheduler, workers = kept.notes
        assert scheduler.startswith("the scheduler does not record its messages (no answer within")
        assert workers.startswith("workers may not record their messages (no answer within 0 s)")
        (log,) = Comm.__dict__["hyperslab_recorder"].logs.values()
        await_that("the recorders that began late", lambda: log.users == 3)
        kept.end(is_lost=False)
    assert not log.is_writing()
    assert len(kept.traffic()) > 0


def test_what_waits_for_a_disk_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of the function: cloudpickle gives classes that it meets again functions with other globals.
    monkeypatch.setitem(recorder.Log.take.__globals__, "MOST_ROWS", 2500)
    log = recorder.Log(str(tmp_path), "free")
    for time_ns in range(2600):
        log.take((time_ns, (1, "a:1", "b:2"), (("x", 1),), 100))
    log.close()
    (written,) = tmp_path.iterdir()
    _, *lines = map(json.loads, written.read_text().splitlines())
    assert [len(line["rows"][0]) for line in lines] == [1000, 1000, 500]
    traffic = recording.gathered(tmp_path)
    assert traffic.columns["time_ns"].tolist() == list(range(2500))
    (note,) = traffic.meta["notes"]
    assert "misses 100 messages: the disk did not take them" in note


def test_a_preload_that_cannot_write_lets_its_process_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HYPERSLAB_MESSAGES", "/dev/null/messages")
    runpy.run_module(recording.PRELOAD)
    said = "not recorded any more in /dev/null/messages: [Errno 20] Not a directory"
    await_that("the end of the recorder", lambda: said in caplog.text)
