"""Folders of probes: their removal, whoever is dead, and never that of one that is at work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperslab.errors import UsageError
from hyperslab.storage.probing import folder as folders
from hyperslab.storage.probing.folder import OWNER, PREFIX, own_folder, sweep
from tests.system.faults.command import await_that

HOLDER = """
import subprocess, sys
from pathlib import Path
from hyperslab.storage.probing.folder import Folder
folder = Folder(Path(sys.argv[1]))
folder.make()
if sys.argv[2] == "child":
    quiet = subprocess.DEVNULL
    sleeper = subprocess.Popen(["sleep", "1000"], pass_fds=folder.descriptors, stdout=quiet)
    print(sleeper.pid, flush=True)
print("made", flush=True)
sys.stdin.read()
"""


def holder(place: Path, kind: str = "") -> subprocess.Popen[str]:
    """A process that owns a folder in a place."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place), kind or "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def interrupted(place: Path) -> None:
    with own_folder(place) as own:
        (own.path / "names").mkdir()
        (own.path / "names" / "1").write_bytes(b"1")
        raise KeyboardInterrupt


def test_a_folder_is_gone_whatever_ends_its_block(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_dead_owner_s_folder_is_swept_and_a_living_one_s_is_not(tmp_path: Path) -> None:
    (tmp_path / "data.nii").write_bytes(b"1")
    process = holder(tmp_path)
    assert line(process) == "made"
    assert sweep(tmp_path) == ([], [])
    end(process)
    swept, left = sweep(tmp_path)
    assert [len(swept), left] == [1, []]
    assert [path.name for path in tmp_path.iterdir()] == ["data.nii"]


def test_a_folder_lives_as_long_as_a_client_does(tmp_path: Path) -> None:
    process = holder(tmp_path, "child")
    client = int(line(process))
    assert line(process) == "made"
    end(process)
    assert sweep(tmp_path) == ([], [])
    os.kill(client, 9)
    await_that("the end of its client", lambda: sweep(tmp_path)[0])
    assert list(tmp_path.iterdir()) == []


def made(place: Path, about: dict[str, object] | None) -> Path:
    """A folder without a living owner."""
    path = place / f"{PREFIX}0123456789ab"
    path.mkdir()
    if about is not None:
        (path / OWNER).write_text(json.dumps(about))
    return path


def test_where_there_are_no_locks_nothing_is_swept_but_named(tmp_path: Path) -> None:
    path = made(tmp_path, {"host": os.uname().nodename, "locked": False})
    assert sweep(tmp_path) == ([], [path])


def test_a_folder_of_another_host_is_left_alone_for_an_hour(tmp_path: Path) -> None:
    path = made(tmp_path, {"host": "elsewhere", "locked": True})
    assert sweep(tmp_path) == ([], [])
    os.utime(path, (0, 0))
    assert sweep(tmp_path) == ([path], [])


def test_a_folder_that_is_just_being_made_is_left_alone(tmp_path: Path) -> None:
    path = made(tmp_path, None)
    assert sweep(tmp_path) == ([], [])
    os.utime(path, (0, 0))
    assert sweep(tmp_path) == ([path], [])


def test_a_sweep_in_the_moment_of_making_leaves_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = folders.lock
    swept: list[tuple[list[Path], list[Path]]] = []

    def swept_before(fd: int) -> bool:
        monkeypatch.setattr(folders, "lock", usual)
        swept.append(sweep(tmp_path))
        return usual(fd)

    monkeypatch.setattr(folders, "lock", swept_before)
    with own_folder(tmp_path) as own:
        assert swept == [([], [])]
        assert [path.name for path in own.path.iterdir()] == [OWNER]
        assert sweep(tmp_path) == ([], [])


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="no file can be written here"),
        own_folder(tmp_path / "absent"),
    ):
        pass
    with pytest.raises(UsageError, match="no file can be written here"), own_folder(Path("/proc")):
        pass


def test_without_locks_a_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "lock", lambda fd: False)
    with own_folder(tmp_path) as own:
        assert json.loads((own.path / OWNER).read_text())["locked"] is False
