"""Looking: from a path to its Tier. Nothing is written, and no other file is opened.

A file system whose server is gone may never answer, so each path is looked at in a thread that is
waited for only so long.
"""

from __future__ import annotations

import fcntl
import functools
import os
import socket
import struct
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from hyperslab.machine.host import Host
from hyperslab.redaction import redact
from hyperslab.storage.location import is_remote, local_path, scheme, text_of
from hyperslab.storage.mounts import ROOT, Mount, is_fuse, mount_of, mounts, nearest
from hyperslab.storage.tiers import disks, writeback
from hyperslab.storage.tiers.file_systems import (
    IN_MEMORY,
    LOCAL_FILE_SYSTEMS,
    NETWORK_FILE_SYSTEMS,
    OF_CLUSTERS,
    OF_VIRTUAL_MACHINES,
)
from hyperslab.storage.tiers.media import Medium, medium_of, unreachable
from hyperslab.storage.tiers.tier import Emulated, Tier
from hyperslab.units import show_bytes

ANSWER_LIMIT_S = 10.0
_DEEPEST = 8
"Tiers below each other that are followed."
_FS_IOC_FSGETXATTR = 0x801C581F
_FSXATTR_NBYTES = 28
_FS_XFLAG_DAX = 0x8000
"Numbers of linux/fs.h: flags of a file, and that of DAX, which new files inherit."


def look(path: str | os.PathLike[str], limit_s: float = ANSWER_LIMIT_S) -> Tier:
    """What a path on this host is made of, or will be; what cannot be told says why.

    A path that does not exist is on what the nearest folder above it is on. No error is raised for
    a path that cannot be reached, and no request made for a URL.
    """
    text = text_of(path)
    if is_remote(text):
        return _object(text)
    place = local_path(text)
    found: Future[Tier] = Future()
    threading.Thread(target=_look_in_thread, args=(place, text, found), daemon=True).start()
    try:
        return found.result(limit_s)
    except TimeoutError:
        return _silent(place, text, limit_s)


def _look_in_thread(place: str, asked: str, found: Future[Tier]) -> None:
    try:
        found.set_result(_looked(place, asked))
    except BaseException as error:  # noqa: BLE001  # raised again by who waits
        found.set_exception(error)


def _looked(place: str, asked: str, depth: int = 0) -> Tier:
    """The tier of a path, `asked` being what it was called."""
    host = socket.gethostname()
    try:
        there = nearest(place)
        mount = _mount_of(there)
    except OSError as error:
        return unreachable(asked, f"{place} cannot be looked at: {error.strerror}")
    if mount is None:
        return unreachable(asked, "the kernel lists no mount that it is on")
    tier = on_mount(Tier(redact(asked), host), mount, depth)
    exists = os.path.lexists(place) and there == Path(os.path.realpath(place))
    notes = [*_links(place, exists), *tier.notes, *_quotas(mount)]
    tier = replace(tier, exists=exists, looked_at=str(there), notes=tuple(notes))
    return _with_dax(_with_stripe(_with_space(tier, there), there), there, mount)


def _below(place: str, depth: int) -> Tier:
    """The tier of a path that another one rests on."""
    if depth >= _DEEPEST:
        return unreachable(place, f"{_DEEPEST} tiers lie over it, and no further one is followed")
    return _looked(place, place, depth + 1)


def _mount_of(there: Path) -> Mount | None:
    """The mount of a path, which an automounter may have to make first."""
    mount = mount_of(there, mounts())
    if mount is not None and mount.file_system == "autofs":
        os.listdir(mount.mount_point)  # a mere stat does not call it
        mount = mount_of(there, mounts())
    return mount


