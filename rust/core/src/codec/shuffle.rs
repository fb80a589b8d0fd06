//! Bytes put apart: the first byte of every element, then the second of every, and so on
//! (`H5Zshuffle.c`).

/// Elements that are put together at a time: as many as a vector register has bytes.
pub(crate) const BLOCK: usize = 16;

/// Put the bytes of each element together again; bytes beyond the last whole element lie at the end
/// as they were. `plain` has the length of `stored`.
pub fn unshuffle(stored: &[u8], itemsize: usize, plain: &mut [u8]) {
    let elements = stored.len().checked_div(itemsize).unwrap_or(0);
    if itemsize <= 1 || elements <= 1 {
        plain.copy_from_slice(stored);
        return;
    }
    let (whole, rest) = plain.split_at_mut(elements * itemsize);
    rest.copy_from_slice(&stored[elements * itemsize..]);
    match itemsize {
        2 => fixed::<2>(stored, elements, whole),
        4 => fixed::<4>(stored, elements, whole),
        8 => fixed::<8>(stored, elements, whole),
        16 => fixed::<16>(stored, elements, whole),
        _ => any(stored, itemsize, elements, whole),
    }
}

/// Put the first bytes of all elements first, then the second ones; bytes beyond the last whole
/// element stay at the end. `stored` has the length of `plain`.
pub fn shuffle(plain: &[u8], itemsize: usize, stored: &mut [u8]) {
    let elements = plain.len().checked_div(itemsize).unwrap_or(0);
    if itemsize <= 1 || elements <= 1 {
        stored.copy_from_slice(plain);
        return;
    }
    let (whole, rest) = stored.split_at_mut(elements * itemsize);
    rest.copy_from_slice(&plain[elements * itemsize..]);
    match itemsize {
        2 => apart::<2>(plain, elements, whole),
        4 => apart::<4>(plain, elements, whole),
        8 => apart::<8>(plain, elements, whole),
        16 => apart::<16>(plain, elements, whole),
        _ => lanes_from(plain, itemsize, elements, 0, whole),
    }
}

/// Whole blocks by `unweave`, the last elements one by one.
fn apart<const N: usize>(plain: &[u8], elements: usize, whole: &mut [u8]) {
    for (number, block) in plain.chunks_exact(BLOCK * N).enumerate() {
        for (byte, piece) in unweave::<N>(block).iter().enumerate() {
            let first = byte * elements + number * BLOCK;
            whole[first..first + BLOCK].copy_from_slice(piece);
        }
    }
    lanes_from(plain, N, elements, elements / BLOCK * BLOCK, whole);
}

/// The bytes of the elements from one on, put into their lanes.
fn lanes_from(plain: &[u8], itemsize: usize, elements: usize, first: usize, whole: &mut [u8]) {
    for (byte, lane) in whole.chunks_exact_mut(elements).enumerate() {
        for (value, element) in
            lane[first..].iter_mut().zip(plain[first * itemsize..].chunks_exact(itemsize))
        {
            *value = element[byte];
        }
    }
}

/// The lanes of one block of 16 elements.
#[cfg(target_arch = "x86_64")]
fn unweave<const N: usize>(block: &[u8]) -> [[u8; BLOCK]; N] {
    use std::arch::x86_64::{
        _mm_and_si128, _mm_loadu_si128, _mm_packus_epi16, _mm_set1_epi16, _mm_setzero_si128,
        _mm_srli_epi16, _mm_storeu_si128,
    };
    assert_eq!(block.len(), BLOCK * N);
    let mut lanes = [[0; BLOCK]; N];
    // Each step takes what `weave` put together apart again: the even bytes of two neighbours, and
    // their odd bytes.
    // SAFETY: every x86-64 processor has SSE2; the block has N times 16 readable bytes, and a lane
    // 16 to be written.
    unsafe {
        let mut held = [_mm_setzero_si128(); N];
        for (piece, vector) in held.iter_mut().enumerate() {
            *vector = _mm_loadu_si128(block.as_ptr().add(piece * BLOCK).cast());
        }
        let even = _mm_set1_epi16(0xff);
        for _ in 0..N.ilog2() {
            let woven = held;
            for lane in 0..N / 2 {
                let (low, high) = (woven[2 * lane], woven[2 * lane + 1]);
                held[lane] = _mm_packus_epi16(_mm_and_si128(low, even), _mm_and_si128(high, even));
                held[lane + N / 2] =
                    _mm_packus_epi16(_mm_srli_epi16::<8>(low), _mm_srli_epi16::<8>(high));
            }
        }
        for (lane, vector) in lanes.iter_mut().zip(held) {
            _mm_storeu_si128(lane.as_mut_ptr().cast(), vector);
        }
    }
    lanes
}

