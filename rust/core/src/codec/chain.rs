//! Undoing the filters of a chunk, in reverse order, within a known size.
use zstd::zstd_safe::get_frame_content_size;

use crate::codec::streams::{inflate, unzstd};
use crate::codec::{bitshuffle, blosc, fletcher, lz4, lzf, shuffle};
use crate::error::{Fault, corrupt};
use crate::memory::reserve;

/// One filter, and what undoing it needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// zlib stream (RFC 1950).
    Deflate,
    /// The first byte of every element, then the second of every ...; bytes of an element.
    Shuffle(usize),
    /// A checksum of four bytes at the end.
    Fletcher32,
    /// Zstandard frame (RFC 8878).
    Zstd,
    /// LZ4 blocks in a frame.
    Lz4,
    /// LZF as `PyTables` and h5py write it.
    Lzf,
    /// Blosc 1 with any codec inside but Snappy.
    Blosc,
    /// The first bit of every element, then the second of every ...; bytes of an element, and what
    /// packs them.
    Bitshuffle(usize, bitshuffle::Inner),
}

/// A stream that a filter could not shrink is a little longer than what went in.
const OVERHEAD: usize = 1024;
/// zlib's format cannot shrink further than this (zlib technical details: 1032:1).
const LARGEST_DEFLATE_RATIO: usize = 1032;

/// The buffers that a chunk is decoded in, kept from chunk to chunk. They only grow.
#[derive(Default)]
pub struct Scratch([Vec<u8>; 2]);

/// Decode a chunk to exactly `nbytes`; filters whose bit is set in `mask` were skipped in writing.
/// No more than a little over `nbytes` is ever written, whatever the stream claims.
pub fn decode<'a>(
    scratch: &'a mut Scratch,
    stored: &'a [u8],
    codecs: &[Codec],
    mask: u32,
    nbytes: usize,
) -> Result<&'a [u8], Fault> {
    let Scratch([one, two]) = scratch;
    let limit = nbytes.saturating_add(nbytes / 1000 + OVERHEAD);
    // What is decoded next: the stored bytes at first, then so many of buffer `one`, with `two`
    // free to decode into.
    let (mut source, mut target, mut length) = (one, two, None);
    for (index, codec) in codecs.iter().enumerate().rev() {
        if index < 32 && mask & (1 << index) != 0 {
            continue;
        }
        let data = length.map_or(stored, |length| &source[..length]);
        length = Some(undo(*codec, data, target, limit)?);
        (source, target) = (target, source);
    }
    let plain = length.map_or(stored, |length| &source[..length]);
    if plain.len() == nbytes {
        Ok(plain)
    } else {
        corrupt(format!("decodes to {} bytes instead of {nbytes}", plain.len()))
    }
}

/// Undo one filter into a buffer; how many bytes came out.
fn undo(codec: Codec, stored: &[u8], buffer: &mut Vec<u8>, limit: usize) -> Result<usize, Fault> {
    match codec {
        Codec::Deflate => inflate(
            stored,
            reserve(buffer, limit.min(stored.len().saturating_mul(LARGEST_DEFLATE_RATIO)))?,
        ),
        Codec::Shuffle(itemsize) => {
            shuffle::unshuffle(stored, itemsize, reserve(buffer, stored.len())?);
            Ok(stored.len())
        }
        Codec::Zstd => unpack_zstd(stored, buffer, limit),
        Codec::Lz4 => lz4::decode(stored, reserve(buffer, limit)?),
        Codec::Lzf => lzf::decode(stored, reserve(buffer, limit)?),
        Codec::Blosc => blosc::decode(stored, buffer, limit),
        Codec::Bitshuffle(itemsize, inner) => {
            bitshuffle::decode(stored, itemsize, inner, buffer, limit)
        }
        Codec::Fletcher32 => {
            let data = fletcher::verified(stored)?;
            reserve(buffer, data.len())?.copy_from_slice(data);
            Ok(data.len())
        }
    }
}

fn unpack_zstd(stored: &[u8], buffer: &mut Vec<u8>, limit: usize) -> Result<usize, Fault> {
    let claimed = get_frame_content_size(stored).ok().flatten();
    if claimed.is_some_and(|size| size > limit as u64) {
        return corrupt(format!("its zstd data claim {} bytes", claimed.unwrap_or(0)));
    }
    unzstd(stored, reserve(buffer, claimed.map_or(limit, |size| size as usize))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(
        stored: &[u8],
        codecs: &[Codec],
        mask: u32,
        nbytes: usize,
    ) -> Result<Vec<u8>, Fault> {
        decode(&mut Scratch::default(), stored, codecs, mask, nbytes).map(<[u8]>::to_vec)
    }

    fn deflated(plain: &[u8]) -> Vec<u8> {
        let mut pack = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut stored = vec![0; pack.zlib_compress_bound(plain.len())];
        let count = pack.zlib_compress(plain, &mut stored).unwrap();
        stored.truncate(count);
        stored
    }

    #[test]
    fn chains_and_masks() {
        let plain: Vec<u8> = (0..3000u32).map(|i| (i / 3) as u8).collect();
        let twice = deflated(&deflated(&plain));
        assert_eq!(decoded(&twice, &[Codec::Deflate, Codec::Deflate], 0, 3000).unwrap(), plain);
        assert_eq!(decoded(&plain, &[Codec::Deflate, Codec::Shuffle(4)], 3, 3000).unwrap(), plain);
        let mut stored = deflated(&plain);
        stored.extend(fletcher::checksum(&stored).to_le_bytes());
        let codecs = [Codec::Shuffle(1), Codec::Deflate, Codec::Fletcher32];
        assert_eq!(decoded(&stored, &codecs, 0, 3000).unwrap(), plain);
        assert!(
            decoded(&stored, &codecs, 4, 3000).is_ok(),
            "what follows a zlib stream is not looked at"
        );
    }

    #[test]
    fn bombs_and_lies_are_bounded() {
        let bomb = deflated(&vec![0; 10_000_000]);
        let refused = decoded(&bomb, &[Codec::Deflate], 0, 1000);
        assert!(matches!(refused, Err(Fault::Corrupt(why)) if why.contains("too long")));
        assert!(matches!(
            decoded(&[1, 2, 3], &[Codec::Deflate], 0, usize::MAX / 2),
            Err(Fault::Corrupt(_))
        ));
        assert!(matches!(
            decoded(&[1, 2, 3], &[Codec::Zstd], 0, usize::MAX / 2),
            Err(Fault::Memory(_))
        ));
        assert!(matches!(decoded(&bomb, &[], 0, 1000), Err(Fault::Corrupt(_))));
        let packed = Codec::Bitshuffle(4, bitshuffle::Inner::Zstd);
        for codec in [
            Codec::Deflate,
            Codec::Zstd,
            Codec::Lz4,
            Codec::Lzf,
            Codec::Fletcher32,
            Codec::Blosc,
            packed,
        ] {
            for stored in
                [&b""[..], b"x", b"nonsense that is no stream of anything", &[0xff; 100], &[0; 100]]
            {
                assert!(decoded(stored, &[codec], 0, 1000).is_err(), "{codec:?} {stored:?}");
            }
        }
    }
}
