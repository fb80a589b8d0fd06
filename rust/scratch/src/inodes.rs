//! What belongs to a file but its names.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

use crate::extents::{BLOCK, Extents};

/// Bytes of a directory, as other file systems show them.
const DIRECTORY_NBYTES: u64 = 4096;

/// A file, whatever it is called.
#[derive(Debug)]
pub struct Inode {
    /// Attributes, which are locked for moments.
    pub attributes: Mutex<FileAttr>,
    /// Where its contents are, which is locked while they are read and written.
    pub extents: RwLock<Extents>,
    /// Where a symbolic link leads.
    pub target: OsString,
    /// Extended attributes.
    pub extended: Mutex<BTreeMap<OsString, Vec<u8>>>,
    /// Whether something that was written there is lost.
    pub is_damaged: AtomicBool,
}

impl Inode {
    /// What a new file begins with.
    pub fn new(number: u64, new: &New) -> Self {
        Self {
            attributes: Mutex::new(attributes(number, new)),
            extents: RwLock::default(),
            target: new.target.into(),
            extended: Mutex::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// Attributes as they are.
    pub fn now(&self) -> FileAttr {
        *self.attributes.lock().unwrap()
    }

    /// Change attributes, and the time of the change.
    pub fn change(&self, change: impl FnOnce(&mut FileAttr)) -> FileAttr {
        let mut attributes = self.attributes.lock().unwrap();
        change(&mut attributes);
        attributes.ctime = SystemTime::now();
        *attributes
    }
}

/// A file that is to be made.
pub struct New<'a> {
    /// What it is.
    pub kind: FileType,
    /// Its permissions.
    pub mode: u16,
    /// Who makes it.
    pub uid: u32,
    /// Group of who makes it.
    pub gid: u32,
    /// Which device it is.
    pub rdev: u32,
    /// Where it leads, if it is a symbolic link.
    pub target: &'a OsStr,
}

fn attributes(number: u64, new: &New) -> FileAttr {
    let now = SystemTime::now();
    let is_directory = new.kind == FileType::Directory;
    let size = if is_directory { DIRECTORY_NBYTES } else { new.target.len() as u64 };
    FileAttr {
        ino: INodeNo(number),
        size,
        blocks: 0,
        atime: now,
        mtime: now,
        ctime: now,
        crtime: now,
        kind: new.kind,
        perm: new.mode,
        nlink: if is_directory { 2 } else { 1 },
        uid: new.uid,
        gid: new.gid,
        rdev: new.rdev,
        blksize: BLOCK as u32,
        flags: 0,
    }
}

/// What the kernel is told of a name that nothing has, so that it does not ask again.
pub fn nothing() -> FileAttr {
    let new = New {
        kind: FileType::RegularFile,
        mode: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        target: OsStr::new(""),
    };
    FileAttr { atime: UNIX_EPOCH, ..attributes(0, &new) }
}
