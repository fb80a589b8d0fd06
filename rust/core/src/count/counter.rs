//! Counting numbers of bins, in tables that fit a processor's cache.
use std::cell::Cell;

/// Values that are counted between two looks at what they are like, and at the clock.
pub const PIECE: usize = 1 << 16;
/// Bins that tables are kept for; more are counted one by one.
const TABLE: usize = 1 << 16;
/// Bins for which one table serves all values, as it stays in the processor's first cache.
const SMALL_TABLE: usize = 1 << 12;
/// Places of a piece where its values are looked at.
const PLACES: usize = 16;
/// Values, spread over all bins, of which few bytes overflow.
const FEW_CARRIES: usize = 128 * TABLE;
/// Counters of a bin that take turns.
const TURNS: usize = 4;
/// Elements that memory is asked for at a time: 64 bytes of 16-bit values.
const LINE: usize = 32;
/// How far ahead of the counting memory is asked for, in elements: a processor that follows the
/// tables' addresses loses sight of the values' own.
const AHEAD: usize = 512;

/// Counts, and tables that spare them most of the additions.
///
/// To add to one number over and over, a processor waits for the addition before; to add to numbers
/// all over a large table, it waits for its cache. Values that repeat are therefore counted in four
/// numbers by turns, others in a single byte; what these cannot hold is carried to the counts.
pub struct Counter<'a> {
    counts: &'a mut [i64],
    tables: Tables,
    /// Counted in bytes since their last sum.
    in_bytes: usize,
    /// Counted since the last look at the values.
    unseen: usize,
    way: Way,
}

/// Tables, all zero while nobody counts. A thread keeps its own, 576 KiB at most: to get such
/// memory from the system takes as long as to count a million values.
#[derive(Default)]
struct Tables {
    bytes: Vec<u8>,
    by_turns: Vec<[u16; TURNS]>,
}

thread_local! {
    static TABLES: Cell<Tables> = Cell::default();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    OneByOne,
    Small,
    ByTurns,
    Bytes,
}

impl<'a> Counter<'a> {
    /// For about so many values, whose number of a bin is less than there are counts.
    pub fn new(counts: &'a mut [i64], size: usize) -> Self {
        let way = match counts.len() {
            bins if bins > TABLE || size / 4 < bins => Way::OneByOne,
            bins if bins <= SMALL_TABLE => Way::Small,
            _ => Way::Bytes,
        };
        Self { counts, tables: TABLES.take(), in_bytes: 0, unseen: PIECE, way }
    }

    /// Count each, some of them in tables until `sum`.
    ///
    /// # Panics
    /// When a number is not less than there are counts; it may also be counted nowhere.
    pub fn count<N: Copy + Into<u32>>(&mut self, numbers: &[N]) {
        if matches!(self.way, Way::ByTurns | Way::Bytes) && self.unseen >= PIECE {
            self.way = way(numbers);
            self.unseen = 0;
        }
        self.unseen += numbers.len();
        match self.way {
            Way::OneByOne => {
                for &number in numbers {
                    self.counts[number.into() as usize] += 1;
                }
            }
            Way::Small => self.by_turns::<SMALL_TABLE, N>(numbers),
            Way::ByTurns => self.by_turns::<TABLE, N>(numbers),
            Way::Bytes => self.bytes(numbers),
        }
    }

    fn by_turns<const LENGTH: usize, N: Copy + Into<u32>>(&mut self, numbers: &[N]) {
        let table = &mut self.tables.by_turns;
        table.resize(LENGTH.max(table.len()), [0; TURNS]);
        let table: &mut [[u16; TURNS]; LENGTH] = table.first_chunk_mut().expect("long enough");
        in_lines(numbers, |turn, number| {
            let place = number.into() as usize & (LENGTH - 1);
            let count = &mut table[place][turn];
            *count = count.wrapping_add(1);
            if *count == 0 {
                carry(self.counts, place, 1 << u16::BITS);
            }
        });
    }

    fn bytes<N: Copy + Into<u32>>(&mut self, numbers: &[N]) {
        if self.in_bytes > FEW_CARRIES {
            self.sum_bytes();
        }
        self.in_bytes += numbers.len();
        self.tables.bytes.resize(TABLE, 0);
        let table: &mut [u8; TABLE] = self.tables.bytes.first_chunk_mut().expect("long enough");
        in_lines(numbers, |_, number| {
            let place = number.into() as usize & (TABLE - 1);
            table[place] = table[place].wrapping_add(1);
            if table[place] == 0 {
                carry(self.counts, place, 1 << u8::BITS);
            }
        });
    }

    /// Put the tables' contents where they belong.
    pub fn sum(mut self) {
        self.sum_bytes();
        for (count, turns) in self.counts.iter_mut().zip(&mut self.tables.by_turns) {
            *count += turns.iter().map(|&turn| i64::from(turn)).sum::<i64>();
            *turns = [0; TURNS];
        }
        TABLES.set(self.tables);
    }

    fn sum_bytes(&mut self) {
        for (count, byte) in self.counts.iter_mut().zip(&mut self.tables.bytes) {
            *count += i64::from(std::mem::take(byte));
        }
        self.in_bytes = 0;
    }
}

/// Out of the way, so that counting without a carry takes no jumps.
#[cold]
#[inline(never)]
fn carry(counts: &mut [i64], place: usize, more: i64) {
    counts[place] += more;
}

/// Call `add(turn, number)` for each, with memory asked for in time.
#[inline]
fn in_lines<N: Copy>(numbers: &[N], mut add: impl FnMut(usize, N)) {
    let mut lines = numbers.chunks_exact(LINE);
    for line in &mut lines {
        prefetch(line.as_ptr().wrapping_add(AHEAD));
        for turns in line.chunks_exact(2 * TURNS) {
            for (turn, &number) in turns.iter().enumerate() {
                add(turn % TURNS, number);
            }
        }
    }
    for &number in lines.remainder() {
        add(0, number);
    }
}

/// By how many values, of some hundreds in few places of memory, are one of the two before them.
fn way<N: Copy + Into<u32>>(numbers: &[N]) -> Way {
    let places = numbers
        .chunks((numbers.len() / PLACES).max(LINE))
        .map(|part| &part[..part.len().min(LINE)]);
    let near = places.flat_map(|place| place.windows(3));
    let (mut all, mut repeated) = (0, 0);
    for values in near {
        let [a, b, c] = [values[0].into(), values[1].into(), values[2].into()];
        all += 1;
        repeated += usize::from(c == a || c == b);
    }
    if repeated * 128 > all { Way::ByTurns } else { Way::Bytes }
}

#[cfg(target_arch = "x86_64")]
fn prefetch<T>(pointer: *const T) {
    // SAFETY: a hint, for any address; every x86-64 processor knows it.
    unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(pointer.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch<T>(_pointer: *const T) {}
