//! Contents of files, in blocks of the images.
//!
//! No block is given to a file with what another one has left there: a block that is not written as
//! a whole is filled up with zeros.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

use hyperslab_programs::starting::say_line;
use nix::errno::Errno;

use crate::extents::{BLOCK, Extents, Found, Run};
use crate::image::Image;
use crate::space::{Given, Space};

/// Blocks in a row of which a hole is made once no file has them.
const PUNCHED: u64 = (8 << 20) / BLOCK;
/// Blocks of which a hole is made at once: who needs them waits no longer than for these.
const PUNCHED_AT_ONCE: u64 = 8 * PUNCHED;
/// Zeros that are written at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The images, and what of them is free.
#[derive(Debug)]
pub struct Contents {
    images: Vec<Image>,
    space: Mutex<Space>,
    /// Told when blocks of which a hole was made are free again.
    returned: Condvar,
    blocks: u64,
    has_overflowed: AtomicBool,
    /// Whether files went on in another image for an error of the storage, and not for want of room.
    has_failed: AtomicBool,
}

impl Contents {
    /// All of these images free. The first one is filled before the next.
    pub fn new(images: Vec<Image>) -> Self {
        let mut space = Space::default();
        for image in &images {
            space.add(image.blocks);
        }
        let blocks = space.free();
        Self {
            images,
            space: Mutex::new(space),
            returned: Condvar::new(),
            blocks,
            has_overflowed: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Blocks that there are.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks that are free.
    pub fn free(&self) -> u64 {
        self.space.lock().unwrap().free()
    }

    /// Bytes of a file; holes are zeros.
    pub fn read(&self, extents: &Extents, offset: u64, nbytes: usize) -> Result<Vec<u8>, Errno> {
        let mut data = vec![0; nbytes];
        let mut done = 0;
        while done < nbytes {
            let (block, within) = ((offset + done as u64) / BLOCK, (offset + done as u64) % BLOCK);
            let left = (nbytes - done) as u64;
            match extents.find(block) {
                Found::Hole(blocks) => done += left.min(bytes_behind(blocks, within)) as usize,
                Found::Mapped(run) => {
                    let part = left.min(bytes_behind(run.blocks, within)) as usize;
                    let position = run.start * BLOCK + within;
                    let image = self.image_of(run.start);
                    image.read(&mut data[done..done + part], position).map_err(|e| errno_of(&e))?;
                    done += part;
                }
            }
        }
        Ok(data)
    }

    /// Write bytes of a file: how many of them found room, at least one.
    pub fn write(&self, extents: &mut Extents, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while done < data.len() {
            match self.write_some(extents, offset + done as u64, &data[done..]) {
                Ok(nbytes) => done += nbytes,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Write the first bytes: how many; none where other blocks are to be tried.
    fn write_some(&self, extents: &mut Extents, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let (block, within) = (offset / BLOCK, offset % BLOCK);
        let wanted = data.len() as u64;
        match extents.find(block) {
            Found::Mapped(run) => {
                let nbytes = wanted.min(bytes_behind(run.blocks, within)) as usize;
                self.put(&data[..nbytes], run.start * BLOCK + within)?;
                Ok(nbytes)
            }
            Found::Hole(blocks) => {
                let nbytes = wanted.min(bytes_behind(blocks, within));
                let given = self.take((within + nbytes).div_ceil(BLOCK), extents, block)?;
                let nbytes = nbytes.min(bytes_behind(given.run.blocks, within)) as usize;
                let written = self.fill(given.run, within as usize, &data[..nbytes]);
                let is_kept = self.kept(extents, block, given.run, written)?;
                Ok(if is_kept { nbytes } else { 0 })
            }
        }
    }

    /// Write all of some blocks, which are zero beside the data.
    fn fill(&self, run: Run, within: usize, data: &[u8]) -> Result<(), Errno> {
        let nbytes = (run.blocks * BLOCK) as usize;
        let position = run.start * BLOCK;
        if data.len() == nbytes {
            return self.put(data, position);
        }
        let mut padded = vec![0; nbytes];
        padded[within..within + data.len()].copy_from_slice(data);
        self.put(&padded, position)
    }

    /// Have a file keep blocks that could be written: false where the directory beneath is full, loses
    /// data, or fails while there is another one. Then they are not given to anybody, nor are others
    /// that would need room there, before it has some again.
    fn kept(
        &self,
        extents: &mut Extents,
        block: u64,
        run: Run,
        written: Result<(), Errno>,
    ) -> Result<bool, Errno> {
        let Err(errno) = written else {
            extents.insert(block, run);
            return Ok(true);
        };
        let mut space = self.space.lock().unwrap();
        let image = self.image_of(run.start);
        let has_failed = is_failing(errno) && !self.is_last(image);
        self.has_failed.fetch_or(has_failed, Ordering::Relaxed);
        if is_full(errno) || image.has_lost() || has_failed {
            space.withdraw(image.range());
            space.withdraw_run(run);
            return Ok(false);
        }
        space.give_back(run);
        Err(errno)
    }

    /// Blocks for a file, to be written from one of its blocks on.
    fn take(&self, blocks: u64, extents: &Extents, block: u64) -> Result<Given, Errno> {
        let at = extents.continuation(block);
        let given = self.take_free(blocks, at).ok_or(Errno::ENOSPC)?;
        let is_first = given.run.start < self.images[0].range().end;
        if !is_first && !self.has_overflowed.swap(true, Ordering::Relaxed) {
            let (first, next) = (&self.images[0], self.image_of(given.run.start));
            let (first, next) = (first.directory.display(), next.directory.display());
            let why = if self.has_failed.load(Ordering::Relaxed) { "fails" } else { "is full" };
            say_line(&format!("overflow: the image in {first} {why}: files go on in {next}"));
        }
        Ok(given)
    }

    /// Free blocks. Those of which a hole is being made are waited for where no other is free.
    fn take_free(&self, blocks: u64, at: Option<u64>) -> Option<Given> {
        let mut space = self.space.lock().unwrap();
        loop {
            let given = space.take(blocks, at);
            if given.is_some() || !space.is_punched() {
                return given;
            }
            space = self.returned.wait(space).unwrap();
        }
    }

    /// Have a range of a file take blocks, those that are new hold zeros; none where that are more
    /// than there are.
    pub fn allocate(&self, extents: &mut Extents, range: Range<u64>) -> Result<(), Errno> {
        let last = range.end.div_ceil(BLOCK);
        let mut block = range.start / BLOCK;
        if extents.missing(block..last) > self.free() {
            return Err(Errno::ENOSPC);
        }
        while block < last {
            match extents.find(block) {
                Found::Mapped(run) => block += run.blocks.min(last - block),
                Found::Hole(hole) => {
                    let given = self.take(hole.min(last - block), extents, block)?;
                    let reserved = self.reserve(given);
                    if self.kept(extents, block, given.run, reserved)? {
                        block += given.run.blocks;
                    }
                }
            }
        }
        Ok(())
    }

    /// See that blocks hold zeros, and that there is room for what is written there later.
    fn reserve(&self, given: Given) -> Result<(), Errno> {
        if given.is_zero {
            return self.image_of(given.run.start).reserve(given.run);
        }
        let position = given.run.start * BLOCK;
        self.zero(position..position + given.run.blocks * BLOCK)
    }

    /// Make a hole of a range of a file: blocks that are whole in it go back.
    pub fn clear(&self, extents: &mut Extents, range: Range<u64>) -> Result<(), Errno> {
        let (first, last) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
        if first > last {
            return self.zero_mapped(extents, range);
        }
        self.zero_mapped(extents, range.start..first * BLOCK)?;
        self.zero_mapped(extents, last * BLOCK..range.end)?;
        self.free_blocks(extents, first..last);
        Ok(())
    }

    /// End a file there. What is behind its end in a block is zero.
    pub fn cut(&self, extents: &mut Extents, nbytes: u64) -> Result<(), Errno> {
        let first = nbytes.div_ceil(BLOCK);
        self.zero_mapped(extents, nbytes..first * BLOCK)?;
        self.free_blocks(extents, first..u64::MAX);
        Ok(())
    }

    fn free_blocks(&self, extents: &mut Extents, range: Range<u64>) {
        let gone = extents.cut(range);
        let mut space = self.space.lock().unwrap();
        for run in gone {
            space.give_back(run);
        }
    }

    /// Write zeros to a range within a block, if the file has it.
    fn zero_mapped(&self, extents: &Extents, range: Range<u64>) -> Result<(), Errno> {
        if range.is_empty() {
            return Ok(());
        }
        let Found::Mapped(run) = extents.find(range.start / BLOCK) else { return Ok(()) };
        let position = run.start * BLOCK + range.start % BLOCK;
        self.zero(position..position + (range.end - range.start))
    }

    fn zero(&self, mut positions: Range<u64>) -> Result<(), Errno> {
        while !positions.is_empty() {
            let nbytes = (positions.end - positions.start).min(ZEROS.len() as u64);
            self.put(&ZEROS[..nbytes as usize], positions.start)?;
            positions.start += nbytes;
        }
        Ok(())
    }

    fn put(&self, data: &[u8], position: u64) -> Result<(), Errno> {
        let image = self.image_of(position / BLOCK);
        image.write(data, position).map_err(|error| errno_of(&error))
    }

    fn is_last(&self, image: &Image) -> bool {
        self.images.last().is_some_and(|last| last.range() == image.range())
    }

    fn image_of(&self, block: u64) -> &Image {
        let found = self.images.iter().find(|image| image.range().contains(&block));
        found.expect("every block that a file has is in an image")
    }

    /// Make holes of long runs that no file has any more, where that is possible.
    ///
    /// Meanwhile such a run is not free, so that nobody writes there.
    pub fn punch(&self) {
        while let Some(run) = self.take_punched() {
            let is_hole = self.image_of(run.start).punch(run);
            self.space.lock().unwrap().give_back_punched(run, is_hole);
            self.returned.notify_all();
        }
    }

    /// Give blocks again of images in whose directories there was no room, and is some by now. Of
    /// one that has failed nothing is asked: it may take its time to fail again.
    pub fn readmit(&self) {
        let has_failed = self.has_failed.load(Ordering::Relaxed);
        for image in self.images.iter().filter(|image| !has_failed || self.is_last(image)) {
            let withdrawn = self.space.lock().unwrap().withdrawn_in(image.range());
            if withdrawn.is_some_and(|block| image.takes(block)) {
                self.space.lock().unwrap().readmit(image.range());
            }
        }
    }

    fn take_punched(&self) -> Option<Run> {
        let mut space = self.space.lock().unwrap();
        let mut images = self.images.iter().filter(|image| image.can_punch());
        images.find_map(|image| space.take_used(image.range(), PUNCHED, PUNCHED_AT_ONCE))
    }
}

/// Bytes from a place within a block to the end of so many blocks.
fn bytes_behind(blocks: u64, within: u64) -> u64 {
    blocks.saturating_mul(BLOCK) - within
}

fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG)
}

/// Whether an error says that a storage does not take anything: it is gone, broken, or read-only.
fn is_failing(errno: Errno) -> bool {
    let of_disks = matches!(errno, Errno::EIO | Errno::EROFS | Errno::ENODEV | Errno::ENXIO);
    let of_servers = [
        Errno::ENOTCONN,
        Errno::ESHUTDOWN,
        Errno::ECONNABORTED,
        Errno::ESTALE,
        Errno::EHOSTDOWN,
        Errno::ETIMEDOUT,
    ];
    of_disks || of_servers.contains(&errno)
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
#[path = "races.rs"]
mod races;

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    pub fn contents(folder: &TempDir, blocks: &[u64]) -> Contents {
        let mut start = 0;
        let mut images = Vec::new();
        for blocks in blocks.iter().copied() {
            let run = Run { start, blocks };
            images.push(Image::create(folder.path(), "image", run).unwrap());
            start += blocks + 1;
        }
        Contents::new(images)
    }

    fn written(contents: &Contents, offset: u64, data: &[u8]) -> Extents {
        let mut extents = Extents::default();
        assert_eq!(contents.write(&mut extents, offset, data), Ok(data.len()));
        extents
    }

    #[test]
    fn holes_and_what_is_beside_the_data_are_zero() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[10]);
        let extents = written(&contents, 5000, b"abc");
        assert_eq!(contents.read(&extents, 4990, 20).unwrap()[8..15], *b"\0\0abc\0\0");
        assert_eq!(extents.blocks(), 1);
        assert_eq!(contents.free(), 9);
    }

    #[test]
    fn nobody_sees_what_others_have_left() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[2]);
        let mut gone = written(&contents, 0, &[1; 2 * BLOCK as usize]);
        contents.cut(&mut gone, 0).unwrap();
        let mut extents = written(&contents, 10, b"a");
        contents.allocate(&mut extents, 0..2 * BLOCK).unwrap();
        let data = contents.read(&extents, 0, 2 * BLOCK as usize).unwrap();
        assert_eq!(data.iter().filter(|byte| **byte != 0).count(), 1);
    }

    #[test]
    fn what_was_cut_off_is_zero_when_a_file_grows_again() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[4]);
        let mut extents = written(&contents, 0, &[1; 3 * BLOCK as usize]);
        contents.cut(&mut extents, 10).unwrap();
        assert_eq!(extents.blocks(), 1);
        assert_eq!(contents.read(&extents, 9, 3).unwrap(), [1, 0, 0]);
        contents.clear(&mut extents, 2..5).unwrap();
        assert_eq!(contents.read(&extents, 0, 7).unwrap(), [1, 1, 0, 0, 0, 1, 1]);
        contents.clear(&mut extents, 0..BLOCK).unwrap();
        assert_eq!(contents.free(), 4);
    }

    #[test]
    fn a_full_image_is_said_or_another_one_follows() {
        let folder = TempDir::new().unwrap();
        let data = vec![1; 5 * BLOCK as usize];
        let alone = contents(&folder, &[3]);
        let mut extents = Extents::default();
        assert_eq!(alone.write(&mut extents, 0, &data), Ok(3 * BLOCK as usize));
        assert_eq!(alone.write(&mut extents, 3 * BLOCK, &data), Err(Errno::ENOSPC));
        let two = contents(&folder, &[3, 4]);
        let extents = written(&two, 0, &data);
        assert_eq!(two.read(&extents, 0, data.len()).unwrap(), data);
        assert_eq!(two.free(), 2);
    }

    #[test]
    fn long_runs_that_nobody_has_become_holes() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[2 * PUNCHED]);
        let mut extents = written(&contents, 0, &vec![1; (PUNCHED * BLOCK) as usize]);
        contents.cut(&mut extents, 0).unwrap();
        contents.punch();
        assert!(contents.space.lock().unwrap().take_used(0..u64::MAX, 1, 1).is_none());
        assert_eq!(contents.free(), 2 * PUNCHED);
    }

    #[test]
    fn what_is_set_aside_is_all_there_or_nothing_is_taken() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[4]);
        let mut extents = written(&contents, BLOCK, b"abc");
        assert_eq!(contents.allocate(&mut extents, 0..6 * BLOCK), Err(Errno::ENOSPC));
        assert_eq!(contents.allocate(&mut extents, 0..1 << 60), Err(Errno::ENOSPC));
        assert_eq!(extents.blocks(), 1);
        contents.allocate(&mut extents, 0..4 * BLOCK).unwrap();
        assert_eq!(contents.free(), 0);
        assert_eq!(contents.read(&extents, BLOCK, 4).unwrap(), *b"abc\0");
    }

    #[test]
    fn nothing_is_read_from_an_image_that_loses_data_and_files_go_on_in_the_next() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[4, 4]);
        let data = vec![1; 2 * BLOCK as usize];
        let mut early = written(&contents, 0, &data);
        contents.images[0].lose();
        let late = written(&contents, 0, &data);
        assert_eq!(contents.read(&early, 0, 1), Err(Errno::EIO));
        assert_eq!(contents.write(&mut early, 0, b"x"), Err(Errno::EIO));
        assert_eq!(contents.read(&late, 0, data.len()).unwrap(), data);
    }

    #[test]
    fn a_quota_is_a_full_image() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[4, 4]);
        let mut extents = Extents::default();
        let given = contents.take(1, &extents, 0).unwrap();
        let kept = contents.kept(&mut extents, 0, given.run, Err(Errno::EDQUOT));
        assert_eq!(kept, Ok(false));
        let next = contents.take(1, &extents, 0).unwrap();
        assert!(contents.images[1].range().contains(&next.run.start));
    }

    #[test]
    fn files_leave_a_storage_that_fails_if_there_is_another_one() {
        let folder = TempDir::new().unwrap();
        let run = Run { start: 0, blocks: 1 };
        for (blocks, expected) in [(vec![4], Err(Errno::ESHUTDOWN)), (vec![4, 4], Ok(false))] {
            let contents = contents(&folder, &blocks);
            let mut extents = Extents::default();
            assert_eq!(contents.take(1, &extents, 0).unwrap().run, run);
            let kept = contents.kept(&mut extents, 0, run, Err(Errno::ESHUTDOWN));
            assert_eq!(kept, expected);
        }
    }

    #[test]
    fn who_writes_while_holes_are_made_finds_room() {
        let folder = TempDir::new().unwrap();
        let contents = contents(&folder, &[2 * PUNCHED]);
        let mut gone = written(&contents, 0, &vec![1; (2 * PUNCHED * BLOCK) as usize]);
        contents.cut(&mut gone, 0).unwrap();
        let taken = contents.space.lock().unwrap().take_used(0..u64::MAX, 1, u64::MAX).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| written(&contents, 0, b"abc"));
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!writer.is_finished());
            contents.space.lock().unwrap().give_back_punched(taken, true);
            contents.returned.notify_all();
            assert_eq!(writer.join().unwrap().blocks(), 1);
        });
        assert_eq!(contents.free(), 2 * PUNCHED - 1);
    }
}
