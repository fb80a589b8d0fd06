//! A chunk table that is asked again and again: rows found by position, decoded chunks kept.
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::boxes::region::Region;
use crate::boxes::target::Target;
use crate::chunks::cache::Cache;
use crate::chunks::read::{Chunks, Piece, sparse_level};
use crate::codec::chain::{Codec, Scratch};
use crate::error::{ChunkFault, Fault, misplaced};
use crate::io::pool::{Permits, Width};

/// Reads of an unfiltered array that are done one by one; a region that needs more is for a plan of
/// longer ones.
const MOST_READS: usize = 1024;
/// Unfiltered bytes for which no thread is started.
const SMALL: usize = 1 << 20;
/// Bytes of few unfiltered chunks that are worth several reads of one chunk at a time.
const LARGE: usize = 8 << 20;

/// Where the chunks of one array are. Rows are sorted by their first element, as a chunk table's
/// are.
pub struct Table {
    offset: Vec<i64>,
    nbytes: Vec<i64>,
    mask: Vec<i64>,
    start: Vec<i64>,
    shape: Vec<i64>,
    codecs: Vec<Codec>,
    cells: Vec<i64>,
    grid: Vec<i64>,
    cache: Cache,
}

impl Table {
    /// The table of an array of shape `extent` in chunks of `shape`, with room for `cache` bytes of
    /// decoded chunks.
    pub fn new(
        [offset, nbytes, mask, start]: [Vec<i64>; 4],
        shape: Vec<i64>,
        extent: &[i64],
        codecs: Vec<Codec>,
        cache: usize,
    ) -> Result<Self, Fault> {
        let ndim = shape.len();
        if extent.len() != ndim
            || start.len() != offset.len() * ndim
            || shape.iter().any(|&n| n < 1)
        {
            return misplaced("has another number of axes than its array");
        }
        let grid: Vec<i64> =
            extent.iter().zip(&shape).map(|(n, c)| n / c + i64::from(n % c != 0)).collect();
        let cell = |row: usize| {
            number((0..ndim).map(|axis| start[row * ndim + axis] / shape[axis]), &grid)
        };
        let cells: Option<Vec<i64>> = (0..offset.len()).map(cell).collect();
        match cells {
            Some(cells) if cells.is_sorted_by(|a, b| a < b) => Ok(Self {
                offset,
                nbytes,
                mask,
                start,
                shape,
                codecs,
                cells,
                grid,
                cache: Cache::new(cache),
            }),
            _ => misplaced("is not where the table's order says"),
        }
    }

    /// Read a region, which lies within the array, into `target`: the bytes taken from storage.
    /// What no chunk holds is left as it is. None, with nothing done, where the region is better
    /// read in several parts of a chunk.
    pub fn read(
        &self,
        fd: RawFd,
        region: &Region,
        target: &Target,
        width: Width,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<u64>, ChunkFault> {
        let chunks = self.chunks();
        let plain =
            chunks.plain_nbytes(target.itemsize()).map_err(|fault| ChunkFault { row: 0, fault })?;
        let rows = self.rows(region);
        let Some(width) = self.width(&rows, region, target.itemsize(), width) else {
            return Ok(None);
        };
        let taken = AtomicU64::new(0);
        let one =
            |index: usize, raw: &mut Vec<u8>, permits: &Permits<Scratch>, stop: &AtomicBool| {
                let row = rows[index];
                let Some(shares) = region.share(chunks.origin(row), chunks.shape) else {
                    return Ok(());
                };
                let piece =
                    Piece { chunks: &chunks, row, shares: &shares, target, plain, permits, stop };
                taken.fetch_add(piece.read_cached(fd, raw, &self.cache)?, Ordering::Relaxed);
                Ok(())
            };
        let wanted = region.nbytes(target.itemsize());
        let done = chunks.for_each(rows.iter().copied(), wanted, width, go_on, &one);
        done.map_err(|failed| ChunkFault {
            row: rows.get(failed.row).copied().unwrap_or(0),
            ..failed
        })?;
        Ok(Some(taken.into_inner()))
    }

    /// Whether every cell of the grid has its chunk.
    pub fn is_complete(&self) -> bool {
        number(self.grid.iter().map(|n| n - 1), &self.grid)
            .is_some_and(|last| last + 1 == self.cells.len() as i64)
    }

    fn chunks(&self) -> Chunks<'_> {
        let Self { offset, nbytes, mask, start, shape, codecs, .. } = self;
        Chunks { offset, nbytes, mask, start, shape, codecs }
    }

