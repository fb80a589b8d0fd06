//! A region of an array in a gzip file, decoded interval by interval.
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libdeflater::crc32;

use crate::boxes::region::Region;
use crate::boxes::target::Target;
use crate::error::{ChunkFault, Fault, misplaced};
use crate::gzip::interval::{AFTER, BEFORE, Inflater};
use crate::gzip::points::{DAMAGED, Point, stored_span};
use crate::io::pool::{Permits, Width, for_each};
use crate::io::positioned::pread;
use crate::memory::reserve;

/// Where the windows of an index are.
#[derive(Clone, Copy)]
pub enum Windows<'a> {
    /// In an open file, from a position.
    File(RawFd, u64),
    /// In memory.
    Memory(&'a [u8]),
}

/// A C-ordered array in the plain bytes of a file.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    /// First byte.
    pub offset: u64,
    /// Elements per axis.
    pub shape: &'a [i64],
    /// Bytes of an element.
    pub itemsize: usize,
}

/// A part of the array whose elements are a run of its bytes: origin and extent.
type Box2 = (Vec<i64>, Vec<i64>);

impl Plain<'_> {
    /// Bytes of the array; None for a shape that has none.
    pub fn nbytes(&self) -> Option<u64> {
        let size = self.shape.iter().try_fold(self.itemsize as u64, |size, &extent| {
            u64::try_from(extent).ok().and_then(|extent| size.checked_mul(extent))
        })?;
        let end = i64::try_from(size.checked_add(self.offset)?);
        (!self.shape.is_empty() && end.is_ok()).then_some(size)
    }

    /// The bytes of the array that an interval holds: from, to.
    fn clip(&self, first: &Point, next: &Point, nbytes: u64) -> (u64, u64) {
        let inside = |plain: u64| plain.saturating_sub(self.offset).min(nbytes);
        (inside(first.plain), inside(next.plain))
    }

    /// The boxes that a run of the array's bytes is made of: parts of an element, whole elements,
    /// part of an element. Boxes of bytes have an axis more than boxes of elements.
    fn boxes(&self, from: u64, to: u64, visit: &mut dyn FnMut(Unit, Box2, usize)) {
        let item = self.itemsize as u64;
        let first = from.next_multiple_of(item).min(to);
        let last = (to / item * item).max(first);
        let bytes: Vec<i64> = [self.shape, &[self.itemsize as i64]].concat();
        boxes(&bytes, from, first, &mut |part, at| visit(Unit::Byte, part, (at - from) as usize));
        boxes(self.shape, first / item, last / item, &mut |part, at| {
            visit(Unit::Element, part, (at * item - from) as usize);
        });
        boxes(&bytes, last, to, &mut |part, at| visit(Unit::Byte, part, (at - from) as usize));
    }
}

/// What the extents of a box count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Element,
    Byte,
}

/// Cut a run of a C-ordered array into boxes, at most two per axis; each comes with the position of
/// its first element.
fn boxes(shape: &[i64], mut from: u64, to: u64, visit: &mut dyn FnMut(Box2, u64)) {
    let mut rows = vec![1u64; shape.len()];
    for axis in (1..shape.len()).rev() {
        rows[axis - 1] = rows[axis] * shape[axis] as u64;
    }
    while from < to {
        // The slowest axis along which whole steps fit.
        let fits = |row: &u64| *row > 0 && from.is_multiple_of(*row) && to - from >= *row;
        let Some(axis) = rows.iter().position(fits) else { return };
        let mut origin: Vec<i64> = Vec::with_capacity(shape.len());
        let mut extent = vec![1; shape.len()];
        for (row, &length) in rows.iter().zip(shape) {
            origin.push((from / row) as i64 % length);
        }
        let steps = ((to - from) / rows[axis]).min((shape[axis] - origin[axis]) as u64);
        extent[axis] = steps as i64;
        extent[axis + 1..].copy_from_slice(&shape[axis + 1..]);
        visit((origin, extent), from);
        from += steps * rows[axis];
    }
}

/// The intervals, by their first point, that hold elements of a region.
pub fn rows(points: &[Point], plain: Plain, region: &Region) -> Vec<usize> {
    let Some(nbytes) = plain.nbytes() else { return Vec::new() };
    let (low, high) = reach(&plain, region, nbytes);
    let begin = points.partition_point(|point| point.plain <= plain.offset + low).saturating_sub(1);
    let end = points.partition_point(|point| point.plain < plain.offset + high);
    let wide = widened(region, plain.itemsize);
    (begin..end.min(points.len() - 1))
        .filter(|&row| {
            let (from, to) = plain.clip(&points[row], &points[row + 1], nbytes);
            let mut found = false;
            plain.boxes(from, to, &mut |unit, (origin, extent), _| {
                let region = if unit == Unit::Element { region } else { &wide };
                found = found || region.share(&origin, &extent).is_some();
            });
            found
        })
        .collect()
}

/// The bytes of the array from the first to the last element of a region.
fn reach(plain: &Plain, region: &Region, nbytes: u64) -> (u64, u64) {
    let (mut low, mut high) = (0u64, 0u64);
    let mut row = plain.itemsize as u64;
    for axis in (0..plain.shape.len()).rev() {
        let last = region.start[axis] + (region.count[axis] - 1) * region.stride[axis];
        low = low.saturating_add((region.start[axis] as u64).saturating_mul(row));
        high = high.saturating_add((last as u64).saturating_mul(row));
        row = row.saturating_mul(plain.shape[axis] as u64);
    }
    (low.min(nbytes), high.saturating_add(plain.itemsize as u64).min(nbytes))
}

/// A region whose elements are bytes.
fn widened(region: &Region, itemsize: usize) -> Region {
    let with = |axes: &[i64], last: i64| [axes, &[last]].concat();
    Region {
        start: with(&region.start, 0),
        count: with(&region.count, itemsize as i64),
        stride: with(&region.stride, 1),
    }
}

