//! Extended attributes of files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;

use crate::inodes::Inode;

/// Set an attribute, under the conditions that `setxattr(2)` has flags for.
pub fn set(inode: &Inode, name: &OsStr, value: &[u8], flags: i32) -> Result<(), Errno> {
    let mut extended = inode.extended.lock().unwrap();
    let is_there = extended.contains_key(name);
    if is_there && flags & libc::XATTR_CREATE != 0 {
        return Err(Errno::EEXIST);
    }
    if !is_there && flags & libc::XATTR_REPLACE != 0 {
        return Err(Errno::ENODATA);
    }
    extended.insert(name.into(), value.into());
    Ok(())
}

/// Value of an attribute.
pub fn get(inode: &Inode, name: &OsStr) -> Result<Vec<u8>, Errno> {
    inode.extended.lock().unwrap().get(name).cloned().ok_or(Errno::ENODATA)
}

/// Names of all attributes, a zero behind each.
pub fn list(inode: &Inode) -> Vec<u8> {
    let mut names = Vec::new();
    for name in inode.extended.lock().unwrap().keys() {
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    names
}

/// Remove an attribute.
pub fn remove(inode: &Inode, name: &OsStr) -> Result<(), Errno> {
    inode.extended.lock().unwrap().remove(name).map(drop).ok_or(Errno::ENODATA)
}
