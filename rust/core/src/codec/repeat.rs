//! The two moves of LZ77's descendants: literals, and copies of what was written before.

/// Bytes that are copied at once, if there is room for them: what is written too much is written
/// over later.
const WIDE: usize = 32;
/// As above, of a copy from so many bytes back or more.
const NARROW: usize = 16;

/// Copy literals from one place to another; false, with nothing done, where either has not so many
/// bytes.
#[inline]
pub fn literals(stored: &[u8], from: usize, plain: &mut [u8], to: usize, count: usize) -> bool {
    let (Some(source), Some(target)) = (stored.get(from..), plain.get_mut(to..)) else {
        return false;
    };
    if let (Some(source), Some(target), true) =
        (source.first_chunk::<WIDE>(), target.first_chunk_mut::<WIDE>(), count <= WIDE)
    {
        *target = *source;
        return true;
    }
    let (Some(source), Some(target)) = (source.get(..count), target.get_mut(..count)) else {
        return false;
    };
    target.copy_from_slice(source);
    true
}

/// Write `count` bytes at `to`, each the one `back` (at least 1) before it; false, with nothing
/// done, where that is before the start or there is no room.
#[inline]
pub fn repeat(plain: &mut [u8], to: usize, back: usize, count: usize) -> bool {
    if back > to || plain.len() < to || count > plain.len() - to {
        return false;
    }
    let from = to - back;
    if back >= NARROW && count <= NARROW && plain.len() - to >= NARROW {
        let source: [u8; NARROW] =
            *plain[from..].first_chunk().expect("it ends before what is written");
        *plain[to..].first_chunk_mut().expect("there is room") = source;
    } else if back == 1 {
        let value = plain[from];
        plain[to..to + count].fill(value);
    } else {
        // What has been written repeats itself: every piece can be twice as long as the one before.
        let (mut done, mut known) = (0, back);
        while done < count {
            let piece = known.min(count - done);
            plain.copy_within(from..from + piece, to + done);
            done += piece;
            known += piece;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_those_of_a_byte_by_byte_one() {
        for back in [1, 2, 3, 7, 15, 16, 17, 40] {
            for count in [0, 1, 3, 15, 16, 17, 31, 33, 100, 159] {
                let mut plain: Vec<u8> = (0..200).collect();
                let mut expected = plain.clone();
                for index in 41..41 + count {
                    expected[index] = expected[index - back];
                }
                assert!(repeat(&mut plain, 41, back, count));
                assert_eq!(plain[..41 + count], expected[..41 + count], "{back} {count}");
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_not_done() {
        let mut plain = [1; 50];
        assert!(!repeat(&mut plain, 4, 5, 1));
        assert!(!repeat(&mut plain, 40, 1, 11));
        assert!(!repeat(&mut plain, 60, 1, 1));
        assert!(!literals(&[2; 9], 3, &mut plain, 0, 7));
        assert!(!literals(&[2; 90], 3, &mut plain, 45, 6));
        assert!(!literals(&[2; 90], 95, &mut plain, 0, 1));
        assert_eq!(plain, [1; 50]);
        assert!(literals(&[2; 90], 80, &mut plain, 0, 10));
        assert!(literals(&[2; 90], 0, &mut plain, 48, 2));
        assert_eq!(plain[..11], [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    }
}
