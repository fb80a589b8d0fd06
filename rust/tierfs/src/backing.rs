//! What is asked of the directory beneath, by descriptors: no name is looked up twice.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo, Request, TimeOrNow};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, fstatfs};
use nix::unistd::{Gid, Uid, fchownat};

use crate::inodes::{Inode, Key};

/// Permissions, and the bits beside them: set-user-ID, set-group-ID, sticky.
const PERMISSIONS: u32 = 0o7777;
/// Bits that give whoever runs a file the rights of its owner or its group.
const SET_ID: u32 = 0o6000;
/// XFS, as the kernel numbers its file systems.
const XFS_MAGIC: FsType = FsType(0x5846_5342);
/// File systems of this machine's disks and memory, which have nothing to say when a file is closed.
const SILENT: [FsType; 4] = [EXT4_SUPER_MAGIC, XFS_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC];

/// The errno of a failure of the standard library's.
pub fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// A descriptor that only names a file, and its attributes.
pub type Named = (OwnedFd, FileStat);

/// What is called so in a directory.
pub fn find(parent: &Inode, name: &OsStr) -> Result<Named, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd = nix::fcntl::openat(&parent.fd, name, flags, Mode::empty())?;
    let stat = fstat(&fd)?;
    Ok((fd, stat))
}

/// Open a file for what the flags say.
///
/// The kernel says where every write goes, also at the end of a file, and aligns nothing: the flags
/// for both are its own.
pub fn open(inode: &Inode, flags: i32) -> Result<File, Errno> {
    let left_out = OFlag::O_APPEND | OFlag::O_DIRECT | OFlag::O_NOFOLLOW | OFlag::O_CREAT;
    let flags = (OFlag::from_bits_truncate(flags) - left_out) | OFlag::O_CLOEXEC;
    let fd = nix::fcntl::open(inode.path().as_str(), flags, Mode::empty())?;
    Ok(File::from(fd))
}

/// Create a file and open it: the open file, a descriptor that only names it, and its attributes.
pub fn create(
    parent: &Inode,
    name: &OsStr,
    mode: u32,
    flags: i32,
    request: &Request,
) -> Result<(File, OwnedFd, FileStat), Errno> {
    let left_out = OFlag::O_APPEND | OFlag::O_DIRECT;
    let flags = (OFlag::from_bits_truncate(flags) - left_out)
        | OFlag::O_CREAT
        | OFlag::O_NOFOLLOW
        | OFlag::O_CLOEXEC;
    let file = nix::fcntl::openat(&parent.fd, name, flags, Mode::from_bits_truncate(mode))?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let named = nix::fcntl::open(path.as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let stat = give(&named, parent, mode, request)?;
    Ok((File::from(file), named, stat))
}

/// Make what was just made belong to who asked for it, as root alone can: its attributes.
///
/// A directory with the set-group-ID bit has given its own group away already.
pub fn give(
    made: &OwnedFd,
    parent: &Inode,
    mode: u32,
    request: &Request,
) -> Result<FileStat, Errno> {
    let stat = fstat(made)?;
    let is_theirs = stat.st_uid == request.uid() && stat.st_gid == request.gid();
    if is_theirs || !Uid::effective().is_root() {
        return Ok(stat);
    }
    let passes_its_group = fstat(&parent.fd)?.st_mode & libc::S_ISGID != 0;
    let group = if passes_its_group { None } else { Some(Gid::from_raw(request.gid())) };
    fchownat(made, "", Some(Uid::from_raw(request.uid())), group, AtFlags::AT_EMPTY_PATH)?;
    let is_file = SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT) == SFlag::S_IFREG;
    if is_file && mode & SET_ID != 0 {
        change_mode_of(made, mode)?;
    }
    fstat(made)
}

/// Set the permissions of a file.
pub fn change_mode(inode: &Inode, mode: u32) -> Result<(), Errno> {
    change_mode_of(&inode.fd, mode)
}

fn change_mode_of(fd: &OwnedFd, mode: u32) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mode = Mode::from_bits_truncate(mode & PERMISSIONS);
    fchmodat(nix::fcntl::AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink)
}

