//! Names in the directory beneath: what is made, called otherwise, taken away and listed.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fuser::{FileHandle, INodeNo, RenameFlags, Request};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{Mode, SFlag};
use nix::unistd::UnlinkatFlags;

use crate::backing::{self, Entry, Named};
use crate::handles::Listing;
use crate::inodes::Inode;
use crate::serving::TierFs;

/// A name in a directory.
pub type Place<'a> = (INodeNo, &'a OsStr);

impl TierFs {
    pub fn find(&self, (parent, name): Place) -> Result<Named, Errno> {
        backing::find(&*self.inodes.get(parent.0)?, name)
    }

    pub fn make_node(
        &self,
        (parent, name): Place,
        mode: u32,
        rdev: u32,
        request: &Request,
    ) -> Result<Named, Errno> {
        let parent = self.inodes.get(parent.0)?;
        let kind = SFlag::from_bits_truncate(mode & libc::S_IFMT);
        let permissions = Mode::from_bits_truncate(mode);
        let device = backing::decoded_device(rdev);
        nix::sys::stat::mknodat(&parent.fd, name, kind, permissions, device)?;
        made(&parent, name, mode, request)
    }

    pub fn make_directory(
        &self,
        (parent, name): Place,
        mode: u32,
        request: &Request,
    ) -> Result<Named, Errno> {
        let parent = self.inodes.get(parent.0)?;
        nix::sys::stat::mkdirat(&parent.fd, name, Mode::from_bits_truncate(mode))?;
        made(&parent, name, mode, request)
    }

    pub fn make_symlink(
        &self,
        (parent, name): Place,
        target: &Path,
        request: &Request,
    ) -> Result<Named, Errno> {
        let parent = self.inodes.get(parent.0)?;
        backing::symlink(target, &parent, name)?;
        made(&parent, name, 0, request)
    }

    pub fn remove_name(&self, (parent, name): Place, what: UnlinkatFlags) -> Result<(), Errno> {
        nix::unistd::unlinkat(&self.inodes.get(parent.0)?.fd, name, what)
    }

    pub fn rename_file(&self, from: Place, to: Place, flags: RenameFlags) -> Result<(), Errno> {
        let (parent, new_parent) = (self.inodes.get(from.0.0)?, self.inodes.get(to.0.0)?);
        let flags = nix::fcntl::RenameFlags::from_bits_truncate(flags.bits());
        nix::fcntl::renameat2(&parent.fd, from.1, &new_parent.fd, to.1, flags)
    }

    pub fn link_file(&self, number: INodeNo, (parent, name): Place) -> Result<Named, Errno> {
        let (inode, parent) = (self.inodes.get(number.0)?, self.inodes.get(parent.0)?);
        let path = inode.path();
        let here = nix::fcntl::AT_FDCWD;
        let follow = AtFlags::AT_SYMLINK_FOLLOW;
        nix::unistd::linkat(here, path.as_str(), &parent.fd, name, follow)?;
        backing::find(&parent, name)
    }

    pub fn open_listing(&self, number: INodeNo) -> Result<FileHandle, Errno> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        let directory = backing::open(&*self.inodes.get(number.0)?, flags)?;
        Ok(self.listings.add(Listing { directory, entries: Mutex::default() }))
    }

    /// All entries of a listing, as they are when it begins.
    pub fn entries(&self, handle: FileHandle, is_begun: bool) -> Result<Arc<Vec<Entry>>, Errno> {
        let listing = self.listings.get(handle)?;
        let mut entries = listing.entries.lock().unwrap();
        if !is_begun {
            *entries = Arc::new(backing::list(&listing.directory)?);
        }
        Ok(entries.clone())
    }
}

/// Find what was just made, and give it to who asked for it.
fn made(parent: &Inode, name: &OsStr, mode: u32, request: &Request) -> Result<Named, Errno> {
    let (fd, _) = backing::find(parent, name)?;
    let stat = backing::give(&fd, parent, mode, request)?;
    Ok((fd, stat))
}
