//! How often each integer occurs in a block.
use crate::boxes::view::{Axis, View};
use crate::count::batch::{BATCH, Batch, Element, Kind, Refusal, Stored};
use crate::count::counter::Counter;

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
        impl Word for $word {
            fn of(bits: u64) -> Self {
                bits as Self
            }
            fn distance(self, first: Self) -> Self {
                self.wrapping_sub(first)
            }
            #[allow(clippy::cast_lossless, reason = "lossless for some, others are small here")]
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

/// Count integers: those from `low` on, one bin each, are added to `counts`. Whatever is refused,
/// counts are then those of some of the values. `go_on` is asked about every 50 ms.
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
        Kind::Unsigned(1) | Kind::Signed(1) => {
            words::<u8>(view, element.swapped, first, span, counts, go_on)
        }
        Kind::Unsigned(2) | Kind::Signed(2) => {
            words::<u16>(view, element.swapped, first, span, counts, go_on)
        }
        Kind::Unsigned(4) | Kind::Signed(4) => {
            words::<u32>(view, element.swapped, first, span, counts, go_on)
        }
        Kind::Unsigned(8) | Kind::Signed(8) => {
            words::<u64>(view, element.swapped, first, span, counts, go_on)
        }
        _ => Err(Refusal::Kind),
    }
}

fn bool_counts(
    view: &View,
    low: i128,
    counts: &mut [i64],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), Refusal> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::counter::PIECE;

    fn native(kind: Kind) -> Element {
        Element { kind, swapped: false }
    }

    fn view<T>(values: &[T], shape: &[usize], strides: &[isize], first: usize) -> View {
        let strides: Vec<isize> =
            strides.iter().map(|stride| stride * size_of::<T>() as isize).collect();
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
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % most) as u16
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn every_way_of_counting_is_exact() {
        for (most, bins) in
            [(1, 1), (2, 65536), (9, 9), (2000, 2048), (2000, 2049), (65536, 65536), (7, 70_000)]
        {
            for count in [0, 1, 31, 5000, 300_001] {
                let values = random(count, most);
                let mut expected = vec![0; bins];
                for &value in &values {
                    expected[value as usize] += 1;
                }
                let found =
                    counted(&view(&values, &[count], &[1], 0), native(Kind::Unsigned(2)), 0, bins);
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
        assert_eq!(
            counted(&view(&values, &[3 * PIECE], &[1], 0), native(Kind::Unsigned(2)), 0, 65536),
            Ok(expected)
        );
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
            assert_eq!(
                counted(&view, native(Kind::Unsigned(2)), 0, 60),
                Ok(vec![1; 60]),
                "{shape:?} {strides:?}"
            );
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
        for (low, bins) in [
            (-1, 2),
            (0, 1),
            (i128::from(i64::MIN), 4),
            (i128::from(i64::MAX) - 3, 9),
            (1 << 63, 4),
        ] {
            assert_eq!(counted(&all, signed, low, bins), Err(Refusal::Outside), "{low} {bins}");
        }
        assert_eq!(
            counted(&view(&values, &[1], &[1], 0), signed, i128::from(i64::MIN) - 1, 3),
            Ok(vec![0, 1, 0])
        );
        assert_eq!(counted(&view(&values, &[2], &[1], 1), signed, -3, 5), Ok(vec![0, 0, 1, 1, 0]));
        assert_eq!(
            counted(&view(&values, &[2], &[1], 1), native(Kind::Unsigned(8)), 0, 3),
            Err(Refusal::Outside)
        );
        assert_eq!(counted(&view(&values, &[0], &[1], 0), signed, 1 << 63, 1), Ok(vec![0]));
        assert_eq!(
            counted(&view(&values, &[1], &[1], 2), native(Kind::Bool), 1, 1),
            Err(Refusal::Outside)
        );
        assert_eq!(
            counted(&view(&values, &[1], &[1], 2), native(Kind::Float(8)), 0, 1),
            Err(Refusal::Kind)
        );
        assert_eq!(
            counted(&view(&[0u8, 1, 7], &[3], &[1], 0), native(Kind::Bool), -1, 3),
            Ok(vec![0, 1, 2])
        );
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
    fn a_caller_that_says_no_is_obeyed() {
        let value = [3u16];
        let endless = view(&value, &[1 << 40], &[0], 0);
        let mut counts = vec![0; 10];
        let result =
            value_counts(&endless, native(Kind::Unsigned(2)), 0, &mut counts, &mut || false);
        assert_eq!(result, Err(Refusal::Cancelled));
    }
}
