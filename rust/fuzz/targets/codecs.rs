//! Any bytes through any chain of filters: a result of exactly the size asked for, or a fault.
#![no_main]
use arbitrary::Arbitrary;
use hyperslab_core::codec::bitshuffle::Inner;
use hyperslab_core::codec::chain::{Codec, Scratch, decode};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Filter {
    Deflate,
    Shuffle(u8),
    Fletcher32,
    Zstd,
    Lz4,
    Lzf,
    Blosc,
    Bitshuffle(u8, u8, u8),
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    filters: [Filter; 3],
    used: u8,
    mask: u32,
    nbytes: u16,
    framed: Option<(u8, u8, u16, u16)>,
    stored: &'a [u8],
}

/// Bytes behind a header of Blosc that makes sense, so that what is in its blocks is looked at.
fn framed((flags, itemsize, nbytes, block): (u8, u8, u16, u16), data: &[u8]) -> Vec<u8> {
    let block = i32::from(block.clamp(1, nbytes.max(1)));
    let blocks = (i32::from(nbytes) + block - 1) / block;
    let (first, length) = (16 + 4 * blocks, data.len() as i32);
    let mut stored = vec![2, 1, flags, itemsize];
    let starts = (0..blocks).map(|number| first + number * (length / blocks));
    for number in [i32::from(nbytes), block, first + length].into_iter().chain(starts) {
        stored.extend(number.to_le_bytes());
    }
    stored.extend(data);
    stored
}

fuzz_target!(|input: Input| {
    let all = input.filters.map(|filter| match filter {
        Filter::Deflate => Codec::Deflate,
        Filter::Shuffle(itemsize) => Codec::Shuffle(itemsize.into()),
        Filter::Fletcher32 => Codec::Fletcher32,
        Filter::Zstd => Codec::Zstd,
        Filter::Lz4 => Codec::Lz4,
        Filter::Lzf => Codec::Lzf,
        Filter::Blosc => Codec::Blosc,
        Filter::Bitshuffle(itemsize, inner, block) => Codec::Bitshuffle(
            itemsize.into(),
            match inner % 3 {
                0 => Inner::Nothing(block.into()),
                1 => Inner::Lz4,
                _ => Inner::Zstd,
            },
        ),
    });
    let codecs = &all[..usize::from(input.used % 4)];
    let nbytes = usize::from(input.nbytes);
    let stored = input.framed.map_or(input.stored.to_vec(), |head| framed(head, input.stored));
    if let Ok(plain) = decode(&mut Scratch::default(), &stored, codecs, input.mask, nbytes) {
        assert_eq!(plain.len(), nbytes);
    }
});
