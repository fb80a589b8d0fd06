"""Devices as sysfs describes them on machines that are not here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hyperslab.storage.mounts import mounts
from hyperslab.storage.tiers import disks
from hyperslab.storage.tiers.tier import share_a_medium
from hyperslab.storage.tiers.words import kind_words, meaning, medium_words
from tests.storage.tiers.trees import Tree
from tests.system.clusters.required import required

SSD = {"queue/rotational": "0", "device/model": "Flash 9", "device/vendor": "ATA"}
DISK = {"queue/rotational": "1", "device/vendor": "ATA", "device/model": "Platter 3"}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A machine that boots from the first partition of an SSD; the others are all there is."""
    tree = Tree(tmp_path)
    tree.disk("sda", "8:0", SSD, partitions=[("sda1", "8:1"), ("sda2", "8:2")])
    tree.disk("sdb", "8:16", DISK, partitions=[("sdb1", "8:17")])
    tree.disk("sdc", "8:32", DISK)
    nvme = {"queue/rotational": "0", "device/model": "Fast 1 ", "device/transport": "pcie"}
    tree.disk("nvme0n1", "259:0", nvme, partitions=[("nvme0n1p1", "259:1")])
    return tree


def mount(tree: Tree, number: str, file_system: str = "xfs", source: str = "/dev/x") -> None:
    tree.mounted(
        f"40 1 {number} / /data rw - {file_system} {source} rw",
        "41 1 8:2 / /home rw - ext4 /dev/sda2 rw",
    )


def test_partitions_of_one_disk_share_it(tree: Tree) -> None:
    mount(tree, "259:1")
    home, root, data = (tree.tier(path) for path in ("/home/me", "/usr", "/data/x"))
    assert (home.kind, root.kind, data.kind) == ("ssd", "ssd", "nvme")
    assert home.device == root.device == "8:0"
    assert medium_words(home) == "sda (Flash 9)"
    assert share_a_medium(home, root) is True
    assert share_a_medium(home, data) is False
    assert "on the same device as /usr" in meaning(home, [home, root, data])


@pytest.mark.parametrize(
    ("name", "files", "place", "kind", "why"),
    [
        ("sdd", DISK, "pci/ata2", "disk", ""),
        ("sdd", {}, "pci/ata2", "block", "does not say whether sdd rotates"),
        ("sdd", {**SSD, "device/vendor": "QEMU"}, "pci/ata2", "block", "of a virtual machine"),
        ("sdd", {**DISK, "device/model": "VBOX HARDDISK"}, "pci", "block", "of a virtual machine"),
        ("sdd", SSD, "platform/host3/session1/target", "block", "reached by iSCSI"),
        ("sdd", SSD, "pci/host3/rport-3:0-1/target", "block", "reached by Fibre Channel"),
        ("vdb", {"queue/rotational": "1"}, "pci/virtio1", "block", "whose host alone knows"),
        ("xvda", {"queue/rotational": "0"}, "vbd-51712", "block", "whose host alone knows"),
        ("nvme1n1", {"device/transport": "pcie"}, "pci/nvme", "nvme", ""),
        ("nvme1n1", {"device/nvme1/transport": "tcp"}, "virtual", "block", "NVMe over tcp"),
        ("pmem0", {"queue/dax": "1"}, "LNXSYSTM:00/ndbus0", "pmem", ""),
        ("zram0", {"queue/rotational": "0"}, "virtual", "dram", ""),
        ("mmcblk0", {"queue/rotational": "0"}, "platform/mmc", "ssd", ""),
        ("nbd0", {"queue/rotational": "0"}, "virtual", "network", ""),
        ("dm-7", {}, "virtual", "block", "the kernel names no disk below dm-7"),
    ],
)
def test_whole_disks(
    tree: Tree, name: str, files: dict[str, str], place: str, kind: str, why: str
) -> None:
    tree.disk(name, "66:1", files, place)
    mount(tree, "66:1")
    tier = tree.tier("/data")
    assert tier.kind == kind
    assert why in tier.reasons.get("kind", "")
    assert bool(why) == ("kind" in tier.reasons)


def test_volumes_lead_to_their_disks(tree: Tree) -> None:
    """Two volumes that share one disk of two compete for it."""
    uuid = {"dm/uuid": "LVM-abc", "dm/name": "vg-data", "queue/rotational": "1"}
    tree.made("dm-0", "253:0", ["sdb1", "sdc"], uuid)
    tree.made("dm-1", "253:1", ["sdc"], {**uuid, "dm/name": "vg-home"})
    tree.mounted("40 1 253:0 / /data rw - xfs /dev/dm-0 rw", "41 1 253:1 / /home rw - xfs x rw")
    data, home = tree.tier("/data"), tree.tier("/home")
    assert data.kind == "disk"
    assert data.device == "8:16+8:32"
    assert data.notes == ("vg-data (LVM) over sdb1 and sdc",)
    assert share_a_medium(data, home) is True
    assert share_a_medium(tree.tier("/"), home) is False


