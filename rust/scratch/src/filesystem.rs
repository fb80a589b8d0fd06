//! Requests of the kernel.
//!
//! All that changes comes through this kernel, so that it may keep for ever what it was told of names
//! and attributes, and need not say that it opens or closes what it knows.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use nix::errno::Errno;

use crate::contents::Contents;
use crate::extended;
use crate::extents::{BLOCK, Found};
use crate::names::{Inode, Names, New, nothing};

/// Bytes that the kernel asks for or sends at once, at most.
const REQUEST_NBYTES: u32 = 1 << 20;
/// Requests that nobody waits for, such as those that read ahead, which are under way at once.
const IN_BACKGROUND: u16 = 64;
/// Ten years, which is for ever.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Numbers are never given to another file.
const GENERATION: Generation = Generation(0);
const NAME_LENGTH: u32 = 255;
const PERMISSIONS: u32 = 0o7777;
const SET_USER: u16 = libc::S_ISUID as u16;
const RUNS_AS_GROUP: u16 = (libc::S_ISGID | libc::S_IXGRP) as u16;
const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE;
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE;

/// The file system.
pub struct ScratchFs {
    names: Mutex<Names>,
    contents: Arc<Contents>,
    has_extended: bool,
    is_lost: AtomicBool,
}

impl ScratchFs {
    /// An empty file system with room in these contents, with or without extended attributes.
    pub fn new(names: Names, contents: Arc<Contents>, has_extended: bool) -> Self {
        Self { names: Mutex::new(names), contents, has_extended, is_lost: AtomicBool::new(false) }
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap()
    }

    fn inode(&self, number: INodeNo) -> Result<Arc<Inode>, Errno> {
        self.names().get(number.0)
    }

    /// Give back what a file has had that is gone.
    fn discard(&self, gone: Option<Arc<Inode>>) {
        if let Some(inode) = gone {
            let mut extents = inode.extents.write().unwrap();
            // Nothing is written to end a file at its beginning.
            let _ = self.contents.cut(&mut extents, 0);
        }
    }

    fn make(&self, parent: INodeNo, name: &OsStr, new: New) -> Result<FileAttr, Errno> {
        if name.len() > NAME_LENGTH as usize {
            return Err(Errno::ENAMETOOLONG);
        }
        self.names().make(parent.0, name, new)
    }

    fn resize(&self, inode: &Inode, nbytes: u64) -> Result<(), Errno> {
        let mut extents = inode.extents.write().unwrap();
        if nbytes < inode.now().size {
            self.contents.cut(&mut extents, nbytes)?;
        }
        let blocks = shown(extents.blocks());
        inode.change(|attributes| {
            attributes.size = nbytes;
            attributes.blocks = blocks;
            attributes.mtime = attributes.ctime;
        });
        Ok(())
    }

    fn write_to(
        &self,
        inode: &Inode,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
    ) -> Result<usize, Errno> {
        let mut extents = inode.extents.write().unwrap();
        let written = self.contents.write(&mut extents, offset, data);
        let is_late = flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        if is_late && written != Ok(data.len()) {
            // Who wrote it has been told that it was written: nobody may read something else.
            inode.is_damaged.store(true, Ordering::Relaxed);
            self.say_lost();
        }
        let nbytes = written?;
        let end = offset + nbytes as u64;
        let blocks = shown(extents.blocks());
        inode.change(|attributes| {
            attributes.size = attributes.size.max(end);
            attributes.blocks = blocks;
            attributes.mtime = SystemTime::now();
            if flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
                drop_set_id(attributes);
            }
        });
        Ok(nbytes)
    }

    fn say_lost(&self) {
        if !self.is_lost.swap(true, Ordering::Relaxed) {
            eprintln!(
                "lost: there was no room for data that the kernel had taken; they cannot be read"
            );
        }
    }

    fn allocate(&self, inode: &Inode, offset: u64, nbytes: u64, mode: i32) -> Result<(), Errno> {
        let end = offset.checked_add(nbytes).ok_or(Errno::EFBIG)?;
        let mut extents = inode.extents.write().unwrap();
        match mode & !KEEP_SIZE {
            0 => self.contents.allocate(&mut extents, offset..end)?,
            PUNCH_HOLE | ZERO_RANGE => self.contents.clear(&mut extents, offset..end)?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        let blocks = shown(extents.blocks());
        inode.change(|attributes| {
            attributes.blocks = blocks;
            attributes.mtime = SystemTime::now();
            if mode & KEEP_SIZE == 0 {
                attributes.size = attributes.size.max(end);
            }
        });
        Ok(())
    }
}

