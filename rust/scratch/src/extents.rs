//! Where the blocks of a file are: runs of blocks of the images, by their place in the file.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a block, the least that a file takes.
pub const BLOCK: u64 = 4096;

/// A run of blocks of the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of its first block.
    pub start: u64,
    /// How many blocks there are.
    pub blocks: u64,
}

impl Run {
    /// Number of the block behind it.
    pub fn end(self) -> u64 {
        self.start + self.blocks
    }
}

/// What is found at a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Blocks of the images, from this one of the file on.
    Mapped(Run),
    /// A hole of so many blocks.
    Hole(u64),
}

/// The runs of a file.
#[derive(Debug, Default)]
pub struct Extents {
    runs: BTreeMap<u64, Run>,
    blocks: u64,
}

impl Extents {
    /// Blocks that the file takes.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// What is at a block of the file, and how far that goes.
    pub fn find(&self, block: u64) -> Found {
        if let Some((first, run)) = self.runs.range(..=block).next_back() {
            let within = block - first;
            if within < run.blocks {
                return Found::Mapped(Run {
                    start: run.start + within,
                    blocks: run.blocks - within,
                });
            }
        }
        let next = self.runs.range(block..).next();
        Found::Hole(next.map_or(u64::MAX, |(first, _)| *first) - block)
    }

    /// Blocks of a range that the file does not take yet.
    pub fn missing(&self, range: Range<u64>) -> u64 {
        let mut missing = 0;
        let mut block = range.start;
        while block < range.end {
            let left = range.end - block;
            match self.find(block) {
                Found::Mapped(run) => block += run.blocks.min(left),
                Found::Hole(blocks) => {
                    let hole = blocks.min(left);
                    missing += hole;
                    block += hole;
                }
            }
        }
        missing
    }

    /// The block of the images that would go on with what the file has before one of its blocks.
    pub fn continuation(&self, block: u64) -> Option<u64> {
        let (first, run) = self.runs.range(..block).next_back()?;
        (first + run.blocks == block).then(|| run.end())
    }

    /// Fill a hole, or its beginning, with a run.
    pub fn insert(&mut self, block: u64, run: Run) {
        debug_assert!(matches!(self.find(block), Found::Hole(hole) if hole >= run.blocks));
        self.blocks += run.blocks;
        if let Some((first, before)) = self.runs.range_mut(..block).next_back()
            && first + before.blocks == block
            && before.end() == run.start
        {
            before.blocks += run.blocks;
            return;
        }
        self.runs.insert(block, run);
    }

    /// Make a hole of a range of blocks: the runs that were there.
    pub fn cut(&mut self, range: Range<u64>) -> Vec<Run> {
        let mut gone = Vec::new();
        self.split(range.start);
        self.split(range.end);
        let firsts: Vec<u64> = self.runs.range(range).map(|(first, _)| *first).collect();
        for first in firsts {
            gone.extend(self.runs.remove(&first));
        }
        self.blocks -= gone.iter().map(|run| run.blocks).sum::<u64>();
        gone
    }

    /// Have a run begin at a block, if one goes across it.
    fn split(&mut self, block: u64) {
        let Some((first, run)) = self.runs.range_mut(..block).next_back() else { return };
        let before = block - first;
        if before < run.blocks {
            let rest = Run { start: run.start + before, blocks: run.blocks - before };
            run.blocks = before;
            self.runs.insert(block, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, blocks: u64) -> Run {
        Run { start, blocks }
    }

    #[test]
    fn blocks_are_found_where_they_are() {
        let mut extents = Extents::default();
        extents.insert(2, run(100, 3));
        extents.insert(9, run(7, 1));
        assert_eq!(extents.find(0), Found::Hole(2));
        assert_eq!(extents.find(3), Found::Mapped(run(101, 2)));
        assert_eq!(extents.find(5), Found::Hole(4));
        assert_eq!(extents.find(9), Found::Mapped(run(7, 1)));
        assert_eq!(extents.find(10), Found::Hole(u64::MAX - 10));
        assert_eq!(extents.blocks(), 4);
        assert_eq!(extents.missing(1..10), 5);
        assert_eq!(extents.missing(3..5), 0);
        assert_eq!(extents.missing(4..1 << 51), (1 << 51) - 6);
    }

    #[test]
    fn what_goes_on_becomes_one_run() {
        let mut extents = Extents::default();
        extents.insert(0, run(100, 3));
        assert_eq!(extents.continuation(3), Some(103));
        extents.insert(3, run(103, 2));
        assert_eq!(extents.find(0), Found::Mapped(run(100, 5)));
        assert_eq!(extents.continuation(7), None);
    }

    #[test]
    fn a_hole_is_cut_in_the_middle_of_a_run() {
        let mut extents = Extents::default();
        extents.insert(0, run(100, 10));
        assert_eq!(extents.cut(3..5), vec![run(103, 2)]);
        assert_eq!(extents.find(3), Found::Hole(2));
        assert_eq!(extents.find(5), Found::Mapped(run(105, 5)));
        assert_eq!(extents.cut(2..u64::MAX), vec![run(102, 1), run(105, 5)]);
        assert_eq!(extents.blocks(), 2);
        assert_eq!(extents.cut(5..5), vec![]);
    }
}
