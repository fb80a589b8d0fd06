"""Which mount a path is on: as the kernel walks, whatever lies over what."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hyperslab.storage import mounts as table_of_mounts
from hyperslab.storage.mounts import Mount, mount_of, mounts, nearest, one_on_each_mount
from hyperslab.storage.tiers.file_systems import (
    NETWORK_FILE_SYSTEMS,
    kind_without_disk,
    network_file_system,
)
from tests.storage.tiers.trees import Tree
from tests.system.clusters.required import required

TABLE = (
    "30 1 0:30 / /mnt/nfs rw,relatime shared:5 master:2 - nfs4 server:/export rw,vers=4.2",
    "31 30 0:31 / /mnt/nfs/local rw - tmpfs none rw",
    "32 1 0:32 / /mnt/with\\040space\\011and\\134 rw - fuse.sshfs host: rw",
    "33 1 0:33 / /mnt/lustre rw - lustre mgs@tcp:/scratch rw",
    "34 1 0:34 / /dev/shm rw - tmpfs first rw",
    "35 34 0:35 / /dev/shm ro - tmpfs second rw,size=4k",
    "36 1 8:17 / /mnt/below rw - xfs /dev/sdb1 rw",
    "37 36 8:18 / /mnt/below/hidden rw - xfs /dev/sdb2 rw",
    "38 36 8:33 / /mnt/below rw - xfs /dev/sdc1 rw",
    "39 1 8:1 /home/me/data /mnt/bound rw - ext4 /dev/sda1 rw",
    "40 1 0:40 / /mnt/\u00e9t\u00e9 rw - nfs \u00e9:/x rw",
)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/home/me/out", "/dev/sda1"),
        ("/mnt/nfs/new/out.nii", "server:/export"),
        ("/mnt/nfs/local/out", "none"),
        ("/mnt/nfsother", "/dev/sda1"),
        ("/mnt/with space\tand\\/out", "host:"),
        ("/mnt/lustre", "mgs@tcp:/scratch"),
        ("/dev/shm/x", "second"),
        ("/mnt/below/hidden/x", "/dev/sdc1"),
        ("/mnt/bound", "/dev/sda1"),
        ("/mnt/\u00e9t\u00e9/x", "\u00e9:/x"),
    ],
)
def test_the_mount_of_a_path(tmp_path: Path, path: str, source: str) -> None:
    """The last of those that lie over each other; none that is hidden below another one."""
    tree = Tree(tmp_path)
    tree.mounted(*TABLE)
    mount = mount_of(Path(path), mounts(tmp_path))
    assert mount is not None
    assert mount.source == source


def test_options_of_a_mount_and_of_its_file_system(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.mounted(*TABLE)
    table = {mount.number: mount for mount in mounts(tmp_path)}
    assert table[30].options == ("rw", "relatime", "vers=4.2")
    assert table[30].option("vers") == "4.2"
    assert table[30].option("rw") == ""
    assert table[30].option("sync") is None
    assert table[35].options == ("ro", "rw", "size=4k")
    assert table[39].root == "/home/me/data"


def test_no_mount_where_none_is_listed(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("")
    assert mount_of(Path("/x"), mounts(tmp_path)) is None


@pytest.mark.parametrize("kind", sorted(NETWORK_FILE_SYSTEMS - {"gfs2", "ocfs2"}))
def test_network_file_systems_have_a_kind(kind: str) -> None:
    assert kind_without_disk(kind) in ("network", "lustre", "beegfs")


def test_file_systems_that_machines_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ("fuse.hyperslab-throttled", "fuse.hyperslab-volatile", "ext4")
    shared = ("nfs4", "fuse.sshfs", "fuse.hyperslab-striped", "fuse.hyperslab-metadata")
    for kind, expected in {**dict.fromkeys(own, ""), **{one: one for one in shared}}.items():
        monkeypatch.setattr(
            "hyperslab.storage.tiers.file_systems.file_system", lambda _, kind=kind: kind
        )
        assert network_file_system("/x") == expected


def test_the_nearest_folder_that_is_there(tmp_path: Path) -> None:
    here = tmp_path.resolve()
    (here / "file").touch()
    (here / "broken").symlink_to(here / "missing" / "deep")
    (here / "loop").symlink_to(here / "loop")
    (here / "link").symlink_to("/dev/shm")
    assert nearest(here / "a" / "b") == here
    assert nearest(here / "file" / "b") == here / "file"
    assert nearest(here / "broken") == here
    assert nearest(here / "link" / "x") == Path("/dev/shm").resolve()
    with pytest.raises(OSError, match="loop") as raised:
        nearest(here / "loop")
    assert raised.value.errno == errno.ELOOP


def _asked(path: Path) -> tuple[list[Mount], dict[str, str]]:
    """The mounts of this machine, and which of them findmnt says a path is on: at a moment at which
    other tests mount nothing.
    """
    line = ["findmnt", "-J", "-o", "TARGET,SOURCE,FSTYPE,MAJ:MIN", "-T", str(path)]
    while True:
        table = mounts()
        told = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
        if mounts() == table:
            return table, told["filesystems"][-1]


def test_findmnt_says_the_same(tmp_path: Path) -> None:
    """Of every path that can be asked about on this machine."""
    if shutil.which("findmnt") is None:
        required("there is no findmnt here: install the Debian package util-linux")
    for place in sorted({mount.mount_point for mount in mounts()} | {str(tmp_path), "/usr/bin"}):
        if not os.path.exists(place):
            continue
        path = Path(place).resolve()
        table, last = _asked(path)
        mount = mount_of(path, table)
        assert mount is not None
        assert (mount.mount_point, mount.file_system) == (last["target"], last["fstype"])
        assert mount.device == last["maj:min"].strip()


def test_files_are_told_apart_by_mounts_and_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Mount(1, 0, "8:0", "/", point, "ext4", "/dev/sda", ()) for point in ("/", "/data")]
    monkeypatch.setattr(table_of_mounts, "mounts", lambda: points)
    first = ["/data/a/1", "/other/1", "s3://one/a/1", "s3://two/1"]
    more = ["/data/b/2", "/2", "s3://one/b/2", "s3://two/2"]
    assert one_on_each_mount([*first, *more]) == first
