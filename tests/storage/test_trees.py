"""Folders are removed around what is mounted in them."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hyperslab.storage import renaming
from hyperslab.storage.mounts import mounted_within
from hyperslab.storage.permitted import remove_tree
from hyperslab.storage.staging import area
from hyperslab.storage.trees import remove_around, still_mounted
from tests.storage.tiers.trees import Tree

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts: run as root")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """What a user has elsewhere."""
    place = tmp_path / "precious"
    place.mkdir()
    (place / "file").write_text("kept")
    return place


@pytest.fixture
def work(tmp_path: Path, precious: Path) -> Iterator[Path]:
    """A folder with files, in which a folder and a file of the user's are mounted."""
    top = tmp_path / "wo rk"
    (top / "a" / "mounted").mkdir(parents=True)
    (top / "a" / "rest").write_text("rest")
    (top / "b").mkdir()
    (top / "one").touch()
    (top / "link").symlink_to(precious)
    subprocess.run(["mount", "--bind", precious, top / "a" / "mounted"], check=True)
    subprocess.run(["mount", "--bind", precious / "file", top / "one"], check=True)
    yield top
    for place in mounted_within(top):
        subprocess.run(["umount", place], check=True)


def is_whole(precious: Path) -> bool:
    return (precious / "file").read_text() == "kept"


def test_mounts_within_a_folder_are_those_below_its_name(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.mounted(
        "30 1 0:30 / /srv/a rw - tmpfs none rw",
        "31 1 0:31 / /srv/a/with\\040space\\134 rw - tmpfs none rw",
        "32 1 0:32 / /srv/ab rw - tmpfs none rw",
        "33 1 0:33 / /srv/a/re\rturn rw - tmpfs none rw",
    )
    found = mounted_within(Path("/srv/a"), tree.root)
    assert found == [Path("/srv/a"), Path("/srv/a/with space\\"), Path("/srv/a/re\rturn")]
    assert mounted_within(Path("/srv/b"), tree.root) == []
    tree.write("proc/7/mountinfo", "30 1 0:30 / /srv/b/c rw - tmpfs none rw\n")
    seen = Path("/proc/7/root/srv/b")
    assert mounted_within(seen, tree.root) == [seen / "c"], "named as it is given"


def test_what_is_named_by_a_process_that_has_ended_is_gone(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    folder = Path(f"/proc/{ended.pid}/root{tmp_path}")
    assert remove_tree(folder) == [], "nobody has waited for it"
    ended.wait()
    assert remove_tree(folder) == []
    assert tmp_path.is_dir()


@needs_root
def test_all_around_a_mount_is_removed(work: Path, precious: Path) -> None:
    left = [work / "a" / "mounted", work / "one"]
    assert sorted(remove_tree(work)) == left
    assert is_whole(precious)
    assert sorted(os.listdir(work)) == ["a", "one"]
    assert os.listdir(work / "a") == ["mounted"]
    assert f"mounted at {left[0]}, {left[1]}, and stays" in still_mounted(left)


@needs_root
def test_a_folder_that_is_mounted_itself_stays(work: Path, precious: Path) -> None:
    assert remove_around(work / "a" / "mounted") == [work / "a" / "mounted"]
    assert is_whole(precious)


@needs_root
def test_nothing_is_replaced_in_which_something_is_mounted(work: Path, precious: Path) -> None:
    with pytest.raises(OSError, match="mounted there: unmount it first") as caught:
        renaming.remove(work)
    assert caught.value.errno == errno.EBUSY
    assert is_whole(precious)
    assert (work / "a" / "rest").exists(), "it is refused before anything is gone"


@needs_root
def test_an_area_of_a_tier_goes_around_what_is_mounted(tmp_path: Path, precious: Path) -> None:
    made = area.create(tmp_path)
    place = made.outputs / "0.work"
    place.mkdir()
    subprocess.run(["mount", "--bind", precious, place], check=True)
    assert made.remove() == [place]
    assert area.sweep(tmp_path) == []
    assert is_whole(precious)
    subprocess.run(["umount", place], check=True)
    assert area.sweep(tmp_path) == [made.path]


def test_what_is_not_mounted_goes_whole(tmp_path: Path) -> None:
    (tmp_path / "top" / "a").mkdir(parents=True)
    assert remove_tree(tmp_path / "top") == []
    assert not (tmp_path / "top").exists()
    assert remove_tree(tmp_path / "top") == []
