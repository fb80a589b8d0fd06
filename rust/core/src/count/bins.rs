//! How many values of a block lie between edges.
use crate::boxes::view::View;
use crate::count::batch::{Batch, Element, Kind, Refusal, Stored};
use crate::count::counter::Counter;

/// The last bin that a guess can be; what lies in later ones is searched for.
const LAST_GUESS: usize = i32::MAX as usize;

/// Values that have no bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// Less than the first edge.
    pub below: u64,
    /// More than the last edge.
    pub above: u64,
    /// Not a number.
    pub nan: u64,
}

/// Count numbers between edges, which increase; a bin holds its lower edge, the last one its upper
/// edge too. Numbers that a 64-bit one cannot hold are refused.
///
/// # Panics
/// Unless there is one more edge than counts, and at least one of these.
pub fn binned_counts(
    view: &View,
    element: Element,
    edges: &[f64],
    counts: &mut [i64],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Apart, Refusal> {
    assert!(!counts.is_empty() && edges.len() == counts.len() + 1, "one more edge than bins");
    let bins = Bins::new(edges);
    match element.kind {
        Kind::Float(4) => numbers::<f32>(view, element.swapped, &bins, counts, go_on),
        Kind::Float(8) => numbers::<f64>(view, element.swapped, &bins, counts, go_on),
        Kind::Unsigned(1) => numbers::<u8>(view, element.swapped, &bins, counts, go_on),
        Kind::Unsigned(2) => numbers::<u16>(view, element.swapped, &bins, counts, go_on),
        Kind::Unsigned(4) => numbers::<u32>(view, element.swapped, &bins, counts, go_on),
        Kind::Signed(1) => numbers::<i8>(view, element.swapped, &bins, counts, go_on),
        Kind::Signed(2) => numbers::<i16>(view, element.swapped, &bins, counts, go_on),
        Kind::Signed(4) => numbers::<i32>(view, element.swapped, &bins, counts, go_on),
        _ => Err(Refusal::Kind),
    }
}

fn numbers<T: Stored + Into<f64>>(
    view: &View,
    swapped: bool,
    bins: &Bins,
    counts: &mut [i64],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Apart, Refusal> {
    // two more bins, for what lies below the first edge and beyond the last one or is not a number
    let (mut all, mut nan) = (vec![0; counts.len() + 2], 0);
    let number = |values: &[T], numbers: &mut [u32]| {
        bins.guess(values, numbers);
        for (&value, number) in values.iter().zip(numbers) {
            let value: f64 = value.into();
            *number = bins.number(value, *number as usize);
            nan += u64::from(value.is_nan());
        }
    };
    let mut batch = Batch::new(Counter::new(&mut all, view.size), swapped, number, go_on);
    // SAFETY: `View::new` vouches for the line.
    view.lines(&mut |pointer, line| unsafe { batch.gather(pointer, line) })?;
    batch.finish()?;
    let (below, above) = (all[0] as u64, all[counts.len() + 1] as u64 - nan);
    counts.iter_mut().zip(&all[1..]).for_each(|(count, more)| *count += more);
    Ok(Apart { below, above, nan })
}

/// Edges of bins, and what a guess at the bin of a value needs.
struct Bins<'a> {
    edges: &'a [f64],
    first: f64,
    last: f64,
    per_unit: f64,
    top: f64,
}

impl<'a> Bins<'a> {
    #[allow(clippy::cast_precision_loss, reason = "a guess needs no more")]
    fn new(edges: &'a [f64]) -> Self {
        let (first, last, bins) = (edges[0], edges[edges.len() - 1], edges.len() - 1);
        Self {
            edges,
            first,
            last,
            per_unit: bins as f64 / (last - first),
            top: (bins - 1).min(LAST_GUESS) as f64,
        }
    }

    /// Guesses, from 0 to the last bin, that are right for bins of equal width but for rounding.
    fn guess<T: Copy + Into<f64>>(&self, values: &[T], guesses: &mut [u32]) {
        let (first, per_unit, top) = (self.first, self.per_unit, self.top);
        for (&value, guess) in values.iter().zip(guesses) {
            let place = ((value.into() - first) * per_unit).max(0.0).min(top);
            // SAFETY: from 0 to `top`, which an i32 holds; max() has made 0 of what is not a
            // number.
            *guess = unsafe { place.to_int_unchecked::<i32>() } as u32;
        }
    }

    /// The number of a value's bin, from 1; 0 for what lies below, and one more than there are bins
    /// for all else.
    fn number(&self, value: f64, guess: usize) -> u32 {
        if self.edges[guess] <= value && value < self.edges[guess + 1] {
            return guess as u32 + 1;
        }
        self.search(value)
    }

    #[cold]
    #[inline(never)]
    fn search(&self, value: f64) -> u32 {
        let bins = self.edges.len() - 1;
        match value {
            _ if value < self.first => 0,
            _ if value <= self.last => {
                self.edges.partition_point(|edge| *edge <= value).min(bins) as u32
            }
            _ => bins as u32 + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_their_lower_edges_and_the_last_one_both() {
        let values =
            [-1.0, 0.0, 0.1, 0.5, 0.7, 1.0, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        for edges in [
            vec![0.0, 0.5, 1.0],
            vec![0.0, 1e-300, 1.0],
            vec![0.0, 0.999, 1.0],
            vec![0.0, 5e-324, 1e-323],
        ] {
            let mut counts = vec![0; 2];
            // SAFETY: the eleven values, one after the other.
            let all = unsafe { View::new(values.as_ptr().cast(), &[11], &[8]) };
            let apart = binned_counts(
                &all,
                Element { kind: Kind::Float(8), swapped: false },
                &edges,
                &mut counts,
                &mut || true,
            )
            .unwrap();
            let between = |low: f64, high: f64| {
                values.iter().filter(|&&v| v >= low && v < high).count() as i64
            };
            let top = values.iter().filter(|v| edges[2..].contains(v)).count() as i64;
            assert_eq!(counts, [between(edges[0], edges[1]), between(edges[1], edges[2]) + top]);
            let above = values.iter().filter(|&&v| v > edges[2]).count() as u64;
            assert_eq!(apart, Apart { below: 2, above, nan: 1 });
        }
    }
}
