"""Write-back by mount, and the kernel's limits of dirty pages."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from hyperslab.storage.mounts import mounts
from hyperslab.storage.tiers import writeback
from hyperslab.storage.tiers.words import meaning
from tests.storage.tiers.trees import Tree

PAGE = mmap.PAGESIZE
VMSTAT = (
    "nr_dirty {}\nnr_writeback 50\nnr_dirty_threshold 3000\nnr_dirty_background_threshold 1000\n"
)
SSD = {"queue/rotational": "0"}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    tree = Tree(tmp_path)
    tree.disk("sda", "8:0", SSD, partitions=[("sda1", "8:1")])
    tree.write("proc/vmstat", VMSTAT.format(150))
    return tree


@pytest.mark.parametrize(
    ("line", "kind", "write_back", "why"),
    [
        ("8:1 / /data rw - ext4 /dev/sda1 rw", "ssd", True, "the page cache"),
        ("8:1 / /data rw,sync - ext4 /dev/sda1 rw", "ssd", False, "mounted with sync"),
        ("8:1 / /data rw - ext4 /dev/sda1 rw,sync", "ssd", False, "mounted with sync"),
        ("0:50 / /data rw - tmpfs none rw", "dram", False, "memory is the medium"),
        ("0:50 / /data rw - nfs4 server:/x rw", "network", False, "when a file is closed (nfs(5))"),
        ("0:50 / /data rw - cifs //server/x rw", "network", False, "when a file is closed"),
        ("0:50 / /data rw - lustre mgs@o2ib:/x rw", "lustre", True, "osc.*.max_dirty_mb"),
        ("0:50 / /data rw - fuse.sshfs me@host:/x rw", "network", None, "behind fuse.sshfs"),
        ("0:50 / /data rw - fuse.own own rw", "fuse", None, "behind fuse.own"),
        ("0:50 / /data rw - 9p tag rw,cache=none", "network", False, "cache=none"),
        ("0:50 / /data rw - 9p tag rw,cache=loose", "network", True, "cache=loose"),
        ("0:50 / /data rw - 9p tag rw,cache=0x5", "network", True, "cache=0x5"),
        ("0:50 / /data rw - 9p tag rw,cache=0x1", "network", False, "cache=0x1"),
        ("0:50 / /data rw - 9p tag rw,cache=odd", "network", None, "not known here"),
        ("0:50 / /data rw - virtiofs tag rw", "network", None, "the host of this virtual"),
        ("0:50 / /data rw - ceph mon:/x rw", "network", None, "nothing is known here of how ceph"),
        ("0:50 / /data rw - zfs tank/home rw", "unknown", True, "zfs_dirty_data_max"),
        ("0:50 / /data rw - newfs x rw", "unknown", None, "nothing is known here of how newfs"),
        ("0:50 / /data rw - fuse.s3fs bucket rw", "object", None, "behind fuse.s3fs"),
    ],
)
def test_mounts(tree: Tree, line: str, kind: str, write_back: bool | None, why: str) -> None:
    tree.mounted(f"40 1 {line}")
    tier = tree.tier("/data/x")
    assert (tier.kind, tier.write_back) == (kind, write_back)
    assert why in tier.reasons["write_back"]


@pytest.mark.parametrize(
    ("settings", "write_back", "device"),
    [
        (["sysMgmtdHost = mgmt", "tuneFileCacheType = native"], True, "mgmt"),
        (["sysMgmtdHost = mgmt", "tuneFileCacheType = none"], False, "mgmt"),
        (["sysMgmtdHost = mgmt", "tuneFileCacheType = buffered"], None, "mgmt"),
        ([], None, None),
    ],
)
def test_beegfs(
    tree: Tree, settings: list[str], write_back: bool | None, device: str | None
) -> None:
    tree.write("proc/fs/beegfs/1-2-host/config", "\n".join(settings))
    tree.mounted("40 1 0:50 / /data rw - beegfs beegfs_nodev rw,cfgFile=/etc/x")
    tier = tree.tier("/data")
    assert (tier.kind, tier.write_back, tier.device) == ("beegfs", write_back, device)


def test_writers_go_on_until_half_way_between_the_limits(tree: Tree) -> None:
    """Dirty pages count from when they are written until they are on the device."""
    found, why = writeback.dirty("ext4", tree.root, tree.root / "cgroups")
    assert found is not None, why
    assert found.nbytes == 200 * PAGE
    assert (found.background_nbytes, found.limit_nbytes) == (1000 * PAGE, 3000 * PAGE)
    assert found.free_nbytes == 1800 * PAGE
    tree.write("proc/vmstat", VMSTAT.format(2500))
    tree.mounted()
    tier = tree.tier("/x")
    assert tier.dirty is not None
    assert tier.dirty.free_nbytes == 0
    assert "limit of dirty pages is reached" in meaning(tier)


def test_a_control_group_scales_the_limits(tree: Tree) -> None:
    """Of its own memory, for file systems that count towards it."""
    tree.write("proc/self/cgroup", "0::/job/step\n")
    tree.write("proc/sys/vm/dirty_ratio", "20\n")
    tree.write("proc/sys/vm/dirty_background_ratio", "10\n")
    group = "cgroups/job"
    tree.write(f"{group}/memory.max", f"{1000 * PAGE}\n")
    tree.write(f"{group}/memory.current", f"{700 * PAGE}\n")
    stat = {"inactive_file": 150, "active_file": 50, "file_dirty": 20, "file_writeback": 5}
    tree.write(f"{group}/memory.stat", "".join(f"{k} {n * PAGE}\n" for k, n in stat.items()))
    found, _ = writeback.dirty("xfs", tree.root, tree.root / "cgroups")
    assert found is not None
    assert (found.limit_nbytes, found.background_nbytes) == (100 * PAGE, 50 * PAGE)
    assert found.free_nbytes == 50 * PAGE
    whole, _ = writeback.dirty("jfs", tree.root, tree.root / "cgroups")
    assert whole is not None
    assert whole.limit_nbytes == 3000 * PAGE


def test_a_kernel_that_does_not_tell(tree: Tree) -> None:
    tree.write("proc/vmstat", "nr_dirty 5\n")
    tree.mounted()
    tier = tree.tier("/x")
    assert tier.write_back is True
    assert tier.dirty is None
    assert "does not tell the limits" in tier.reasons["dirty"]


def test_this_kernel_tells_its_limits() -> None:
    found, why = writeback.dirty("ext4")
    assert found is not None, why
    assert 0 < found.background_nbytes < found.limit_nbytes
    assert mounts()