/// Where the next data of a file are, or its next hole; there is one at its end.
fn seek(inode: &Inode, offset: u64, whence: i32) -> Result<u64, Errno> {
    let wants_data = match whence {
        libc::SEEK_DATA => true,
        libc::SEEK_HOLE => false,
        _ => return Err(Errno::EINVAL),
    };
    let extents = inode.extents.read().unwrap();
    let size = inode.now().size;
    let mut at = offset;
    while at < size {
        let (is_data, blocks) = match extents.find(at / BLOCK) {
            Found::Mapped(run) => (true, run.blocks),
            Found::Hole(blocks) => (false, blocks),
        };
        if is_data == wants_data {
            return Ok(at);
        }
        at = (at / BLOCK).saturating_add(blocks).saturating_mul(BLOCK);
    }
    if wants_data || offset >= size { Err(Errno::ENXIO) } else { Ok(size) }
}

/// Blocks of 512 bytes, as attributes count them.
fn shown(blocks: u64) -> u64 {
    blocks * (BLOCK / 512)
}

/// Take the bits away that a file loses when somebody changes it.
fn drop_set_id(attributes: &mut FileAttr) {
    attributes.perm &= !SET_USER;
    if attributes.perm & RUNS_AS_GROUP == RUNS_AS_GROUP {
        attributes.perm &= !(libc::S_ISGID as u16);
    }
}

fn time_of(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => told(time),
        TimeOrNow::Now => SystemTime::now(),
    }
}

/// The time that the kernel has told: before 1970 fuser takes nanoseconds off that are to be added.
fn told(time: SystemTime) -> SystemTime {
    let Err(before) = time.duration_since(UNIX_EPOCH) else { return time };
    let (seconds, nanos) = (before.duration().as_secs(), before.duration().subsec_nanos());
    UNIX_EPOCH - Duration::from_secs(seconds) + Duration::from_nanos(u64::from(nanos))
}

fn kind_of(mode: u32) -> Result<FileType, Errno> {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Ok(FileType::RegularFile),
        libc::S_IFIFO => Ok(FileType::NamedPipe),
        libc::S_IFSOCK => Ok(FileType::Socket),
        libc::S_IFCHR => Ok(FileType::CharDevice),
        libc::S_IFBLK => Ok(FileType::BlockDevice),
        _ => Err(Errno::EINVAL),
    }
}

fn said(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno as i32)
}

fn reply_entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&FOR_EVER, &attributes, GENERATION),
        Err(errno) => reply.error(said(errno)),
    }
}

fn reply_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(said(errno)),
    }
}

/// Answer with the value of an extended attribute, or with its length if there is no buffer.
fn reply_value(reply: ReplyXattr, found: Result<Vec<u8>, Errno>, size: u32) {
    match found {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(said(errno)),
    }
}

