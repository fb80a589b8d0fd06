//! A large file without a name, which is gone when the program is, whatever ends it.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use hyperslab_programs::starting::say_line;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statfs::{FsType, NFS_SUPER_MAGIC, fstatfs};

use crate::extents::{BLOCK, Run};

/// Versions 1 and 2 of SMB, as the kernel numbers its file systems.
const SMB_MAGIC: [FsType; 2] = [FsType(0xFF53_4D42), FsType(0xFE53_4D42)];

/// An image, and the blocks that are in it.
///
/// The storage may take data, and refuse them later: what they were nobody says. From then on nothing
/// can be read from the image or written there, as it may be something else.
#[derive(Debug)]
pub struct Image {
    file: File,
    /// Directory in which it is.
    pub directory: PathBuf,
    /// Its blocks, among those of all images.
    pub blocks: Run,
    /// Whether an error of a write may be that of an earlier one.
    is_told_late: bool,
    has_lost: AtomicBool,
    can_punch: AtomicBool,
}

impl Image {
    /// An image in a directory, with these blocks.
    pub fn create(directory: &Path, name: &str, blocks: Run) -> io::Result<Self> {
        let file = nameless(directory, name)?;
        let is_told_late = is_told_late(fstatfs(&file)?.filesystem_type());
        Ok(Self {
            file,
            directory: directory.into(),
            blocks,
            is_told_late,
            has_lost: AtomicBool::new(false),
            can_punch: AtomicBool::new(true),
        })
    }

    /// Blocks from its first one to the last.
    pub fn range(&self) -> Range<u64> {
        self.blocks.start..self.blocks.end()
    }

    /// Read at a position among the bytes of all images. What was never written is zero.
    pub fn read(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        let mut done = 0;
        let start = position - self.blocks.start * BLOCK;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], start + done as u64) {
                Ok(0) => break,
                Ok(nbytes) => done += nbytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        buffer[done..].fill(0);
        self.require_kept()
    }

    /// Write at a position among the bytes of all images.
    pub fn write(&self, data: &[u8], position: u64) -> io::Result<()> {
        self.require_nothing_lost()?;
        let written = self.file.write_all_at(data, position - self.blocks.start * BLOCK);
        if let Err(error) = &written
            && self.is_told_late
            && is_loss(error)
        {
            self.lose();
        }
        written
    }

    /// Set room aside for a run in the directory beneath, where that can be done.
    pub fn reserve(&self, run: Run) -> nix::Result<()> {
        match self.allocate(FallocateFlags::FALLOC_FL_KEEP_SIZE, run) {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
            done => done,
        }
    }

    /// Whether there is room beneath for a run: it is asked for, and given back.
    pub fn takes(&self, run: Run) -> bool {
        let has_room = fstatfs(&self.file).is_ok_and(|about| about.blocks_available() > 0);
        let is_taken = !self.has_lost() && has_room && self.reserve(run).is_ok();
        if is_taken {
            self.punch(run);
        }
        is_taken
    }

    /// Give the space of a run back to the directory beneath; what was there is zero. False where
    /// that cannot be done.
    pub fn punch(&self, run: Run) -> bool {
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let is_done = self.allocate(mode, run).is_ok();
        if !is_done {
            self.can_punch.store(false, Ordering::Relaxed);
        }
        is_done
    }

    /// Whether space can be given back, as far as anybody has tried.
    pub fn can_punch(&self) -> bool {
        self.can_punch.load(Ordering::Relaxed)
    }

    fn allocate(&self, mode: FallocateFlags, run: Run) -> nix::Result<()> {
        let start = (run.start - self.blocks.start) * BLOCK;
        fallocate(&self.file, mode, start as i64, (run.blocks * BLOCK) as i64)
    }

    /// Whether the storage has lost data that it had taken.
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Fail if the storage has lost something, as far as the kernel knows by now.
    fn require_kept(&self) -> io::Result<()> {
        let behind = (self.blocks.blocks * BLOCK) as i64;
        // SAFETY: the call takes numbers alone. It waits for a byte that nobody writes, and says what
        // has become of all that was written since it was asked last.
        let said = unsafe {
            let waits = libc::SYNC_FILE_RANGE_WAIT_BEFORE;
            libc::sync_file_range(self.file.as_raw_fd(), behind, 1, waits)
        };
        if said != 0 && is_loss(&io::Error::last_os_error()) {
            self.lose();
        }
        self.require_nothing_lost()
    }

    fn require_nothing_lost(&self) -> io::Result<()> {
        if self.has_lost() { Err(Errno::EIO.into()) } else { Ok(()) }
    }

    /// Note that something is lost.
    pub fn lose(&self) {
        if !self.has_lost.swap(true, Ordering::Relaxed) {
            let shown = self.directory.display();
            say_line(&format!(
                "lost: the storage of {shown} has refused data that it had taken: nothing that lies \
                 there can be read"
            ));
        }
    }
}

/// Whether a file system says at a write what has become of an earlier one.
fn is_told_late(kind: FsType) -> bool {
    kind == NFS_SUPER_MAGIC || SMB_MAGIC.contains(&kind)
}

/// Whether an error is one by which the kernel says that data could not be written.
fn is_loss(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EIO | Errno::ENOSPC | Errno::EDQUOT | Errno::ESTALE))
}

/// A new file that has no name, or had one for a moment where the file system asks for that.
fn nameless(directory: &Path, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.clone().custom_flags(libc::O_TMPFILE).open(directory) {
        return Ok(file);
    }
    let path = directory.join(name);
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn image(directory: &Path) -> Image {
        Image::create(directory, "image", Run { start: 5, blocks: 100 }).unwrap()
    }

    #[test]
    fn an_image_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        image.write(b"abc", 6 * BLOCK).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_was_never_written_is_zero() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        image.write(b"abc", 6 * BLOCK).unwrap();
        let mut buffer = [7; 5];
        image.read(&mut buffer, 6 * BLOCK - 1).unwrap();
        assert_eq!(&buffer, b"\0abc\0");
    }

    #[test]
    fn a_hole_is_zero() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        image.write(&[1; 3 * BLOCK as usize], 5 * BLOCK).unwrap();
        assert!(image.punch(Run { start: 6, blocks: 1 }));
        let mut buffer = [7; 2];
        image.read(&mut buffer, 6 * BLOCK - 1).unwrap();
        assert_eq!(buffer, [1, 0]);
    }

    #[test]
    fn room_that_is_set_aside_is_taken_beneath_and_zero() {
        let folder = tempfile::tempdir().unwrap();
        let image = image(folder.path());
        image.reserve(Run { start: 7, blocks: 2 }).unwrap();
        assert_eq!(image.file.metadata().unwrap().len(), 0);
        assert!(image.file.metadata().unwrap().blocks() >= 2 * BLOCK / 512);
        let mut buffer = [7; 2];
        image.read(&mut buffer, 7 * BLOCK).unwrap();
        assert_eq!(buffer, [0, 0]);
    }

    #[test]
    fn network_file_systems_say_late_what_they_have_not_written() {
        assert!(is_told_late(FsType(0x6969)));
        assert!(is_told_late(FsType(0xFE53_4D42)));
        assert!(!is_told_late(FsType(0xEF53)));
    }
}
