//! Elements of a view on their way to being counted: some thousands at a time become numbers of
//! bins.
//!
//! Memory is walked in storage order, whatever the strides. The numbers are counted in tables that
//! fit a processor's cache; only 16-bit values are counted where they lie.
use std::time::{Duration, Instant};

use crate::boxes::view::Axis;
use crate::count::counter::{Counter, PIECE};

/// Numbers of bins that are prepared at a time: they stay in the processor's first cache.
pub(crate) const BATCH: usize = 1 << 11;
/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);
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
pub(crate) trait Stored: Copy {
    fn swapped(self) -> Self;
}

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

macro_rules! integers {
    ($($word:ty),*) => {$(
        impl Stored for $word {
            fn swapped(self) -> Self {
                self.swap_bytes()
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, i8, i16, i32);

/// Values on their way to becoming numbers of bins, by `number(values, numbers)`, and to being
/// counted.
pub(crate) struct Batch<'a, T, F> {
    values: Vec<T>,
    swapped: bool,
    number: F,
    numbers: Vec<u32>,
    counter: Counter<'a>,
    go_on: &'a mut dyn FnMut() -> bool,
    asked: Instant,
}

impl<'a, T: Stored, F: FnMut(&[T], &mut [u32])> Batch<'a, T, F> {
    pub(crate) fn new(
        counter: Counter<'a>,
        swapped: bool,
        number: F,
        go_on: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        let (values, numbers) = (Vec::with_capacity(BATCH), vec![0; BATCH]);
        Self { values, swapped, number, numbers, counter, go_on, asked: Instant::now() }
    }

    /// # Safety
    /// The line's elements are readable.
    pub(crate) unsafe fn gather(&mut self, pointer: *const u8, line: Axis) -> Result<(), Refusal> {
        let mut done = 0;
        while done < line.count {
            let count = (BATCH - self.values.len()).min(line.count - done);
            // SAFETY: a part of the line, which the caller vouches for.
            unsafe {
                let first = pointer.offset(done as isize * line.stride);
                extend(&mut self.values, first, count, line.stride);
            }
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

    pub(crate) fn count(&mut self, numbers: &[u16]) -> Result<(), Refusal> {
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

    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        self.flush()?;
        self.counter.sum();
        Ok(())
    }
}

/// # Safety
/// So many elements, so many bytes apart, are readable; they may lie at any address.
unsafe fn extend<T: Copy>(values: &mut Vec<T>, pointer: *const u8, count: usize, stride: isize) {
    // SAFETY: elements that the caller vouches for.
    let read = |index: usize, stride: isize| unsafe {
        pointer.offset(index as isize * stride).cast::<T>().read_unaligned()
    };
    if stride == size_of::<T>() as isize {
        values.extend((0..count).map(|index| read(index, size_of::<T>() as isize)));
    } else {
        values.extend((0..count).map(|index| read(index, stride)));
    }
}