/// Take the bits away that a file loses when somebody else than root changes it.
pub fn drop_set_id(inode: &Inode) -> Result<(), Errno> {
    let mode = fstat(&inode.fd)?.st_mode;
    let runs_as_group = mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
    let mut dropped = mode & libc::S_ISUID;
    if runs_as_group {
        dropped |= libc::S_ISGID;
    }
    if dropped == 0 {
        return Ok(());
    }
    change_mode(inode, mode & !dropped)
}

/// Set owner and group of a file, each if it is given.
pub fn change_owner(inode: &Inode, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    fchownat(&inode.fd, "", uid, gid, AtFlags::AT_EMPTY_PATH)
}

/// Set the times of last access and change, each if it is given.
pub fn change_times(
    inode: &Inode,
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
) -> Result<(), Errno> {
    let times = [timespec(accessed), timespec(modified)];
    let fd = inode.fd.as_raw_fd();
    // SAFETY: the path is an empty string, and the two times outlive the call.
    let failed = unsafe { libc::utimensat(fd, c"".as_ptr(), times.as_ptr(), libc::AT_EMPTY_PATH) };
    Errno::result(failed).map(drop)
}

fn timespec(time: Option<TimeOrNow>) -> libc::timespec {
    let special = |tv_nsec| libc::timespec { tv_sec: 0, tv_nsec };
    match time {
        None => special(libc::UTIME_OMIT),
        Some(TimeOrNow::Now) => special(libc::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(since) => libc::timespec {
                tv_sec: since.as_secs() as i64,
                tv_nsec: i64::from(since.subsec_nanos()),
            },
            Err(before) => timespec_before(before.duration()),
        },
    }
}

/// A time before 1970, which fuser 0.18 has made of whole seconds before it and nanoseconds after
/// those, by adding up both: the two are told apart again.
fn timespec_before(sum: Duration) -> libc::timespec {
    libc::timespec { tv_sec: -(sum.as_secs() as i64), tv_nsec: i64::from(sum.subsec_nanos()) }
}

/// Up to so many bytes of a file; fewer only at its end.
pub fn read(file: &File, offset: u64, nbytes: usize) -> Result<Vec<u8>, Errno> {
    let mut data = vec![0; nbytes];
    let mut filled = 0;
    while filled < nbytes {
        match file.read_at(&mut data[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(errno_of(&error)),
        }
    }
    data.truncate(filled);
    Ok(data)
}

/// Write to a file: how many bytes it took, fewer only if it failed after some.
pub fn write(file: &File, offset: u64, data: &[u8]) -> Result<usize, Errno> {
    match put(file, offset, data) {
        (0, Err(errno)) => Err(errno),
        (written, _) => Ok(written),
    }
}

/// Write to a file what somebody wrote earlier: an error where it does not take all, as the kernel
/// does not look how many of these bytes it took.
pub fn write_late(file: &File, offset: u64, data: &[u8]) -> Result<usize, Errno> {
    let (written, done) = put(file, offset, data);
    done.map(|()| written)
}

/// Write to a file: how many bytes it took, and why it took no more.
fn put(file: &File, offset: u64, data: &[u8]) -> (usize, Result<(), Errno>) {
    let mut written = 0;
    while written < data.len() {
        match file.write_at(&data[written..], offset + written as u64) {
            Ok(0) => return (written, Err(Errno::EIO)),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(errno_of(&error))),
        }
    }
    (written, Ok(()))
}

/// Whether a file system may say when a file is closed what has become of its data, as those of
/// servers do.
pub fn is_told_at_close(directory: &OwnedFd) -> bool {
    !fstatfs(directory).is_ok_and(|about| SILENT.contains(&about.filesystem_type()))
}

/// Close a file for one of those who have it open: what the file system says then of its data.
pub fn close_once(file: &File) -> Result<(), Errno> {
    let copy = file.try_clone().map_err(|error| errno_of(&error))?;
    nix::unistd::close(copy)
}

/// A name in a directory.
pub struct Entry {
    /// The number of what it names, on the directory's device.
    pub number: u64,
    /// What it names.
    pub kind: FileType,
    /// The name.
    pub name: OsString,
}

