//! One interval of a gzip file decoded by itself, with libdeflate, which knows only whole streams
//! from their first bit.
//!
//! So the interval is dressed as a whole stream: before it a stored block that holds the window,
//! then blocks without content whose length in bits makes the first real bit fall on its place in a
//! byte; after it a last empty block.
use std::ffi::c_void;
use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_decompressor, libdeflate_deflate_decompress_ex,
    libdeflate_free_decompressor, libdeflate_result_LIBDEFLATE_SUCCESS,
};
use libdeflater::crc32;

use crate::error::{Fault, corrupt};
use crate::gzip::points::{Kind, MAGIC, Point, TRAILER, WINDOW, header_nbytes, stored_span};
use crate::memory::reserve;

/// Bytes of a stored block before its content: 3 bits of block header, rounded up, then the length
/// twice.
const STORED_HEAD: usize = 5;
/// Room for the blocks without content.
const FILLER: usize = 24;
/// Room before the stored bytes of an interval.
pub const BEFORE: usize = STORED_HEAD + WINDOW + FILLER;
/// Room after them, for the last empty block.
pub const AFTER: usize = 8;

/// A block with dynamic codes and no content, lowest bit first. It has 97 bits, an odd number:
/// codes for the literal 0 and for the end, one bit each, none for distances, and all 19 lengths of
/// the code length code though 18 would do.
const ODD_BLOCK: (u128, u32) = (odd_block(), 97);
/// A block with fixed codes and no content: 3 bits of block header and the code of the end, which
/// is 7 zeros.
const EVEN_BLOCK: (u128, u32) = (0b010, 10);
/// The same, marked as the last block of its stream.
const LAST_BLOCK: (u128, u32) = (0b011, 10);
/// Header of a block with fixed codes.
const FIXED_HEAD: (u128, u32) = (0b010, 3);
/// The same, of the last block of its stream.
const LAST_FIXED_HEAD: (u128, u32) = (0b011, 3);
/// The fixed code of the end of a block.
const FIXED_END: (u128, u32) = (0, 7);

/// RFC 1951, section 3.2.7.
const fn odd_block() -> u128 {
    // Lengths of the codes for code lengths 18, 0 and 1, in the order 16 17 18 0 8 7 9 6 10 5 11 4
    // 12 3 13 2 14 1 15.
    // Dynamic; 257 literals and lengths, 1 distance, 4 + 15 code lengths.
    let head: u128 = 0b100 | (15 << 13);
    let lengths: u128 = (1 << (17 + 3 * 2)) | (2 << (17 + 3 * 3)) | (2 << (17 + 3 * 17));
    // Codes, highest bit first: 18 is 0, 0 is 10, 1 is 11. Then 1, 138 and 117 times 0, 1; and 0
    // for the distance.
    let coded: u128 = 0b11 | (127 << 3) | (106 << 11) | (0b11 << 18) | (0b01 << 20);
    // Of the two codes of one bit the literal's is 0 and the end's is 1.
    head | lengths | (coded << 74) | (1 << 96)
}

/// Bits, lowest first.
#[derive(Default)]
struct Bits {
    bytes: [u8; FILLER],
    length: usize,
}

impl Bits {
    fn push(&mut self, (value, length): (u128, u32)) {
        for index in 0..length {
            let bit = (value >> index & 1) as u8;
            self.bytes[self.length / 8] |= bit << (self.length % 8);
            self.length += 1;
        }
    }
}

/// Blocks without content, and the header of the block that goes on if one has begun; ends `shift`
/// bits into a byte.
fn filler(kind: Kind, shift: u64) -> Bits {
    let head = if kind.is_fixed() { FIXED_HEAD.1 } else { 0 };
    let wanted = (shift as u32 + 8 - head) % 8;
    let mut bits = Bits::default();
    if wanted % 2 == 1 {
        bits.push(ODD_BLOCK);
    }
    while bits.length as u32 % 8 != wanted {
        bits.push(EVEN_BLOCK);
    }
    match kind {
        Kind::Fixed => bits.push(FIXED_HEAD),
        Kind::LastFixed => bits.push(LAST_FIXED_HEAD),
        Kind::Member | Kind::Block => {}
    }
    bits
}

/// Put bits behind the first `bit` bits of a buffer that reaches far enough; how many bytes they
/// end in.
fn append(buffer: &mut [u8], bit: usize, bits: &Bits) -> usize {
    let (first, shift) = (bit / 8, bit % 8);
    buffer[first] &= (1u8 << shift) - 1;
    buffer[first + 1..].iter_mut().take(AFTER).for_each(|byte| *byte = 0);
    for index in 0..bits.length {
        let value = bits.bytes[index / 8] >> (index % 8) & 1;
        buffer[(bit + index) / 8] |= value << ((bit + index) % 8);
    }
    (bit + bits.length).div_ceil(8)
}

/// libdeflate's decoder.
pub struct Inflater(NonNull<libdeflate_decompressor>);

// SAFETY: a decoder owns its memory and has no ties to a thread.
unsafe impl Send for Inflater {}

