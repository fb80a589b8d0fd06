//! Things that have been opened, by the number that the kernel knows each by.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fuser::FileHandle;
use nix::errno::Errno;

use crate::backing::Entry;
use crate::inodes::Inode;

/// A file that is open.
pub struct Open {
    pub file: File,
    pub inode: Arc<Inode>,
}

/// A directory that is being listed: as it was when the listing began.
pub struct Listing {
    pub directory: File,
    pub entries: Mutex<Arc<Vec<Entry>>>,
}

/// What is open of one kind.
pub struct Handles<T> {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Arc<T>>>,
}

impl<T> Handles<T> {
    pub fn new() -> Self {
        Self { next: AtomicU64::new(1), open: Mutex::default() }
    }

    pub fn add(&self, opened: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().unwrap().insert(number, Arc::new(opened));
        FileHandle(number)
    }

    pub fn get(&self, handle: FileHandle) -> Result<Arc<T>, Errno> {
        self.open.lock().unwrap().get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    pub fn remove(&self, handle: FileHandle) {
        self.open.lock().unwrap().remove(&handle.0);
    }
}
