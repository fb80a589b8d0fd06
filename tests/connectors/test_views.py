"""The views that tasks share: one per array and process, with a fair share of the processors."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from hyperslab import formats, native
from hyperslab.blocks.view import ArrayView
from hyperslab.connectors import views
from hyperslab.storage.location import Remote


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "all_threads", lambda: 7)


def test_a_read_that_is_alone_uses_all_processors() -> None:
    assert views.threads() == 7


def test_a_read_beside_others_uses_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    beside = threading.Thread(target=lambda: found.append(views.threads()))
    beside.start()
    beside.join()
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "another process")
    assert [*found, views.threads()] == [1, 1]
    monkeypatch.setenv(native.THREADS_VARIABLE, "3")
    assert views.threads() == 3


def test_an_array_that_is_sent_again_is_read_through_the_same_view(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=np.arange(100.0), chunks=(10,), compression="gzip")
    source = formats.open_source(f"{path}::data")
    first, again = (views.shared(pickle.loads(pickle.dumps(source)), "real") for _ in range(2))
    assert again is first
    assert views.shared(source, "stored") is not first
    os.utime(path, ns=(0, 0))
    assert views.shared(formats.open_source(f"{path}::data"), "real") is not first


def test_an_array_that_is_opened_with_new_credentials_is_read_with_them() -> None:
    source = formats.open_array(np.zeros(3))

    def opened(target: str, options: dict[str, str]) -> ArrayView:
        return views.shared(replace(source, url=Remote(target, options)), "real")

    first, again, renewed, signed = (
        opened("https://h/a.nii?sig=old", {"token": "old"}),
        opened("https://h/a.nii?sig=old", {"token": "old"}),
        opened("https://h/a.nii?sig=old", {"token": "new"}),
        opened("https://h/a.nii?sig=new", {"token": "old"}),
    )
    assert again is first
    assert len({id(view) for view in (first, renewed, signed)}) == 3