impl Default for Inflater {
    fn default() -> Self {
        // SAFETY: no arguments; a null pointer, for lack of a few KiB of memory, is a panic.
        Self(
            NonNull::new(unsafe { libdeflate_alloc_decompressor() })
                .expect("no memory for a decoder"),
        )
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: the pointer is the one that was allocated, and nobody uses it any more.
        unsafe { libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

impl Inflater {
    /// Decode one deflate stream into a room that is large enough for it: bytes taken and bytes
    /// made.
    pub fn inflate(&mut self, input: &[u8], room: &mut [u8]) -> Result<(usize, usize), Fault> {
        let (mut taken, mut made) = (0, 0);
        // SAFETY: the pointers and lengths are those of two live slices, the decoder is this one's
        // own.
        let code = unsafe {
            libdeflate_deflate_decompress_ex(
                self.0.as_ptr(),
                input.as_ptr().cast::<c_void>(),
                input.len(),
                room.as_mut_ptr().cast::<c_void>(),
                room.len(),
                &raw mut taken,
                &raw mut made,
            )
        };
        if code == libdeflate_result_LIBDEFLATE_SUCCESS {
            Ok((taken, made))
        } else {
            corrupt("is corrupt")
        }
    }

    /// Decode the interval between two points to `plain`; the plain bytes are those behind the
    /// window in it.
    ///
    /// `buffer` is `BEFORE` bytes of room, the stored bytes of the interval, and `AFTER` bytes of
    /// room.
    pub fn interval<'a>(
        &mut self,
        first: &Point,
        next: &Point,
        window: &[u8],
        buffer: &mut [u8],
        plain: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], Fault> {
        let (_, stored) = stored_span(first, next);
        let wanted = window.len() + (next.plain - first.plain) as usize;
        let room = reserve(plain, wanted)?;
        let mut at = BEFORE;
        let mut made = 0;
        if first.kind != Kind::Member {
            at = dress(first, window, buffer);
        }
        let end = BEFORE
            + if next.kind == Kind::Member {
                stored
            } else {
                undress(first, next, &mut buffer[BEFORE..])
            };
        if first.kind != Kind::Member {
            (at, made) = self.stream(buffer, at, end, room, made)?;
            at += TRAILER;
        }
        while made < wanted {
            let Some(rest) = buffer.get(at..end) else {
                return corrupt("is corrupt: it ends too early");
            };
            at += rest.iter().take_while(|&&byte| byte == 0).count();
            let member = &buffer[at..end];
            match header_nbytes(member)? {
                Some(nbytes) if member.starts_with(&MAGIC) => at += nbytes,
                _ => return corrupt("is corrupt: it ends too early"),
            }
            (at, made) = self.stream(buffer, at, end, room, made)?;
            at += TRAILER;
        }
        let plain = &room[window.len()..];
        if crc32(plain) == first.crc {
            Ok(plain)
        } else {
            corrupt("is corrupt: its checksum does not match")
        }
    }

    fn stream(
        &mut self,
        buffer: &[u8],
        at: usize,
        end: usize,
        room: &mut [u8],
        made: usize,
    ) -> Result<(usize, usize), Fault> {
        let (taken, count) = self.inflate(&buffer[at..end], &mut room[made..])?;
        Ok((at + taken, made + count))
    }
}

/// Put window and filler before the stored bytes: where they begin.
fn dress(first: &Point, window: &[u8], buffer: &mut [u8]) -> usize {
    let bits = filler(first.kind, first.bit % 8);
    let whole = bits.length / 8;
    let head = BEFORE - whole - window.len() - STORED_HEAD;
    let length = window.len() as u16;
    buffer[head] = 0;
    buffer[head + 1..head + 3].copy_from_slice(&length.to_le_bytes());
    buffer[head + 3..head + 5].copy_from_slice(&(!length).to_le_bytes());
    buffer[head + 5..BEFORE - whole].copy_from_slice(window);
    buffer[BEFORE - whole..BEFORE].copy_from_slice(&bits.bytes[..whole]);
    if !bits.length.is_multiple_of(8) {
        buffer[BEFORE] = buffer[BEFORE] & !((1 << (bits.length % 8)) - 1) | bits.bytes[whole];
    }
    head
}

/// End the stored bytes of an interval like a whole stream: how many bytes they are then.
fn undress(first: &Point, next: &Point, stored: &mut [u8]) -> usize {
    let mut bits = Bits::default();
    if next.kind.is_fixed() {
        bits.push(FIXED_END);
    }
    bits.push(LAST_BLOCK);
    append(stored, (next.bit - first.bit / 8 * 8) as usize, &bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fillers_are_blocks_without_content() {
        let mut inflater = Inflater::default();
        for shift in 0..8 {
            let bits = filler(Kind::Block, shift);
            assert_eq!(bits.length as u64 % 8, shift);
            let mut stream = vec![0; FILLER + AFTER];
            stream[..FILLER].copy_from_slice(&bits.bytes);
            let mut last = Bits::default();
            last.push(LAST_BLOCK);
            let end = append(&mut stream, bits.length, &last);
            assert_eq!(inflater.inflate(&stream[..end], &mut []), Ok((end, 0)), "{shift}");
            let fixed = filler(Kind::Fixed, shift);
            assert_eq!(fixed.length as u64 % 8, shift);
            let mut ended = Bits::default();
            ended.push(FIXED_END);
            ended.push(LAST_BLOCK);
            let mut stream = vec![0; FILLER + AFTER];
            stream[..FILLER].copy_from_slice(&fixed.bytes);
            let end = append(&mut stream, fixed.length, &ended);
            assert_eq!(inflater.inflate(&stream[..end], &mut []), Ok((end, 0)), "{shift}");
        }
    }
}
