//! Which blocks of files lie in a fast medium of limited size, and which in the slow one below it.
//!
//! A block stays where its first byte was written; room in the fast medium is free again when the
//! block's file is cut or gone. What lay in the directory before the program began is in the slow one.

use std::collections::BTreeMap;
use std::collections::HashMap;

use crate::inodes::Key;

/// Bytes of a file that are placed together.
pub const BLOCK: u64 = 64 << 10;

/// Where the blocks of all files lie.
#[derive(Debug)]
pub struct Placement {
    capacity: u64,
    used: u64,
    files: HashMap<Key, BTreeMap<u64, bool>>,
}

impl Placement {
    /// Nothing placed, and room for so many bytes in the fast medium.
    pub fn new(capacity: u64) -> Self {
        Self { capacity, used: 0, files: HashMap::new() }
    }

    /// Bytes that blocks take in the fast medium.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Place what is written: its bytes that the slow medium takes.
    pub fn write(&mut self, file: Key, offset: u64, nbytes: u64) -> u64 {
        let blocks = self.files.entry(file).or_default();
        let mut slow = 0;
        for (block, within) in cut(offset, nbytes) {
            let is_fast = *blocks.entry(block).or_insert_with(|| {
                let fits = self.used + BLOCK <= self.capacity;
                if fits {
                    self.used += BLOCK;
                }
                fits
            });
            if !is_fast {
                slow += within;
            }
        }
        slow
    }

    /// How many bytes of a range lie in the slow medium.
    pub fn slow(&self, file: Key, offset: u64, nbytes: u64) -> u64 {
        let Some(blocks) = self.files.get(&file) else { return nbytes };
        cut(offset, nbytes)
            .filter(|(block, _)| blocks.get(block) != Some(&true))
            .map(|(_, within)| within)
            .sum()
    }

    /// Free what lies behind the new end of a file.
    pub fn cut(&mut self, file: Key, nbytes: u64) {
        if let Some(blocks) = self.files.get_mut(&file) {
            let gone = blocks.split_off(&nbytes.div_ceil(BLOCK));
            self.used -= BLOCK * count_fast(&gone);
        }
    }

    /// Free what a file took that is gone.
    pub fn remove(&mut self, file: Key) {
        if let Some(blocks) = self.files.remove(&file) {
            self.used -= BLOCK * count_fast(&blocks);
        }
    }
}

fn count_fast(blocks: &BTreeMap<u64, bool>) -> u64 {
    blocks.values().filter(|is_fast| **is_fast).count() as u64
}

/// The blocks of a range, and how many bytes of each it holds.
fn cut(offset: u64, nbytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + nbytes;
    let blocks = if nbytes == 0 { 0..0 } else { offset / BLOCK..end.div_ceil(BLOCK) };
    blocks.map(move |block| {
        let begin = offset.max(block * BLOCK);
        (block, end.min((block + 1) * BLOCK) - begin)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Key = Key { device: 1, number: 1 };
    const B: Key = Key { device: 1, number: 2 };

    #[test]
    fn the_fast_medium_fills_up() {
        let mut placement = Placement::new(3 * BLOCK);
        assert_eq!(placement.write(A, 0, 2 * BLOCK), 0);
        assert_eq!(placement.write(B, 0, 2 * BLOCK), BLOCK);
        assert_eq!(placement.used(), 3 * BLOCK);
        assert_eq!(placement.slow(B, 0, 2 * BLOCK), BLOCK);
        assert_eq!(placement.slow(A, 0, 2 * BLOCK), 0);
    }

    #[test]
    fn a_block_stays_where_it_is() {
        let mut placement = Placement::new(BLOCK);
        placement.write(A, 0, BLOCK);
        placement.write(B, 0, 10);
        placement.remove(A);
        assert_eq!(placement.used(), 0);
        assert_eq!(placement.write(B, 0, 10), 10);
        assert_eq!(placement.write(A, 0, 10), 0);
    }

    #[test]
    fn cutting_a_file_makes_room() {
        let mut placement = Placement::new(4 * BLOCK);
        placement.write(A, 0, 4 * BLOCK);
        placement.cut(A, BLOCK + 1);
        assert_eq!(placement.used(), 2 * BLOCK);
        placement.cut(A, 0);
        assert_eq!(placement.used(), 0);
    }

    #[test]
    fn files_from_before_are_slow() {
        let placement = Placement::new(BLOCK);
        assert_eq!(placement.slow(A, 5, 100), 100);
    }

    #[test]
    fn part_of_a_block_counts_as_its_bytes() {
        let mut placement = Placement::new(0);
        assert_eq!(placement.write(A, BLOCK - 10, 30), 30);
    }
}
