"""What is done beside tasks is there at the end, or says why it is not."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import hyperslab
from hyperslab.driver import beforehand, submission
from hyperslab.driver.directory import RunDirectory, load_status
from tests.loaded import added, save_threads, total


def _fail() -> None:
    raise LookupError("no such thing")


def test_parts_follow_each_other_and_keep_their_failures() -> None:
    hold = threading.Event()
    first, second, third = beforehand.begun([lambda: 1, _fail, hold.wait])
    assert first.result(60) == 1
    assert isinstance(second.exception(60), LookupError)
    assert beforehand.found(first) == 1
    assert beforehand.found(second) is None
    assert beforehand.found(third) is None
    hold.set()
    assert third.result(60)
    assert beforehand.found(None) is None


def test_no_process_stays_for_it() -> None:
    hold = threading.Event()
    (future,) = beforehand.begun([hold.wait])
    (thread,) = [one for one in threading.enumerate() if one.name == "beforehand"]
    assert thread.daemon
    hold.set()
    future.result(60)


def test_what_cannot_be_got_ready_stops_the_run_before_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get_ready(has_page: bool) -> None:
        raise ImportError("pyarrow was built for another NumPy")

    monkeypatch.setattr(submission, "get_ready", get_ready)
    pipeline = hyperslab.Pipeline(np.arange(8)).reduce(hyperslab.Fold(total, added))
    with pytest.raises(ImportError, match="another NumPy"):
        hyperslab.run(pipeline, out=tmp_path / "out", engine="processes", workers=1, report=False)
    newest = RunDirectory(tmp_path / "out").newest()
    assert newest is not None
    assert load_status(newest)["state"] == "stopped"


def test_functions_of_the_users_are_called_when_nothing_is_done_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = submission.get_ready
    late = threading.Event()

    def get_ready(has_page: bool) -> None:
        late.wait(1)
        plain(has_page)

    monkeypatch.setattr(submission, "get_ready", get_ready)
    fold = hyperslab.Fold(total, added, save=save_threads)
    pipeline = hyperslab.Pipeline(np.arange(8)).reduce(fold)
    hyperslab.run(pipeline, out=tmp_path / "out", engine="processes", workers=1)
    (told,) = tmp_path.glob("out/**/threads.txt")
    assert "beforehand" not in told.read_text().splitlines()
