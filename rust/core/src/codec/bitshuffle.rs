//! Bits put together: the first bit of every element, then the second of every, and so on, least
//! significant first.
//!
//! That is what Blosc and the bitshuffle filter mean by bit shuffling (`bitshuffle_core.c` of the
//! latter's project). Eight rows of bits are eight bytes of a byte-shuffled array, but for a
//! transposition of 8 x 8 bits.
use crate::codec::shuffle::{BLOCK, weave};
use crate::codec::streams::{unlz4, unzstd};
use crate::error::{Fault, corrupt};
use crate::memory::reserve;

/// Elements of which one register holds a bit each.
const TILE: usize = 8 * BLOCK;
/// Elements of a block are a multiple of this.
const MULTIPLE: usize = 8;
/// Bytes and, at least, elements of a block whose size is left to the filter
/// (`bshuf_default_block_size`).
const DEFAULT_BLOCK: (usize, usize) = (8192, 128);

/// What compresses the shuffled blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// Nothing: blocks of so many elements, 0 for as many as the filter finds good.
    Nothing(usize),
    /// LZ4 blocks.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

/// Decode a chunk of the bitshuffle filter to at most `limit` bytes of `buffer`; how many came out.
///
/// Compressed data begin with their plain size in 8 bytes and that of a block in 4; every block
/// with its stored size in 4, all big-endian (`bshuf_h5filter.c`). The last block is cut to a
/// multiple of 8 elements, and what is left is stored as it is.
pub fn decode(
    stored: &[u8],
    itemsize: usize,
    inner: Inner,
    buffer: &mut Vec<u8>,
    limit: usize,
) -> Result<usize, Fault> {
    let (nbytes, block, data) = match inner {
        Inner::Nothing(block) => (stored.len(), block_nbytes(block, itemsize), stored),
        Inner::Lz4 | Inner::Zstd => {
            let Some((total, rest)) = stored.split_first_chunk::<8>() else { return short() };
            let Some((block, rest)) = rest.split_first_chunk::<4>() else { return short() };
            let (total, block) = (u64::from_be_bytes(*total), u32::from_be_bytes(*block) as usize);
            (usize::try_from(total).unwrap_or(usize::MAX), block, rest)
        }
    };
    let multiple = itemsize * MULTIPLE;
    if nbytes > limit
        || itemsize == 0
        || block == 0
        || block % multiple != 0
        || nbytes % itemsize != 0
    {
        return corrupt(format!(
            "its bitshuffle data claim {nbytes} bytes in blocks of {block}, in elements of \
             {itemsize}"
        ));
    }
    let spare = block.min(nbytes);
    let (plain, spare) = reserve(buffer, nbytes + spare)?[..nbytes + spare].split_at_mut(nbytes);
    let (shuffled, left) = plain.split_at_mut(nbytes / multiple * multiple);
    let mut data = data;
    for block in shuffled.chunks_mut(block) {
        let Some(after) = unpack(data, itemsize, inner, block, &mut spare[..block.len()])? else {
            return short();
        };
        data = after;
    }
    let Some(rest) = data.get(..left.len()) else { return short() };
    left.copy_from_slice(rest);
    Ok(nbytes)
}

/// One block from the front of the data; what follows it, or None where the data end too early.
fn unpack<'a>(
    data: &'a [u8],
    itemsize: usize,
    inner: Inner,
    block: &mut [u8],
    spare: &mut [u8],
) -> Result<Option<&'a [u8]>, Fault> {
    if let Inner::Nothing(_) = inner {
        let Some((shuffled, after)) = data.split_at_checked(block.len()) else { return Ok(None) };
        unshuffle(shuffled, itemsize, block);
        return Ok(Some(after));
    }
    let Some((size, rest)) = data.split_first_chunk::<4>() else { return Ok(None) };
    let Some((packed, after)) = rest.split_at_checked(u32::from_be_bytes(*size) as usize) else {
        return Ok(None);
    };
    let count = if inner == Inner::Lz4 { unlz4(packed, spare)? } else { unzstd(packed, spare)? };
    if count != block.len() {
        return corrupt(format!(
            "a bitshuffle block decodes to {count} bytes instead of {}",
            block.len()
        ));
    }
    unshuffle(spare, itemsize, block);
    Ok(Some(after))
}

fn block_nbytes(block: usize, itemsize: usize) -> usize {
    let (nbytes, least) = DEFAULT_BLOCK;
    let default = (nbytes / itemsize.max(1) / MULTIPLE * MULTIPLE).max(least);
    itemsize.saturating_mul(if block == 0 { default } else { block })
}

fn short<T>() -> Result<T, Fault> {
    corrupt("its bitshuffle data end too early")
}

/// Put the bits of each element together again; of the elements as many as are a multiple of 8,
/// while the bytes of what is left lie at the end as they were. `plain` has the length of `stored`.
pub fn unshuffle(stored: &[u8], itemsize: usize, plain: &mut [u8]) {
    let row = stored.len().checked_div(itemsize).unwrap_or(0) / MULTIPLE;
    let (whole, rest) = plain.split_at_mut(row * MULTIPLE * itemsize);
    rest.copy_from_slice(&stored[whole.len()..]);
    let done = match itemsize {
        1 => tiles::<1>(stored, row, whole),
        2 => tiles::<2>(stored, row, whole),
        4 => tiles::<4>(stored, row, whole),
        8 => tiles::<8>(stored, row, whole),
        16 => tiles::<16>(stored, row, whole),
        _ => 0,
    };
    groups(stored, itemsize, row, done, whole);
}

