//! Stored chunks, from a file or from buffers, decoded into the caller's block.
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::boxes::region::{Region, Share};
use crate::boxes::target::{Target, covering};
use crate::chunks::cache::Cache;
use crate::codec::chain::{Codec, Scratch, decode};
use crate::error::{ChunkFault, Fault, corrupt};
use crate::io::pool::{Permits, Width, Work, for_each, for_each_watched};
use crate::io::positioned::{USUAL, pread};
use crate::memory::reserve;

/// Stored chunks, one row each: columns of equal length.
pub struct Chunks<'a> {
    /// First byte in the file.
    pub offset: &'a [i64],
    /// Stored bytes.
    pub nbytes: &'a [i64],
    /// Filters that were skipped, by bit.
    pub mask: &'a [i64],
    /// First element in the array: rows times axes.
    pub start: &'a [i64],
    /// Elements of every chunk per axis.
    pub shape: &'a [i64],
    /// Filters in the order in which writing applied them.
    pub codecs: &'a [Codec],
}

/// Where the stored bytes come from.
pub enum Bytes<'a> {
    /// An open file.
    File(RawFd),
    /// A buffer per row, as a remote store hands them out.
    Buffers(&'a [&'a [u8]]),
}

impl Chunks<'_> {
    pub(crate) fn origin(&self, row: usize) -> &[i64] {
        &self.start[row * self.shape.len()..(row + 1) * self.shape.len()]
    }

    /// Do the work for some rows, so that a caller can stop it also while one large chunk is read;
    /// `wanted` is how many bytes the region takes of them.
    pub(crate) fn for_each(
        &self,
        rows: impl ExactSizeIterator<Item = usize>,
        wanted: usize,
        width: Width,
        go_on: &mut dyn FnMut() -> bool,
        work: &Work<Vec<u8>, Scratch>,
    ) -> Result<(), ChunkFault> {
        let count = rows.len();
        let stored = rows.map(|row| self.nbytes[row] as usize).max().unwrap_or(0);
        let longest = if self.codecs.is_empty() { stored.min(passed(wanted)) } else { stored };
        if longest > USUAL {
            for_each_watched(count, width, go_on, work)
        } else {
            for_each(count, width, go_on, work)
        }
    }

    /// Bytes of a decoded chunk. A shape that has no size is a corrupt one.
    pub(crate) fn plain_nbytes(&self, itemsize: usize) -> Result<usize, Fault> {
        let size = self.shape.iter().try_fold(itemsize, |size, &extent| {
            usize::try_from(extent)
                .ok()
                .filter(|&extent| extent > 0)
                .and_then(|extent| size.checked_mul(extent))
        });
        size.filter(|&size| isize::try_from(size).is_ok())
            .map_or_else(|| corrupt(format!("has an impossible shape, {:?}", self.shape)), Ok)
    }
}

/// Read what a region takes of every chunk into the block `target`; the bytes taken from storage.
/// Chunks that share nothing with the region are not touched.
pub fn read(
    chunks: &Chunks,
    bytes: &Bytes,
    region: &Region,
    target: &Target,
    width: Width,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<u64, ChunkFault> {
    let plain =
        chunks.plain_nbytes(target.itemsize()).map_err(|fault| ChunkFault { row: 0, fault })?;
    let taken = AtomicU64::new(0);
    let one = |row: usize, raw: &mut Vec<u8>, permits: &Permits<Scratch>, stop: &AtomicBool| {
        let Some(shares) = region.share(chunks.origin(row), chunks.shape) else { return Ok(()) };
        let piece = Piece { chunks, row, shares: &shares, target, plain, permits, stop };
        taken.fetch_add(piece.read(bytes, raw)?, Ordering::Relaxed);
        Ok(())
    };
    chunks.for_each(
        0..chunks.offset.len(),
        region.nbytes(target.itemsize()),
        width,
        go_on,
        &one,
    )?;
    Ok(taken.into_inner())
}

/// Bytes that are read through rather than asked for anew: about what a system call costs.
const BRIDGED: usize = 64 << 10;

/// How many bytes are passed, at most, in reading so many that are wanted.
fn passed(wanted: usize) -> usize {
    wanted.saturating_mul(2).saturating_add(BRIDGED)
}

/// Along how many of the slowest axes a share of an unfiltered chunk is better read step by step.
pub(crate) fn sparse_level(shares: &[Share], shape: &[i64], itemsize: usize) -> usize {
    let mut inner = shares.to_vec();
    for level in 0..shares.len() {
        let (first, end) = covering(&inner, shape, itemsize);
        let wanted: usize = inner.iter().map(|share| share.count).product::<usize>() * itemsize;
        if end - first <= passed(wanted) {
            return level;
        }
        inner[level].count = 1;
    }
    shares.len()
}

/// One chunk, and what to do with it.
pub(crate) struct Piece<'a> {
    pub chunks: &'a Chunks<'a>,
    pub row: usize,
    pub shares: &'a [Share],
    pub target: &'a Target,
    pub plain: usize,
    pub permits: &'a Permits<Scratch>,
    pub stop: &'a AtomicBool,
}

