//! Contents of files: opened, written, cut and synced in the directory beneath.

use std::sync::Arc;

use fuser::{FileAttr, FileHandle, FopenFlags, INodeNo, Request, WriteFlags};
use nix::errno::Errno;
use nix::fcntl::FallocateFlags;
use nix::sys::stat::fstat;

use crate::backing;
use crate::handles::Open;
use crate::inodes::{Inode, Key, Version};
use crate::names::Place;
use crate::serving::TierFs;

impl TierFs {
    pub fn open_file(
        &self,
        number: INodeNo,
        flags: i32,
    ) -> Result<(FileHandle, FopenFlags), Errno> {
        let inode = self.inodes.get(number.0)?;
        let file = backing::open(&inode, flags)?;
        let flags = self.fopen_flags(&inode);
        Ok((self.files.add(Open { file, inode }), flags))
    }

    pub fn create_file(
        &self,
        (parent, name): Place,
        mode: u32,
        flags: i32,
        request: &Request,
    ) -> Result<(FileAttr, FileHandle, FopenFlags), Errno> {
        let parent = self.inodes.get(parent.0)?;
        let (file, fd, stat) = backing::create(&parent, name, mode, flags, request)?;
        let attributes = self.remember(fd, &stat);
        let inode = self.inodes.get(attributes.ino.0)?;
        let flags = self.fopen_flags(&inode);
        Ok((attributes, self.files.add(Open { file, inode }), flags))
    }

    /// What is said of a file that is opened: the kernel may keep what it has of it in memory,
    /// unless somebody has written to it beneath the tier.
    fn fopen_flags(&self, inode: &Inode) -> FopenFlags {
        if self.tier.settings.keep_cache && is_as_noted(inode) {
            return FopenFlags::FOPEN_KEEP_CACHE;
        }
        FopenFlags::empty()
    }

    /// Take note of a file that was changed here, of which the kernel has the new content.
    pub fn note_change(&self, inode: &Inode) {
        if self.tier.settings.keep_cache {
            is_as_noted(inode);
        }
    }

    pub fn read_from(
        &self,
        handle: FileHandle,
        offset: u64,
        nbytes: usize,
    ) -> Result<(Key, Vec<u8>), Errno> {
        let open = self.files.get(handle)?;
        let data = backing::read(&open.file, offset, nbytes)?;
        Ok((open.inode.key, data))
    }

    pub fn write_to(
        &self,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
    ) -> Result<(Arc<Open>, usize), Errno> {
        let open = self.files.get(handle)?;
        let write = if flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            backing::write_late
        } else {
            backing::write
        };
        let written = write(&open.file, offset, data)?;
        if flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            backing::drop_set_id(&open.inode)?;
        }
        self.note_change(&open.inode);
        Ok((open, written))
    }

    pub fn truncate(
        &self,
        inode: &Inode,
        handle: Option<FileHandle>,
        nbytes: u64,
        request: &Request,
    ) -> Result<(), Errno> {
        match handle {
            Some(handle) => nix::unistd::ftruncate(&self.files.get(handle)?.file, nbytes as i64)?,
            None => nix::unistd::truncate(inode.path().as_str(), nbytes as i64)?,
        }
        self.tier.cut(inode.key, nbytes);
        if request.uid() == 0 {
            return Ok(());
        }
        backing::drop_set_id(inode)
    }

    pub fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        nbytes: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let open = self.files.get(handle)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        nix::fcntl::fallocate(&open.file, mode, offset as i64, nbytes as i64)?;
        self.note_change(&open.inode);
        Ok(())
    }

    /// What is said to one of those who have a file open, and close it.
    pub fn closed_once(&self, handle: FileHandle) -> Result<(), Errno> {
        backing::close_once(&self.files.get(handle)?.file)
    }

    pub fn synced(&self, handle: FileHandle, datasync: bool) -> Result<Arc<Inode>, Errno> {
        let open = self.files.get(handle)?;
        let synced = if datasync { open.file.sync_data() } else { open.file.sync_all() };
        synced.map_err(|error| backing::errno_of(&error))?;
        Ok(open.inode.clone())
    }
}

/// Whether a file has the content that was noted last; what it has now is noted.
fn is_as_noted(inode: &Inode) -> bool {
    fstat(&inode.fd).is_ok_and(|stat| inode.note(Version::of(&stat)))
}
