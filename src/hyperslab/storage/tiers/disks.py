"""Disks: the whole disks below a block device, through partitions, volumes and arrays of disks, as
sysfs tells of them (Documentation/ABI of Linux: stable/sysfs-block, testing/sysfs-block-dm).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperslab.machine.host import lines_of
from hyperslab.storage.mounts import ROOT
from hyperslab.storage.tiers.tier import Disk, Kind
from hyperslab.units import show_list

_BY_NAME: dict[str, Kind] = {
    "pmem": "pmem",
    "zram": "dram",
    "ram": "dram",
    "nbd": "network",
    "rbd": "network",
}
"Kinds of disks by how their names begin."
_OF_HYPERVISORS = ("vd", "xvd")
"Names of disks that hypervisors make, of which nobody here knows what they are."
_VIRTUAL_MODELS = (
    "BlockVolume",
    "PersistentDisk",
    "QEMU",
    "VBOX",
    "VMware",
    "Virtual Disk",
    "Virtual disk",
    "QEMU HARDDISK",
)
"How models and vendors of disks of virtual machines begin that look like others."
_ELSEWHERE = {"/session": "iSCSI", "/rport-": "Fibre Channel"}
"What the place of a disk in sysfs holds where it is reached through a network of its own."
_MAPPED = {"LVM": "LVM", "CRYPT": "dm-crypt", "mpath": "multipath"}
"Words for the makers of mapped devices, by how the device's uuid begins."


@dataclass(frozen=True, slots=True)
class Below:
    """What a block device is made of."""

    name: str
    disks: tuple[Disk, ...]
    why: str = ""
    "Reason why a disk is of no known kind, or why none is known."
    notes: tuple[str, ...] = ()
    file: str | None = None
    "File that serves as the disk (loop)."


def below(number: str, root: Path = ROOT) -> Below | None:
    """What the block device MAJOR:MINOR is made of; None where the kernel does not tell."""
    link = root / "sys/dev/block" / number
    if not link.exists():
        return None
    folder = link.resolve()
    if (folder / "partition").exists():
        folder = folder.parent
    return _of_folder(folder)


def number_of(source: str, root: Path = ROOT) -> str | None:
    """Number of the device that a file of /dev stands for; None where there is none."""
    if not source.startswith("/dev/"):
        return None
    name = Path((root / source.lstrip("/")).resolve()).name
    return next(iter(lines_of(root / "sys/class/block" / name / "dev")), None)


def btrfs_numbers(number: str, root: Path = ROOT) -> list[str]:
    """Numbers of all devices of the btrfs that a device is one of; that one alone where the kernel
    does not list them.
    """
    for listed in sorted((root / "sys/fs/btrfs").glob("*/devices")):
        numbers = [_number(device) for device in sorted(listed.iterdir())]
        if number in numbers:
            return numbers
    return [number]


def together(parts: Sequence[Below]) -> Below:
    """Several devices that one file system or one device is made of."""
    disks = {disk.number: disk for part in parts for disk in part.disks}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    why = next((part.why for part in parts if part.why), "")
    return Below(parts[0].name, tuple(disks.values()), why, tuple(notes), parts[0].file)


def kind_of(found: Below) -> tuple[Kind, str]:
    """The kind that all disks have, else block; and why no kind is said."""
    kinds = {disk.kind for disk in found.disks}
    if found.file is not None:
        return "loop", ""
    if len(kinds) > 1:
        mixed = show_list([f"{disk.name} ({disk.kind})" for disk in found.disks])
        return "block", f"it is made of {mixed}"
    if not kinds:
        return "block", found.why
    return kinds.pop(), found.why


def has_dax(found: Below, root: Path = ROOT) -> bool:
    """Whether all disks can be mapped past the page cache."""
    flags = [lines_of(root / "sys/class/block" / disk.name / "queue/dax") for disk in found.disks]
    return bool(flags) and all(flag == ["1"] for flag in flags)


def _of_folder(folder: Path) -> Below:
    """What the device of a folder of sysfs is made of, which is no partition."""
    name = folder.name
    file = lines_of(folder / "loop/backing_file")
    if file:
        return Below(name, (Disk(name, _number(folder), "unknown"),), file=file[0])
    members = _members(folder)
    if members:
        found = together([_of_folder(_whole(member)) for member in members])
        made = f"{_made(folder)} over {show_list([member.name for member in members])}"
        return Below(name, found.disks, found.why, (made, *found.notes), found.file)
    if name.startswith(("dm-", "md", "bcache")):
        return Below(name, (), f"the kernel names no disk below {name}")
    return _of_disk(folder)


def _of_disk(folder: Path) -> Below:
    kind, why = _kind_of_disk(folder)
    model = _words(folder / "device/model")
    notes: tuple[str, ...] = ()
    if model.startswith("Amazon Elastic Block Store"):
        notes = (f"{folder.name} is a volume of {model}, behind a network",)
    return Below(folder.name, (Disk(folder.name, _number(folder), kind, model),), why, notes)


def _kind_of_disk(folder: Path) -> tuple[Kind, str]:
    """Kind of a whole disk, and the reason where it is not said."""
    name = folder.name
    for beginning, kind in _BY_NAME.items():
        if name.startswith(beginning):
            return kind, ""
    if name.startswith("nvme"):
        return _kind_of_nvme(folder)
    if name.startswith(_OF_HYPERVISORS) or _is_virtual(folder):
        return "block", f"{name} is a disk of a virtual machine, whose host alone knows what it is"
    for sign, network in _ELSEWHERE.items():
        if sign in str(folder):
            return "block", f"{name} is reached by {network}: what is behind it is not known here"
    rotates = lines_of(folder / "queue/rotational")
    if rotates == ["1"]:
        return "disk", ""
    if rotates == ["0"]:
        return "ssd", ""
    return "block", f"the kernel does not say whether {name} rotates"


def _kind_of_nvme(folder: Path) -> tuple[Kind, str]:
    """Kind of a disk that speaks NVMe, which may do so through a network."""
    transports = {
        line
        for place in (folder / "device", *sorted((folder / "device").glob("nvme*")))
        for line in lines_of(place / "transport")
    }
    far = sorted(transports & {"tcp", "rdma", "fc"})
    if far:
        return "block", f"{folder.name} is reached by NVMe over {far[0]}"
    return "nvme", ""


def _is_virtual(folder: Path) -> bool:
    made_by = (_words(folder / "device/vendor"), _words(folder / "device/model"))
    return any(text.startswith(_VIRTUAL_MODELS) or text == "Msft" for text in made_by)


def _members(folder: Path) -> list[Path]:
    """Devices that a device is made of."""
    slaves = folder / "slaves"
    if not slaves.is_dir():
        return []
    return [member.resolve() for member in sorted(slaves.iterdir())]


def _whole(folder: Path) -> Path:
    """The disk that a partition is on; any other device is whole."""
    if (folder / "partition").exists():
        return folder.parent
    return folder


def _made(folder: Path) -> str:
    """How a device is made of others, in words."""
    level = _words(folder / "md/level")
    if level:
        return f"{folder.name} ({level})"
    maker = _words(folder / "dm/uuid").partition("-")[0]
    title = _words(folder / "dm/name") or folder.name
    if maker in _MAPPED:
        return f"{title} ({_MAPPED[maker]})"
    return title


def _number(folder: Path) -> str:
    return _words(folder / "dev")


def _words(path: Path) -> str:
    return " ".join(_stripped(lines_of(path)))


def _stripped(lines: Iterable[str]) -> list[str]:
    return [line.strip() for line in lines if line.strip()]
