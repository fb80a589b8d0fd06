//! Writers of several files at once, while space comes and goes: each reads what it has written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;

use tempfile::TempDir;

use super::tests::contents;
use super::{BLOCK, Contents, Errno, Extents, PUNCHED};

const WRITERS: u64 = 3;
const STEPS: usize = 120;
/// Bytes of a file, at most: all files together find no room.
const FILE_NBYTES: u64 = 2 * PUNCHED * BLOCK;
const PART_NBYTES: u64 = 3 << 20;

/// Numbers without an order (Marsaglia, Xorshift RNGs, 2003).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A file, and what has to be in it.
struct Written {
    extents: Extents,
    expected: Vec<u8>,
}

impl Written {
    fn step(&mut self, contents: &Contents, numbers: &mut Numbers) {
        let start = numbers.below(FILE_NBYTES);
        let end = (start + numbers.below(PART_NBYTES)).min(FILE_NBYTES);
        let (first, last) = (start as usize, end as usize);
        match numbers.below(8) {
            0 => {
                contents.cut(&mut self.extents, start).unwrap();
                self.expected[first..].fill(0);
            }
            1 => {
                contents.clear(&mut self.extents, start..end).unwrap();
                self.expected[first..last].fill(0);
            }
            2 => {
                let done = contents.allocate(&mut self.extents, start..end);
                assert!(matches!(done, Ok(()) | Err(Errno::ENOSPC)));
            }
            _ => {
                let data = vec![numbers.below(255) as u8 + 1; last - first];
                let done = contents.write(&mut self.extents, start, &data).or_else(none_where_full);
                let nbytes = done.unwrap();
                self.expected[first..first + nbytes].copy_from_slice(&data[..nbytes]);
            }
        }
        let found = contents.read(&self.extents, start, last - first).unwrap();
        assert!(found == self.expected[first..last]);
    }
}

fn none_where_full(errno: Errno) -> Result<usize, Errno> {
    if errno == Errno::ENOSPC { Ok(0) } else { Err(errno) }
}

fn write_and_read(contents: &Contents, seed: u64) {
    let mut numbers = Numbers(seed);
    let expected = vec![0; FILE_NBYTES as usize];
    let mut file = Written { extents: Extents::default(), expected };
    for _ in 0..STEPS {
        file.step(contents, &mut numbers);
    }
    let found = contents.read(&file.extents, 0, FILE_NBYTES as usize).unwrap();
    assert!(found == file.expected);
    contents.cut(&mut file.extents, 0).unwrap();
}

#[test]
fn writers_find_what_they_wrote_while_space_comes_and_goes() {
    let folder = TempDir::new().unwrap();
    let contents = &contents(&folder, &[3 * PUNCHED, PUNCHED]);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let start = |seed| scope.spawn(move || write_and_read(contents, seed * 7919));
        let writers: Vec<_> = (1..=WRITERS).map(start).collect();
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                contents.punch();
                std::thread::yield_now();
            }
        });
        let ended: Vec<_> = writers.into_iter().map(ScopedJoinHandle::join).collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(contents.free(), 4 * PUNCHED);
}
