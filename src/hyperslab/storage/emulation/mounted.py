"""Mounts of emulated tiers, by which they are known whoever has made them."""

from __future__ import annotations

from hyperslab.storage.mounts import Mount

SOURCE = "hyperslab-"
"Name of the source of every mount, before that of the tier; of its type, before its kind."


def is_emulated(mount: Mount) -> bool:
    """Whether a mount is that of an emulated tier, whoever made it."""
    return mount.source.startswith(SOURCE) and mount.file_system.startswith("fuse")
