"""renaming: a name goes over in one step and is taken from nobody unasked, whatever the file system
is able to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hyperslab.storage import renaming
from hyperslab.storage.renaming import rename
from tests.descriptors import descriptors_below
from tests.system.verdicts.slowfs import slow_files


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system that knows neither the flags of renameat2 nor links, as some networks have."""
    with slow_files(tmp_path_factory.mktemp("fuse"), 0, renames_plainly=True) as mount:
        yield mount


@pytest.fixture(params=["local", "plain"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder on either."""
    if request.param == "local":
        return tmp_path
    folder = Path(request.getfixturevalue("plain")) / tmp_path.name
    folder.mkdir()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _file(path: Path, text: str) -> None:
    path.write_text(text)


def _folder(path: Path, text: str) -> None:
    path.mkdir()
    (path / "inside").write_text(text)


def read(path: Path) -> str:
    return (path if path.is_file() else path / "inside").read_text()


@pytest.mark.parametrize("before", [None, _file, _folder], ids=["nothing", "file", "folder"])
@pytest.mark.parametrize("after", [_file, _folder], ids=["file", "folder"])
def test_a_name_goes_over_to_what_is_ready(
    place: Path, before: Callable[[Path, str], None] | None, after: Callable[[Path, str], None]
) -> None:
    """Also from a folder that holds something to another."""
    ready, final = place / "ready", place / "final"
    if before:
        before(final, "old")
    after(ready, "new")
    rename(ready, final, True)
    assert names(place) == ["final"]
    assert read(final) == "new"


@pytest.mark.parametrize("before", [_file, _folder], ids=["file", "folder"])
@pytest.mark.parametrize("after", [_file, _folder], ids=["file", "folder"])
def test_a_name_that_is_taken_stays_where_it_is(
    place: Path, before: Callable[[Path, str], None], after: Callable[[Path, str], None]
) -> None:
    ready, final = place / "ready", place / "final"
    before(final, "old")
    after(ready, "new")
    with pytest.raises(FileExistsError, match="final"):
        rename(ready, final, False)
    assert (read(final), read(ready)) == ("old", "new")
    final.rename(place / "away")
    rename(ready, final, False)
    assert (read(final), read(place / "away")) == ("new", "old")
    assert names(place) == ["away", "final"]


def test_a_directory_that_was_put_aside_in_vain_has_its_name_again(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two directories cannot change places, and the process ends after the first of two
    steps.
    """
    folder = plain / "aside"
    folder.mkdir()
    ready, final, move = folder / "ready", folder / "final", Path.rename
    _folder(ready, "new")
    _folder(final, "old")

    def once(self: Path, target: Path) -> Path:
        move(self, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", once)
        with pytest.raises(KeyboardInterrupt):
            rename(ready, final, True)
    (aside,) = folder.glob(".final.old-*.part")
    assert renaming.put_back(aside)
    assert (read(final), names(folder)) == ("old", ["final", "ready"])
    assert not renaming.put_back(aside), "it is there no longer"
    assert not renaming.put_back(ready), "it is no such name"


def test_files_and_names_are_synchronised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    waited: list[str] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        waited.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    renaming.synchronise(tmp_path / "file")
    renaming.synchronise(tmp_path, only_names=True)
    assert waited == [str(tmp_path / "file"), str(tmp_path)]
    renaming.synchronise(tmp_path)
    assert len(waited) == 2, "all files of a folder at once, by syncfs"
    renaming.synchronise_all([tmp_path / "file", tmp_path / "gone"], tmp_path)
    assert waited[2:] == [str(tmp_path / "file"), str(tmp_path)]
    renaming.synchronise_all([tmp_path / "file", tmp_path], tmp_path)
    renaming.synchronise_all([tmp_path / str(number) for number in range(100)], tmp_path)
    assert len(waited) == 4, "stores and many files at once"
    with pytest.raises(FileNotFoundError):
        renaming.synchronise(tmp_path / "gone")
    assert descriptors_below(tmp_path) == []


def test_files_of_a_folder_are_synchronised_one_by_one_where_none_is_asked_for_all(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel passes syncfs(2) on to no program behind a mount."""
    folder = plain / tmp_path.name
    (folder / "deeper").mkdir(parents=True)
    (folder / "deeper" / "file").write_bytes(b"x")
    waited: list[str] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        waited.append(os.readlink(f"/proc/self/fd/{fd}"))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watched)
    expected = [str(folder / "deeper" / "file"), str(folder / "deeper"), str(folder)]
    renaming.synchronise(folder)
    assert waited == expected
    many = [folder / str(number) for number in range(100)]
    renaming.synchronise_all([folder / "deeper" / "file", *many], folder)
    assert waited[3:] == [expected[0], expected[2]]
