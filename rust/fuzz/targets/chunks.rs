//! Any chunk table and region over any buffers: nothing outside the block is written, whatever the
//! table says.
#![no_main]
use arbitrary::Arbitrary;
use hyperslab_core::boxes::region::Region;
use hyperslab_core::boxes::target::Target;
use hyperslab_core::chunks::read::{Bytes, Chunks, read};
use hyperslab_core::codec::chain::Codec;
use hyperslab_core::io::pool::Width;
use libfuzzer_sys::fuzz_target;

const GUARD: usize = 64;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    rows: Vec<(i64, i64, u32, [i64; 2])>,
    shape: [i64; 2],
    start: [u32; 2],
    count: [u8; 2],
    stride: [u8; 2],
    itemsize: u8,
    is_shuffled: bool,
    is_fortran: bool,
    stored: &'a [u8],
}

fuzz_target!(|input: Input| {
    let itemsize = usize::from(input.itemsize % 16) + 1;
    let count = input.count.map(|n| usize::from(n % 16) + 1);
    let region = Region {
        start: input.start.map(i64::from).to_vec(),
        count: count.map(|n| n as i64).to_vec(),
        stride: input.stride.map(|s| i64::from(s % 5) + 1).to_vec(),
    };
    let nbytes = count[0] * count[1] * itemsize;
    let mut memory = vec![0xA5u8; nbytes + 2 * GUARD];
    let (one, other) =
        (itemsize as isize, (itemsize * count[usize::from(!input.is_fortran)]) as isize);
    let strides = if input.is_fortran { vec![one, other] } else { vec![other, one] };
    // SAFETY: the strides are those of an array of `count` in the memory between the guards.
    let target = unsafe { Target::new(memory.as_mut_ptr().add(GUARD), strides, itemsize) };
    let offset: Vec<i64> = input.rows.iter().map(|row| row.0).collect();
    let length = input.stored.len() as i64;
    let stored = |row: &(i64, i64, u32, [i64; 2])| if row.1 % 3 == 0 { row.1 } else { length };
    let sizes: Vec<i64> = input.rows.iter().map(stored).collect();
    let mask: Vec<i64> = input.rows.iter().map(|row| row.2.into()).collect();
    let start: Vec<i64> = input.rows.iter().flat_map(|row| row.3).collect();
    let codecs = if input.is_shuffled { vec![Codec::Shuffle(itemsize)] } else { vec![] };
    let shape = input.shape.map(|n| if n % 2 == 0 { n } else { n % 40 });
    let buffers = vec![input.stored; input.rows.len()];
    let chunks = Chunks {
        offset: &offset,
        nbytes: &sizes,
        mask: &mask,
        start: &start,
        shape: &shape,
        codecs: &codecs,
    };
    let width = Width { threads: 1, depth: 1 };
    let _ = read(&chunks, &Bytes::Buffers(&buffers), &region, &target, width, &mut || true);
    assert!(memory[..GUARD].iter().chain(&memory[GUARD + nbytes..]).all(|&byte| byte == 0xA5));
});
