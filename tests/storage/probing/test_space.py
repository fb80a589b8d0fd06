"""Refusals before anything is written: no such place, no permission, no room, no inodes."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyperslab.errors import DoesNotFit, UsageError
from hyperslab.storage.probing import space
from hyperslab.storage.probing.space import require_directory, require_space, space_of

MB = 10**6


def disk(monkeypatch: pytest.MonkeyPatch, **given: int) -> None:
    """Have every file system say this of itself."""
    known = {"f_frsize": 1, "f_blocks": 100 * MB, "f_bavail": 50 * MB, "f_files": 0, "f_flag": 0}
    told = SimpleNamespace(**{**known, "f_favail": 0, **given})
    monkeypatch.setattr(os, "statvfs", lambda path: told)


def test_a_file_stands_for_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "scan.nii"
    path.touch()
    assert require_directory(path) == tmp_path
    assert require_directory(tmp_path) == tmp_path


def test_a_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        require_directory(tmp_path / "absent")


def test_a_read_only_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk(monkeypatch, f_flag=os.ST_RDONLY)
    with pytest.raises(UsageError, match="mounted read-only"):
        require_directory(tmp_path)


def test_a_place_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="no permission"):
        require_directory(tmp_path)


def test_a_disk_keeps_a_twentieth_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk(monkeypatch)
    require_space(tmp_path, 45 * MB, 10)
    with pytest.raises(DoesNotFit, match=r"needs 45.0 MB .* 50.0 MB are free, of which 5.00 MB"):
        require_space(tmp_path, 45 * MB + 1, 10)


def test_a_large_disk_keeps_ten_gigabytes_free(monkeypatch: pytest.MonkeyPatch) -> None:
    disk(monkeypatch, f_frsize=10**6, f_blocks=10**9, f_bavail=10**6)
    assert space_of(Path()).usable_nbytes == 10**12 - space.MOST_LEFT_NBYTES


def test_inodes_are_counted_where_they_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require = space.LEFT_FILES + 10
    disk(monkeypatch, f_files=5000, f_favail=require)
    require_space(tmp_path, 1, 10)
    with pytest.raises(DoesNotFit, match="inodes"):
        require_space(tmp_path, 1, 11)
    disk(monkeypatch, f_files=0, f_favail=0)
    require_space(tmp_path, 1, 10**6)
