//! Fletcher's checksum at the end of a chunk.
use crate::error::{Fault, corrupt};

/// 16-bit words after which the sums have to be folded, or they would overflow.
const WORDS: usize = 360;

/// Fletcher's checksum over big-endian 16-bit words, as `H5_checksum_fletcher32` of libhdf5 defines
/// it.
pub fn checksum(data: &[u8]) -> u32 {
    let (mut first, mut second) = (0u32, 0u32);
    let (even, last) = data.split_at(data.len() & !1);
    for run in even.chunks(2 * WORDS) {
        for word in run.chunks_exact(2) {
            first += u32::from(u16::from_be_bytes([word[0], word[1]]));
            second += first;
        }
        (first, second) = (fold(first), fold(second));
    }
    if let [byte] = last {
        first += u32::from(*byte) << 8;
        second += first;
        (first, second) = (fold(first), fold(second));
    }
    (fold(second) << 16) | fold(first)
}

/// The chunk without its checksum, if that is right.
pub fn verified(stored: &[u8]) -> Result<&[u8], Fault> {
    let Some((data, tail)) = stored.split_last_chunk::<4>() else {
        return corrupt("is too short for its fletcher32 checksum");
    };
    let (expected, found) = (checksum(data), u32::from_le_bytes(*tail));
    // HDF5 before 1.6.3 wrote, on little-endian machines, the bytes of both halves in reverse
    // (H5Zfletcher32.c).
    let reversed = ((expected & 0x00ff_00ff) << 8) | ((expected & 0xff00_ff00) >> 8);
    if found == expected || found == reversed {
        return Ok(data);
    }
    corrupt(format!(
        "does not match its fletcher32 checksum ({found:#010x} is stored, {expected:#010x} \
         computed)"
    ))
}

fn fold(sum: u32) -> u32 {
    (sum & 0xffff) + (sum >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums() {
        assert_eq!(checksum(b""), 0);
        // Words 0x6162, 0x6364 and 0x6500.
        let words = [0x6162u32, 0x6364, 0x6500];
        let (a, b) =
            words.iter().fold((0u32, 0u32), |(a, b), w| ((a + w) % 65535, (b + a + w) % 65535));
        assert_eq!(checksum(b"abcde"), (b << 16) | a);
    }

    #[test]
    fn damage_is_noticed() {
        let mut stored = b"some bytes that matter".to_vec();
        stored.extend(checksum(&stored).to_le_bytes());
        assert_eq!(verified(&stored).unwrap(), b"some bytes that matter");
        stored[3] ^= 1;
        assert!(matches!(verified(&stored), Err(Fault::Corrupt(_))));
        assert!(verified(b"abc").is_err());
    }
}