def on_mount(tier: Tier, mount: Mount, depth: int = 0, root: Path = ROOT) -> Tier:
    """A tier with all that its mount and the devices below it tell; `root` is where the kernel's
    files are.
    """
    medium = medium_of(mount, functools.partial(_below, depth=depth), root)
    dax, why_dax = _dax(mount, medium, root)
    write_back, why = writeback.told(mount, medium.kind, dax, root)
    if medium.backing is not None and mount.file_system == "overlay":
        write_back = medium.backing.write_back
        why = medium.backing.reasons.get("write_back", "")
    if medium.emulated is not None:
        write_back, why = _emulated_writes(medium.emulated)
    shared, why_shared = _shared(mount, medium)
    found: tuple[Any, str] = None, ""
    if write_back and medium.emulated is None and writeback.is_counted(mount, medium.kind):
        found = writeback.dirty(mount.file_system, root)
    whys = {
        "kind": medium.why_kind,
        "device": medium.why_device,
        "dax": why_dax,
        "shared": why_shared,
        "write_back": why,
        "dirty": found[1],
    }
    parts = medium.below.disks if medium.below else ()
    return replace(
        tier,
        kind=medium.kind,
        mount_point=mount.mount_point,
        file_system=mount.file_system,
        source=redact(mount.source),
        options=tuple(map(redact, mount.options)),
        device=medium.device,
        disks=parts,
        dax=dax,
        shared=shared,
        write_back=write_back,
        dirty=found[0],
        backing=medium.backing,
        emulated=medium.emulated,
        notes=(*tier.notes, *medium.notes),
        reasons={**tier.reasons, **{name: text for name, text in whys.items() if text}},
    )


def _emulated_writes(made: Emulated) -> tuple[bool, str]:
    """Whether an emulated tier writes back, and what that rests on."""
    from hyperslab.storage.emulation.settings import NETWORK

    taken_nbytes = made.settings.get("write_back_nbytes")
    if taken_nbytes:
        return True, f"{show_bytes(taken_nbytes)} are taken before writers wait for the device"
    if made.settings.get("fast_nbytes"):
        return False, "what its memory does not take waits for the emulated device"
    if made.kind == NETWORK:
        return False, "its client sends what it holds when a file is closed"
    return False, "every write waits for the emulated device"


def _dax(mount: Mount, medium: Medium, root: Path) -> tuple[bool | None, str]:
    """Whether a mount maps files past the page cache; where each file says that itself, None."""
    asked = mount.option("dax")
    if asked in ("", "always"):
        return True, "mounted with dax"
    if asked == "never" or medium.kind != "pmem" or medium.below is None:
        return False, ""
    if not disks.has_dax(medium.below, root):
        return False, f"{medium.below.name} has no DAX (queue/dax)"
    return None, "each file says so itself (FS_XFLAG_DAX)"


def _with_dax(tier: Tier, there: Path, mount: Mount) -> Tier:
    """A tier whose files say themselves whether they are mapped, as this one does."""
    if tier.dax is not None or tier.kind != "pmem":
        return tier
    try:
        dax = has_dax_flag(there)
    except OSError as error:
        why = f"{there} does not tell its flags: {error.strerror}"
        return replace(tier, reasons={**tier.reasons, "dax": why})
    write_back, why = writeback.told(mount, tier.kind, dax)
    whys = {"dax": f"the flag FS_XFLAG_DAX of {there}", "write_back": why}
    return replace(tier, dax=dax, write_back=write_back, reasons={**tier.reasons, **whys})


