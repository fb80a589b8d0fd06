//! Blosc's container: the chunk format of c-blosc 1.x.
//!
//! A header of 16 bytes: version of the format and of the inner stream, flags, bytes of an element,
//! and, as 32-bit little-endian numbers, plain bytes, bytes of a block, and stored bytes with the
//! header. Then where each block begins, and the blocks: one stream, or one for each byte of an
//! element, that says its stored size in 4 bytes. A stream that would be as long as what it holds
//! is stored as it is. Blocks are shuffled by themselves.
use crate::codec::streams::{inflate, unlz4, unzstd};
use crate::codec::{bitshuffle, blosclz, shuffle};
use crate::error::{Fault, corrupt};
use crate::memory::reserve;

const HEAD: usize = 16;
const VERSION: u8 = 2;
const STREAM_VERSION: u8 = 1;
const SHUFFLED: u8 = 1;
const COPIED: u8 = 2;
const BIT_SHUFFLED: u8 = 4;
const RESERVED: u8 = 8;
const WHOLE: u8 = 16;
/// Elements of more bytes, and blocks of fewer elements, are one stream.
const MOST_SPLITS: usize = 16;
const FEWEST_ELEMENTS: usize = 128;

/// How blocks are compressed.
#[derive(Clone, Copy)]
enum Inner {
    BloscLz,
    Lz4,
    Zlib,
    Zstd,
}

/// How the bytes of a block's elements lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    AsTheyAre,
    ByByte,
    ByBit,
}

/// What the header says.
struct Frame<'a> {
    stored: &'a [u8],
    inner: Inner,
    order: Order,
    itemsize: usize,
    block: usize,
    /// Whether a whole block has a stream for each byte of an element.
    is_split: bool,
}

/// Decode into the front of `buffer`, no more than `limit` bytes; how many they are. The bytes of a
/// block more are taken to work in. A chunk is decoded as it says itself: what a dataset says of
/// Blosc's settings need not hold for all.
pub fn decode(stored: &[u8], buffer: &mut Vec<u8>, limit: usize) -> Result<usize, Fault> {
    let Some((head, _)) = stored.split_first_chunk::<HEAD>() else { return short() };
    let [version, stream_version, flags, itemsize, ..] = *head;
    let [nbytes, block, whole] = [4, 8, 12].map(|at| number(head, at).unwrap_or(usize::MAX));
    if version != VERSION {
        return corrupt(format!(
            "its blosc data are of version {version} of the format; {VERSION} is known here"
        ));
    }
    let Some(stored) = stored.get(..whole) else { return short() };
    if nbytes > limit
        || whole < HEAD
        || block > nbytes
        || (block == 0) != (nbytes == 0)
        || itemsize == 0
    {
        return corrupt(format!(
            "its blosc data claim {nbytes} bytes in blocks of {block}, in elements of {itemsize}, \
             stored in {whole}"
        ));
    }
    if flags & COPIED != 0 {
        if whole - HEAD != nbytes {
            return corrupt(format!(
                "its blosc data are {} bytes instead of {nbytes}",
                whole - HEAD
            ));
        }
        reserve(buffer, nbytes)?.copy_from_slice(&stored[HEAD..]);
        return Ok(nbytes);
    }
    let frame = Frame {
        stored,
        inner: inner(flags, stream_version)?,
        order: order(flags, itemsize)?,
        itemsize: itemsize.into(),
        block,
        is_split: flags & WHOLE == 0
            && usize::from(itemsize) <= MOST_SPLITS
            && block / usize::from(itemsize) >= FEWEST_ELEMENTS,
    };
    frame.unpack(buffer, nbytes)?;
    Ok(nbytes)
}

fn inner(flags: u8, version: u8) -> Result<Inner, Fault> {
    let inner = match flags >> 5 {
        0 => Inner::BloscLz,
        1 => Inner::Lz4,
        2 => {
            return corrupt("its blosc data are compressed with snappy, which is not decoded here");
        }
        3 => Inner::Zlib,
        4 => Inner::Zstd,
        other => {
            return corrupt(format!(
                "its blosc data are compressed with codec {other}, which is not known here"
            ));
        }
    };
    if version != STREAM_VERSION || flags & RESERVED != 0 {
        return corrupt(format!(
            "its blosc data are of a kind not known here (flags {flags:#04x}, version {version})"
        ));
    }
    Ok(inner)
}

