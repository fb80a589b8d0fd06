//! Any bytes through any chain of filters: a result of exactly the size asked for, or a fault.
#![no_main]
use arbitrary::Arbitrary;
use hyperslab_core::codec::{Codec, Scratch, decode};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Filter {
    Deflate,
    Shuffle(u8),
    Fletcher32,
    Zstd,
    Lz4,
    Lzf,
}

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    filters: [Filter; 3],
    used: u8,
    mask: u32,
    nbytes: u16,
    stored: &'a [u8],
}

fuzz_target!(|input: Input| {
    let all = input.filters.map(|filter| match filter {
        Filter::Deflate => Codec::Deflate,
        Filter::Shuffle(itemsize) => Codec::Shuffle(itemsize.into()),
        Filter::Fletcher32 => Codec::Fletcher32,
        Filter::Zstd => Codec::Zstd,
        Filter::Lz4 => Codec::Lz4,
        Filter::Lzf => Codec::Lzf,
    });
    let codecs = &all[..usize::from(input.used % 4)];
    let nbytes = usize::from(input.nbytes);
    if let Ok(plain) = decode(&mut Scratch::default(), input.stored, codecs, input.mask, nbytes) {
        assert_eq!(plain.len(), nbytes);
    }
});
