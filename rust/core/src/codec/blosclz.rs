//! Blosc's own stream: runs of literals and copies of what was written before (`blosclz.c`, after
//! `FastLZ`).
use crate::codec::repeat::{literals, repeat};
use crate::error::{Fault, corrupt};

/// Distances that 13 bits hold; greater ones follow in 16 bits of their own.
const NEAR: usize = 8191;

/// Decode into `plain`, of which the bytes written are returned as a count.
pub fn decode(stored: &[u8], plain: &mut [u8]) -> Result<usize, Fault> {
    let (mut from, mut to) = (0, 0);
    while let Some(&control) = stored.get(from) {
        // The first byte has bits of another meaning; a stream begins with literals.
        let control = usize::from(if from == 0 { control & 31 } else { control });
        from += 1;
        if control < 32 {
            let count = control + 1;
            if !literals(stored, from, plain, to, count) {
                return corrupt("its blosclz data end too early or are too long");
            }
            (from, to) = (from + count, to + count);
            continue;
        }
        let mut count = (control >> 5) + 2;
        if count == 9 {
            loop {
                let more = byte(stored, &mut from)?;
                count += more;
                if more != 255 {
                    break;
                }
            }
        }
        let (high, low) = (control & 31, byte(stored, &mut from)?);
        let mut back = (high << 8) + low + 1;
        if (high, low) == (31, 255) {
            back = NEAR + 1 + (byte(stored, &mut from)? << 8) + byte(stored, &mut from)?;
        }
        // Blosc's own decoder leaves a copy out with which a stream ends: none does that it has
        // written.
        if from == stored.len() || !repeat(plain, to, back, count) {
            return corrupt(
                "its blosclz data are corrupt (a copy from before the start or beyond the end)",
            );
        }
        to += count;
    }
    Ok(to)
}

fn byte(stored: &[u8], at: &mut usize) -> Result<usize, Fault> {
    let Some(&value) = stored.get(*at) else { return corrupt("its blosclz data end too early") };
    *at += 1;
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_copies_and_far_copies() {
        let mut plain = vec![0; 20_000];
        // "abc" marked as Blosc marks it, 3 bytes from 3 back, 9 + 255 + 1 from 1 back, then a
        // literal.
        let stored = [32 | 2, b'a', b'b', b'c', 1 << 5, 2, 7 << 5, 255, 1, 0, 0, b'z'];
        let count = decode(&stored, &mut plain).unwrap();
        assert_eq!(&plain[..count], [b"abcabc".as_slice(), &[b'c'; 265], b"z"].concat());
        // 8192 + 258 bytes back, after 9000 bytes.
        let mut far = vec![1, 7, 9, 7 << 5];
        far.extend([255; 35]);
        far.extend([64, 0, (3 << 5) | 31, 255, 1, 2, 0, b'z']);
        let count = decode(&far, &mut plain).unwrap();
        assert_eq!(count, 2 + 9 + 35 * 255 + 64 + 5 + 1);
        assert_eq!(plain[..3], [7, 9, 9]);
        assert_eq!(plain[count - 6..count], [9, 9, 9, 9, 9, b'z']);
        for end in 1..far.len() {
            assert!(decode(&far[..end], &mut plain).map_or(true, |found| found < count));
        }
    }

    #[test]
    fn nonsense_is_corrupt() {
        let mut plain = [0; 8];
        for stored in [
            &[5, 1, 2][..],
            &[0, 1, 32],
            &[0, 1, 32, 9, 0, 0],
            &[0, 1, 7 << 5, 255],
            &[9; 40],
            &[0, 1, 32, 0],
        ] {
            assert!(decode(stored, &mut plain).is_err(), "{stored:?}");
        }
    }
}
