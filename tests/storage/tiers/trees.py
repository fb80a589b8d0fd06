"""Trees of kernel files as machines have them that are not here: /proc, /sys and /dev below a
folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hyperslab.storage.mounts import mount_of, mounts
from hyperslab.storage.tiers.looking import on_mount
from hyperslab.storage.tiers.tier import Tier


class Tree:
    """Kernel files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.numbers: dict[str, str] = {}

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def mounted(self, *lines: str) -> None:
        """Lines of mountinfo, after that of a root file system of sda1."""
        table = ["1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw", *lines]
        self.write("proc/self/mountinfo", "".join(f"{line}\n" for line in table))

    def disk(
        self,
        name: str,
        number: str,
        files: Mapping[str, str] | None = None,
        place: str = "pci0000:00/ata1",
        partitions: Sequence[tuple[str, str]] = (),
    ) -> None:
        """A whole disk, at a place of its bus, with (name, number) of its partitions."""
        folder = f"sys/devices/{place}/block/{name}"
        for file, text in {"dev": number, **(files or {})}.items():
            self.write(f"{folder}/{file}", f"{text}\n")
        self._known(name, number, folder)
        for part, part_number in partitions:
            self.write(f"{folder}/{part}/partition", "1\n")
            self.write(f"{folder}/{part}/dev", f"{part_number}\n")
            self._known(part, part_number, f"{folder}/{part}")

    def made(
        self, name: str, number: str, of: Sequence[str], files: Mapping[str, str] | None = None
    ) -> None:
        """A device that is made of others."""
        self.disk(name, number, files, "virtual")
        slaves = self.root / f"sys/devices/virtual/block/{name}/slaves"
        slaves.mkdir()
        for member in of:
            (slaves / member).symlink_to((self.root / f"sys/class/block/{member}").resolve())

    def _known(self, name: str, number: str, folder: str) -> None:
        for link in (f"sys/dev/block/{number}", f"sys/class/block/{name}"):
            path = self.root / link
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(self.root / folder)

    def tier(self, path: str) -> Tier:
        """The tier of a path by these files."""
        mount = mount_of(Path(path), mounts(self.root))
        assert mount is not None
        return on_mount(Tier(path, "here"), mount, root=self.root)
