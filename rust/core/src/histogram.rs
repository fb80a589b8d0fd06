//! Histograms of a block: how often each integer occurs, and how many values lie between edges.
//!
//! Memory is walked in storage order, whatever the strides. Values become numbers of bins, some thousands at a time,
//! and these are counted in tables that fit a processor's cache; only 16-bit values are counted where they lie.
use std::time::{Duration, Instant};

use crate::counter::{Counter, PIECE};
use crate::view::{Axis, View};

/// Numbers of bins that are prepared at a time: they stay in the processor's first cache.
const BATCH: usize = 1 << 11;
/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);
/// The last bin that a guess can be; what lies in later ones is searched for.
const LAST_GUESS: usize = i32::MAX as usize;

/// What the elements of a view are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One byte, true unless 0.
    Bool,
    /// Integers of so many bytes.
    Unsigned(usize),
    /// Integers of so many bytes, in two's complement.
    Signed(usize),
    /// IEEE 754 numbers of so many bytes.
    Float(usize),
}

/// The kind of elements, and whether their bytes lie the other way round than this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// What they are.
    pub kind: Kind,
    /// Whether their bytes are swapped.
    pub swapped: bool,
}

/// Why values were not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A value lies outside the bins.
    Outside,
    /// Elements of this kind are not counted.
    Kind,
    /// The caller said not to go on.
    Cancelled,
}

/// An element as it lies in memory.
trait Stored: Copy {
    fn swapped(self) -> Self;
}

/// An integer by its bits.
trait Word: Stored + Ord {
    fn of(bits: u64) -> Self;
    fn distance(self, first: Self) -> Self;
    fn number(self) -> u32;
    /// The values themselves, where they are numbers of bins as they lie in memory.
    fn numbers(values: &[Self]) -> Option<&[u16]>;
}

macro_rules! word {
    ($($word:ty: $values:ident => $numbers:expr),*) => {$(
        impl Stored for $word {
            fn swapped(self) -> Self {
                self.swap_bytes()
            }
        }
        impl Word for $word {
            fn of(bits: u64) -> Self {
                bits as Self
            }
            fn distance(self, first: Self) -> Self {
                self.wrapping_sub(first)
            }
            #[allow(clippy::cast_lossless, reason = "lossless for some of the words, the others are small here")]
            fn number(self) -> u32 {
                self as u32
            }
            fn numbers($values: &[Self]) -> Option<&[u16]> {
                $numbers
            }
        }
    )*};
}

word!(u8: _values => None, u16: values => Some(values), u32: _values => None, u64: _values => None);

impl Stored for f32 {
    fn swapped(self) -> Self {
        Self::from_bits(self.to_bits().swap_bytes())
    }
}

impl Stored for f64 {
    fn swapped(self) -> Self {
        Self::from_bits(self.to_bits().swap_bytes())
    }
}

macro_rules! signed {
    ($($word:ty),*) => {$(
        impl Stored for $word {
            fn swapped(self) -> Self {
                self.swap_bytes()
            }
        }
    )*};
}

signed!(i8, i16, i32);

/// Count integers: those from `low` on, one bin each, are added to `counts`. Whatever is refused, counts are then
/// those of some of the values. `go_on` is asked about every 50 ms.
pub fn value_counts(
    view: &View,
    element: Element,
    low: i128,
    counts: &mut [i64],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), Refusal> {
    let (least, most) = match element.kind {
        Kind::Bool => return bool_counts(view, low, counts, go_on),
        Kind::Unsigned(width) => (0, (1i128 << (8 * width)) - 1),
        Kind::Signed(width) => (-(1i128 << (8 * width - 1)), (1i128 << (8 * width - 1)) - 1),
        Kind::Float(_) => return Err(Refusal::Kind),
    };
    let (first, last) = (low.max(least), (low + counts.len() as i128 - 1).min(most));
    if view.size == 0 {
        return Ok(());
    }
    if first > last {
        return Err(Refusal::Outside);
    }
    let counts = &mut counts[(first - low) as usize..=(last - low) as usize];
    let (first, span) = (first as u64, (last - first) as u64);
    match element.kind {
        Kind::Unsigned(1) | Kind::Signed(1) => words::<u8>(view, element.swapped, first, span, counts, go_on),
        Kind::Unsigned(2) | Kind::Signed(2) => words::<u16>(view, element.swapped, first, span, counts, go_on),
        Kind::Unsigned(4) | Kind::Signed(4) => words::<u32>(view, element.swapped, first, span, counts, go_on),
        Kind::Unsigned(8) | Kind::Signed(8) => words::<u64>(view, element.swapped, first, span, counts, go_on),
        _ => Err(Refusal::Kind),
    }
}