/// As many whole tiles as there are; how many bytes of each row they are. `row` is a row's length.
fn tiles<const N: usize>(stored: &[u8], row: usize, plain: &mut [u8]) -> usize {
    for (number, tile) in plain.chunks_exact_mut(TILE * N).enumerate() {
        let mut lanes = [[0; TILE]; N];
        for (byte, lane) in lanes.iter_mut().enumerate() {
            let rows = |bit| bits(stored, (8 * byte + bit) * row + number * BLOCK);
            weave::<8>(std::array::from_fn(rows), lane);
            for group in lane.as_chunks_mut::<8>().0 {
                *group = transposed(*group);
            }
        }
        for (piece, elements) in tile.chunks_exact_mut(BLOCK * N).enumerate() {
            weave::<N>(std::array::from_fn(|byte| bits(&lanes[byte], piece * BLOCK)), elements);
        }
    }
    row / BLOCK * BLOCK
}

fn bits(bytes: &[u8], first: usize) -> &[u8; BLOCK] {
    bytes[first..].first_chunk().expect("a whole tile is left")
}

/// Eight elements at a time, from the `first` byte of each row on.
fn groups(stored: &[u8], itemsize: usize, row: usize, first: usize, plain: &mut [u8]) {
    for index in first..row {
        let elements = &mut plain[index * 8 * itemsize..(index + 1) * 8 * itemsize];
        for byte in 0..itemsize {
            let group =
                transposed(std::array::from_fn(|bit| stored[(8 * byte + bit) * row + index]));
            for (element, value) in elements.chunks_exact_mut(itemsize).zip(group) {
                element[byte] = value;
            }
        }
    }
}

/// Bit i of byte j becomes bit j of byte i, in three exchanges (Warren, Hacker's Delight, 7-3).
fn transposed(bytes: [u8; 8]) -> [u8; 8] {
    let mut bits = u64::from_le_bytes(bytes);
    for (shift, mask) in
        [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0x0000_0000_f0f0_f0f0)]
    {
        let exchanged = (bits ^ (bits >> shift)) & mask;
        bits ^= exchanged ^ (exchanged << shift);
    }
    bits.to_le_bytes()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The other way round, bit by bit.
    pub(crate) fn shuffled(plain: &[u8], itemsize: usize) -> Vec<u8> {
        let row = plain.len() / itemsize / 8;
        let mut stored = vec![0; row * 8 * itemsize];
        for element in 0..row * 8 {
            for bit in 0..8 * itemsize {
                let is_set = plain[element * itemsize + bit / 8] >> (bit % 8) & 1;
                stored[bit * row + element / 8] |= is_set << (element % 8);
            }
        }
        stored.extend(&plain[stored.len()..]);
        stored
    }

    pub(crate) fn noise(length: usize) -> Vec<u8> {
        (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
    }

    #[test]
    fn every_element_size_and_rest() {
        for itemsize in [1, 2, 3, 4, 5, 8, 16, 20] {
            for elements in [0, 1, 7, 8, 120, 128, 136, 1000, 2056] {
                for more in [0, itemsize - 1] {
                    let plain = noise(elements * itemsize + more);
                    let mut found = vec![0; plain.len()];
                    unshuffle(&shuffled(&plain, itemsize), itemsize, &mut found);
                    assert_eq!(found, plain, "{itemsize} {elements} {more}");
                }
            }
        }
    }

    #[test]
    fn blocks_of_the_filter() {
        let (itemsize, block) = (4, 64 * 4);
        let plain = noise(block * 3 + 21 * itemsize);
        let mut plainly = Vec::new();
        let mut packed =
            [(plain.len() as u64).to_be_bytes().as_slice(), &(block as u32).to_be_bytes()].concat();
        let whole = plain.len() / (8 * itemsize) * 8 * itemsize;
        for piece in plain[..whole].chunks(block) {
            let bits = shuffled(piece, itemsize);
            let data = lz4_flex::block::compress(&bits);
            packed.extend((data.len() as u32).to_be_bytes());
            packed.extend(data);
            plainly.extend(bits);
        }
        packed.extend(&plain[whole..]);
        plainly.extend(&plain[whole..]);
        let mut buffer = Vec::new();
        let mut decoded = |stored: &[u8], inner| {
            let count = decode(stored, itemsize, inner, &mut buffer, plain.len())?;
            Ok::<_, Fault>(buffer[..count].to_vec())
        };
        assert_eq!(decoded(&packed, Inner::Lz4).unwrap(), plain);
        assert_eq!(decoded(&plainly, Inner::Nothing(64)).unwrap(), plain);
        for end in 0..packed.len() {
            assert!(decoded(&packed[..end], Inner::Lz4).is_err(), "{end}");
        }
        for (at, value) in [(0, 1), (11, 4), (8, 255)] {
            let mut wrong = packed.clone();
            wrong[at] = value;
            assert!(decoded(&wrong, Inner::Lz4).is_err());
        }
        assert!(decoded(&packed, Inner::Zstd).is_err());
    }
}
