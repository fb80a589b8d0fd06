"""Mounts: which file system a path is on, by the kernel's own table (proc_pid_mountinfo(5))."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
"Where proc, sys and dev are looked for; tests have trees of their own."
OF_ONE_MACHINE = frozenset(("fuse.hyperslab-throttled", "fuse.hyperslab-volatile"))
"""Types of emulated tiers that stand for a device of one machine: all who use it share its mount,
and with that its pages. Whoever sees the mount sees the type, also in containers.
"""
_AS_SEEN = r"(?s)/proc/(\d+)/root(/.*)"
"A path as another process sees it, which may be in a mount namespace of its own."
_ESCAPED = rb"\\([0-7]{3})"


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of the table."""

    number: int
    parent: int
    device: str
    "Number of the device as MAJOR:MINOR; the major one is 0 where no block device is mounted."
    root: str
    "Folder of the file system that is seen at the mount point."
    mount_point: str
    file_system: str
    source: str
    options: tuple[str, ...]
    "Options of the mount, then those of the file system that are not among them."

    def option(self, name: str) -> str | None:
        """Value of an option NAME=VALUE, '' where it stands alone; None where it is not given."""
        for option in self.options:
            word, _, value = option.partition("=")
            if word == name:
                return value
        return None


def mounts(root: Path = ROOT, process: str = "self") -> list[Mount]:
    """All mounts that a process sees, this one if no other is named by its number. Raises OSError
    where the kernel has no such table.
    """
    return [_mount(line) for line in _lines(root, process)]


def _lines(root: Path, process: str = "self") -> list[bytes]:
    table = (root / "proc" / process / "mountinfo").read_bytes()
    return [line for line in table.split(b"\n") if line]  # a name may have other ends of lines


def _mount(line: bytes) -> Mount:
    """Fields of a line; those between the sixth and the hyphen may be any number."""
    mount, _, rest = line.partition(b" - ")
    number, parent, device, root, place, options = map(_text, mount.split(b" ")[:6])
    file_system, source, of_file_system = map(_text, [*rest.split(b" "), b"", b""][:3])
    given = options.split(",")
    more = [option for option in of_file_system.split(",") if option and option not in given]
    return Mount(
        int(number), int(parent), device, root, place, file_system, source, (*given, *more)
    )


def _text(field: bytes) -> str:
    r"""Field of the table, in which a space is written \040."""
    return os.fsdecode(re.sub(_ESCAPED, lambda code: bytes([int(code[1], 8)]), field))


def mounted_within(folder: Path, root: Path = ROOT) -> list[Path]:
    """Places in a folder at which something is mounted, itself among them, named below it as it is
    named here. Of one that is named as another process sees it, the mounts of that process count,
    and none once it has ended.
    """
    elsewhere = re.fullmatch(_AS_SEEN, str(folder))
    if elsewhere is None:
        top = Path(os.path.realpath(folder.parent), folder.name)
        return _below(folder, top, _lines(root))
    process, place = elsewhere.groups()  # behind a link that no resolution of names follows
    try:
        return _below(folder, Path(place), _lines(root, process))
    except OSError:
        if os.path.lexists(folder):
            raise
        return []


def _below(folder: Path, top: Path, table: Iterable[bytes]) -> list[Path]:
    """Mount points in a folder, which the table names `top`. As folders are removed by thousands,
    no more of a line is read than its mount point.
    """
    points = [_text(line.split(b" ", 5)[4]) for line in table]
    within = os.path.join(top, "")
    places = [Path(point) for point in points if f"{point}/".startswith(within)]
    return [folder / place.relative_to(top) for place in places]


def require_unmounted(top: Path) -> None:
    """Raise OSError for a folder in which something is mounted."""
    for place in mounted_within(top):
        why = "something is mounted there: unmount it first"
        raise OSError(errno.EBUSY, why, str(place))


def mount_of(path: Path, table: Iterable[Mount]) -> Mount | None:
    """The mount that a path without links is on, found as the kernel walks there: what is mounted
    below another mount, or on top of it, counts only where the walk passes.
    """
    below: dict[tuple[int, str], Mount] = {}
    numbers = set()
    for mount in table:
        below[mount.parent, mount.mount_point] = mount
        numbers.add(mount.number)
    tops = [mount for mount in below.values() if mount.parent not in numbers - {mount.number}]
    current = next((mount for mount in tops if mount.mount_point == "/"), None)
    if current is None:
        return None
    for folder in (*reversed(path.parents), path):
        upper = below.get((current.number, str(folder)))
        while upper is not None and upper is not current:
            current = upper
            upper = below.get((current.number, str(folder)))
    return current


def nearest(path: str | os.PathLike[str]) -> Path:
    """The folder or file that a path names, or the nearest folder above it that is there, without
    links. A link to what is not there leads to the nearest folder above that. Raises OSError, of a
    folder that may not be entered and of a link that leads to itself.
    """
    place = Path(os.path.realpath(path))
    while not _is_there(place):
        place = place.parent
    return place


def _is_there(place: Path) -> bool:
    try:
        place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_fuse(kind: str) -> bool:
    """Whether files of a type are served by a program; fuseblk has a block device below."""
    return kind == "fuse" or kind.startswith("fuse.")


def file_system(path: str) -> str:
    """The type of the file system that a path is, or will be, on; '' where it cannot be told."""
    mount = mount_of(nearest(path), mounts())
    if mount is None:
        return ""
    return mount.file_system


def one_on_each_mount(urls: Sequence[str]) -> list[str]:
    """The first of these on each file system, and in each store, by their names alone: no other
    question is asked of a storage that may be slow to answer.
    """
    points: set[str] = set()
    with suppress(OSError):  # there is no such table
        points = {mount.mount_point for mount in mounts()}
    known: dict[str, str] = {}

    def top_of(folder: str) -> str:
        """The mount point, or the store, of a folder."""
        if folder not in known:
            above = os.path.dirname(folder)
            is_top = folder in points or above in ("", folder) or above.endswith(("//", ":"))
            known[folder] = folder if is_top else top_of(above)
        return known[folder]

    found: dict[str, str] = {}
    for url in urls:
        found.setdefault(top_of(os.path.dirname(url)), url)
    return list(found.values())