impl Piece<'_> {
    pub fn read(&self, bytes: &Bytes, raw: &mut Vec<u8>) -> Result<u64, Fault> {
        let (offset, stored) = self.place()?;
        if self.chunks.codecs.is_empty() && stored != self.plain {
            return corrupt(format!("has {stored} bytes instead of {}", self.plain));
        }
        match bytes {
            Bytes::Buffers(buffers) => self.take(buffers[self.row], stored),
            Bytes::File(fd) if self.chunks.codecs.is_empty() => self.read_plain(*fd, offset, raw),
            Bytes::File(fd) => {
                self.fetch(*fd, offset, stored, raw)?;
                self.decode(&raw[..stored], |_| ())
            }
        }
    }

    /// Only the bytes from the first to the last shared element: straight into the block if they
    /// are a run of it.
    fn read_plain(&self, fd: RawFd, offset: u64, raw: &mut Vec<u8>) -> Result<u64, Fault> {
        self.read_cover(fd, offset, self.shares, raw)
    }

    fn read_cover(
        &self,
        fd: RawFd,
        offset: u64,
        shares: &[Share],
        raw: &mut Vec<u8>,
    ) -> Result<u64, Fault> {
        let (first, end) = covering(shares, self.chunks.shape, self.target.itemsize());
        if let Some((memory, nbytes)) = self.target.run(shares, self.chunks.shape) {
            // SAFETY: `run` says that these bytes are elements of the block, which this piece alone
            // writes.
            let read = || unsafe { pread(fd, offset + first as u64, memory, nbytes, self.stop) };
            self.permits.read(read)?;
            return Ok(nbytes as u64);
        }
        self.fetch(fd, offset + first as u64, end - first, raw)?;
        let _permit = self.permits.take();
        self.target.scatter(&raw[..end - first], first, shares, self.chunks.shape);
        Ok((end - first) as u64)
    }

    /// As `read` of an unfiltered chunk, but in several reads where they are far apart.
    pub fn read_sparsely(&self, fd: RawFd, raw: &mut Vec<u8>) -> Result<u64, Fault> {
        let (offset, stored) = self.place()?;
        if stored != self.plain {
            return corrupt(format!("has {stored} bytes instead of {}", self.plain));
        }
        let level = sparse_level(self.shares, self.chunks.shape, self.target.itemsize());
        let mut shares = self.shares.to_vec();
        let (mut taken, mut at) = (0, vec![0; level]);
        loop {
            for (axis, &index) in at.iter().enumerate() {
                let Share { first, step, place, .. } = self.shares[axis];
                shares[axis] =
                    Share { first: first + index * step, step, count: 1, place: place + index };
            }
            taken += self.read_cover(fd, offset, &shares, raw)?;
            let Some(axis) = (0..level).rev().find(|&axis| at[axis] + 1 < self.shares[axis].count)
            else {
                return Ok(taken);
            };
            at[axis] += 1;
            at[axis + 1..].fill(0);
        }
    }

    fn fetch(&self, fd: RawFd, offset: u64, nbytes: usize, raw: &mut Vec<u8>) -> Result<(), Fault> {
        let buffer = reserve(raw, nbytes)?;
        // SAFETY: the buffer is this thread's own and has `nbytes`.
        self.permits.read(|| unsafe { pread(fd, offset, buffer.as_mut_ptr(), nbytes, self.stop) })
    }

    fn take(&self, buffer: &[u8], stored: usize) -> Result<u64, Fault> {
        if buffer.len() != stored {
            return corrupt(format!("came as {} bytes instead of {stored}", buffer.len()));
        }
        self.decode(buffer, |_| ())
    }

    /// As `read` from a file, but a chunk that is there already is not read again. A chunk of which
    /// only a part is wanted is kept; one that is taken whole is not likely to be asked for soon.
    pub fn read_cached(&self, fd: RawFd, raw: &mut Vec<u8>, cache: &Cache) -> Result<u64, Fault> {
        if self.chunks.codecs.is_empty() {
            return self.read_sparsely(fd, raw);
        }
        if let Some(plain) = cache.get(self.row) {
            self.target.scatter(&plain, 0, self.shares, self.chunks.shape);
            return Ok(0);
        }
        let (offset, stored) = self.place()?;
        self.fetch(fd, offset, stored, raw)?;
        let is_whole = self
            .shares
            .iter()
            .zip(self.chunks.shape)
            .all(|(share, &extent)| share.count == extent as usize);
        self.decode(&raw[..stored], |plain| {
            if !is_whole {
                cache.put(self.row, plain);
            }
        })
    }

    fn place(&self) -> Result<(u64, usize), Fault> {
        let stored = usize::try_from(self.chunks.nbytes[self.row])
            .or_else(|_| corrupt("has a negative size"))?;
        let offset = u64::try_from(self.chunks.offset[self.row])
            .or_else(|_| corrupt("has a negative position"))?;
        Ok((offset, stored))
    }

    fn decode(&self, stored: &[u8], keep: impl FnOnce(&[u8])) -> Result<u64, Fault> {
        let mut permit = self.permits.take();
        let mask = self.chunks.mask[self.row] as u32;
        let plain = decode(permit.buffers(), stored, self.chunks.codecs, mask, self.plain)?;
        self.target.scatter(plain, 0, self.shares, self.chunks.shape);
        keep(plain);
        Ok(stored.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::io::pool::helped_ns;

    const SHAPE: [i64; 2] = [50, 37];
    const CHUNK: [i64; 2] = [16, 10];

    /// An array of u32 in chunks: its table's columns, the stored bytes of each row, and its
    /// values.
    struct Made {
        offset: Vec<i64>,
        nbytes: Vec<i64>,
        mask: Vec<i64>,
        start: Vec<i64>,
        stored: Vec<Vec<u8>>,
        values: Vec<u32>,
    }

    fn make(codecs: &[Codec]) -> Made {
        let values: Vec<u32> = (0..(SHAPE[0] * SHAPE[1]) as u32).map(|i| i * i / 5 + 3).collect();
        let (mut start, mut stored) = (Vec::new(), Vec::new());
        for row in (0..SHAPE[0]).step_by(CHUNK[0] as usize) {
            for column in (0..SHAPE[1]).step_by(CHUNK[1] as usize) {
                let cell = |i: i64| (row + i / CHUNK[1], column + i % CHUNK[1]);
                let plain: Vec<u8> = (0..CHUNK[0] * CHUNK[1])
                    .map(cell)
                    .map(|(r, c)| {
                        if r < SHAPE[0] && c < SHAPE[1] {
                            values[(r * SHAPE[1] + c) as usize]
                        } else {
                            9
                        }
                    })
                    .flat_map(u32::to_ne_bytes)
                    .collect();
                start.extend([row, column]);
                stored.push(if codecs.is_empty() { plain } else { packed(&plain) });
            }
        }
        let nbytes: Vec<i64> = stored.iter().map(|s| s.len() as i64).collect();
        let offset =
            nbytes.iter().scan(100, |at, n| Some(std::mem::replace(at, *at + n + 3))).collect();
        Made { offset, mask: vec![0; nbytes.len()], nbytes, start, stored, values }
    }

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut pack = libdeflater::Compressor::new(libdeflater::CompressionLvl::fastest());
        let mut stored = vec![0; pack.zlib_compress_bound(plain.len())];
        let count = pack.zlib_compress(plain, &mut stored).unwrap();
        stored.truncate(count);
        stored
    }

    impl Made {
        fn file(&self) -> File {
            let mut file = tempfile::tempfile().unwrap();
            for (offset, stored) in self.offset.iter().zip(&self.stored) {
                file.seek(SeekFrom::Start(*offset as u64)).unwrap();
                file.write_all(stored).unwrap();
            }
            file
        }

        fn table<'a>(&'a self, codecs: &'a [Codec]) -> Chunks<'a> {
            let Self { offset, nbytes, mask, start, .. } = self;
            Chunks { offset, nbytes, mask, start, shape: &CHUNK, codecs }
        }

        fn expected(&self, region: &Region) -> Vec<u32> {
            let axis = |a: usize| {
                (0..region.count[a]).map(move |i| region.start[a] + i * region.stride[a])
            };
            axis(0)
                .flat_map(|r| axis(1).map(move |c| r * SHAPE[1] + c))
                .map(|i| self.values[i as usize])
                .collect()
        }
    }

    fn run(
        table: &Chunks,
        bytes: &Bytes,
        region: &Region,
        width: Width,
    ) -> Result<(Vec<u32>, u64), ChunkFault> {
        let mut block = vec![0u32; (region.count[0] * region.count[1]) as usize];
        // SAFETY: the strides are those of a C-ordered array in `block`.
        let target = unsafe {
            Target::new(block.as_mut_ptr().cast(), vec![4 * region.count[1] as isize, 4], 4)
        };
        let taken = read(table, bytes, region, &target, width, &mut || true)?;
        Ok((block, taken))
    }

    fn regions() -> Vec<Region> {
        [
            ([0, 0], [50, 37], [1, 1]),
            ([3, 5], [40, 9], [1, 1]),
            ([1, 2], [5, 4], [11, 9]),
            ([49, 36], [1, 1], [1, 1]),
        ]
        .map(|(start, count, stride)| Region {
            start: start.into(),
            count: count.into(),
            stride: stride.into(),
        })
        .into()
    }

    #[test]
    fn regions_of_files_and_buffers() {
        for codecs in [&[][..], &[Codec::Deflate]] {
            let made = make(codecs);
            let (file, slices): (File, Vec<&[u8]>) =
                (made.file(), made.stored.iter().map(Vec::as_slice).collect());
            for region in regions() {
                for (threads, depth) in [(1, 1), (1, 4), (2, 8)] {
                    for bytes in [Bytes::File(file.as_raw_fd()), Bytes::Buffers(&slices)] {
                        let (block, taken) =
                            run(&made.table(codecs), &bytes, &region, Width { threads, depth })
                                .unwrap();
                        assert_eq!(block, made.expected(&region));
                        assert!(taken > 0 && taken <= made.nbytes.iter().sum::<i64>() as u64);
                    }
                }
            }
        }
    }

    #[test]
    fn only_what_is_shared_is_read() {
        let made = make(&[]);
        let file = made.file();
        let region = Region { start: vec![17, 12], count: vec![2, 3], stride: vec![2, 2] };
        let (_, taken) = run(
            &made.table(&[]),
            &Bytes::File(file.as_raw_fd()),
            &region,
            Width { threads: 1, depth: 1 },
        )
        .unwrap();
        assert_eq!(taken, 4 * (2 * 10 + 4 + 1), "from element (17, 12) to (19, 16) of one chunk");
    }

    #[test]
    fn a_large_chunk_is_read_where_it_can_be_stopped() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(2 * USUAL as u64).unwrap();
        for (nbytes, is_watched) in [(USUAL + 1, true), (1000, false)] {
            let table = Chunks {
                offset: &[1],
                nbytes: &[nbytes as i64],
                mask: &[0],
                start: &[0, 0],
                shape: &CHUNK,
                codecs: &[Codec::Deflate],
            };
            helped_ns();
            let width = Width { threads: 1, depth: 1 };
            let fault = run(&table, &Bytes::File(file.as_raw_fd()), &regions()[0], width)
                .unwrap_err()
                .fault;
            assert!(matches!(fault, Fault::Corrupt(why) if why.contains("deflate")));
            assert_eq!(helped_ns() > 0, is_watched);
        }
    }

    #[test]
    fn faults_name_their_row() {
        let codecs = [Codec::Deflate];
        let made = make(&codecs);
        let (file, whole) = (made.file(), &regions()[0]);
        let width = Width { threads: 2, depth: 4 };
        let fault = |table: Chunks, file: &File| {
            run(&table, &Bytes::File(file.as_raw_fd()), whole, width).unwrap_err()
        };
        let rows = made.offset.len();
        for (column, value) in [
            ("nbytes", -1),
            ("nbytes", 5),
            ("offset", -7),
            ("offset", 1 << 40),
            ("offset", i64::MAX),
        ] {
            let mut wrong = make(&codecs);
            (if column == "nbytes" { &mut wrong.nbytes } else { &mut wrong.offset })[3] = value;
            assert_eq!(fault(wrong.table(&codecs), &file).row, 3, "{column} {value}");
        }
        file.set_len(made.offset[rows - 1] as u64 + 2).unwrap();
        let short = fault(made.table(&codecs), &file);
        assert_eq!(short.row, rows - 1);
        assert!(matches!(short.fault, Fault::Short(_, _)));
        let huge = Chunks { shape: &[i64::MAX, 4], ..made.table(&codecs) };
        assert!(matches!(fault(huge, &file).fault, Fault::Corrupt(_)));
        let other = Chunks { codecs: &[], ..made.table(&codecs) };
        assert!(
            matches!(fault(other, &file).fault, Fault::Corrupt(_)),
            "an unfiltered chunk of another size"
        );
    }
}