/// The names in a directory, with those of itself and of the one above.
pub fn list(directory: &File) -> Result<Vec<Entry>, Errno> {
    let own = fstat(directory)?.st_ino;
    let above = fstatat(directory, "..", AtFlags::empty())?.st_ino;
    let of = |number, name: &str| Entry { number, kind: FileType::Directory, name: name.into() };
    let mut entries = vec![of(own, "."), of(above, "..")];
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    for entry in std::fs::read_dir(path).map_err(|error| errno_of(&error))? {
        let entry = entry.map_err(|error| errno_of(&error))?;
        let kind = entry.file_type().map_err(|error| errno_of(&error))?;
        let Some(kind) = FileType::from_std(kind) else { continue };
        entries.push(Entry { number: entry.ino(), kind, name: entry.file_name() });
    }
    Ok(entries)
}

/// Attributes as the kernel takes them, of a file with this number.
pub fn attributes(stat: &FileStat, number: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: system_time(stat.st_atime, stat.st_atime_nsec),
        mtime: system_time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: system_time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind_of(stat.st_mode),
        perm: (stat.st_mode & PERMISSIONS) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: encoded_device(stat.st_rdev),
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// The number of a device as it goes over the wire: 12 bits for the major number, 20 for the minor.
fn encoded_device(device: u64) -> u32 {
    let (major, minor) = (libc::major(device), libc::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The number of a device, of what came over the wire.
pub fn decoded_device(encoded: u32) -> u64 {
    let major = (encoded & 0xf_ff00) >> 8;
    let minor = (encoded & 0xff) | ((encoded >> 12) & 0xf_ff00);
    libc::makedev(major, minor)
}

fn system_time(seconds: i64, nanos: i64) -> SystemTime {
    let nanos = Duration::from_nanos(nanos as u64);
    if seconds < 0 {
        return UNIX_EPOCH - Duration::from_secs(seconds.unsigned_abs()) + nanos;
    }
    UNIX_EPOCH + Duration::from_secs(seconds as u64) + nanos
}

fn kind_of(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Make a symbolic link.
pub fn symlink(target: &Path, parent: &Inode, name: &OsStr) -> Result<(), Errno> {
    nix::unistd::symlinkat(target, &parent.fd, name)
}

fn as_c_string(text: &OsStr) -> Result<CString, Errno> {
    CString::new(text.as_bytes()).map_err(|_| Errno::EINVAL)
}

/// An extended attribute of a file, or the names of all, as they fit into a buffer of `nbytes`; with
/// none, an empty answer whose length is in the second place.
pub fn get_attribute(
    inode: &Inode,
    name: Option<&OsStr>,
    nbytes: usize,
) -> Result<(Vec<u8>, usize), Errno> {
    let path = as_c_string(OsStr::new(&inode.path()))?;
    let name = name.map(as_c_string).transpose()?;
    let mut value = vec![0_u8; nbytes];
    let buffer = value.as_mut_ptr();
    // SAFETY: path and name are strings that end with 0, and the buffer has `nbytes` bytes.
    let length = unsafe {
        match &name {
            Some(name) => libc::getxattr(path.as_ptr(), name.as_ptr(), buffer.cast(), nbytes),
            None => libc::listxattr(path.as_ptr(), buffer.cast(), nbytes),
        }
    };
    let length = Errno::result(length)? as usize;
    value.truncate(length);
    Ok((value, length))
}

/// Set an extended attribute of a file.
pub fn set_attribute(inode: &Inode, name: &OsStr, value: &[u8], flags: i32) -> Result<(), Errno> {
    let path = as_c_string(OsStr::new(&inode.path()))?;
    let name = as_c_string(name)?;
    // SAFETY: path and name are strings that end with 0, and the value has as many bytes as is said.
    let failed = unsafe {
        libc::setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
    };
    Errno::result(failed).map(drop)
}

/// Remove an extended attribute of a file.
pub fn remove_attribute(inode: &Inode, name: &OsStr) -> Result<(), Errno> {
    let path = as_c_string(OsStr::new(&inode.path()))?;
    let name = as_c_string(name)?;
    // SAFETY: path and name are strings that end with 0.
    let failed = unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) };
    Errno::result(failed).map(drop)
}

/// The file of which these are the attributes, and whether no name leads to it any more.
pub fn is_gone(inode: &Inode) -> bool {
    fstat(&inode.fd).is_ok_and(|stat| stat.st_nlink == 0 && Key::of(&stat) == inode.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_come_back() {
        for device in [libc::makedev(10, 229), libc::makedev(259, 70_000), 0] {
            assert_eq!(decoded_device(encoded_device(device)), device);
        }
    }
}
