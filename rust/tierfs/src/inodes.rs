//! Files that the kernel knows of, each held open by a descriptor that stays with it whatever its
//! names become.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

use nix::errno::Errno;
use nix::sys::stat::FileStat;

use crate::queue::Nanos;

/// Which file it is, among all of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Number of the device.
    pub device: u64,
    /// Number of the file on it.
    pub number: u64,
}

impl Key {
    /// The file of which these are the attributes.
    pub fn of(stat: &FileStat) -> Self {
        Self { device: stat.st_dev, number: stat.st_ino }
    }
}

/// What tells one content of a file from another: its size, and when it was last written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    nbytes: i64,
    seconds: i64,
    nanoseconds: i64,
}

impl Version {
    /// The content that the file with these attributes has.
    pub fn of(stat: &FileStat) -> Self {
        Self { nbytes: stat.st_size, seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec }
    }
}

/// A file, a directory or whatever else has a name.
#[derive(Debug)]
pub struct Inode {
    /// Descriptor that only names the file (`O_PATH`).
    pub fd: OwnedFd,
    /// Which file it is.
    pub key: Key,
    /// Marks of its newest writes that were answered early, by target.
    pub marks: Mutex<Vec<Option<Nanos>>>,
    /// Its content when it was last opened or changed here.
    version: Mutex<Option<Version>>,
}

impl Inode {
    fn new(fd: OwnedFd, key: Key) -> Arc<Self> {
        Arc::new(Self { fd, key, marks: Mutex::default(), version: Mutex::default() })
    }

    /// A path that leads to this very file.
    pub fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// Note the content that it has now: whether that is what it had at the last note.
    pub fn note(&self, version: Version) -> bool {
        self.version.lock().unwrap().replace(version) == Some(version)
    }

    /// Note how far a target has to be for all of this file to be on it.
    pub fn mark(&self, target: usize, mark: Nanos) {
        let mut marks = self.marks.lock().unwrap();
        if marks.len() <= target {
            marks.resize(target + 1, None);
        }
        marks[target] = Some(mark);
    }
}

/// The number that the kernel gives the root of a file system.
const ROOT: u64 = 1;
/// Numbers from here on are for files of which another one has the number.
const MADE_UP: u64 = 1 << 63;

struct Known {
    inode: Arc<Inode>,
    lookups: u64,
}

struct Table {
    known: HashMap<u64, Known>,
    numbers: HashMap<Key, u64>,
    made_up: u64,
}

/// All that the kernel knows of.
///
/// A file has the same number as in the directory beneath, unless that lies on several devices.
pub struct Inodes {
    root: Arc<Inode>,
    table: Mutex<Table>,
}

impl Inodes {
    /// The root alone.
    pub fn new(root: OwnedFd, key: Key) -> Self {
        let root = Inode::new(root, key);
        let table = Table { known: HashMap::new(), numbers: HashMap::new(), made_up: MADE_UP };
        Self { root, table: Mutex::new(table) }
    }

    /// The file with this number.
    pub fn get(&self, number: u64) -> Result<Arc<Inode>, Errno> {
        if number == ROOT {
            return Ok(self.root.clone());
        }
        let table = self.table.lock().unwrap();
        table.known.get(&number).map(|known| known.inode.clone()).ok_or(Errno::ESTALE)
    }

    /// Take note that the kernel is told of a file: its number.
    pub fn remember(&self, fd: OwnedFd, key: Key) -> u64 {
        if key == self.root.key {
            return ROOT;
        }
        let mut table = self.table.lock().unwrap();
        if let Some(number) = table.numbers.get(&key).copied() {
            let known = table.known.get_mut(&number).expect("every number is of a known file");
            known.lookups += 1;
            return number;
        }
        let number = self.number(&mut table, key);
        table.numbers.insert(key, number);
        table.known.insert(number, Known { inode: Inode::new(fd, key), lookups: 1 });
        number
    }

    /// Take note that the kernel has dropped so many of its references: the file, if none is left.
    pub fn forget(&self, number: u64, lookups: u64) -> Option<Arc<Inode>> {
        let mut table = self.table.lock().unwrap();
        let known = table.known.get_mut(&number)?;
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 {
            return None;
        }
        let gone = table.known.remove(&number)?;
        table.numbers.remove(&gone.inode.key);
        Some(gone.inode)
    }

    fn number(&self, table: &mut Table, key: Key) -> u64 {
        let is_free = key.number != ROOT && key.number < MADE_UP;
        if is_free && key.device == self.root.key.device {
            return key.number;
        }
        table.made_up += 1;
        table.made_up
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn anything() -> OwnedFd {
        File::open("/").unwrap().into()
    }

    fn key(device: u64, number: u64) -> Key {
        Key { device, number }
    }

    #[test]
    fn a_file_is_known_until_all_references_are_dropped() {
        let inodes = Inodes::new(anything(), key(5, 2));
        assert_eq!(inodes.remember(anything(), key(5, 7)), 7);
        assert_eq!(inodes.remember(anything(), key(5, 7)), 7);
        assert!(inodes.forget(7, 1).is_none());
        assert!(inodes.get(7).is_ok());
        assert_eq!(inodes.forget(7, 1).unwrap().key, key(5, 7));
        assert_eq!(inodes.get(7).unwrap_err(), Errno::ESTALE);
    }

    #[test]
    fn a_content_is_known_from_its_last_note_on() {
        let inode = Inode::new(anything(), key(5, 7));
        let first = Version { nbytes: 1, seconds: 2, nanoseconds: 3 };
        let second = Version { nanoseconds: 4, ..first };
        assert!(!inode.note(first));
        assert!(inode.note(first));
        assert!(!inode.note(second));
        assert!(!inode.note(first));
    }

    #[test]
    fn files_of_one_number_on_two_devices_are_two() {
        let inodes = Inodes::new(anything(), key(5, 2));
        let here = inodes.remember(anything(), key(5, 7));
        let there = inodes.remember(anything(), key(6, 7));
        assert_ne!(here, there);
        assert_eq!(inodes.get(there).unwrap().key, key(6, 7));
    }

    #[test]
    fn nothing_but_the_root_has_its_number() {
        let inodes = Inodes::new(anything(), key(5, 2));
        assert_eq!(inodes.remember(anything(), key(5, 2)), ROOT);
        assert_ne!(inodes.remember(anything(), key(5, 1)), ROOT);
        assert!(inodes.forget(ROOT, 1).is_none());
    }
}
