//! Which elements of a chunk belong to a region: integer geometry of rectangular boxes with
//! strides.

/// A rectangular selection in stored order: `count` elements per axis from `start`, each `stride`
/// (at least 1) apart.
#[derive(Clone, Debug)]
pub struct Region {
    /// First element per axis.
    pub start: Vec<i64>,
    /// Elements per axis.
    pub count: Vec<i64>,
    /// Distance between elements per axis.
    pub stride: Vec<i64>,
}

/// What a chunk and a region share along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// First shared element, in the chunk.
    pub first: usize,
    /// Distance from one to the next, in the chunk.
    pub step: usize,
    /// How many there are, at least 1.
    pub count: usize,
    /// Place of the first one in the region's block.
    pub place: usize,
}

impl Region {
    /// Bytes of its elements.
    pub fn nbytes(&self, itemsize: usize) -> usize {
        self.count.iter().fold(itemsize, |all, &count| all.saturating_mul(count as usize))
    }

    /// What it shares with the chunk of shape `extent` at `origin`, per axis; None if nothing.
    pub fn share(&self, origin: &[i64], extent: &[i64]) -> Option<Vec<Share>> {
        (0..self.start.len())
            .map(|axis| {
                share(
                    self.start[axis],
                    self.count[axis],
                    self.stride[axis],
                    origin[axis],
                    extent[axis],
                )
            })
            .collect()
    }
}

fn share(start: i64, count: i64, stride: i64, origin: i64, extent: i64) -> Option<Share> {
    let last = origin.checked_add(extent.checked_sub(1)?)?;
    if last < origin {
        return None;
    }
    let skipped = (origin.checked_sub(start)?.max(0)).div_ceil_by(stride);
    let last = last.checked_sub(start)?.div_euclid(stride).min(count - 1);
    if skipped > last {
        return None;
    }
    let first = start.checked_add(skipped.checked_mul(stride)?)? - origin;
    Some(Share {
        first: usize::try_from(first).ok()?,
        step: usize::try_from(stride).ok()?,
        count: usize::try_from(last - skipped + 1).ok()?,
        place: usize::try_from(skipped).ok()?,
    })
}

trait DivCeil {
    fn div_ceil_by(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    /// Rounded up; both are at least 0 and `by` is not 0.
    fn div_ceil_by(self, by: i64) -> i64 {
        self / by + i64::from(self % by != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_a_slow_count() {
        for (start, count, stride) in [(0, 10, 1), (3, 4, 2), (5, 3, 7), (2, 1, 1), (0, 3, 100)] {
            for (origin, extent) in [(0, 4), (4, 4), (8, 20), (200, 5), (5, 1)] {
                let inside: Vec<i64> = (0..count)
                    .filter(|i| (origin..origin + extent).contains(&(start + i * stride)))
                    .collect();
                let found = share(start, count, stride, origin, extent);
                let expected = inside.first().map(|&i| Share {
                    first: (start + i * stride - origin) as usize,
                    step: stride as usize,
                    count: inside.len(),
                    place: i as usize,
                });
                assert_eq!(found, expected, "{start} {count} {stride} {origin} {extent}");
            }
        }
        assert_eq!(share(0, 1, 1, i64::MAX, 5), None);
        assert_eq!(share(0, 9, 1, i64::MIN, 0), None);
        assert_eq!(share(0, 9, 1, 3, i64::MIN), None);
        assert_eq!(share(i64::MIN, 5, 1, 5, 5), None);
    }
}
