//! What a frame says of itself: its addresses, and how many packets and bytes it is on a wire.
//!
//! In front of a frame from a device that hands over super-packets is a header (`struct
//! virtio_net_hdr` of Linux, 10 bytes in the order of the machine): flags, kind of segmentation,
//! bytes in front, bytes of a segment, where the checksum begins, where in it the sum is.

use serde::{Deserialize, Serialize};

/// How frames are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Super-packets of up to 64 KiB, each with a header in front.
    Gso,
    /// Every packet as it would be on a wire.
    Exact,
}

/// Address of a station.
pub type Address = [u8; 6];

/// Bytes of the header in front of a frame, in mode `gso`.
pub const HEADER: usize = 10;
/// Bytes of the largest frame that is taken, with its header: 64 KiB of IP, and what is around it.
pub const LARGEST: usize = HEADER + (1 << 16) + 64;
/// Bytes of two addresses and a type.
const SHORTEST: usize = 14;

const NEEDS_CHECKSUM: u8 = 1;
/// Where the length of a TCP header is in it, in units of four bytes, in the upper half of a byte.
const TCP_LENGTH_AT: usize = 12;

/// What a switch has to know of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outline {
    /// Station that it is for.
    pub destination: Address,
    /// Station that has sent it.
    pub source: Address,
    /// Packets that it is on a wire.
    pub packets: u64,
    /// Bytes of these packets.
    pub nbytes: u64,
}

/// What a frame says of itself; nothing if it is none.
pub fn outline(data: &[u8], mode: Mode) -> Option<Outline> {
    let (header, frame) = match mode {
        Mode::Exact => (None, data),
        Mode::Gso => {
            data.split_first_chunk::<HEADER>().map(|(header, rest)| (Some(header), rest))?
        }
    };
    if frame.len() < SHORTEST || data.len() >= LARGEST {
        return None;
    }
    let (packets, nbytes) = match header {
        Some(header) => on_the_wire(header, frame),
        None => (1, frame.len() as u64),
    };
    let destination = frame[..6].try_into().ok()?;
    let source = frame[6..12].try_into().ok()?;
    Some(Outline { destination, source, packets, nbytes })
}

/// Packets and bytes that a super-packet becomes: each segment repeats what is in front of the first.
fn on_the_wire(header: &[u8; HEADER], frame: &[u8]) -> (u64, u64) {
    let number = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    let whole = frame.len() as u64;
    let segment = number(4) as u64;
    let is_super = header[1] != 0 && segment > 0 && header[0] & NEEDS_CHECKSUM != 0;
    let transport = number(6);
    let length = frame.get(transport + TCP_LENGTH_AT);
    let Some(length) = length.filter(|_| is_super) else { return (1, whole) };
    let front = (transport + usize::from(length >> 4) * 4) as u64;
    let Some(payload) = whole.checked_sub(front) else { return (1, whole) };
    let packets = payload.div_ceil(segment).max(1);
    (packets, whole + (packets - 1) * front)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A frame without a header in front.
    pub fn frame(destination: Address, source: Address, nbytes: usize) -> Vec<u8> {
        let mut data = vec![0; nbytes];
        data[..6].copy_from_slice(&destination);
        data[6..12].copy_from_slice(&source);
        data
    }

    fn super_packet(payload: usize, segment: u16) -> Vec<u8> {
        let transport: u16 = 14 + 20;
        let mut data = vec![NEEDS_CHECKSUM, 1];
        for number in [66, segment, transport, 16] {
            data.extend(number.to_ne_bytes());
        }
        let mut rest = frame([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], 66 + payload);
        rest[usize::from(transport) + TCP_LENGTH_AT] = 8 << 4; // 32 bytes with the time stamps
        data.extend(rest);
        data
    }

    #[test]
    fn a_packet_is_what_it_is() {
        let data = frame([1; 6], [2; 6], 60);
        let expected = Outline { destination: [1; 6], source: [2; 6], packets: 1, nbytes: 60 };
        assert_eq!(outline(&data, Mode::Exact), Some(expected));
    }

    #[test]
    fn a_super_packet_is_as_long_as_its_segments() {
        let seen = outline(&super_packet(14_480, 1_448), Mode::Gso).unwrap();
        assert_eq!((seen.packets, seen.nbytes), (10, 10 * 1_514));
        assert_eq!(seen.source, [2, 0, 0, 0, 0, 2]);
        let seen = outline(&super_packet(14_481, 1_448), Mode::Gso).unwrap();
        assert_eq!((seen.packets, seen.nbytes), (11, 10 * 1_514 + 67));
    }

    #[test]
    fn a_packet_behind_an_empty_header_is_one() {
        let data = [vec![0; HEADER], frame([1; 6], [2; 6], 60)].concat();
        let seen = outline(&data, Mode::Gso).unwrap();
        assert_eq!((seen.packets, seen.nbytes, seen.source), (1, 60, [2; 6]));
    }

    #[test]
    fn what_is_too_short_or_cut_off_is_no_frame() {
        for nbytes in 0..SHORTEST {
            assert_eq!(outline(&vec![1; nbytes], Mode::Exact), None);
            assert_eq!(outline(&vec![1; nbytes + HEADER], Mode::Gso), None);
            assert_eq!(outline(&vec![1; nbytes.min(HEADER - 1)], Mode::Gso), None);
        }
        assert_eq!(outline(&vec![0; LARGEST], Mode::Exact), None);
        assert_eq!(outline(&vec![0; LARGEST], Mode::Gso), None);
    }

    #[test]
    fn headers_that_lie_do_no_harm() {
        let mut chance = fastrand::Rng::with_seed(1);
        for _ in 0..10_000 {
            let mut data = super_packet(chance.usize(..3_000), chance.u16(..));
            for _ in 0..chance.usize(..40) {
                let at = chance.usize(..data.len().min(80));
                data[at] = chance.u8(..);
            }
            data.truncate(chance.usize(..=data.len()));
            if let Some(seen) = outline(&data, Mode::Gso) {
                let frame = (data.len() - HEADER) as u64;
                assert!(seen.packets >= 1 && seen.packets <= frame.max(1));
                assert!(seen.nbytes >= frame && seen.nbytes <= frame + seen.packets * (1 << 17));
            }
        }
    }
}