    /// The rows that may hold elements of the region: by the cells that it has elements in or,
    /// where there are more of those than rows, by the rows between its first and its last cell.
    fn rows(&self, region: &Region) -> Vec<usize> {
        let ndim = self.shape.len();
        let ends = |last: bool| {
            let at = |axis: usize| {
                region.start[axis]
                    + if last { (region.count[axis] - 1) * region.stride[axis] } else { 0 }
            };
            number((0..ndim).map(|axis| at(axis) / self.shape[axis]), &self.grid)
        };
        let (Some(low), Some(high)) = (ends(false), ends(true)) else { return Vec::new() };
        let first = self.cells.partition_point(|&cell| cell < low);
        let last = self.cells.partition_point(|&cell| cell <= high);
        let axes: Vec<Touched> = (0..ndim).map(|axis| self.touched(region, axis)).collect();
        let cells = axes.iter().try_fold(1i64, |all, axis| all.checked_mul(axis.count));
        if cells.is_none_or(|cells| cells as usize > last - first) {
            let chunks = self.chunks();
            return (first..last)
                .filter(|&row| region.share(chunks.origin(row), &self.shape).is_some())
                .collect();
        }
        let (mut rows, mut at) = (Vec::new(), vec![0; ndim]);
        loop {
            let cell =
                number(at.iter().zip(&axes).map(|(&index, axis)| axis.at(index)), &self.grid);
            rows.extend(cell.and_then(|cell| self.cells.binary_search(&cell).ok()));
            let Some(axis) = (0..ndim).rev().find(|&axis| at[axis] + 1 < axes[axis].count) else {
                return rows;
            };
            at[axis] += 1;
            at[axis + 1..].fill(0);
        }
    }

    fn touched(&self, region: &Region, axis: usize) -> Touched {
        let (start, count, stride) = (region.start[axis], region.count[axis], region.stride[axis]);
        let extent = self.shape[axis];
        if stride >= extent {
            return Touched { start, count, stride, extent };
        }
        let (low, high) = (start / extent, (start + (count - 1) * stride) / extent);
        Touched { start: low, count: high - low + 1, stride: 1, extent: 1 }
    }

    /// How widely to read: alone what is small; None for what takes too many reads of unfiltered
    /// chunks.
    fn width(
        &self,
        rows: &[usize],
        region: &Region,
        itemsize: usize,
        width: Width,
    ) -> Option<Width> {
        if !self.codecs.is_empty() {
            return Some(width);
        }
        let nbytes = region.nbytes(itemsize);
        if nbytes > LARGE && rows.len() < width.depth {
            return None;
        }
        let shares =
            rows.iter().filter_map(|&row| region.share(self.chunks().origin(row), &self.shape));
        let reads: usize = shares
            .map(|s| {
                s[..sparse_level(&s, &self.shape, itemsize)]
                    .iter()
                    .map(|a| a.count)
                    .product::<usize>()
            })
            .sum();
        (reads <= MOST_READS).then_some(if nbytes <= SMALL {
            Width { threads: 1, depth: 1 }
        } else {
            width
        })
    }
}

/// The places in the grid, along one axis, that a region has elements in: `count` of them, every
/// one once.
struct Touched {
    start: i64,
    count: i64,
    stride: i64,
    extent: i64,
}

impl Touched {
    fn at(&self, index: i64) -> i64 {
        (self.start + index * self.stride) / self.extent
    }
}

/// The number of a grid cell in C order; None if it lies outside.
fn number(cell: impl Iterator<Item = i64>, grid: &[i64]) -> Option<i64> {
    cell.zip(grid).try_fold(0i64, |sum, (index, n)| {
        if (0..*n).contains(&index) { sum.checked_mul(*n)?.checked_add(index) } else { None }
    })
}
