"""Media: what holds the bytes of a mounted file system."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hyperslab.redaction import redact
from hyperslab.storage.emulation.mounted import is_emulated
from hyperslab.storage.mounts import ROOT, Mount, is_fuse
from hyperslab.storage.tiers import disks
from hyperslab.storage.tiers.disks import Below
from hyperslab.storage.tiers.file_systems import (
    OF_KERNEL,
    OF_SEVERAL_DISKS,
    OF_VIRTUAL_MACHINES,
    kind_without_disk,
)
from hyperslab.storage.tiers.tier import Emulated, Kind, Tier
from hyperslab.storage.tiers.writeback import beegfs_settings

Look = Callable[[str], Tier]
"What says what a path is made of."
_ANONYMOUS = "0:"
"Major number of what is no block device."


@dataclass(frozen=True, slots=True)
class Medium:
    """What is below a file system."""

    kind: Kind
    device: str | None = None
    below: Below | None = None
    backing: Tier | None = None
    why_kind: str = ""
    why_device: str = ""
    notes: tuple[str, ...] = ()
    emulated: Emulated | None = None


def medium_of(mount: Mount, look: Look, root: Path = ROOT) -> Medium:
    """What is below the file system of a mount; `look` says what the files and folders are made of
    that it rests on.
    """
    number = mount.device
    kind = mount.file_system
    if is_emulated(mount):
        return _emulated(mount)
    if number.startswith(_ANONYMOUS) and (kind in OF_SEVERAL_DISKS or kind == "fuseblk"):
        number = disks.number_of(mount.source.partition(":")[0], root) or number
    if not number.startswith(_ANONYMOUS):
        return _on_block_device(mount, number, look, root)
    if kind == "overlay":
        return _overlay(mount, look)
    return _without_disk(mount, root)


def _emulated(mount: Mount) -> Medium:
    """Medium of a tier of ours, which shares nothing with the disk that holds its files: its own
    pace is what counts.
    """
    from hyperslab.storage.emulation import registry

    made = registry.recorded_as(mount)
    if made is None:
        note = "an emulated tier of another user, or one whose record is gone"
        return Medium("emulated", mount.source, notes=(note,))
    asked = made.settings.asked()
    told = Emulated(made.kind, made.backing, asked, made.settings.words())
    return Medium("emulated", mount.source, emulated=told)


def _without_disk(mount: Mount, root: Path) -> Medium:
    kind = kind_without_disk(mount.file_system)
    if kind == "dram":
        return Medium(kind, mount.device)
    if mount.file_system in OF_KERNEL:
        return Medium(kind, None, why_kind="the kernel keeps no files there")
    if mount.file_system in OF_VIRTUAL_MACHINES:
        note = "a folder of the machine that this one runs on"
        why = "its host alone knows where the folder is"
        return Medium(kind, None, why_device=why, notes=(note,))
    if mount.file_system == "zfs":
        pool = mount.source.partition("/")[0]
        why = f"the kernel does not tell the disks of ZFS: 'zpool status {pool}' does"
        return Medium(kind, f"zfs:{pool}", why_kind=why)
    if kind == "fuse":
        why = f"the program behind {mount.file_system} decides where files are"
        return Medium(kind, None, why_device=why)
    if kind == "unknown":
        return Medium(kind, None, why_kind=f"{mount.file_system} is not known here")
    if kind == "beegfs":
        return _beegfs(root)
    if not is_fuse(mount.file_system):
        return Medium(kind, redact(mount.source))
    if kind == "object" or ":" not in mount.source:
        return Medium(kind, None, why_device="its mount does not name the store or server")
    return Medium(kind, redact(mount.source.rpartition("@")[2]))  # without the user


def _beegfs(root: Path) -> Medium:
    """Medium by the server that manages it, as its source is the same for all."""
    servers = beegfs_settings("sysMgmtdHost", root)
    if len(servers) == 1:
        return Medium("beegfs", servers[0])
    return Medium("beegfs", None, why_device="its client does not tell sysMgmtdHost")


def _on_block_device(mount: Mount, number: str, look: Look, root: Path) -> Medium:
    """The disks below a block device, and what is below the file that may be one of them."""
    numbers = [number]
    if mount.file_system in OF_SEVERAL_DISKS:
        numbers = disks.btrfs_numbers(number, root)
    found = [part for part in (disks.below(one, root) for one in numbers) if part is not None]
    if not found:
        why = f"the kernel tells nothing of the device {number} here (/sys/dev/block)"
        return Medium("unknown", number, why_kind=why)
    below = disks.together(found)
    kind, why = disks.kind_of(below)
    device = "+".join(disk.number for disk in below.disks) or number
    if below.file is None:
        return Medium(kind, device, below, why_kind=why, notes=below.notes)
    backing = _backing_file(below.file, look)
    if backing.device is not None:
        device = backing.device
    notes = (*below.notes, f"{below.name} is the file {below.file}")
    return Medium(kind, device, below, backing, notes=notes)


def _backing_file(file: str, look: Look) -> Tier:
    """The tier of the file of a loop device, as far as this process sees it."""
    gone = " (deleted)"
    if file.endswith(gone) or not os.path.isabs(file):
        return unreachable(file, "the file has no name any more")
    tier = look(file)
    if tier.exists is False:
        return unreachable(file, "the file is not seen from here (another mount namespace)")
    return tier


def _overlay(mount: Mount, look: Look) -> Medium:
    """The layer that an overlay writes to, where this process sees it, as in a container it does
    not.
    """
    upper = mount.option("upperdir")
    lower = (mount.option("lowerdir") or "").count(":") + 1
    if upper is None:
        return Medium("overlay", None, why_device="it has no layer to write to")
    why = f"its upper layer {upper} is not seen from here"
    if not _is_same_space(mount.mount_point, upper):
        return Medium("overlay", None, why_device=why)
    backing = look(upper)
    note = f"new files go to {upper}, over {lower} lower layers"
    if lower == 1:
        note = f"new files go to {upper}, over one lower layer"
    return Medium("overlay", backing.device, backing=backing, notes=(note,))


def _is_same_space(overlay: str, upper: str) -> bool:
    """Whether a folder has the space that an overlay says it has; one of the same name in another
    mount namespace does not.
    """
    try:
        one = os.statvfs(overlay)
        other = os.statvfs(upper)
    except OSError:
        return False
    return (one.f_blocks, one.f_files) == (other.f_blocks, other.f_files)


def unreachable(path: str, why: str) -> Tier:
    """The tier of a path of this host that cannot be looked at."""
    return Tier(redact(path), socket.gethostname(), reasons={"kind": why, "exists": why})
