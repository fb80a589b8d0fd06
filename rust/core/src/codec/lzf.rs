//! LZF (liblzf's format): runs of literals and copies of what was written before.
use crate::codec::repeat::{literals, repeat};
use crate::error::{Fault, corrupt};

/// Decode into `plain`, of which the bytes written are returned as a count.
pub fn decode(stored: &[u8], plain: &mut [u8]) -> Result<usize, Fault> {
    let (mut from, mut to) = (0, 0);
    while let Some(&control) = stored.get(from) {
        from += 1;
        let control = usize::from(control);
        if control < 32 {
            let count = control + 1;
            if !literals(stored, from, plain, to, count) {
                return corrupt("its lzf data end too early or are too long");
            }
            (from, to) = (from + count, to + count);
            continue;
        }
        let mut count = control >> 5;
        if count == 7 {
            count += usize::from(byte(stored, &mut from)?);
        }
        count += 2;
        let back = ((control & 31) << 8 | usize::from(byte(stored, &mut from)?)) + 1;
        if !repeat(plain, to, back, count) {
            return corrupt(
                "its lzf data are corrupt (a copy from before the start or beyond the end)",
            );
        }
        to += count;
    }
    Ok(to)
}

fn byte(stored: &[u8], at: &mut usize) -> Result<u8, Fault> {
    let Some(&value) = stored.get(*at) else { return corrupt("its lzf data end too early") };
    *at += 1;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_copies_and_long_copies() {
        let mut plain = [0; 64];
        // "abc", then 3 bytes from 3 back, then 7 + 2 + 5 bytes from 1 back.
        let stored = [2, b'a', b'b', b'c', 1 << 5, 2, 7 << 5, 5, 0];
        let count = decode(&stored, &mut plain).unwrap();
        assert_eq!(&plain[..count], b"abcabccccccccccccccc".as_slice());
    }

    #[test]
    fn nonsense_is_corrupt() {
        let mut plain = [0; 8];
        for stored in
            [&[5, 1, 2][..], &[32], &[32, 9], &[7 << 5], &[2, 1, 1, 1, 7 << 5, 200, 0], &[8; 10]]
        {
            assert!(decode(stored, &mut plain).is_err(), "{stored:?}");
        }
    }
}
