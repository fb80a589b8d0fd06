"""File systems by the names that the kernel gives their types: what is the same for all of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyperslab.storage.mounts import OF_ONE_MACHINE, file_system, is_fuse

if TYPE_CHECKING:
    from hyperslab.storage.tiers.tier import Kind

IN_MEMORY = frozenset(("devtmpfs", "hugetlbfs", "ramfs", "rootfs", "tmpfs"))
OF_CLUSTERS = frozenset(("gfs2", "ocfs2"))
"Types on a block device that several machines mount at the same time."
OF_SEVERAL_DISKS = frozenset(("bcachefs", "btrfs"))
"Types with a device number of their own, whose source is one of their disks."
OF_VIRTUAL_MACHINES = frozenset(("9p", "virtiofs"))
"Folders of the machine that this one runs on, or of the sandbox around it."
OF_KERNEL = frozenset(
    (
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "efivarfs",
        "fusectl",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "securityfs",
        "sysfs",
        "tracefs",
    )
)
"Views of the kernel, which keep no files."
NETWORK_FILE_SYSTEMS = frozenset(
    (
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "pvfs2",
        "smb3",
        "smbfs",
        "virtiofs",
        "wekafs",
    )
)
"""Types, as the kernel names them, whose pages several machines may hold; those of FUSE may be, and
count, but for emulated devices of one machine.
"""
LOCAL_FILE_SYSTEMS = frozenset(
    (
        "bcachefs",
        "btrfs",
        "exfat",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "jfs",
        "nilfs2",
        "ntfs3",
        "overlay",
        "reiserfs",
        "tmpfs",
        "vfat",
        "xfs",
        "zfs",
    )
)
"""Types of which one machine holds all pages. What is in neither list is not known to be shared,
nor not to be.
"""
FUSE_OF_NETWORKS = frozenset(
    ("fuse.ceph", "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.glusterfs", "fuse.sshfs")
)
FUSE_OF_OBJECTS = frozenset(
    (
        "fuse.blobfuse",
        "fuse.blobfuse2",
        "fuse.gcsfuse",
        "fuse.geesefs",
        "fuse.goofys",
        "fuse.mount-s3",
        "fuse.rclone",
        "fuse.s3fs",
    )
)
"Objects of a store as files."


def kind_without_disk(kind: str) -> Kind:
    """Kind of a tier whose file system is of this type and has no block device."""
    if kind in IN_MEMORY:
        return "dram"
    if kind == "lustre":
        return "lustre"
    if kind in ("beegfs", "overlay"):
        return kind  # type: ignore[return-value]
    if kind in NETWORK_FILE_SYSTEMS or kind in FUSE_OF_NETWORKS:
        return "network"
    if kind in FUSE_OF_OBJECTS:
        return "object"
    if is_fuse(kind):
        return "fuse"
    return "unknown"


def network_file_system(path: str) -> str:
    """The type of the network file system that a path is, or will be, on; '' for a local one."""
    kind = file_system(path)
    if kind in OF_ONE_MACHINE:
        return ""
    if kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse"):
        return kind
    return ""
