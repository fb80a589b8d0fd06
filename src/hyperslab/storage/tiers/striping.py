"""Striping: how parallel file systems lay files over their targets.

Lustre says so in an attribute of every file and folder that has a layout of its own, whose form is
that of lustre_user.h (lov_user_md_v1, lov_user_md_v3, lov_comp_md_v1); BeeGFS through its program.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hyperslab.machine.asking import asked, last_line
from hyperslab.storage.tiers.tier import Stripe

ATTRIBUTE = "lustre.lov"
_V1, _V3, _SPECIFIC, _COMPOSITE = 0x0BD10BD0, 0x0BD30BD0, 0x0BD50BD0, 0x0BD60BD0
_PLAIN = struct.Struct("<II16xIHH")
"Magic number, pattern, bytes of a stripe, number of stripes, generation."
_POOL_NBYTES = 16
_HEAD = struct.Struct("<IIIHHH14x")
"Magic number, bytes in all, generation, flags, number of components, mirrors but one."
_COMPONENT = struct.Struct("<IIQQIII8x4x")
"Number, flags, first byte, byte after the last, where its layout is, its bytes, generation."
_ALL = 0xFFFF
"Number of stripes that stands for all targets."
_ON_METADATA_SERVER = 0x100
"Pattern of a component that lies on the metadata server."
_MIRROR_SHIFT = 16
"Bits of a component's number below those of its mirror."
_CUT_OFF = f"its attribute {ATTRIBUTE} is cut off"
_ANSWER_LIMIT_S = 10
_SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}

Told = tuple[Stripe | None, str]
"A layout, or why there is none."


def of_lustre(path: Path) -> Told:
    """The layout of a file, or of new files of a folder, by its attribute or by `lfs`."""
    try:
        stripe = parse_lov(os.getxattr(path, ATTRIBUTE))
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.EOPNOTSUPP):
            return None, f"its attribute {ATTRIBUTE} cannot be read: {error.strerror}"
        stripe = None
    except ValueError as error:
        return None, str(error)
    if stripe is not None and stripe.count != 0:
        return stripe, ""
    text, why = _said(["lfs", "getstripe", "-d", str(path)])
    if text is None:
        return stripe, f"it has the layout of its file system, which 'lfs' tells: {why}"
    return parse_getstripe(text), "'lfs getstripe' tells no layout"


def of_beegfs(path: Path) -> Told:
    """The layout of a file, or of new files of a folder, by BeeGFS's own programs."""
    text, why = _said(["beegfs-ctl", "--getentryinfo", str(path)])
    if text is None:
        text, why = _said(["beegfs", "entry", "info", "--retro", str(path)])
    if text is None:
        return None, f"BeeGFS tells it through beegfs-ctl or beegfs: {why}"
    return parse_entry_info(text), "BeeGFS tells no stripe pattern of it"


def parse_lov(attribute: bytes) -> Stripe:
    """The layout that Lustre's attribute says. Raises ValueError for what is none."""
    try:
        (magic,) = struct.unpack_from("<I", attribute)
        if magic == _COMPOSITE:
            return _composite(attribute)
        return _plain(attribute)
    except struct.error as error:
        raise ValueError(_CUT_OFF) from error


def _plain(attribute: bytes) -> Stripe:
    magic, pattern, nbytes, count, _ = _PLAIN.unpack_from(attribute)
    if magic not in (_V1, _V3, _SPECIFIC):
        raise ValueError(f"its attribute {ATTRIBUTE} has the form {magic:#x}, not known here")
    if count == _ALL:
        count = -1
    if pattern & _ON_METADATA_SERVER:
        count = 0
    pool = b""
    if magic != _V1 and len(attribute) < _PLAIN.size + _POOL_NBYTES:
        raise ValueError(_CUT_OFF)
    if magic != _V1:
        pool = attribute[_PLAIN.size : _PLAIN.size + _POOL_NBYTES].partition(b"\0")[0]
    return Stripe(count, nbytes, pool.decode(errors="replace"))


def _composite(attribute: bytes) -> Stripe:
    """A layout of components, one after the other; of several mirrors the first one."""
    _, _, _, _, components, _ = _HEAD.unpack_from(attribute)
    found: list[tuple[int, Stripe]] = []
    mirrors = set()
    for index in range(components):
        place = _HEAD.size + index * _COMPONENT.size
        number, _, start, _, offset, size, _ = _COMPONENT.unpack_from(attribute, place)
        mirrors.add(number >> _MIRROR_SHIFT)
        if len(mirrors) == 1:
            found.append((start, _plain(attribute[offset : offset + size])))
    return _joined(found)


def _joined(found: Sequence[tuple[int, Stripe]]) -> Stripe:
    """Components as one layout, of which the last holds most of a large file."""
    if not found:
        raise ValueError("its layout has no component")
    parts = tuple((start, stripe.count) for start, stripe in sorted(found, key=lambda one: one[0]))
    last = max(found, key=lambda one: one[0])[1]
    count = last.count
    if len({number for _, number in parts}) > 1:
        count = None
    if len(parts) == 1:
        parts = ()
    return Stripe(count, last.nbytes, last.pool, parts)


def parse_getstripe(text: str) -> Stripe | None:
    """The layout that `lfs getstripe` prints, of which older versions say `lmm_stripe_count`; None
    for none. Of several mirrors the first one counts.
    """
    found: list[tuple[int, Stripe]] = []
    start = 0
    mirror = ""
    for component in re.split(r"(?m)^(?=\s*lcme_id:)", text):
        start = int(_value(component, r"lcme_extent\.e_start") or 0)
        own_mirror = _value(component, "lcme_mirror_id")
        count = _value(component, r"(?:lmm_)?stripe_count")
        nbytes = _value(component, r"(?:lmm_)?stripe_size")
        if not count or not nbytes or (mirror and own_mirror != mirror):
            continue
        mirror = own_mirror
        pool = _value(component, r"(?:lmm_)?pool")
        found.append((start, Stripe(int(count), int(nbytes), pool)))
    if not found:
        return None
    return _joined(found)


def _value(text: str, name: str) -> str:
    """What follows a name and a colon; '' where it is not said."""
    match = re.search(rf"(?:^|\s){name}:\s+(\S+)", text)
    if match is None:
        return ""
    return match[1]


def parse_entry_info(text: str) -> Stripe | None:
    """The layout that `beegfs-ctl --getentryinfo` prints; None for none."""
    size = re.search(r"Chunksize:\s*(\d+)([KMG]?)", text, re.IGNORECASE)
    count = re.search(r"storage targets:\s*desired:\s*(\d+)", text)
    if size is None or count is None:
        return None
    pool = re.search(r"Storage Pool:\s*\d+\s*\(([^)]*)\)", text)
    name = ""
    if pool is not None:
        name = pool[1]
    return Stripe(int(count[1]), int(size[1]) * _SIZES[size[2].upper()], name)


def _said(command: Sequence[str]) -> tuple[str | None, str]:
    """What a program prints; None, and why, where it fails or is not there."""
    try:
        answer = asked(command, _ANSWER_LIMIT_S)
    except FileNotFoundError:
        return None, f"{command[0]} is not installed here"
    except OSError as error:
        return None, f"{command[0]} cannot be started: {error.strerror}"
    except subprocess.TimeoutExpired:
        return None, f"{command[0]} gave no answer within {_ANSWER_LIMIT_S} s"
    if answer.returncode:
        return None, f"{command[0]}: {last_line(answer)}"
    return answer.stdout, ""
