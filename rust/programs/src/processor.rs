//! The processor that a thread has, or waits for: what is emulated would have processors of its own.

/// What the kernel says of the thread that reads it: nanoseconds on a processor, nanoseconds of
/// waiting for one, and how often it was given one (Documentation/scheduler/sched-stats of Linux).
pub const TOLD: &str = "/proc/thread-self/schedstat";

/// Times of a thread, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Time on a processor.
    pub cpu_ns: u64,
    /// Time of waiting for one.
    pub waited_ns: u64,
}

impl Times {
    /// Times of the thread that asks; none where the kernel does not say.
    pub fn own() -> Option<Self> {
        Self::of(&std::fs::read_to_string(TOLD).ok()?)
    }

    /// Times that the kernel has told.
    pub fn of(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace();
        let cpu_ns = numbers.next()?.parse().ok()?;
        let waited_ns = numbers.next()?.parse().ok()?;
        Some(Self { cpu_ns, waited_ns })
    }
}

/// Let this thread, and all that it starts from now on, run before all others that want a processor,
/// where that is allowed. A higher number goes before a lower one.
pub fn go_first(priority: libc::c_int) {
    schedule(libc::SCHED_RR, priority);
}

/// Let this thread alone run before all others, where that is allowed, and nothing that it starts.
pub fn go_first_alone(priority: libc::c_int) {
    schedule(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, priority);
}

fn schedule(policy: libc::c_int, priority: libc::c_int) {
    // SAFETY: the call changes nothing but how soon threads get a processor, and reads a structure
    // of which all fields may be zero.
    unsafe {
        let mut first: libc::sched_param = std::mem::zeroed();
        first.sched_priority = priority;
        libc::sched_setscheduler(0, policy, &raw const first);
    }
}

/// How this thread is scheduled.
pub fn scheduling() -> &'static str {
    // SAFETY: the call takes a number alone.
    match unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "rr",
        _ => "other",
    }
}

/// Let this thread wake up when it asked for it: the kernel's default is up to 50 µs later.
pub fn precise_sleep() {
    // SAFETY: the call changes nothing but how exactly this thread wakes up.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_count() {
        let expected = Times { cpu_ns: 9_000, waited_ns: 1_234 };
        assert_eq!(Times::of("9000 1234 5\n"), Some(expected));
        assert_eq!(Times::of("9000"), None);
        assert_eq!(Times::of(""), None);
    }

    #[test]
    fn who_goes_first_is_scheduled_so_where_that_is_allowed() {
        std::thread::spawn(|| {
            assert_eq!(scheduling(), "other");
            go_first(1);
            assert!(["rr", "other"].contains(&scheduling()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn who_goes_first_alone_starts_others_as_they_were() {
        std::thread::spawn(|| {
            go_first_alone(1);
            assert!(["rr", "other"].contains(&scheduling()));
            assert_eq!(std::thread::spawn(scheduling).join().unwrap(), "other");
        })
        .join()
        .unwrap();
    }
}
