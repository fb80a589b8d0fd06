"""Who runs alone on a host waits for the others, and they wait for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hyperslab.storage.beside import beside


class Impatient(Exception):
    """Raised by one who would have to wait."""


def would_wait(folder: Path, is_alone: bool) -> bool:
    def complain() -> None:
        raise Impatient

    try:
        with beside(folder, is_alone, complain):
            return False
    except Impatient:
        return True


def test_one_alone_and_several_together(tmp_path: Path) -> None:
    with beside(tmp_path, False, lambda: None):
        assert not would_wait(tmp_path, is_alone=False)
        assert would_wait(tmp_path, is_alone=True)
    with beside(tmp_path, True, lambda: None):
        assert would_wait(tmp_path, is_alone=False)
        assert would_wait(tmp_path, is_alone=True)
    assert not would_wait(tmp_path, is_alone=True)


def test_who_waits_goes_on(tmp_path: Path) -> None:
    waits = threading.Event()
    went_on = threading.Event()

    def work() -> None:
        with beside(tmp_path, True, waits.set):
            went_on.set()

    thread = threading.Thread(target=work)
    with beside(tmp_path, False, lambda: None):
        thread.start()
        assert waits.wait(100)
        assert not went_on.is_set()
    thread.join(100)
    assert went_on.is_set()


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), beside(tmp_path / "gone", False, lambda: None):
        pass
