//! Requests of the kernel.
//!
//! All that changes comes through this kernel, so that it may keep for ever what it was told of names
//! and attributes, and need not say that it opens or closes what it knows.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use nix::errno::Errno;

use crate::attributes::{PERMISSIONS, drop_set_id, kind_of, may_run, time_of, told};
use crate::extended;
use crate::extents::BLOCK;
use crate::inodes::{New, nothing};
use crate::replies::{FOR_EVER, reply_empty, reply_entry, reply_value, said};
use crate::serving::{NAME_LENGTH, ScratchFs};

/// Bytes that the kernel asks for or sends at once, at most.
const REQUEST_NBYTES: u32 = 1 << 20;
/// Requests that nobody waits for, such as those that read ahead, which are under way at once.
const IN_BACKGROUND: u16 = 64;

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

    /// Who is let in may do all, but run what is not executable. The kernel asks for `access` and
    /// `chdir` alone, and not on each step of a path.
    fn access(&self, _request: &Request, number: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        match self.inode(number) {
            Ok(inode) if mask.contains(AccessFlags::X_OK) && !may_run(&inode.now()) => {
                reply.error(fuser::Errno::EACCES);
            }
            Ok(_) => reply.ok(),
            Err(errno) => reply.error(said(errno)),
        }
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
            self.require_giver(request.uid(), &inode, uid, gid)?;
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
        if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            return reply.error(fuser::Errno::EINVAL);
        }
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
        if new_name.len() > NAME_LENGTH as usize {
            return reply.error(fuser::Errno::ENAMETOOLONG);
        }
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

    /// What is mapped may not have been written back, and must be taken for no hole.
    fn lseek(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _offset: i64,
        _whence: i32,
        reply: ReplyLseek,
    ) {
        reply.error(fuser::Errno::ENOSYS);
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