fn order(flags: u8, itemsize: u8) -> Result<Order, Fault> {
    match (flags & SHUFFLED != 0, flags & BIT_SHUFFLED != 0) {
        (true, true) => corrupt("its blosc data claim to be shuffled in two ways"),
        (true, false) if itemsize > 1 => Ok(Order::ByByte),
        (_, false) => Ok(Order::AsTheyAre),
        (false, true) => Ok(Order::ByBit),
    }
}

impl Frame<'_> {
    fn unpack(&self, buffer: &mut Vec<u8>, nbytes: usize) -> Result<(), Fault> {
        // Where blocks begin is known before memory is taken: a header that lies needs as many
        // bytes as it claims blocks.
        let starts = HEAD..HEAD
            + nbytes.checked_div(self.block).map_or(0, |_| nbytes.div_ceil(self.block)) * 4;
        let Some(starts) = self.stored.get(starts) else { return short() };
        let spare = if self.order == Order::AsTheyAre { 0 } else { self.block };
        let (plain, spare) = reserve(buffer, nbytes + spare)?.split_at_mut(nbytes);
        for (start, block) in
            starts.as_chunks::<4>().0.iter().zip(plain.chunks_mut(self.block.max(1)))
        {
            let data = usize::try_from(i32::from_le_bytes(*start))
                .ok()
                .and_then(|start| self.stored.get(start..));
            let Some(data) = data else {
                return corrupt("its blosc data name a block that is not there");
            };
            if self.order == Order::AsTheyAre {
                self.streams(data, block)?;
                continue;
            }
            let shuffled = &mut spare[..block.len()];
            self.streams(data, shuffled)?;
            let elements = block.len() / self.itemsize;
            match self.order {
                Order::ByBit if elements.is_multiple_of(8) => {
                    bitshuffle::unshuffle(shuffled, self.itemsize, block);
                }
                // Blosc leaves other numbers of elements as they are.
                Order::ByBit | Order::AsTheyAre => block.copy_from_slice(shuffled),
                Order::ByByte => shuffle::unshuffle(shuffled, self.itemsize, block),
            }
        }
        Ok(())
    }

    /// The streams of one block, from the front of `data`. The last block is one stream if it is a
    /// shorter one.
    fn streams(&self, mut data: &[u8], block: &mut [u8]) -> Result<(), Fault> {
        let count = if self.is_split && block.len() == self.block { self.itemsize } else { 1 };
        if !block.len().is_multiple_of(count) {
            return corrupt(format!(
                "its blosc data split {} bytes into {count} streams",
                block.len()
            ));
        }
        for plain in block.chunks_mut(block.len() / count) {
            let Some((size, rest)) = data.split_first_chunk::<4>() else { return short() };
            let size = usize::try_from(i32::from_le_bytes(*size)).unwrap_or(usize::MAX);
            let Some((stream, rest)) = rest.split_at_checked(size) else { return short() };
            self.stream(stream, plain)?;
            data = rest;
        }
        Ok(())
    }

    fn stream(&self, stored: &[u8], plain: &mut [u8]) -> Result<(), Fault> {
        if stored.len() == plain.len() {
            plain.copy_from_slice(stored);
            return Ok(());
        }
        let count = match self.inner {
            Inner::BloscLz => blosclz::decode(stored, plain),
            Inner::Lz4 => unlz4(stored, plain),
            Inner::Zlib => inflate(stored, plain),
            Inner::Zstd => unzstd(stored, plain),
        }?;
        if count == plain.len() {
            return Ok(());
        }
        corrupt(format!(
            "a stream of its blosc data decodes to {count} bytes instead of {}",
            plain.len()
        ))
    }
}

/// A number of the header; None where it is negative.
fn number(head: &[u8; HEAD], at: usize) -> Option<usize> {
    let bytes = head[at..].first_chunk().expect("the header is long enough");
    usize::try_from(i32::from_le_bytes(*bytes)).ok()
}