#[allow(clippy::too_many_arguments)]
impl Filesystem for ScratchFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wished = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        // A kernel that knows less of these does without.
        for flag in wished.iter() {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(REQUEST_NBYTES);
        let _ = config.set_max_background(IN_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.names().look_up(parent.0, name);
        let found = match found {
            Err(Errno::ENOENT) => Ok(nothing()),
            found => found,
        };
        reply_entry(reply, found);
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        let gone = self.names().forget(number.0, lookups);
        self.discard(gone);
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.inode(number) {
            Ok(inode) => reply.attr(&FOR_EVER, &inode.now()),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_at: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let loses_set_id = uid.is_some() || gid.is_some() || (size.is_some() && request.uid() != 0);
        let change = || -> Result<FileAttr, Errno> {
            let inode = self.inode(number)?;
            if let Some(nbytes) = size {
                self.resize(&inode, nbytes)?;
            }
            let mut attributes = inode.change(|attributes| {
                if loses_set_id {
                    drop_set_id(attributes);
                }
                attributes.uid = uid.unwrap_or(attributes.uid);
                attributes.gid = gid.unwrap_or(attributes.gid);
                let kept = u32::from(attributes.perm);
                attributes.perm = (mode.unwrap_or(kept) & PERMISSIONS) as u16;
                attributes.atime = accessed.map_or(attributes.atime, time_of);
                attributes.mtime = modified.map_or(attributes.mtime, time_of);
            });
            if let Some(time) = changed {
                inode.attributes.lock().unwrap().ctime = told(time);
                attributes.ctime = told(time);
            }
            Ok(attributes)
        };
        match change() {
            Ok(attributes) => reply.attr(&FOR_EVER, &attributes),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        match self.inode(number) {
            Ok(inode) => reply.data(inode.target.as_bytes()),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let made = kind_of(mode).and_then(|kind| {
            let (uid, gid) = (request.uid(), request.gid());
            let mode = (mode & PERMISSIONS) as u16;
            self.make(parent, name, New { kind, mode, uid, gid, rdev, target: OsStr::new("") })
        });
        reply_entry(reply, made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let new = New {
            kind: FileType::Directory,
            mode: (mode & PERMISSIONS) as u16,
            uid: request.uid(),
            gid: request.gid(),
            rdev: 0,
            target: OsStr::new(""),
        };
        reply_entry(reply, self.make(parent, name, new));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let new = New {
            kind: FileType::Symlink,
            mode: 0o777,
            uid: request.uid(),
            gid: request.gid(),
            rdev: 0,
            target: target.as_os_str(),
        };
        reply_entry(reply, self.make(parent, name, new));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let gone = self.names().unlink(parent.0, name);
        reply_empty(reply, gone.map(|gone| self.discard(gone)));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.names().remove_directory(parent.0, name);
        reply_empty(reply, done);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if new_name.len() > NAME_LENGTH as usize {
            return reply.error(fuser::Errno::ENAMETOOLONG);
        }
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            let done = self.names().exchange(from, to);
            return reply_empty(reply, done);
        }
        let may_replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let gone = self.names().rename(from, to, may_replace);
        reply_empty(reply, gone.map(|gone| self.discard(gone)));
    }

    fn link(
        &self,
        _request: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let linked = self.names().link(number.0, new_parent.0, new_name);
        reply_entry(reply, linked);
    }

    /// Nothing is noted of a file that is opened: after this answer the kernel says it no more.
    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(fuser::Errno::ENOSYS);
    }

    /// Nor of a directory.
    fn opendir(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(fuser::Errno::ENOSYS);
    }

    /// The kernel makes a file and opens it, which it need not say.
    fn create(
        &self,
        _request: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }

    /// Nothing is written when a file is closed.
    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }

    /// Scratch survives no crash: what is here is as safe as it gets.
    fn fsync(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = || -> Result<Vec<u8>, Errno> {
            let inode = self.inode(number)?;
            if inode.is_damaged.load(Ordering::Relaxed) {
                return Err(Errno::EIO);
            }
            let extents = inode.extents.read().unwrap();
            let left = inode.now().size.saturating_sub(offset);
            self.contents.read(&extents, offset, left.min(u64::from(size)) as usize)
        };
        match read() {
            Ok(data) => reply.data(&data),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let inode = self.inode(number);
        match inode.and_then(|inode| self.write_to(&inode, offset, data, write_flags)) {
            Ok(nbytes) => reply.written(nbytes as u32),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.names().list(number.0, offset, |entry| {
            !reply.add(INodeNo(entry.number), entry.place, entry.kind, &entry.name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        let (most, count) = {
            let names = self.names();
            (names.most(), names.count())
        };
        let free = self.contents.free();
        let (blocks, block) = (self.contents.blocks(), BLOCK as u32);
        reply.statfs(blocks, free, free, most, most - count, block, NAME_LENGTH, block);
    }

    fn fallocate(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let inode = self.inode(number);
        let done = inode.and_then(|inode| self.allocate(&inode, offset, length, mode));
        reply_empty(reply, done);
    }

    fn lseek(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.inode(number).and_then(|inode| seek(&inode, offset as u64, whence)) {
            Ok(found) => reply.offset(found as i64),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if !self.has_extended {
            return reply.error(fuser::Errno::ENOSYS);
        }
        let done = self.inode(number).and_then(|inode| extended::set(&inode, name, value, flags));
        reply_empty(reply, done);
    }

    fn getxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        if !self.has_extended {
            return reply.error(fuser::Errno::ENOSYS);
        }
        let found = self.inode(number).and_then(|inode| extended::get(&inode, name));
        reply_value(reply, found, size);
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        if !self.has_extended {
            return reply.error(fuser::Errno::ENOSYS);
        }
        let found = self.inode(number).map(|inode| extended::list(&inode));
        reply_value(reply, found, size);
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !self.has_extended {
            return reply.error(fuser::Errno::ENOSYS);
        }
        let done = self.inode(number).and_then(|inode| extended::remove(&inode, name));
        reply_empty(reply, done);
    }
}