def test_disks_of_two_kinds_are_no_kind(tree: Tree) -> None:
    tree.made("dm-0", "253:0", ["nvme0n1p1", "sdb"], {"dm/uuid": "x", "dm/name": "cached"})
    mount(tree, "253:0")
    tier = tree.tier("/data")
    assert tier.kind == "block"
    assert tier.reasons["kind"] == "it is made of nvme0n1 (nvme) and sdb (disk)"


def test_encryption_over_a_mirror(tree: Tree) -> None:
    tree.made("md0", "9:0", ["sdb1", "sdc"], {"md/level": "raid1"})
    tree.made("dm-0", "253:0", ["md0"], {"dm/uuid": "CRYPT-LUKS2-x", "dm/name": "secret"})
    mount(tree, "253:0")
    tier = tree.tier("/data")
    assert tier.kind == "disk"
    assert tier.notes == ("secret (dm-crypt) over md0", "md0 (raid1) over sdb1 and sdc")


def test_btrfs_names_one_of_its_disks(tree: Tree) -> None:
    for name in ("sdb1", "nvme0n1"):
        link = tree.root / "sys/fs/btrfs/some-uuid/devices" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to((tree.root / f"sys/class/block/{name}").resolve())
    mount(tree, "0:44", "btrfs", "/dev/sdb1")
    tier = tree.tier("/data")
    assert tier.device == "259:0+8:16"
    assert tier.kind == "block"


def test_a_mapped_device_is_found_by_its_name(tree: Tree) -> None:
    tree.made("dm-0", "253:0", ["sdb1"], {"dm/uuid": "LVM-x", "dm/name": "vg-data"})
    (tree.root / "dev/mapper").mkdir(parents=True)
    (tree.root / "dev/dm-0").touch()
    (tree.root / "dev/mapper/vg-data").symlink_to("../dm-0")
    mount(tree, "0:44", "btrfs", "/dev/mapper/vg-data")
    assert tree.tier("/data").device == "8:16"


@pytest.mark.parametrize(
    ("option", "flag", "dax", "why"),
    [
        ("rw,dax=always", "1", True, "mounted with dax"),
        ("rw,dax", "1", True, "mounted with dax"),
        ("rw,dax=never", "1", False, ""),
        ("rw", "0", False, "pmem0 has no DAX (queue/dax)"),
        ("rw,dax=inode", "1", None, "each file says so itself (FS_XFLAG_DAX)"),
        ("rw", "1", None, "each file says so itself (FS_XFLAG_DAX)"),
    ],
)
def test_persistent_memory(tree: Tree, option: str, flag: str, dax: bool | None, why: str) -> None:
    tree.disk("pmem0", "259:9", {"queue/dax": flag}, "LNXSYSTM:00")
    tree.mounted(f"40 1 259:9 / /data rw - xfs /dev/pmem0 {option}")
    tier = tree.tier("/data")
    assert (tier.kind, tier.dax, tier.reasons.get("dax", "")) == ("pmem", dax, why)
    assert tier.write_back is (dax is not True)


def test_a_device_without_sysfs_is_not_known(tree: Tree) -> None:
    """As in a container that hides it."""
    mount(tree, "8:99")
    tier = tree.tier("/data")
    assert kind_words(tier) == "unknown"
    assert "8:99" in tier.reasons["kind"]


def test_lsblk_says_the_same() -> None:
    """Of every block device that is mounted on this machine."""
    if shutil.which("lsblk") is None:
        required("there is no lsblk here: install the Debian package util-linux")
    line = ["lsblk", "-J", "-s", "-o", "NAME,MAJ:MIN,TYPE"]
    told = json.loads(subprocess.run(line, capture_output=True, check=True).stdout)
    trees = {entry["maj:min"].strip(): entry for entry in told["blockdevices"]}
    for mounted in mounts():
        found = disks.below(mounted.device)
        if found is None or mounted.device not in trees:
            continue
        whole = {entry["maj:min"].strip() for entry in _whole(trees[mounted.device])}
        assert {disk.number for disk in found.disks} == whole


def _whole(entry: dict[str, object]) -> list[dict[str, str]]:
    """The devices of lsblk at the ends of what a device is made of."""
    below = entry.get("children", [])
    assert isinstance(below, list)
    if not below:
        return [entry]  # type: ignore[list-item]
    return [whole for child in below for whole in _whole(child)]
