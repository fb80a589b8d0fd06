//! Which target of a striped store holds which bytes of a file.

/// How files are laid over the targets of a store: round robin, a stripe at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stripes {
    /// Bytes on one target before the next one follows.
    pub nbytes: u64,
    /// Targets over which one file is laid.
    pub count: usize,
    /// Targets that there are.
    pub targets: usize,
}

impl Stripes {
    /// The target of a file's first stripe: files begin on different ones.
    pub fn first(&self, file: u64) -> usize {
        (file % self.targets as u64) as usize
    }

    /// How many bytes of a range of a file lie on each target that holds some, in the order in which
    /// they lie in the file.
    pub fn of_range(&self, file: u64, offset: u64, nbytes: u64) -> Vec<(usize, u64)> {
        if nbytes == 0 {
            return Vec::new();
        }
        let first = self.first(file);
        let target = |stripe: u64| (first + (stripe % self.count as u64) as usize) % self.targets;
        let end = offset + nbytes;
        let (begin_stripe, end_stripe) = (offset / self.nbytes, end.div_ceil(self.nbytes));
        let mut found: Vec<(usize, u64)> = Vec::new();
        for stripe in begin_stripe..end_stripe {
            let within = end.min((stripe + 1) * self.nbytes) - offset.max(stripe * self.nbytes);
            match found.iter_mut().find(|(known, _)| *known == target(stripe)) {
                Some((_, sum)) => *sum += within,
                None => found.push((target(stripe), within)),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Stripes = Stripes { nbytes: 100, count: 4, targets: 4 };

    #[test]
    fn a_range_within_a_stripe_is_on_one_target() {
        assert_eq!(FOUR.of_range(0, 110, 50), [(1, 50)]);
        assert_eq!(FOUR.of_range(0, 100, 100), [(1, 100)]);
    }

    #[test]
    fn ranges_are_cut_at_the_bounds_of_stripes() {
        assert_eq!(FOUR.of_range(0, 50, 200), [(0, 50), (1, 100), (2, 50)]);
        assert_eq!(FOUR.of_range(0, 0, 800), [(0, 200), (1, 200), (2, 200), (3, 200)]);
    }

    #[test]
    fn an_empty_range_is_nowhere() {
        assert_eq!(FOUR.of_range(0, 100, 0), []);
    }

    #[test]
    fn files_begin_on_different_targets() {
        assert_eq!(FOUR.of_range(6, 0, 200), [(2, 100), (3, 100)]);
    }

    #[test]
    fn a_file_stays_on_as_many_targets_as_it_is_laid_over() {
        let two = Stripes { count: 2, ..FOUR };
        assert_eq!(two.of_range(3, 0, 400), [(3, 200), (0, 200)]);
    }

    #[test]
    fn every_byte_is_somewhere_at_large_offsets() {
        let stripes = Stripes { nbytes: 1 << 20, count: 3, targets: 5 };
        let spread = stripes.of_range(9, (1 << 50) + 12_345, 10 << 20);
        assert_eq!(spread.iter().map(|(_, nbytes)| nbytes).sum::<u64>(), 10 << 20);
        assert_eq!(spread.len(), 3);
    }
}
