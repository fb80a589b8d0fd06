//! Names of all files, in memory alone.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{FileAttr, FileType};
use nix::errno::Errno;

use crate::directory::{Directory, Listed};
use crate::inodes::{Inode, New};

/// Number of the root.
pub const ROOT: u64 = 1;
const SET_GROUP: u16 = libc::S_ISGID as u16;

struct Node {
    inode: Arc<Inode>,
    directory: Option<Directory>,
    /// References that the kernel holds.
    lookups: u64,
}

/// All files.
pub struct Names {
    nodes: HashMap<u64, Node>,
    next_number: u64,
    most: u64,
}

impl Names {
    /// The root alone, of this user; so many files may be made.
    pub fn new(uid: u32, gid: u32, most: u64) -> Self {
        let mut names = Self { nodes: HashMap::new(), next_number: ROOT, most };
        let root = New {
            kind: FileType::Directory,
            mode: 0o700,
            uid,
            gid,
            rdev: 0,
            target: OsStr::new(""),
        };
        names.add(ROOT, &root);
        names
    }

    /// Files that may be made at most.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Files that there are.
    pub fn count(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// A file by its number.
    pub fn get(&self, number: u64) -> Result<Arc<Inode>, Errno> {
        Ok(self.node(number)?.inode.clone())
    }

    fn node(&self, number: u64) -> Result<&Node, Errno> {
        self.nodes.get(&number).ok_or(Errno::ESTALE)
    }

    fn directory(&self, number: u64) -> Result<&Directory, Errno> {
        self.node(number)?.directory.as_ref().ok_or(Errno::ENOTDIR)
    }

    fn directory_mut(&mut self, number: u64) -> Result<&mut Directory, Errno> {
        let node = self.nodes.get_mut(&number).ok_or(Errno::ESTALE)?;
        node.directory.as_mut().ok_or(Errno::ENOTDIR)
    }

    fn entry(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.directory(parent)?.get(name).ok_or(Errno::ENOENT)
    }

    /// Find a file by its name, for the kernel to refer to.
    pub fn look_up(&mut self, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let number = self.entry(parent, name)?;
        Ok(self.refer(number))
    }

    /// Take note of another reference of the kernel's.
    fn refer(&mut self, number: u64) -> FileAttr {
        let node = self.nodes.get_mut(&number).expect("every entry is of a file");
        node.lookups += 1;
        node.inode.now()
    }

    /// Take note that the kernel has dropped so many references: the file, if it is gone by that.
    pub fn forget(&mut self, number: u64, lookups: u64) -> Option<Arc<Inode>> {
        let node = self.nodes.get_mut(&number)?;
        node.lookups = node.lookups.saturating_sub(lookups);
        self.gone(number)
    }

    /// Forget a file that has neither names nor references: the file.
    fn gone(&mut self, number: u64) -> Option<Arc<Inode>> {
        let node = self.nodes.get(&number)?;
        if node.lookups > 0 || node.inode.now().nlink > 0 {
            return None;
        }
        self.nodes.remove(&number).map(|node| node.inode)
    }

    /// Make a file, for the kernel to refer to.
    pub fn make(&mut self, parent: u64, name: &OsStr, new: New) -> Result<FileAttr, Errno> {
        self.require_free(parent, name)?;
        if self.count() >= self.most {
            return Err(Errno::ENOSPC);
        }
        let new = self.inherited(parent, new)?;
        let number = self.add(parent, &new);
        self.directory_mut(parent)?.insert(name, number);
        self.changed(parent, i32::from(new.kind == FileType::Directory));
        Ok(self.refer(number))
    }

    fn require_free(&self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        if self.node(parent)?.inode.now().nlink == 0 {
            return Err(Errno::ENOENT);
        }
        match self.directory(parent)?.get(name) {
            Some(_) => Err(Errno::EEXIST),
            None => Ok(()),
        }
    }

    /// A file in a directory that passes its group on.
    fn inherited<'a>(&self, parent: u64, new: New<'a>) -> Result<New<'a>, Errno> {
        let above = self.node(parent)?.inode.now();
        if above.perm & SET_GROUP == 0 {
            return Ok(new);
        }
        let passed_on = if new.kind == FileType::Directory { SET_GROUP } else { 0 };
        Ok(New { gid: above.gid, mode: new.mode | passed_on, ..new })
    }

    fn add(&mut self, parent: u64, new: &New) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let directory = (new.kind == FileType::Directory).then(|| Directory::new(parent));
        let inode = Arc::new(Inode::new(number, new));
        self.nodes.insert(number, Node { inode, directory, lookups: 0 });
        number
    }

    /// Note that the entries of a directory have changed, and directories in it have come or gone.
    fn changed(&self, parent: u64, directories: i32) {
        if let Ok(node) = self.node(parent) {
            node.inode.change(|attributes| {
                attributes.mtime = SystemTime::now();
                attributes.nlink = attributes.nlink.saturating_add_signed(directories);
            });
        }
    }

    /// Give a file another name.
    pub fn link(&mut self, number: u64, parent: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        self.require_free(parent, name)?;
        let inode = self.get(number)?;
        if inode.now().nlink == 0 {
            return Err(Errno::ENOENT);
        }
        inode.change(|attributes| attributes.nlink += 1);
        self.directory_mut(parent)?.insert(name, number);
        self.changed(parent, 0);
        Ok(self.refer(number))
    }

    /// Take a name from a file: the file, if it is gone by that.
    pub fn unlink(&mut self, parent: u64, name: &OsStr) -> Result<Option<Arc<Inode>>, Errno> {
        let number = self.entry(parent, name)?;
        if self.node(number)?.directory.is_some() {
            return Err(Errno::EISDIR);
        }
        self.directory_mut(parent)?.remove(name);
        self.changed(parent, 0);
        Ok(self.lose_name(number))
    }

    /// Remove an empty directory.
    pub fn remove_directory(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let number = self.entry(parent, name)?;
        self.require_empty(number)?;
        self.directory_mut(parent)?.remove(name);
        self.changed(parent, -1);
        self.lose_name(number);
        Ok(())
    }

    fn require_empty(&self, number: u64) -> Result<(), Errno> {
        if self.directory(number)?.is_empty() {
            return Ok(());
        }
        Err(Errno::ENOTEMPTY)
    }

    fn lose_name(&mut self, number: u64) -> Option<Arc<Inode>> {
        let node = self.nodes.get(&number)?;
        let is_directory = node.directory.is_some();
        node.inode.change(|attributes| {
            attributes.nlink = if is_directory { 0 } else { attributes.nlink - 1 };
        });
        self.gone(number)
    }

    /// Give a file another name in place of one: what had that name, if it is gone by that.
    pub fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        may_replace: bool,
    ) -> Result<Option<Arc<Inode>>, Errno> {
        let number = self.entry(from.0, from.1)?;
        let replaced = self.directory(to.0)?.get(to.1);
        if replaced == Some(number) && may_replace {
            return Ok(None);
        }
        if self.node(to.0)?.inode.now().nlink == 0 {
            return Err(Errno::ENOENT);
        }
        let mut gone = None;
        if let Some(there) = replaced {
            self.require_replaceable(number, there, may_replace)?;
            let is_directory = self.node(there)?.directory.is_some();
            self.changed(to.0, -i32::from(is_directory));
            gone = self.lose_name(there);
        }
        self.directory_mut(from.0)?.remove(from.1);
        self.directory_mut(to.0)?.insert(to.1, number);
        self.moved(number, from.0, to.0);
        Ok(gone)
    }

    fn require_replaceable(&self, number: u64, there: u64, may_replace: bool) -> Result<(), Errno> {
        if !may_replace {
            return Err(Errno::EEXIST);
        }
        let (is_directory, is_one_there) =
            (self.node(number)?.directory.is_some(), self.node(there)?.directory.is_some());
        match (is_directory, is_one_there) {
            (true, false) => Err(Errno::ENOTDIR),
            (false, true) => Err(Errno::EISDIR),
            (true, true) => self.require_empty(there),
            (false, false) => Ok(()),
        }
    }

    /// Note that a file is in another directory.
    fn moved(&mut self, number: u64, from: u64, to: u64) {
        let mut directories = 0;
        if let Ok(directory) = self.directory_mut(number) {
            directory.parent = to;
            directories = 1;
        }
        self.changed(from, -directories);
        self.changed(to, directories);
        if let Ok(node) = self.node(number) {
            node.inode.change(|_| ());
        }
    }

    /// Have two files take each other's name.
    pub fn exchange(&mut self, one: (u64, &OsStr), other: (u64, &OsStr)) -> Result<(), Errno> {
        let first = self.entry(one.0, one.1)?;
        let second = self.entry(other.0, other.1)?;
        self.directory_mut(one.0)?.insert(one.1, second);
        self.directory_mut(other.0)?.insert(other.1, first);
        self.moved(first, one.0, other.0);
        self.moved(second, other.0, one.0);
        Ok(())
    }

    /// Entries of a directory that have their place behind this one, as many as are taken.
    pub fn list(
        &self,
        number: u64,
        behind: u64,
        mut take: impl FnMut(Listed) -> bool,
    ) -> Result<(), Errno> {
        let directory = self.directory(number)?;
        let own = [(1, number, "."), (2, directory.parent, "..")];
        for (place, number, name) in own {
            let listed = Listed { number, kind: FileType::Directory, name: name.into(), place };
            if place > behind && !take(listed) {
                return Ok(());
            }
        }
        for (place, name, number) in directory.behind(behind) {
            let kind = self.node(number)?.inode.now().kind;
            if !take(Listed { number, kind, name: name.clone(), place }) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::FIRST_PLACE;

    fn new(kind: FileType) -> New<'static> {
        New { kind, mode: 0o644, uid: 7, gid: 8, rdev: 0, target: OsStr::new("") }
    }

    fn names() -> Names {
        Names::new(7, 8, 100)
    }

    fn make(names: &mut Names, parent: u64, name: &str, kind: FileType) -> u64 {
        names.make(parent, OsStr::new(name), new(kind)).unwrap().ino.0
    }

    fn listed(names: &Names, number: u64, behind: u64) -> Vec<String> {
        let mut found = Vec::new();
        let take = |entry: Listed| {
            found.push(entry.name.into_string().unwrap());
            true
        };
        names.list(number, behind, take).unwrap();
        found
    }

    #[test]
    fn a_file_lives_as_long_as_it_has_a_name_or_a_reference() {
        let mut names = names();
        let file = make(&mut names, ROOT, "a", FileType::RegularFile);
        names.link(file, ROOT, OsStr::new("b")).unwrap();
        assert!(names.unlink(ROOT, OsStr::new("a")).unwrap().is_none());
        assert!(names.forget(file, 2).is_none());
        assert!(names.get(file).is_ok());
        assert!(names.unlink(ROOT, OsStr::new("b")).unwrap().is_some());
        assert_eq!(names.get(file).unwrap_err(), Errno::ESTALE);
    }

    #[test]
    fn an_open_file_outlives_its_name() {
        let mut names = names();
        let file = make(&mut names, ROOT, "a", FileType::RegularFile);
        assert!(names.unlink(ROOT, OsStr::new("a")).unwrap().is_none());
        assert_eq!(names.get(file).unwrap().now().nlink, 0);
        assert!(names.forget(file, 1).is_some());
    }

    #[test]
    fn entries_keep_their_places() {
        let mut names = names();
        for name in ["a", "b", "c"] {
            make(&mut names, ROOT, name, FileType::RegularFile);
        }
        names.unlink(ROOT, OsStr::new("a")).unwrap();
        make(&mut names, ROOT, "d", FileType::RegularFile);
        assert_eq!(listed(&names, ROOT, 0), [".", "..", "b", "c", "d"]);
        assert_eq!(listed(&names, ROOT, FIRST_PLACE + 1), ["c", "d"]);
    }

    #[test]
    fn names_that_stay_keep_their_places() {
        let mut names = names();
        for name in ["a", "b", "c", "d"] {
            make(&mut names, ROOT, name, FileType::RegularFile);
        }
        names.rename((ROOT, OsStr::new("d")), (ROOT, OsStr::new("a")), true).unwrap();
        names.exchange((ROOT, OsStr::new("b")), (ROOT, OsStr::new("c"))).unwrap();
        assert_eq!(listed(&names, ROOT, 0), [".", "..", "a", "b", "c"]);
        assert_eq!(listed(&names, ROOT, FIRST_PLACE), ["b", "c"]);
    }

    #[test]
    fn a_rename_replaces_what_it_may() {
        let mut names = names();
        let file = make(&mut names, ROOT, "file", FileType::RegularFile);
        let full = make(&mut names, ROOT, "full", FileType::Directory);
        make(&mut names, ROOT, "empty", FileType::Directory);
        make(&mut names, full, "x", FileType::RegularFile);
        let mut rename = |from: &str, to: &str, may_replace| {
            let (from, to) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
            names.rename(from, to, may_replace).map(drop)
        };
        assert_eq!(rename("file", "full", true), Err(Errno::EISDIR));
        assert_eq!(rename("full", "file", true), Err(Errno::ENOTDIR));
        assert_eq!(rename("empty", "full", true), Err(Errno::ENOTEMPTY));
        assert_eq!(rename("full", "empty", false), Err(Errno::EEXIST));
        assert_eq!(rename("full", "empty", true), Ok(()));
        assert_eq!(rename("gone", "new", true), Err(Errno::ENOENT));
        assert_eq!(names.look_up(ROOT, OsStr::new("empty")).unwrap().ino.0, full);
        assert_eq!(names.get(ROOT).unwrap().now().nlink, 3);
        assert_eq!(names.get(file).unwrap().now().nlink, 1);
    }

    #[test]
    fn two_files_take_each_others_names() {
        let mut names = names();
        let folder = make(&mut names, ROOT, "folder", FileType::Directory);
        let inner = make(&mut names, folder, "inner", FileType::Directory);
        let file = make(&mut names, ROOT, "file", FileType::RegularFile);
        names.exchange((folder, OsStr::new("inner")), (ROOT, OsStr::new("file"))).unwrap();
        assert_eq!(names.look_up(ROOT, OsStr::new("file")).unwrap().ino.0, inner);
        assert_eq!(names.look_up(folder, OsStr::new("inner")).unwrap().ino.0, file);
        assert_eq!(names.get(folder).unwrap().now().nlink, 2);
        assert_eq!(names.get(ROOT).unwrap().now().nlink, 4);
    }

    #[test]
    fn nothing_is_made_in_a_directory_that_is_gone() {
        let mut names = names();
        let folder = make(&mut names, ROOT, "folder", FileType::Directory);
        names.remove_directory(ROOT, OsStr::new("folder")).unwrap();
        let made = names.make(folder, OsStr::new("x"), new(FileType::RegularFile));
        assert_eq!(made.unwrap_err(), Errno::ENOENT);
    }

    #[test]
    fn there_are_only_so_many_files() {
        let mut names = Names::new(7, 8, 2);
        make(&mut names, ROOT, "a", FileType::RegularFile);
        let made = names.make(ROOT, OsStr::new("b"), new(FileType::RegularFile));
        assert_eq!(made.unwrap_err(), Errno::ENOSPC);
    }

    #[test]
    fn a_directory_passes_its_group_on() {
        let mut names = names();
        let folder = make(&mut names, ROOT, "folder", FileType::Directory);
        names.get(folder).unwrap().change(|attributes| {
            attributes.gid = 99;
            attributes.perm |= SET_GROUP;
        });
        let inner = make(&mut names, folder, "inner", FileType::Directory);
        let found = names.get(inner).unwrap().now();
        assert_eq!((found.gid, found.perm & SET_GROUP), (99, SET_GROUP));
    }
}
