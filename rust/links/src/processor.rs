//! The processor that a thread has, or waits for.

use std::fs;

use serde::Serialize;

use crate::clock::Nanos;

/// What the kernel says of the thread that reads it: nanoseconds on a processor, nanoseconds of
/// waiting for one, and how often it was given one (Documentation/scheduler/sched-stats of Linux).
const TOLD: &str = "/proc/thread-self/schedstat";
/// How much sooner than others that run before all programs.
const PRIORITY: libc::c_int = 10;

/// Time of the thread that asks; nothing where the kernel does not say.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Time on a processor.
    pub cpu_ns: Option<Nanos>,
    /// Time of waiting for one.
    pub waited_ns: Option<Nanos>,
}

/// What the kernel says of the thread that asks.
pub fn usage() -> Usage {
    usage_of(&fs::read_to_string(TOLD).unwrap_or_default())
}

fn usage_of(text: &str) -> Usage {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    Usage { cpu_ns: numbers.next().flatten(), waited_ns: numbers.next().flatten() }
}

/// Let the thread that asks run before all others that want a processor, where that is allowed, and
/// wake up when it asked for it: what is emulated has processors of its own.
pub fn go_first() {
    // SAFETY: the calls change nothing but how soon this thread gets a processor, and read a
    // structure of which all fields may be zero.
    unsafe {
        let mut first: libc::sched_param = std::mem::zeroed();
        first.sched_priority = PRIORITY;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
    }
}

/// How the thread that asks is scheduled.
pub fn scheduling() -> &'static str {
    // SAFETY: the call takes a number alone.
    match unsafe { libc::sched_getscheduler(0) } {
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "rr",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_count() {
        let expected = Usage { cpu_ns: Some(9_000), waited_ns: Some(1_234) };
        assert_eq!(usage_of("9000 1234 5\n"), expected);
        assert_eq!(usage_of(""), Usage::default());
    }
}