def has_dax_flag(there: Path) -> bool:
    """Whether a file or folder has the flag FS_XFLAG_DAX. Raises OSError."""
    opened = os.open(there, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        told = fcntl.ioctl(opened, _FS_IOC_FSGETXATTR, bytes(_FSXATTR_NBYTES))
    finally:
        os.close(opened)
    (flags,) = struct.unpack_from("=I", told)
    return bool(flags & _FS_XFLAG_DAX)


def _shared(mount: Mount, medium: Medium) -> tuple[bool | None, str]:
    """Whether other hosts see the same files."""
    kind = mount.file_system
    if medium.kind == "emulated":
        return False, ""
    if kind in OF_VIRTUAL_MACHINES:
        return None, "its host may lend the folder to other machines, too"
    if kind in OF_CLUSTERS or kind in NETWORK_FILE_SYSTEMS or medium.kind in ("network", "object"):
        return True, ""
    if is_fuse(kind):
        return None, f"the program behind {kind} decides"
    if kind in LOCAL_FILE_SYSTEMS or kind in IN_MEMORY or medium.below is not None:
        return False, ""
    return None, f"nothing is known here of {kind}"


def _with_space(tier: Tier, there: Path) -> Tier:
    """A tier with its space, and whether this user may write to it."""
    folder = there if there.is_dir() else there.parent
    try:
        space = os.statvfs(there)
    except OSError as error:
        why = f"{there} does not tell its space: {error.strerror}"
        names = ("read_only", "total_nbytes", "free_nbytes", "free_inodes")
        return replace(tier, reasons={**tier.reasons, **dict.fromkeys(names, why)})
    notes = list(tier.notes)
    reasons = dict(tier.reasons)
    free = space.f_bavail * space.f_frsize
    memory = Host.here()
    if tier.kind == "dram" and memory.memory_bytes < free:
        notes.append(
            f"it takes memory, of which {show_bytes(memory.memory_bytes)} are left"
            f" ({memory.memory_from})"
        )
    inodes = None
    if space.f_files:
        inodes = space.f_favail
    else:
        reasons["free_inodes"] = "the file system has no limit to them"
    return replace(
        tier,
        read_only=bool(space.f_flag & os.ST_RDONLY) or "ro" in tier.options,
        writable=os.access(folder, os.W_OK | os.X_OK),
        total_nbytes=space.f_blocks * space.f_frsize,
        free_nbytes=free,
        free_inodes=inodes,
        notes=tuple(notes),
        reasons=reasons,
    )


def _with_stripe(tier: Tier, there: Path) -> Tier:
    """A tier with the layout of its files, where they have one."""
    if tier.kind not in ("lustre", "beegfs"):
        return tier
    from hyperslab.storage.tiers import striping

    ask = striping.of_lustre if tier.kind == "lustre" else striping.of_beegfs
    stripe, why = ask(there)
    if stripe is not None:
        return replace(tier, stripe=stripe)
    return replace(tier, reasons={**tier.reasons, "stripe": why})


def _links(place: str, exists: bool) -> list[str]:
    """Where a link leads that leads nowhere."""
    if exists or not os.path.islink(place):
        return []
    return [f"it is a link to {os.path.realpath(place)}"]


def _quotas(mount: Mount) -> list[str]:
    """A note that quotas may leave this user less than is free."""
    names = ("quota", "usrquota", "uquota", "grpquota", "gquota", "prjquota", "pquota", "usrjquota")
    if any(mount.option(name) is not None for name in names):
        return ["quotas are on: 'quota -s' says what is left of yours"]
    return []


def _object(url: str) -> Tier:
    """The tier of a URL, of which nobody is asked."""
    shown = redact(url)
    server = "/".join(shown.split("/")[:3])
    is_page = scheme(url) in ("http", "https")
    reasons = {
        "exists": "no request was made",
        "writable": "no request was made",
        "write_back": "an object is there when its store has said so",
        "free_nbytes": "stores do not tell their space",
    }
    return Tier(
        shown,
        socket.gethostname(),
        "object",
        file_system=scheme(url),
        source=server,
        device=server,
        dax=False,
        shared=True,
        write_back=False,
        read_only=is_page or None,
        reasons=reasons,
    )


def _silent(place: str, asked: str, limit_s: float) -> Tier:
    """The tier of a path that does not answer: what the table of mounts says of its name."""
    why = f"no answer within {limit_s:g} s: its server or device may be gone"
    mount = None
    with suppress(OSError):
        mount = mount_of(Path(os.path.abspath(place)), mounts())
    if mount is None or mount.mount_point == "/":
        return unreachable(asked, why)
    return replace(
        unreachable(asked, why),
        mount_point=mount.mount_point,
        file_system=mount.file_system,
        source=redact(mount.source),
    )
