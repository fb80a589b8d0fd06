//! When bytes that follow one another have passed a link of a rate.
//!
//! Nothing here waits. A time is computed from the one before it, so that what the program itself is
//! late does not make the link slower; a link that was idle has not saved anything up.

/// Nanoseconds since the program's clock began, or between two of its times.
pub type Nanos = u64;

const BITS_PER_BYTE: u128 = 8;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// A link's calendar: when it is free.
#[derive(Debug, Default)]
pub struct Clock {
    free_at: Nanos,
    /// Part of a nanosecond that bytes have taken beyond `free_at`, in units of 1/rate.
    remainder: u128,
}

impl Clock {
    /// Time for which bytes that arrive now wait before the first of them is sent.
    pub fn backlog(&self, arrival: Nanos) -> Nanos {
        self.free_at.saturating_sub(arrival)
    }

    /// Send bytes behind all others: the time when the last of them has been sent.
    pub fn send(&mut self, arrival: Nanos, nbytes: u64, rate_bits: u64) -> Nanos {
        if self.free_at < arrival {
            self.free_at = arrival;
            self.remainder = 0;
        }
        let rate = u128::from(rate_bits);
        let parts = u128::from(nbytes) * BITS_PER_BYTE * NANOS_PER_SECOND + self.remainder;
        self.remainder = parts % rate;
        let cost = Nanos::try_from(parts / rate).unwrap_or(Nanos::MAX);
        self.free_at = self.free_at.saturating_add(cost);
        self.free_at
    }

    /// Forget the part of a nanosecond: it was one of another rate.
    pub fn change_rate(&mut self) {
        self.remainder = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_sent_one_after_another() {
        let mut clock = Clock::default();
        assert_eq!(clock.send(1_000, 1_250, 10_000_000), 1_001_000);
        assert_eq!(clock.backlog(1_000), 1_000_000);
        assert_eq!(clock.send(1_000, 1_250, 10_000_000), 2_001_000);
        assert_eq!(clock.backlog(3_000_000), 0);
    }

    #[test]
    fn an_idle_link_saves_nothing_up() {
        let mut clock = Clock::default();
        clock.send(0, 1_250, 10_000_000);
        assert_eq!(clock.send(9_000_000, 1_250, 10_000_000), 10_000_000);
    }

    #[test]
    fn parts_of_nanoseconds_add_up() {
        let mut clock = Clock::default();
        for _ in 0..1_000_000 {
            clock.send(0, 64, 10_000_000_000); // 51.2 ns each
        }
        assert_eq!(clock.backlog(0), 51_200_000);
    }

    #[test]
    fn what_would_take_for_ever_does_not_overflow() {
        let mut clock = Clock::default();
        clock.send(1, u64::MAX / 16, 1);
        assert_eq!(clock.send(1, u64::MAX / 16, 1), Nanos::MAX);
    }
}
