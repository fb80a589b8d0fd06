//! Which blocks of the images are free.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::extents::Run;

/// Runs that are looked at for one that is long enough, before several short ones are taken.
const LOOKED_AT: usize = 64;

/// Free runs, those that lie side by side joined.
#[derive(Debug, Default)]
struct Runs {
    by_start: BTreeMap<u64, u64>,
    blocks: u64,
}

impl Runs {
    fn add(&mut self, run: Run) {
        self.blocks += run.blocks;
        let mut joined = run;
        if let Some(behind) = self.by_start.remove(&run.end()) {
            joined.blocks += behind;
        }
        if let Some((start, blocks)) = self.by_start.range_mut(..run.start).next_back()
            && start + *blocks == run.start
        {
            *blocks += joined.blocks;
            return;
        }
        self.by_start.insert(joined.start, joined.blocks);
    }

    /// Take up to so many blocks of the run that begins there.
    fn take_at(&mut self, start: u64, blocks: u64) -> Option<Run> {
        let there = self.by_start.remove(&start)?;
        let taken = there.min(blocks);
        if taken < there {
            self.by_start.insert(start + taken, there - taken);
        }
        self.blocks -= taken;
        Some(Run { start, blocks: taken })
    }

    /// The first of a few runs that has so many blocks.
    fn fitting(&self, blocks: u64) -> Option<u64> {
        let mut few = self.by_start.iter().take(LOOKED_AT);
        few.find(|(_, there)| **there >= blocks).map(|(start, _)| *start)
    }

    fn first(&self) -> Option<u64> {
        self.by_start.keys().next().copied()
    }

    /// Take all that lies in a range; a run lies there if it begins there.
    fn take_all(&mut self, range: Range<u64>) -> Vec<Run> {
        let starts: Vec<u64> = self.by_start.range(range).map(|(start, _)| *start).collect();
        starts.into_iter().filter_map(|start| self.take_at(start, u64::MAX)).collect()
    }
}

/// Blocks that were given to a file, and whether they hold nothing but zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The blocks.
    pub run: Run,
    /// Whether nothing has been written there, or a hole was made of it.
    pub is_zero: bool,
}

/// The free blocks of all images.
#[derive(Debug, Default)]
pub struct Space {
    /// Runs that files have had, and that take space in the directory beneath.
    used: Runs,
    /// Runs of which nothing is in the directory beneath.
    fresh: Runs,
    /// Blocks of which holes are being made: nobody has them, and nobody may write there yet.
    punched: u64,
    /// Runs for which the directory beneath has had no room.
    withdrawn: Runs,
}

impl Space {
    /// Add blocks of an image.
    pub fn add(&mut self, run: Run) {
        self.fresh.add(run);
    }

    /// Blocks that are free, or are about to be.
    pub fn free(&self) -> u64 {
        self.used.blocks + self.fresh.blocks + self.punched
    }

    /// Whether blocks come back soon.
    pub fn is_punched(&self) -> bool {
        self.punched > 0
    }

    /// Give a file some of the blocks that it wants, those that begin at a block if they are free;
    /// None where no block is free. What files have had goes first, unless it is in short pieces.
    pub fn take(&mut self, blocks: u64, at: Option<u64>) -> Option<Given> {
        if let Some(start) = at {
            if let Some(run) = self.fresh.take_at(start, blocks) {
                return Some(Given { run, is_zero: true });
            }
            if let Some(run) = self.used.take_at(start, blocks) {
                return Some(Given { run, is_zero: false });
            }
        }
        if let Some(start) = self.used.fitting(blocks) {
            let run = self.used.take_at(start, blocks)?;
            return Some(Given { run, is_zero: false });
        }
        if let Some(start) = self.fresh.fitting(blocks).or_else(|| self.fresh.first()) {
            let run = self.fresh.take_at(start, blocks)?;
            return Some(Given { run, is_zero: true });
        }
        let run = self.used.take_at(self.used.first()?, blocks)?;
        Some(Given { run, is_zero: false })
    }

    /// Take blocks back from a file.
    pub fn give_back(&mut self, run: Run) {
        self.used.add(run);
    }

    /// Give no blocks of a range any more that would take space in the directory beneath.
    pub fn withdraw(&mut self, range: Range<u64>) {
        for run in self.fresh.take_all(range) {
            self.withdrawn.add(run);
        }
    }

    /// Take back a run for which there was no room: what is withdrawn with it is for later.
    pub fn withdraw_run(&mut self, run: Run) {
        self.withdrawn.add(run);
    }

    /// A block of a range that was withdrawn.
    pub fn withdrawn_in(&self, range: Range<u64>) -> Option<Run> {
        let (start, _) = self.withdrawn.by_start.range(range).next()?;
        Some(Run { start: *start, blocks: 1 })
    }

