"""Tier: what a path is made of, as far as its host can tell.

A field that the host cannot tell is None, and `reasons` says why, by the name of the field. Nothing
here looks at a disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

Kind = Literal[
    "dram",
    "pmem",
    "nvme",
    "ssd",
    "disk",
    "block",
    "loop",
    "overlay",
    "network",
    "lustre",
    "beegfs",
    "fuse",
    "emulated",
    "object",
    "unknown",
]
"""Kinds of tiers: memory (tmpfs, zram), persistent memory, solid-state disks behind NVMe and behind
other buses, rotating disks, block devices of which the kernel does not say what they are (those of
virtual machines, mixed ones), a file used as a disk, layers over another tier, network file systems
(NFS, SMB, sshfs ...), two parallel file systems by name, a file system that is a program, a tier
that `hyperslab tiers emulate` has made, an object store, and what cannot be said.
"""


@dataclass(frozen=True, slots=True)
class Disk:
    """A whole disk below a file system: no partition, and no device made of others."""

    name: str
    "Name that the kernel gives it, such as nvme0n1."
    number: str
    "Number of the device, as MAJOR:MINOR."
    kind: Kind
    model: str = ""
    "What the disk calls itself."


@dataclass(frozen=True, slots=True)
class Dirty:
    """Pages that were written and are still in memory, and what the kernel allows of them."""

    nbytes: int
    "Bytes that are dirty, or on their way to their device."
    background_nbytes: int
    "Bytes from which on the kernel writes back behind the writers."
    limit_nbytes: int
    "Bytes beyond which writers wait for the device."
    free_nbytes: int
    """Bytes that writers may add before they are slowed down, which begins half way between the
    two (balance_dirty_pages in mm/page-writeback.c of Linux).
    """


@dataclass(frozen=True, slots=True)
class Stripe:
    """How a file, or a new file of a folder, is laid over the targets of a parallel file system."""

    count: int | None
    "Number of targets; -1: all there are; None where it grows with the file."
    nbytes: int
    "Bytes that lie on one target before the next one follows."
    pool: str = ""
    "Name of the pool of targets; empty: none is named."
    parts: tuple[tuple[int, int | None], ...] = ()
    "First byte and number of targets of each component of a layout that has several."


@dataclass(frozen=True, slots=True)
class Emulated:
    """What a tier was made to be by `hyperslab tiers emulate`."""

    kind: str
    backing: str
    "Directory that holds the files."
    settings: Mapping[str, Any]
    "What was asked for and is not the usual, by the fields of the emulation's Settings."
    words: str
    "The same, as people read it."


@dataclass(frozen=True, slots=True)
class Tier:
    """What a path is made of, on one host. Sizes are in bytes."""

    path: str
    "The path as it was asked for; of a URL one that is safe to show."
    host: str
    kind: Kind = "unknown"
    exists: bool | None = None
    looked_at: str | None = None
    "Path without links that was looked at; the nearest folder above one that does not exist."
    mount_point: str | None = None
    file_system: str | None = None
    "Type as the kernel names it, such as ext4, nfs4, fuse.sshfs; s3 for an object store."
    source: str | None = None
    "Device or server, as the kernel names it: /dev/sda1, server:/export."
    options: tuple[str, ...] = ()
    "Options of the mount and of its file system."
    device: str | None = None
    """Name of the medium that is shared with other paths: MAJOR:MINOR of whole disks, joined by +,
    or of a file system in memory; server:/export.
    """
    disks: tuple[Disk, ...] = ()
    dax: bool | None = None
    "Whether files are mapped persistent memory, past the page cache."
    shared: bool | None = None
    "Whether other hosts see the same files."
    write_back: bool | None = None
    """Whether a file may be closed while what was written is in memory alone, to reach the medium
    later; `reasons` says what this rests on, whatever it is.
    """
    dirty: Dirty | None = None
    "Limits of the host, where it writes back."
    stripe: Stripe | None = None
    backing: Tier | None = None
    "Tier below this one, for a file used as a disk and for the layer that an overlay writes to."
    emulated: Emulated | None = None
    read_only: bool | None = None
    writable: bool | None = None
    "Whether this user may make files there."
    total_nbytes: int | None = None
    free_nbytes: int | None = None
    "Bytes that this user may still write."
    free_inodes: int | None = None
    "Files that may still be made; None also where there is no limit to them."
    notes: tuple[str, ...] = ()
    "What else was seen, as sentences without a full stop."
    reasons: Mapping[str, str] = field(default_factory=dict)
    "Why a field is None, or what it rests on, by its name."

    @property
    def media(self) -> frozenset[str]:
        """What paths share that lie on the same medium, by names that differ between hosts unless
        they share it; none where it is not known.
        """
        if self.backing is not None:
            return self.backing.media
        if self.device is None:
            return frozenset()
        if self.shared:
            return frozenset([self.device])
        numbers = [disk.number for disk in self.disks] or [self.device]
        return frozenset(f"{self.host}/{number}" for number in numbers)

    @property
    def medium(self) -> Kind:
        """Kind of what holds the bytes in the end: that of the tier below, where there is one."""
        if self.backing is None:
            return self.kind
        return self.backing.medium

    def as_json(self) -> dict[str, Any]:
        """Record as JSON has it; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Tier of what `as_json` made, also after a way through JSON text. Raises TypeError for
        fields that are none.
        """
        told = dict(record)
        told["disks"] = tuple(Disk(**disk) for disk in told["disks"])
        told["options"] = tuple(told["options"])
        told["notes"] = tuple(told["notes"])
        if told["dirty"] is not None:
            told["dirty"] = Dirty(**told["dirty"])
        if told["stripe"] is not None:
            told["stripe"] = _stripe(told["stripe"])
        if told.get("emulated") is not None:
            told["emulated"] = Emulated(**told["emulated"])
        if told["backing"] is not None:
            told["backing"] = cls.from_json(told["backing"])
        return cls(**told)


def _stripe(record: Mapping[str, Any]) -> Stripe:
    parts = tuple((first, count) for first, count in record["parts"])
    return Stripe(record["count"], record["nbytes"], record["pool"], parts)


def share_a_medium(one: Tier, other: Tier) -> bool | None:
    """Whether two tiers compete for one device or server; None where one of them is not known, and
    for two exports of one server, which may be on the same disks.
    """
    if not one.media or not other.media:
        return None
    if one.media & other.media:
        return True
    if one.shared and other.shared and _server(one) == _server(other):
        return None
    return False


def _server(tier: Tier) -> str:
    """The server of SERVER:/EXPORT, and of //SERVER/EXPORT."""
    assert tier.device is not None
    server, colon, _ = tier.device.rpartition(":/")
    if colon:
        return server
    return tier.device.removeprefix("//").partition("/")[0]