fn bool_counts(view: &View, low: i128, counts: &mut [i64], go_on: &mut dyn FnMut() -> bool) -> Result<(), Refusal> {
    let mut bytes = [0; 256];
    words::<u8>(view, false, 0, 255, &mut bytes, go_on)?;
    for (value, count) in [(0, bytes[0]), (1, bytes[1..].iter().sum())] {
        match usize::try_from(value - low).ok().and_then(|bin| counts.get_mut(bin)) {
            Some(bin) => *bin += count,
            None if count > 0 => return Err(Refusal::Outside),
            None => {}
        }
    }
    Ok(())
}

/// Words from `first` to `first + span`, in two's complement; there is a bin for each.
fn words<W: Word>(
    view: &View,
    swapped: bool,
    first: u64,
    span: u64,
    counts: &mut [i64],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), Refusal> {
    let (first, span, mut outside) = (W::of(first), W::of(span), false);
    let as_they_lie = !swapped && first == W::of(0) && span == W::of(u64::MAX);
    let number = |words: &[W], numbers: &mut [u32]| {
        let mut most = W::of(0);
        for (&word, number) in words.iter().zip(numbers) {
            let distance = word.distance(first);
            most = most.max(distance);
            *number = distance.min(span).number();
        }
        outside |= most > span;
    };
    let mut batch = Batch::new(Counter::new(counts, view.size), swapped, number, go_on);
    view.lines(&mut |pointer, line| {
        if as_they_lie && line.count >= BATCH {
            // SAFETY: `View::new` vouches for the line.
            if let Some(numbers) = unsafe { slice::<W>(pointer, line) }.and_then(W::numbers) {
                return batch.count(numbers);
            }
        }
        // SAFETY: as above.
        unsafe { batch.gather(pointer, line) }
    })?;
    batch.finish()?;
    if outside { Err(Refusal::Outside) } else { Ok(()) }
}

/// The elements of a line, if it is a slice.
///
/// # Safety
/// The line's elements are readable while the slice is in use.
unsafe fn slice<'a, T: Copy>(pointer: *const u8, line: Axis) -> Option<&'a [T]> {
    let pointer = pointer.cast::<T>();
    let fits = line.stride == size_of::<T>() as isize && pointer.is_aligned();
    // SAFETY: without gaps and aligned; the caller vouches for the rest.
    fits.then(|| unsafe { std::slice::from_raw_parts(pointer, line.count) })
}

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

/// Count numbers between edges, which increase; a bin holds its lower edge, the last one its upper edge too. Numbers
/// that a 64-bit one cannot hold are refused.
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
        Self { edges, first, last, per_unit: bins as f64 / (last - first), top: (bins - 1).min(LAST_GUESS) as f64 }
    }

    /// Guesses, from 0 to the last bin, that are right for bins of equal width but for rounding.
    fn guess<T: Copy + Into<f64>>(&self, values: &[T], guesses: &mut [u32]) {
        let (first, per_unit, top) = (self.first, self.per_unit, self.top);
        for (&value, guess) in values.iter().zip(guesses) {
            let place = ((value.into() - first) * per_unit).max(0.0).min(top);
            // SAFETY: from 0 to `top`, which an i32 holds; max() has made 0 of what is not a number.
            *guess = unsafe { place.to_int_unchecked::<i32>() } as u32;
        }
    }

    /// The number of a value's bin, from 1; 0 for what lies below, and one more than there are bins for all else.
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
            _ if value <= self.last => self.edges.partition_point(|edge| *edge <= value).min(bins) as u32,
            _ => bins as u32 + 1,
        }
    }
}

/// Values on their way to becoming numbers of bins, by `number(values, numbers)`, and to being counted.
struct Batch<'a, T, F> {
    values: Vec<T>,
    swapped: bool,
    number: F,
    numbers: Vec<u32>,
    counter: Counter<'a>,
    go_on: &'a mut dyn FnMut() -> bool,
    asked: Instant,
}