/// The caller's block, as elements and as bytes, which are an axis more.
pub struct Block {
    /// Of the array's elements.
    pub elements: Target,
    /// The same memory.
    pub bytes: Target,
}

/// A file, its index, and the array in it.
pub struct Source<'a> {
    /// The open file.
    pub fd: RawFd,
    /// Its points.
    pub points: &'a [Point],
    /// And their windows.
    pub windows: Windows<'a>,
    /// The array.
    pub plain: Plain<'a>,
}

/// Buffers of a decoding thread.
#[derive(Default)]
struct Decoding {
    inflater: Inflater,
    window: Vec<u8>,
    plain: Vec<u8>,
}

/// Buffers of a reading thread.
#[derive(Default)]
struct Reading {
    stored: Vec<u8>,
    window: Vec<u8>,
}

/// Read a region into the block; the bytes taken from storage.
pub fn read(
    source: &Source,
    region: &Region,
    block: &Block,
    width: Width,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<u64, ChunkFault> {
    if !source.has(region) {
        return Err(ChunkFault { row: 0, fault: Fault::Misplaced(DAMAGED.into()) });
    }
    let rows = rows(source.points, source.plain, region);
    let (taken, wide) = (AtomicU64::new(0), widened(region, source.plain.itemsize));
    let one =
        |index: usize, reading: &mut Reading, permits: &Permits<Decoding>, stop: &AtomicBool| {
            let row = rows[index];
            let (first, next) = (&source.points[row], &source.points[row + 1]);
            taken.fetch_add(
                permits.read(|| source.fetch(first, next, reading, stop))?,
                Ordering::Relaxed,
            );
            let mut permit = permits.take();
            let Decoding { inflater, window, plain } = permit.buffers();
            let window = unpack(inflater, first, &reading.window[..first.window_stored], window)?;
            let (_, length) = stored_span(first, next);
            let decoded = inflater.interval(
                first,
                next,
                window,
                &mut reading.stored[..BEFORE + length + AFTER],
                plain,
            )?;
            source.scatter(first, next, decoded, [region, &wide], block);
            Ok(())
        };
    for_each(rows.len(), width, go_on, &one).map_err(|ChunkFault { row, fault }| ChunkFault {
        row: rows.get(row).copied().unwrap_or(0),
        fault,
    })?;
    Ok(taken.into_inner())
}

impl Source<'_> {
    /// Whether there are intervals for all elements of a region.
    fn has(&self, region: &Region) -> bool {
        let (Some(nbytes), [first, .., last]) = (self.plain.nbytes(), self.points) else {
            return false;
        };
        let (low, high) = reach(&self.plain, region, nbytes);
        first.plain <= self.plain.offset + low && last.plain >= self.plain.offset + high
    }

    /// Read what an interval needs: its stored bytes behind the room for what comes before, and its
    /// window.
    fn fetch(
        &self,
        first: &Point,
        next: &Point,
        reading: &mut Reading,
        stop: &AtomicBool,
    ) -> Result<u64, Fault> {
        let (at, length) = stored_span(first, next);
        let buffer = reserve(&mut reading.stored, BEFORE + length + AFTER)?;
        // SAFETY: the buffer is this thread's own and has these bytes.
        unsafe { pread(self.fd, at, buffer[BEFORE..].as_mut_ptr(), length, stop)? };
        let nbytes = first.window_stored;
        let window = reserve(&mut reading.window, nbytes)?;
        match self.windows {
            Windows::Memory(all) => {
                let at = usize::try_from(first.window_at).unwrap_or(usize::MAX);
                let found = at.checked_add(nbytes).and_then(|end| all.get(at..end));
                window.copy_from_slice(found.map_or_else(|| misplaced(DAMAGED), Ok)?);
                Ok(length as u64)
            }
            Windows::File(fd, begin) => {
                let at = begin.saturating_add(first.window_at);
                // SAFETY: as above.
                let result = unsafe { pread(fd, at, window.as_mut_ptr(), nbytes, stop) };
                result.or_else(|fault| {
                    if fault == Fault::Cancelled { Err(fault) } else { misplaced(DAMAGED) }
                })?;
                Ok((length + nbytes) as u64)
            }
        }
    }

    /// Put what a region takes of an interval into the block.
    fn scatter(
        &self,
        first: &Point,
        next: &Point,
        decoded: &[u8],
        [region, wide]: [&Region; 2],
        block: &Block,
    ) {
        let Some(nbytes) = self.plain.nbytes() else { return };
        let (from, to) = self.plain.clip(first, next, nbytes);
        let skipped = (self.plain.offset + from - first.plain) as usize;
        let decoded = &decoded[skipped..];
        self.plain.boxes(from, to, &mut |unit, (origin, extent), at| {
            let (region, target) = match unit {
                Unit::Element => (region, &block.elements),
                Unit::Byte => (wide, &block.bytes),
            };
            if let Some(shares) = region.share(&origin, &extent) {
                target.scatter(&decoded[at..], 0, &shares, &extent);
            }
        });
    }
}

/// Make a window of what is stored of it.
fn unpack<'a>(
    inflater: &mut Inflater,
    point: &Point,
    packed: &[u8],
    window: &'a mut Vec<u8>,
) -> Result<&'a [u8], Fault> {
    let window = reserve(window, point.window_plain)?;
    if crc32(packed) != point.window_crc {
        return misplaced(DAMAGED);
    }
    if packed.len() == window.len() {
        window.copy_from_slice(packed);
    } else if inflater.inflate(packed, window) != Ok((packed.len(), window.len())) {
        return misplaced(DAMAGED);
    }
    Ok(window)
}
