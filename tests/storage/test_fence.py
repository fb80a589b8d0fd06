"""The fence: a worker at a task is waited for, one that comes too late writes nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from hyperslab.arrays.header import Header
from hyperslab.arrays.sink import ArraySink
from hyperslab.arrays.slab import Hyperslab
from hyperslab.blocks import writing
from hyperslab.errors import RunStopped
from hyperslab.formats import nifti
from hyperslab.storage import fence

BLOCK = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    fence.raise_fence(tmp_path)
    return tmp_path


@pytest.fixture
def sink(tmp_path: Path) -> ArraySink:
    return nifti.sink(str(tmp_path / "a.nii"), BLOCK.shape, BLOCK.dtype, Header())


def test_a_worker_at_a_task_is_waited_for(submission: Path) -> None:
    with fence.working(submission):
        fence.end(submission)
        assert not fence.is_left(submission, 0.1)
        assert fence.workers(submission) == [os.getpid()]
    assert fence.is_left(submission, 0)
    assert fence.workers(submission) == []


def test_several_work_at_a_time_and_the_last_one_counts(submission: Path) -> None:
    first, second = fence.working(submission), fence.working(submission)
    first.__enter__()
    second.__enter__()
    fence.end(submission)
    second.__exit__(None, None, None)
    assert not fence.is_left(submission, 0)
    first.__exit__(None, None, None)
    assert fence.is_left(submission, 0)


def test_nobody_begins_once_a_submission_has_ended(submission: Path) -> None:
    fence.end(submission)
    with pytest.raises(RunStopped, match="stopped"), fence.working(submission):
        pytest.fail("it may not begin")


def test_ending_twice_is_ending_once(submission: Path) -> None:
    fence.end(submission)
    fence.end(submission)
    assert fence.is_left(submission, 0)


def test_a_submission_of_before_there_were_fences_is_left(tmp_path: Path) -> None:
    fence.end(tmp_path)
    assert fence.is_left(tmp_path, 0)


def test_a_late_block_does_not_appear(submission: Path, sink: ArraySink) -> None:
    with fence.working(submission):
        fence.end(submission)
        with pytest.raises(RunStopped, match="dropped"):
            writing.write(sink, BLOCK)
    assert sorted(path.name for path in submission.iterdir()) == [fence.ENDED]


def test_a_late_region_changes_nothing(submission: Path, sink: ArraySink) -> None:
    partial = str(submission / ".a.part")
    writing.allocate(sink, partial)
    before = Path(partial).read_bytes()
    with fence.working(submission):
        fence.end(submission)
        with pytest.raises(RunStopped, match="dropped"):
            writing.write_region(sink, partial, Hyperslab.full(BLOCK.shape), BLOCK)
    assert Path(partial).read_bytes() == before


def test_the_fence_of_one_thread_is_not_that_of_another(submission: Path, sink: ArraySink) -> None:
    with fence.working(submission):
        fence.end(submission)
        other = threading.Thread(target=writing.write, args=(sink, BLOCK))
        other.start()
        other.join()
    assert Path(sink.path).is_file()


def test_what_a_function_forks_is_not_waited_for(submission: Path) -> None:
    ours, theirs = os.pipe()
    with fence.working(submission):
        child = os.fork()
        if child == 0:
            os.read(ours, 1)
            os._exit(0)
    fence.end(submission)
    try:
        assert fence.is_left(submission, 30)  # the child may not have run yet
    finally:
        os.write(theirs, b".")
        os.waitpid(child, 0)
        os.close(ours)
        os.close(theirs)


def test_waiting_ends_when_the_watch_says_so(submission: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with fence.working(submission):
        fence.end(submission)
        with pytest.raises(KeyboardInterrupt):
            fence.is_left(submission, 60, stop)