    /// Give the blocks of a range again that were withdrawn. Something may have been written there.
    pub fn readmit(&mut self, range: Range<u64>) {
        for run in self.withdrawn.take_all(range) {
            self.used.add(run);
        }
    }

    /// Take blocks of a run in a range of at least so many, of which a hole is to be made.
    pub fn take_used(&mut self, range: Range<u64>, least: u64, most: u64) -> Option<Run> {
        let long = self.used.by_start.range(range).find(|(_, blocks)| **blocks >= least);
        let start = long.map(|(start, _)| *start)?;
        let run = self.used.take_at(start, most)?;
        self.punched += run.blocks;
        Some(run)
    }

    /// Put back a run that was taken for a hole, with what was there or without.
    pub fn give_back_punched(&mut self, run: Run, is_hole: bool) {
        self.punched -= run.blocks;
        let runs = if is_hole { &mut self.fresh } else { &mut self.used };
        runs.add(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, blocks: u64) -> Run {
        Run { start, blocks }
    }

    fn space() -> Space {
        let mut space = Space::default();
        space.add(run(0, 10));
        space.add(run(11, 5));
        space
    }

    #[test]
    fn images_are_not_joined() {
        let mut space = space();
        assert_eq!(space.take(12, None), Some(Given { run: run(0, 10), is_zero: true }));
        assert_eq!(space.take(2, None), Some(Given { run: run(11, 2), is_zero: true }));
        assert_eq!(space.take(9, Some(13)), Some(Given { run: run(13, 3), is_zero: true }));
        assert_eq!(space.take(1, None), None);
        assert_eq!(space.free(), 0);
    }

    #[test]
    fn what_files_have_had_is_used_again_and_joined() {
        let mut space = space();
        space.take(10, None);
        space.give_back(run(4, 2));
        space.give_back(run(8, 2));
        space.give_back(run(6, 2));
        assert_eq!(space.take(3, None), Some(Given { run: run(4, 3), is_zero: false }));
        assert_eq!(space.take(4, None), Some(Given { run: run(11, 4), is_zero: true }));
        assert_eq!(space.free(), 4);
    }

    #[test]
    fn short_pieces_are_taken_when_nothing_else_is_left() {
        let mut space = space();
        space.take(10, None);
        space.take(5, None);
        space.give_back(run(2, 1));
        assert_eq!(space.take(4, None), Some(Given { run: run(2, 1), is_zero: false }));
        assert_eq!(space.take(4, None), None);
    }

    #[test]
    fn a_hole_is_fresh_again() {
        let mut space = space();
        space.take(10, None);
        space.give_back(run(0, 6));
        assert_eq!(space.take_used(0..20, 7, 20), None);
        let taken = space.take_used(0..20, 6, 20).unwrap();
        assert_eq!(space.take(20, None), Some(Given { run: run(11, 5), is_zero: true }));
        assert_eq!(space.take(20, None), None);
        assert_eq!(space.free(), 6);
        assert!(space.is_punched());
        space.give_back_punched(taken, true);
        assert!(!space.is_punched());
        assert_eq!(space.take(6, None), Some(Given { run: run(0, 6), is_zero: true }));
    }

    #[test]
    fn a_hole_is_made_in_pieces_or_not_at_all() {
        let mut space = space();
        space.take(10, None);
        space.give_back(run(0, 10));
        let taken = space.take_used(0..20, 6, 7).unwrap();
        assert_eq!(taken, run(0, 7));
        space.give_back_punched(taken, false);
        assert_eq!(space.take_used(11..20, 1, 20), None);
        assert_eq!(space.take_used(0..20, 10, 20), Some(run(0, 10)));
    }

    #[test]
    fn an_image_that_is_withdrawn_gives_what_it_has_already() {
        let mut space = space();
        space.take(4, None);
        space.give_back(run(0, 4));
        space.withdraw(0..11);
        assert_eq!(space.take(20, None), Some(Given { run: run(11, 5), is_zero: true }));
        assert_eq!(space.take(20, None), Some(Given { run: run(0, 4), is_zero: false }));
        assert_eq!(space.take(20, None), None);
    }

    #[test]
    fn what_was_withdrawn_is_given_again() {
        let mut space = space();
        let failed = space.take(4, None).unwrap().run;
        space.withdraw(0..10);
        space.withdraw_run(failed);
        assert_eq!(space.free(), 5);
        assert_eq!(space.withdrawn_in(0..10), Some(run(0, 1)));
        assert_eq!(space.withdrawn_in(11..20), None);
        space.readmit(0..10);
        assert_eq!(space.take(10, None), Some(Given { run: run(0, 10), is_zero: false }));
        assert_eq!(space.withdrawn_in(0..10), None);
    }
}
