"""Write-back: whether what was written may be in memory alone when its file is closed, and how much
of it the kernel allows.

A run closes every file that it writes. Where pages stay behind then, it goes on at the speed of
memory until the kernel's limit is reached, and at that of the device from there on.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from hyperslab.machine.host import CGROUP_ROOT, cgroup_folders, lines_of, words_of
from hyperslab.storage.mounts import ROOT, Mount, is_fuse
from hyperslab.storage.tiers.file_systems import IN_MEMORY
from hyperslab.storage.tiers.tier import Dirty, Kind

_9P_WRITEBACK = 4
"Bit of the option cache= of 9p (Documentation/filesystems/9p.rst of Linux)."
_9P_WORDS = {"none": 0, "readahead": 1, "mmap": 5, "loose": 15, "fscache": 143}
_GROUPED = frozenset(("btrfs", "ext2", "ext4", "f2fs", "xfs"))
"File systems whose dirty pages count towards a control group (cgroup-v2.rst of Linux, Writeback)."

Told = tuple[bool | None, str]
"Whether a mount writes back, and what that rests on."


def told(mount: Mount, kind: Kind, dax: bool | None, root: Path = ROOT) -> Told:
    """Whether a mount writes back."""
    if kind == "dram" and mount.file_system in IN_MEMORY:
        return False, "memory is the medium"
    if dax and kind == "pmem":
        return False, "DAX: stores go to the medium, past the page cache"
    if mount.option("sync") is not None:
        return False, "mounted with sync"
    if kind == "overlay":
        return None, "the layer that it writes to decides, and is not seen from here"
    if mount.file_system in _BY_TYPE:
        return _BY_TYPE[mount.file_system]
    if mount.file_system == "9p":
        return _of_9p(mount)
    if mount.file_system == "beegfs":
        return _of_beegfs(root)
    if is_fuse(mount.file_system):
        return None, f"the program behind {mount.file_system} decides"
    if mount.device.startswith("0:") and kind in ("network", "object", "unknown"):
        return None, f"nothing is known here of how {mount.file_system} keeps what is written"
    return True, "the page cache"


_ON_CLOSE = (False, "the client sends what it holds when a file is closed (nfs(5))")
_OF_SMB = (False, "the client sends what it holds when a file is closed (cifs_flush of Linux)")
_BY_TYPE: dict[str, Told] = {
    "nfs": _ON_CLOSE,
    "nfs4": _ON_CLOSE,
    "cifs": _OF_SMB,
    "smb3": _OF_SMB,
    "lustre": (True, "the client's pages, as many as osc.*.max_dirty_mb allows for each target"),
    "virtiofs": (None, "the host of this virtual machine decides"),
    "zfs": (True, "ZFS's own cache (zfs_dirty_data_max), not the kernel's limits"),
}
"What is so for all mounts of a type that are not mounted with sync."


def _of_9p(mount: Mount) -> Told:
    """Answer by the option cache, a word or a number of bits; nothing is cached without it."""
    given = mount.option("cache") or "none"
    try:
        bits = _9P_WORDS[given] if given in _9P_WORDS else int(given, 0)
    except ValueError:
        return None, f"mounted with cache={given}, which is not known here"
    return bool(bits & _9P_WRITEBACK), f"mounted with cache={given}"


def _of_beegfs(root: Path) -> Told:
    """Answer by how its client is set to cache files."""
    ways = beegfs_settings("tuneFileCacheType", root)
    if len(ways) != 1:
        return None, "its client does not tell tuneFileCacheType"
    return {"native": True, "none": False}.get(ways[0]), f"tuneFileCacheType = {ways[0]}"


def beegfs_settings(name: str, root: Path = ROOT) -> list[str]:
    """Different values of a setting of BeeGFS's clients on this host."""
    found = []
    for path in sorted((root / "proc/fs/beegfs").glob("*/config")):
        for line in lines_of(path):
            word, _, value = line.partition("=")
            if word.strip() == name:
                found.append(value.strip())
    return list(dict.fromkeys(found))


def is_counted(mount: Mount, kind: Kind) -> bool:
    """Whether dirty pages of a mount that writes back fall under the kernel's limits alone."""
    return mount.file_system not in ("lustre", "zfs") and kind not in ("dram", "object")


def dirty(
    file_system: str, root: Path = ROOT, cgroups: Path = CGROUP_ROOT
) -> tuple[Dirty | None, str]:
    """The kernel's limits of dirty pages at this moment, and how much of them is taken; None where
    it does not tell, with the reason. The smallest control group with a limit of memory scales
    them, where it counts dirty pages.
    """
    state = dict(line.split() for line in lines_of(root / "proc/vmstat"))
    names = ("nr_dirty_threshold", "nr_dirty_background_threshold", "nr_dirty", "nr_writeback")
    if not all(name in state for name in names):
        return None, "/proc/vmstat does not tell the limits of dirty pages"
    limit, background, waiting, under_way = (int(state[name]) * mmap.PAGESIZE for name in names)
    host = _limits(limit, background, waiting + under_way)
    if file_system not in _GROUPED:
        return host, ""
    groups = [host]
    for folder in cgroup_folders(cgroups, "memory", root / "proc/self/cgroup"):
        group = _of_group(folder, root)
        if group is not None:
            groups.append(group)
    return min(groups, key=lambda one: one.free_nbytes), ""


def _limits(limit: int, background: int, taken: int) -> Dirty:
    return Dirty(taken, background, limit, max(0, (limit + background) // 2 - taken))


def _of_group(folder: Path, root: Path) -> Dirty | None:
    """Limits of a group of control groups version 2 that limits memory: the host's ratios, of the
    memory that the group has left for pages.
    """
    most = words_of(folder / "memory.max")
    if not most or not most[0].isdigit():
        return None
    ratios = [words_of(root / "proc/sys/vm" / name) for name in _RATIOS]
    if not all(words and words[0] != "0" for words in ratios):
        return None  # limits in bytes, whose share of the group is not said
    state = dict(line.split() for line in lines_of(folder / "memory.stat"))
    used = int(words_of(folder / "memory.current")[0])
    pages = int(state["inactive_file"]) + int(state["active_file"])
    usable = max(0, int(most[0]) - used) + pages
    limit, background = (usable * int(words[0]) // 100 for words in ratios)
    taken = int(state["file_dirty"]) + int(state["file_writeback"])
    return _limits(limit, min(background, limit // 2), taken)


_RATIOS = ("dirty_ratio", "dirty_background_ratio")
