//! A large file without a name, which is gone when the program is, whatever ends it.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};

use crate::extents::{BLOCK, Run};

/// An image, and the blocks that are in it.
#[derive(Debug)]
pub struct Image {
    file: File,
    /// Directory in which it is.
    pub directory: PathBuf,
    /// Its blocks, among those of all images.
    pub blocks: Run,
}

impl Image {
    /// An image in a directory, with these blocks.
    pub fn create(directory: &Path, name: &str, blocks: Run) -> io::Result<Self> {
        let file = nameless(directory, name)?;
        Ok(Self { file, directory: directory.into(), blocks })
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
        Ok(())
    }

    /// Write at a position among the bytes of all images.
    pub fn write(&self, data: &[u8], position: u64) -> io::Result<()> {
        self.file.write_all_at(data, position - self.blocks.start * BLOCK)
    }

    /// Give the space of a run back to the directory beneath; what was there is zero.
    pub fn punch(&self, run: Run) -> nix::Result<()> {
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let start = (run.start - self.blocks.start) * BLOCK;
        fallocate(&self.file, mode, start as i64, (run.blocks * BLOCK) as i64)
    }
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
        image.punch(Run { start: 6, blocks: 1 }).unwrap();
        let mut buffer = [7; 2];
        image.read(&mut buffer, 6 * BLOCK - 1).unwrap();
        assert_eq!(buffer, [1, 0]);
    }
}
