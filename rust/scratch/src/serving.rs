//! The file system as the kernel sees it: names, contents, and what is done to both at once.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use fuser::{FileAttr, INodeNo, WriteFlags};
use hyperslab_programs::starting::say_line;
use nix::errno::Errno;
use nix::unistd::{Gid, getegid, getgroups};

use crate::attributes::drop_set_id;
use crate::contents::Contents;
use crate::extents::BLOCK;
use crate::inodes::{Inode, New};
use crate::names::Names;

pub const NAME_LENGTH: u32 = 255;
const KEEP_SIZE: i32 = libc::FALLOC_FL_KEEP_SIZE;
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE;
const ZERO_RANGE: i32 = libc::FALLOC_FL_ZERO_RANGE;

/// The file system.
pub struct ScratchFs {
    names: Mutex<Names>,
    pub contents: Arc<Contents>,
    pub has_extended: bool,
    /// Groups of the user, to which files may be given.
    groups: Vec<u32>,
    is_lost: AtomicBool,
}

impl ScratchFs {
    /// An empty file system with room in these contents, with or without extended attributes.
    pub fn new(names: Names, contents: Arc<Contents>, has_extended: bool) -> Self {
        let is_lost = AtomicBool::new(false);
        Self { names: Mutex::new(names), contents, has_extended, groups: own_groups(), is_lost }
    }

    pub fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap()
    }

    pub fn inode(&self, number: INodeNo) -> Result<Arc<Inode>, Errno> {
        self.names().get(number.0)
    }

    /// Give back what a file has had that is gone.
    pub fn discard(&self, gone: Option<Arc<Inode>>) {
        if let Some(inode) = gone {
            let mut extents = inode.extents.write().unwrap();
            // Nothing is written to end a file at its beginning.
            let _ = self.contents.cut(&mut extents, 0);
        }
    }

    /// Refuse to give a file to somebody else. Who is let in may do all else: what is here is one
    /// user's, from whom permissions keep nothing.
    pub fn require_giver(
        &self,
        giver: u32,
        inode: &Inode,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Errno> {
        let now = inode.now();
        let is_given_away = uid.is_some_and(|uid| uid != now.uid);
        let is_of_others = gid.is_some_and(|gid| gid != now.gid && !self.groups.contains(&gid));
        if giver != 0 && (is_given_away || is_of_others) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    pub fn make(&self, parent: INodeNo, name: &OsStr, new: New) -> Result<FileAttr, Errno> {
        if name.len() > NAME_LENGTH as usize {
            return Err(Errno::ENAMETOOLONG);
        }
        self.names().make(parent.0, name, new)
    }

    pub fn resize(&self, inode: &Inode, nbytes: u64) -> Result<(), Errno> {
        let mut extents = inode.extents.write().unwrap();
        if nbytes < inode.now().size {
            self.contents.cut(&mut extents, nbytes)?;
        }
        if nbytes == 0 {
            // Nothing is left of what was lost.
            inode.is_damaged.store(false, Ordering::Relaxed);
        }
        let blocks = shown(extents.blocks());
        inode.change(|attributes| {
            attributes.size = nbytes;
            attributes.blocks = blocks;
            attributes.mtime = attributes.ctime;
        });
        Ok(())
    }

    pub fn write_to(
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
            say_line(
                "lost: there was no room for data that the kernel had taken; they cannot be read",
            );
        }
    }

    pub fn allocate(
        &self,
        inode: &Inode,
        offset: u64,
        nbytes: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let end = offset.checked_add(nbytes).ok_or(Errno::EFBIG)?;
        let mut extents = inode.extents.write().unwrap();
        let done = match mode & !KEEP_SIZE {
            0 => self.contents.allocate(&mut extents, offset..end),
            PUNCH_HOLE | ZERO_RANGE => self.contents.clear(&mut extents, offset..end),
            _ => return Err(Errno::EOPNOTSUPP),
        };
        let blocks = shown(extents.blocks());
        inode.change(|attributes| {
            attributes.blocks = blocks;
            attributes.mtime = SystemTime::now();
            if done.is_ok() && mode & KEEP_SIZE == 0 {
                attributes.size = attributes.size.max(end);
            }
        });
        done
    }
}

fn own_groups() -> Vec<u32> {
    let more = getgroups().unwrap_or_default();
    more.into_iter().chain([getegid()]).map(Gid::as_raw).collect()
}

/// Blocks of 512 bytes, as attributes count them.
fn shown(blocks: u64) -> u64 {
    blocks * (BLOCK / 512)
}
