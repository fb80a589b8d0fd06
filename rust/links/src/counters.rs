//! What was counted.

use serde::Serialize;

use crate::clock::Nanos;
use crate::link::Failure;

/// Powers of two of a microsecond that are told apart: the last one is 8 seconds.
const POWERS: usize = 24;

/// Packets that were not carried, by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Drops {
    /// Lost as the link's settings ask for.
    pub loss: u64,
    /// Too many were waiting for the link.
    pub queue: u64,
    /// Up: the program was late, and the device's queue full. Down: the device did not take it.
    pub tap: u64,
    /// More was under way than the program holds.
    pub memory: u64,
    /// No frames, or longer ones than are taken.
    pub malformed: u64,
}

/// What one direction of a link has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Packets that were carried, as they would be on a wire.
    pub packets: u64,
    /// Bytes of these packets, from the address on.
    pub bytes: u64,
    /// Frames in which the packets came: fewer, where several came as one.
    pub frames: u64,
    /// Packets that were not carried.
    pub drops: Drops,
}

impl Counts {
    /// Count a frame that was carried.
    pub fn carried(&mut self, packets: u64, nbytes: u64) {
        self.packets += packets;
        self.bytes += nbytes;
        self.frames += 1;
    }

    /// Count packets that a link did not carry.
    pub fn failed(&mut self, why: Failure, packets: u64) {
        match why {
            Failure::Loss => self.drops.loss += packets,
            Failure::Queue => self.drops.queue += packets,
        }
    }
}

/// How late frames were handed over.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lateness {
    /// Frames by how late they were: number `i` has those that were late by less than `2**i` µs, and
    /// by no less than half of that; the last one has all that were later.
    pub powers_us: [u64; POWERS],
    /// How late the latest was.
    pub most_ns: Nanos,
    /// Sum over all frames.
    pub total_ns: Nanos,
}

impl Lateness {
    /// Count a frame.
    pub fn count(&mut self, late: Nanos) {
        let power = (late / 1_000).checked_ilog2().map_or(0, |power| power as usize + 1);
        self.powers_us[power.min(POWERS - 1)] += 1;
        self.most_ns = self.most_ns.max(late);
        self.total_ns = self.total_ns.saturating_add(late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_frames_are_told_apart_by_powers_of_two() {
        let mut late = Lateness::default();
        for ns in [0, 999, 1_000, 1_999, 2_000, 3_999, 4_000, 1_024_000, Nanos::MAX] {
            late.count(ns);
        }
        assert_eq!(late.powers_us[..4], [2, 2, 2, 1]);
        assert_eq!(late.powers_us[11], 1);
        assert_eq!(late.powers_us[POWERS - 1], 1);
        assert_eq!(late.most_ns, Nanos::MAX);
    }

    #[test]
    fn drops_are_counted_by_cause() {
        let mut counts = Counts::default();
        counts.failed(Failure::Loss, 1);
        counts.failed(Failure::Queue, 44);
        counts.carried(44, 66_616);
        assert_eq!((counts.drops.loss, counts.drops.queue), (1, 44));
        assert_eq!((counts.packets, counts.bytes, counts.frames), (44, 66_616, 1));
    }
}