/// The lanes of one block of 16 elements.
#[cfg(not(target_arch = "x86_64"))]
fn unweave<const N: usize>(block: &[u8]) -> [[u8; BLOCK]; N] {
    std::array::from_fn(|byte| std::array::from_fn(|index| block[index * N + byte]))
}

fn fixed<const N: usize>(stored: &[u8], elements: usize, plain: &mut [u8]) {
    let lanes: [&[u8]; N] =
        std::array::from_fn(|byte| &stored[byte * elements..(byte + 1) * elements]);
    let (blocks, rest) = plain.split_at_mut(elements / BLOCK * BLOCK * N);
    for (number, block) in blocks.chunks_exact_mut(BLOCK * N).enumerate() {
        let first = number * BLOCK;
        weave(lanes.map(|lane| lane[first..].first_chunk().expect("a whole block is left")), block);
    }
    for (element, index) in rest.chunks_exact_mut(N).zip(elements / BLOCK * BLOCK..) {
        for byte in 0..N {
            element[byte] = lanes[byte][index];
        }
    }
}

/// One block: the bytes of 16 elements, lane by lane, put together.
#[cfg(target_arch = "x86_64")]
pub(crate) fn weave<const N: usize>(lanes: [&[u8; BLOCK]; N], block: &mut [u8]) {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpacklo_epi8,
    };
    assert_eq!(block.len(), BLOCK * N);
    // Interleaving the first half of the lanes with the second, byte by byte, log2(N) times, makes
    // elements of them.
    // SAFETY: every x86-64 processor has SSE2; a lane is 16 readable bytes, and the block has N
    // times 16.
    unsafe {
        let mut woven = lanes.map(|lane| _mm_loadu_si128(lane.as_ptr().cast()));
        for _ in 0..N.ilog2() {
            let halves = woven;
            for lane in 0..N / 2 {
                woven[2 * lane] = _mm_unpacklo_epi8(halves[lane], halves[lane + N / 2]);
                woven[2 * lane + 1] = _mm_unpackhi_epi8(halves[lane], halves[lane + N / 2]);
            }
        }
        for (lane, piece) in woven.into_iter().enumerate() {
            _mm_storeu_si128(block.as_mut_ptr().add(lane * BLOCK).cast(), piece);
        }
    }
}

/// One block: the bytes of 16 elements, lane by lane, put together.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn weave<const N: usize>(lanes: [&[u8; BLOCK]; N], block: &mut [u8]) {
    for (index, element) in block.chunks_exact_mut(N).enumerate() {
        for byte in 0..N {
            element[byte] = lanes[byte][index];
        }
    }
}

fn any(stored: &[u8], itemsize: usize, elements: usize, plain: &mut [u8]) {
    for (byte, lane) in stored.chunks_exact(elements).take(itemsize).enumerate() {
        for (element, value) in plain.chunks_exact_mut(itemsize).zip(lane) {
            element[byte] = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_size_and_rest() {
        for itemsize in [1, 2, 3, 4, 5, 8, 12, 16, 20] {
            for length in [0, 1, 3, 16, 33, 4099, 40_000] {
                let plain: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
                let elements = length / itemsize;
                let mut stored = Vec::new();
                if itemsize > 1 && elements > 1 {
                    for byte in 0..itemsize {
                        stored.extend((0..elements).map(|e| plain[e * itemsize + byte]));
                    }
                }
                stored.extend(&plain[stored.len()..]);
                let mut found = vec![0; length];
                unshuffle(&stored, itemsize, &mut found);
                assert_eq!(found, plain, "{itemsize} {length}");
                shuffle(&plain, itemsize, &mut found);
                assert_eq!(found, stored, "{itemsize} {length}");
            }
        }
    }
}