fn short<T>() -> Result<T, Fault> {
    corrupt("its blosc data end too early")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::bitshuffle::tests::{noise, shuffled};

    const ITEM: usize = 4;
    const BLOCK: usize = 4 * 600;

    /// Blocks as Blosc writes them: split if they are whole, each stream packed if that makes it
    /// shorter.
    fn packed(plain: &[u8], flags: u8, pack: &dyn Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
        let (mut starts, mut data) = (Vec::new(), Vec::new());
        let first = HEAD + plain.len().div_ceil(BLOCK) * 4;
        for block in plain.chunks(BLOCK) {
            starts.extend(((first + data.len()) as i32).to_le_bytes());
            let is_turned = flags & BIT_SHUFFLED != 0 && (block.len() / ITEM).is_multiple_of(8);
            let turned = if is_turned { shuffled(block, ITEM) } else { block.to_vec() };
            let count = if block.len() == BLOCK && flags & WHOLE == 0 { ITEM } else { 1 };
            for piece in turned.chunks(turned.len() / count) {
                let stream =
                    Some(pack(piece)).filter(|s| s.len() < piece.len()).unwrap_or(piece.to_vec());
                data.extend((stream.len() as i32).to_le_bytes());
                data.extend(stream);
            }
        }
        let mut stored = vec![VERSION, STREAM_VERSION, flags, ITEM as u8];
        for number in [plain.len(), BLOCK, first + data.len()] {
            stored.extend((number as i32).to_le_bytes());
        }
        [stored, starts, data].concat()
    }

    fn decoded(stored: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
        let mut buffer = Vec::new();
        let count = decode(stored, &mut buffer, limit)?;
        Ok(buffer[..count].to_vec())
    }

    fn values() -> Vec<u8> {
        let calm = (0..BLOCK + 200).map(|i| (i / 90) as u8);
        calm.chain(noise(BLOCK)).collect()
    }

    #[test]
    fn blocks_of_every_order_and_cut_anywhere() {
        let plain = values();
        for flags in [0, WHOLE, BIT_SHUFFLED, BIT_SHUFFLED | WHOLE] {
            let stored = packed(&plain, flags | 1 << 5, &lz4_flex::block::compress);
            assert!(decoded(&stored, plain.len()).unwrap() == plain, "{flags}");
            for end in 0..stored.len() {
                assert!(decoded(&stored[..end], plain.len()).is_err(), "{flags} {end}");
            }
            assert!(decoded(&stored, plain.len() - 1).is_err());
        }
        let zstd = packed(&plain, 4 << 5, &|piece| {
            let mut stream = Vec::with_capacity(10_000);
            zstd::zstd_safe::compress(&mut stream, piece, 1).unwrap();
            stream
        });
        assert!(decoded(&zstd, plain.len()).unwrap() == plain);
    }

    #[test]
    fn what_was_not_shrunk_is_copied() {
        let plain = noise(777);
        let mut stored = vec![VERSION, STREAM_VERSION, COPIED | SHUFFLED, 3];
        for number in [777i32, 777, 777 + 16] {
            stored.extend(number.to_le_bytes());
        }
        stored.extend(&plain);
        assert_eq!(decoded(&stored, 777).unwrap(), plain);
        stored[4] -= 1;
        assert!(decoded(&stored, 777).is_err());
    }

    #[test]
    fn a_header_that_makes_no_sense_is_refused_by_name() {
        let plain = values();
        let good = packed(&plain, 1 << 5, &lz4_flex::block::compress);
        let cases: [(usize, u8, &str); 12] = [
            (0, 1, "version 1 of the format"),
            (0, 5, "version 5 of the format"),
            (1, 2, "not known here"),
            (2, 2 << 5, "snappy"),
            (2, 5 << 5, "codec 5"),
            (2, 1 << 5 | RESERVED, "not known here"),
            (2, 1 << 5 | SHUFFLED | BIT_SHUFFLED, "two ways"),
            (3, 0, "elements of 0"),
            (3, 7, "split"),
            (7, 128, "claim"),
            (11, 1, "in blocks of"),
            (17, 255, "not there"),
        ];
        for (at, value, words) in cases {
            let mut wrong = good.clone();
            wrong[at] = value;
            let found = decoded(&wrong, plain.len());
            assert!(
                matches!(&found, Err(Fault::Corrupt(why)) if why.contains(words)),
                "{at} {value} {found:?}"
            );
        }
    }
}
