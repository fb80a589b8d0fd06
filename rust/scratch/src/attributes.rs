//! What the kernel tells of modes and times, as attributes have it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, TimeOrNow};
use nix::errno::Errno;

pub const PERMISSIONS: u32 = 0o7777;
const EXECUTABLE: u16 = (libc::S_IXUSR | libc::S_IXGRP | libc::S_IXOTH) as u16;
const SET_USER: u16 = libc::S_ISUID as u16;
const RUNS_AS_GROUP: u16 = (libc::S_ISGID | libc::S_IXGRP) as u16;

/// Take the bits away that a file loses when somebody changes it.
pub fn drop_set_id(attributes: &mut FileAttr) {
    if attributes.kind == FileType::Directory {
        return;
    }
    attributes.perm &= !SET_USER;
    if attributes.perm & RUNS_AS_GROUP == RUNS_AS_GROUP {
        attributes.perm &= !(libc::S_ISGID as u16);
    }
}

/// Whether anybody may run a file; a directory is entered by its owner in any case.
pub fn may_run(attributes: &FileAttr) -> bool {
    attributes.kind == FileType::Directory || attributes.perm & EXECUTABLE != 0
}

pub fn time_of(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => told(time),
        TimeOrNow::Now => SystemTime::now(),
    }
}

/// The time that the kernel has told: before 1970 fuser takes nanoseconds off that are to be added.
pub fn told(time: SystemTime) -> SystemTime {
    let Err(before) = time.duration_since(UNIX_EPOCH) else { return time };
    let (seconds, nanos) = (before.duration().as_secs(), before.duration().subsec_nanos());
    UNIX_EPOCH - Duration::from_secs(seconds) + Duration::from_nanos(u64::from(nanos))
}

pub fn kind_of(mode: u32) -> Result<FileType, Errno> {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Ok(FileType::RegularFile),
        libc::S_IFIFO => Ok(FileType::NamedPipe),
        libc::S_IFSOCK => Ok(FileType::Socket),
        libc::S_IFCHR => Ok(FileType::CharDevice),
        libc::S_IFBLK => Ok(FileType::BlockDevice),
        _ => Err(Errno::EINVAL),
    }
}