impl<'a, T: Stored, F: FnMut(&[T], &mut [u32])> Batch<'a, T, F> {
    fn new(counter: Counter<'a>, swapped: bool, number: F, go_on: &'a mut dyn FnMut() -> bool) -> Self {
        let (values, numbers) = (Vec::with_capacity(BATCH), vec![0; BATCH]);
        Self { values, swapped, number, numbers, counter, go_on, asked: Instant::now() }
    }

    /// # Safety
    /// The line's elements are readable.
    unsafe fn gather(&mut self, pointer: *const u8, line: Axis) -> Result<(), Refusal> {
        let mut done = 0;
        while done < line.count {
            let count = (BATCH - self.values.len()).min(line.count - done);
            // SAFETY: a part of the line, which the caller vouches for.
            unsafe { extend(&mut self.values, pointer.offset(done as isize * line.stride), count, line.stride) };
            done += count;
            if self.values.len() == BATCH {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        if self.swapped {
            for value in &mut self.values {
                *value = value.swapped();
            }
        }
        let numbers = &mut self.numbers[..self.values.len()];
        (self.number)(&self.values, numbers);
        self.values.clear();
        self.counter.count(numbers);
        self.ask()
    }

    fn count(&mut self, numbers: &[u16]) -> Result<(), Refusal> {
        numbers.chunks(PIECE).try_for_each(|piece| {
            self.counter.count(piece);
            self.ask()
        })
    }

    fn ask(&mut self) -> Result<(), Refusal> {
        if self.asked.elapsed() > TICK {
            if !(self.go_on)() {
                return Err(Refusal::Cancelled);
            }
            self.asked = Instant::now();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Refusal> {
        self.flush()?;
        self.counter.sum();
        Ok(())
    }
}

/// # Safety
/// So many elements, so many bytes apart, are readable; they may lie at any address.
unsafe fn extend<T: Copy>(values: &mut Vec<T>, pointer: *const u8, count: usize, stride: isize) {
    // SAFETY: elements that the caller vouches for.
    let read =
        |index: usize, stride: isize| unsafe { pointer.offset(index as isize * stride).cast::<T>().read_unaligned() };
    if stride == size_of::<T>() as isize {
        values.extend((0..count).map(|index| read(index, size_of::<T>() as isize)));
    } else {
        values.extend((0..count).map(|index| read(index, stride)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(kind: Kind) -> Element {
        Element { kind, swapped: false }
    }

    fn view<T>(values: &[T], shape: &[usize], strides: &[isize], first: usize) -> View {
        let strides: Vec<isize> = strides.iter().map(|stride| stride * size_of::<T>() as isize).collect();
        // SAFETY: the tests name only elements of `values`.
        unsafe { View::new(values[first..].as_ptr().cast(), shape, &strides) }
    }

    fn counted(view: &View, element: Element, low: i128, bins: usize) -> Result<Vec<i64>, Refusal> {
        let mut counts = vec![0; bins];
        value_counts(view, element, low, &mut counts, &mut || true).map(|()| counts)
    }

    /// Numbers below `most`, by a linear congruential generator (Knuth's MMIX).
    fn random(count: usize, most: u64) -> Vec<u16> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % most) as u16
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn every_way_of_counting_is_exact() {
        for (most, bins) in [(1, 1), (2, 65536), (9, 9), (2000, 2048), (2000, 2049), (65536, 65536), (7, 70_000)] {
            for count in [0, 1, 31, 5000, 300_001] {
                let values = random(count, most);
                let mut expected = vec![0; bins];
                for &value in &values {
                    expected[value as usize] += 1;
                }
                let found = counted(&view(&values, &[count], &[1], 0), native(Kind::Unsigned(2)), 0, bins);
                assert_eq!(found, Ok(expected), "{most} {bins} {count}");
            }
        }
    }

    #[test]
    fn a_way_changes_with_the_values() {
        let mut values = random(3 * PIECE, 65536);
        values[PIECE..2 * PIECE + 77].fill(60_000);
        let mut expected = vec![0; 65536];
        for &value in &values {
            expected[value as usize] += 1;
        }
        assert_eq!(counted(&view(&values, &[3 * PIECE], &[1], 0), native(Kind::Unsigned(2)), 0, 65536), Ok(expected));
    }

    #[test]
    fn views_hold_every_element_once() {
        let values: Vec<u16> = (0..60).collect();
        for (shape, strides, first) in [
            (vec![3, 4, 5], vec![20, 5, 1], 0),
            (vec![5, 4, 3], vec![1, 5, 20], 0),
            (vec![4, 5, 3], vec![-5, 1, 20], 15),
            (vec![3, 4, 5], vec![-20, -5, -1], 59),
            (vec![60, 1], vec![1, 999], 0),
        ] {
            let view = view(&values, &shape, &strides, first);
            assert_eq!(counted(&view, native(Kind::Unsigned(2)), 0, 60), Ok(vec![1; 60]), "{shape:?} {strides:?}");
        }
        let view = view(&values, &[3, 2, 5], &[20, -10, 2], 10);
        let found = counted(&view, native(Kind::Unsigned(2)), 0, 60).unwrap();
        let even: Vec<i64> = (0..60).map(|value| i64::from(value % 2 == 0)).collect();
        assert_eq!(found, even);
    }

    #[test]
    fn values_outside_are_refused() {
        let values = [i64::MIN, -1, 0, i64::MAX];
        let all = view(&values, &[4], &[1], 0);
        let signed = native(Kind::Signed(8));
        for (low, bins) in [(-1, 2), (0, 1), (i128::from(i64::MIN), 4), (i128::from(i64::MAX) - 3, 9), (1 << 63, 4)] {
            assert_eq!(counted(&all, signed, low, bins), Err(Refusal::Outside), "{low} {bins}");
        }
        assert_eq!(counted(&view(&values, &[1], &[1], 0), signed, i128::from(i64::MIN) - 1, 3), Ok(vec![0, 1, 0]));
        assert_eq!(counted(&view(&values, &[2], &[1], 1), signed, -3, 5), Ok(vec![0, 0, 1, 1, 0]));
        assert_eq!(counted(&view(&values, &[2], &[1], 1), native(Kind::Unsigned(8)), 0, 3), Err(Refusal::Outside));
        assert_eq!(counted(&view(&values, &[0], &[1], 0), signed, 1 << 63, 1), Ok(vec![0]));
        assert_eq!(counted(&view(&values, &[1], &[1], 2), native(Kind::Bool), 1, 1), Err(Refusal::Outside));
        assert_eq!(counted(&view(&values, &[1], &[1], 2), native(Kind::Float(8)), 0, 1), Err(Refusal::Kind));
        assert_eq!(counted(&view(&[0u8, 1, 7], &[3], &[1], 0), native(Kind::Bool), -1, 3), Ok(vec![0, 1, 2]));
    }

    #[test]
    fn swapped_bytes_and_any_address() {
        let bytes = [9u8, 0, 0, 1, 2, 0, 0, 1, 3];
        // SAFETY: two elements of four bytes from the second byte on.
        let view = unsafe { View::new(bytes[1..].as_ptr(), &[2], &[4]) };
        let big = Element { kind: Kind::Unsigned(4), swapped: cfg!(target_endian = "little") };
        assert_eq!(counted(&view, big, 258, 2), Ok(vec![1, 1]));
    }

    #[test]
    fn bins_hold_their_lower_edges_and_the_last_one_both() {
        let values = [-1.0, 0.0, 0.1, 0.5, 0.7, 1.0, 1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        for edges in [vec![0.0, 0.5, 1.0], vec![0.0, 1e-300, 1.0], vec![0.0, 0.999, 1.0], vec![0.0, 5e-324, 1e-323]] {
            let mut counts = vec![0; 2];
            let all = view(&values, &[11], &[1], 0);
            let apart = binned_counts(&all, native(Kind::Float(8)), &edges, &mut counts, &mut || true).unwrap();
            let between = |low: f64, high: f64| values.iter().filter(|&&v| v >= low && v < high).count() as i64;
            let top = values.iter().filter(|v| edges[2..].contains(v)).count() as i64;
            assert_eq!(counts, [between(edges[0], edges[1]), between(edges[1], edges[2]) + top]);
            let above = values.iter().filter(|&&v| v > edges[2]).count() as u64;
            assert_eq!(apart, Apart { below: 2, above, nan: 1 });
        }
    }

    #[test]
    fn a_caller_that_says_no_is_obeyed() {
        let value = [3u16];
        let endless = view(&value, &[1 << 40], &[0], 0);
        let mut counts = vec![0; 10];
        let result = value_counts(&endless, native(Kind::Unsigned(2)), 0, &mut counts, &mut || false);
        assert_eq!(result, Err(Refusal::Cancelled));
    }
}
