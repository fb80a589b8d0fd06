//! The requests of the kernel, one after the other: each is done at once in the directory beneath,
//! and answered when the tier says so.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use nix::sys::stat::fstat;
use nix::unistd::UnlinkatFlags;

use crate::backing;
use crate::serving::{GENERATION, TierFs, reply_value, said, when_settled};
use crate::tier::Operation;

/// Bytes that the kernel asks for or sends at once, at most.
const REQUEST_NBYTES: u32 = 1 << 20;
/// Requests that nobody waits for, such as those that read ahead, which are under way at once.
const IN_BACKGROUND: u16 = 64;
/// Extended attributes that the kernel asks for by itself are not charged.
const KERNELS_OWN: &[u8] = b"security.";

#[allow(clippy::too_many_arguments)]
impl Filesystem for TierFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // A kernel that knows less of these does without.
        let wished = InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        for flag in wished.iter() {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(REQUEST_NBYTES);
        let _ = config.set_max_background(IN_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let due = self.operate(Operation::Lookup);
        self.answer_entry(due, self.find((parent, name)), reply);
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.forget_file(number, lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let due = self.operate(Operation::Getattr);
        self.answer_attributes(due, number, self.stat(number), reply);
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
        _changed: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_at: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let due = self.operate(Operation::Setattr);
        let change = || {
            let inode = self.inodes.get(number.0)?;
            if uid.is_some() || gid.is_some() {
                backing::change_owner(&inode, uid, gid)?;
            }
            if let Some(mode) = mode {
                backing::change_mode(&inode, mode)?;
            }
            if let Some(nbytes) = size {
                self.truncate(&inode, handle, nbytes, request)?;
            }
            if accessed.is_some() || modified.is_some() {
                backing::change_times(&inode, accessed, modified)?;
            }
            self.note_change(&inode);
            fstat(&inode.fd)
        };
        self.answer_attributes(due, number, change(), reply);
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let due = self.operate(Operation::Readlink);
        let inode = self.inodes.get(number.0);
        let target = inode.and_then(|inode| nix::fcntl::readlinkat(&inode.fd, ""));
        self.answer(due, move || match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(errno) => reply.error(said(errno)),
        });
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
        let due = self.operate(Operation::Mknod);
        let made = self.make_node((parent, name), mode, rdev, request);
        self.answer_entry(due, made, reply);
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
        let due = self.operate(Operation::Mkdir);
        let made = self.make_directory((parent, name), mode, request);
        self.answer_entry(due, made, reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let due = self.operate(Operation::Unlink);
        let done = self.remove_name((parent, name), UnlinkatFlags::NoRemoveDir);
        self.answer_empty(due, done, reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let due = self.operate(Operation::Rmdir);
        let done = self.remove_name((parent, name), UnlinkatFlags::RemoveDir);
        self.answer_empty(due, done, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let due = self.operate(Operation::Symlink);
        let made = self.make_symlink((parent, name), target, request);
        self.answer_entry(due, made, reply);
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
        let due = self.operate(Operation::Rename);
        let done = self.rename_file((parent, name), (new_parent, new_name), flags);
        self.answer_empty(due, done, reply);
    }

    fn link(
        &self,
        _request: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let due = self.operate(Operation::Link);
        let linked = self.link_file(number, (new_parent, new_name));
        self.answer_entry(due, linked, reply);
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let due = self.operate(Operation::Open);
        self.answer_opened(due, self.open_file(number, flags.0), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let due = self.operate(Operation::Create);
        let created = self.create_file((parent, name), mode, flags, request);
        let ttl = self.tier.settings.attribute_ttl;
        self.answer(due, move || match created {
            Ok((attributes, handle, flags)) => {
                reply.created(&ttl, &attributes, GENERATION, handle, flags);
            }
            Err(errno) => reply.error(said(errno)),
        });
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let now = self.now();
        match self.read_from(handle, offset, size as usize) {
            Ok((key, data)) => {
                let due = self.tier.read(key, offset, data.len() as u64, now);
                self.answer(due, move || reply.data(&data));
            }
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let now = self.now();
        match self.write_to(handle, offset, data, write_flags) {
            Ok((open, nbytes)) => {
                let due = self.tier.write(&open.inode, offset, nbytes as u64, now);
                self.answer(due, move || reply.written(nbytes as u32));
            }
            Err(errno) => reply.error(said(errno)),
        }
    }

    /// Somebody closes a file. Where nothing is said of its data then, the kernel asks no more after
    /// this answer.
    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        if !self.is_told_at_close {
            return reply.error(fuser::Errno::ENOSYS);
        }
        match self.closed_once(handle) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.files.remove(handle);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.tier.count(Operation::Fsync);
        match self.synced(handle, datasync) {
            Ok(inode) => {
                let latency = self.tier.settings.latency;
                when_settled(&self.timer, self.tier.clone(), inode, latency, || reply.ok());
            }
            Err(errno) => reply.error(said(errno)),
        }
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let due = self.operate(Operation::Opendir);
        let opened = self.open_listing(number).map(|handle| (handle, FopenFlags::empty()));
        self.answer_opened(due, opened, reply);
    }

    fn readdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let due = self.operate(Operation::Readdir);
        let listed = self.entries(handle, offset > 0);
        self.answer(due, move || match listed {
            Ok(entries) => {
                let left = entries.iter().enumerate().skip(offset as usize);
                for (position, entry) in left {
                    let next = position as u64 + 1;
                    if reply.add(INodeNo(entry.number), next, entry.kind, &entry.name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(said(errno)),
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.listings.remove(handle);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let now = self.now();
        let due = self.tier.pass(Operation::Fsync, now);
        let listing = self.listings.get(handle);
        let synced = listing.and_then(|listing| nix::unistd::fsync(&listing.directory));
        self.answer_empty(due, synced, reply);
    }

    fn statfs(&self, _request: &Request, number: INodeNo, reply: ReplyStatfs) {
        let due = self.tier.pass(Operation::Statfs, self.now());
        let inode = self.inodes.get(number.0);
        let found = inode.and_then(|inode| nix::sys::statvfs::fstatvfs(&inode.fd));
        self.answer(due, move || match found {
            Ok(found) => reply.statfs(
                found.blocks(),
                found.blocks_free(),
                found.blocks_available(),
                found.files(),
                found.files_free(),
                found.block_size() as u32,
                found.name_max() as u32,
                found.fragment_size() as u32,
            ),
            Err(errno) => reply.error(said(errno)),
        });
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
        let due = self.operate(Operation::Setxattr);
        let inode = self.inodes.get(number.0);
        let done = inode.and_then(|inode| backing::set_attribute(&inode, name, value, flags));
        self.answer_empty(due, done, reply);
    }

    fn getxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let due = if name.as_bytes().starts_with(KERNELS_OWN) {
            self.tier.pass(Operation::Getxattr, self.now())
        } else {
            self.operate(Operation::Getxattr)
        };
        let inode = self.inodes.get(number.0);
        let found =
            inode.and_then(|inode| backing::get_attribute(&inode, Some(name), size as usize));
        self.answer(due, move || reply_value(reply, found, size));
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let due = self.operate(Operation::Listxattr);
        let inode = self.inodes.get(number.0);
        let found = inode.and_then(|inode| backing::get_attribute(&inode, None, size as usize));
        self.answer(due, move || reply_value(reply, found, size));
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let due = self.operate(Operation::Removexattr);
        let inode = self.inodes.get(number.0);
        let done = inode.and_then(|inode| backing::remove_attribute(&inode, name));
        self.answer_empty(due, done, reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let due = self.operate(Operation::Fallocate);
        let done = self.allocate(handle, offset, length, mode);
        self.answer_empty(due, done, reply);
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
}
