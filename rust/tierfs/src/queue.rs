//! A device that serves one request after another, as a calendar: when is a request done?
//!
//! Times are nanoseconds of a clock that begins with the program, costs nanoseconds of the device.
//! Nothing here waits. A deadline is computed from the one before it, so that a late reply does not
//! make the next one later; what the program itself was late is given back, and nothing else: a
//! device that was idle has not saved anything up.

use std::time::Duration;

/// Nanoseconds since the program's clock began, or between two of its times.
pub type Nanos = u64;

/// The most that is given back of what the program was late.
pub const FORGIVEN: Nanos = Duration::from_millis(20).as_nanos() as Nanos;

/// What a device has still to do.
///
/// Requests in front of the queue are waited for by who made them; those behind have been answered
/// and are done when the device has nothing else to do.
#[derive(Debug, Default)]
pub struct Queue {
    /// When all that is waited for is done.
    front: Nanos,
    /// When all is done.
    end: Nanos,
    /// Cost of all that was ever put behind.
    behind: Nanos,
    /// What the program was late with the reply to one of the newest requests.
    late: Nanos,
    /// When a reply went out last, before which nobody has asked again.
    answered: Nanos,
}

impl Queue {
    /// Serve a request before all that nobody waits for: the time when it is done.
    pub fn serve(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        let begun = self.begun(now);
        self.front = self.front.max(begun) + cost;
        self.end = self.end.max(begun) + cost;
        self.front
    }

    /// Serve a request behind all others: the time when it is done, and its mark.
    pub fn put_behind(&mut self, now: Nanos, cost: Nanos) -> (Nanos, Nanos) {
        let begun = self.begun(now);
        self.end = self.end.max(begun) + cost;
        self.behind += cost;
        (self.end, self.behind)
    }

    /// The time when all up to a mark is done, if nothing else comes in front of it.
    pub fn settled(&self, mark: Nanos) -> Nanos {
        self.end.saturating_sub(self.behind - mark)
    }

    /// Cost of what was answered and is not done.
    pub fn owed(&self, now: Nanos) -> Nanos {
        self.end.saturating_sub(self.front.max(now))
    }

    /// Say that a reply went out later than it was due.
    pub fn was_late(&mut self, due: Nanos, by: Nanos) {
        self.late = self.late.max(by.min(FORGIVEN));
        self.answered = self.answered.max(due + by);
    }

    /// The time at which a request may have begun that was made now. Who asks long after the last
    /// reply has not waited for it.
    fn begun(&mut self, now: Nanos) -> Nanos {
        let late = std::mem::take(&mut self.late);
        if now > self.answered + FORGIVEN {
            return now;
        }
        now.max(self.answered).saturating_sub(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_served_one_after_another() {
        let mut queue = Queue::default();
        assert_eq!(queue.serve(1_000, 50), 1_050);
        assert_eq!(queue.serve(1_000, 50), 1_100);
        assert_eq!(queue.serve(1_010, 50), 1_150);
    }

    #[test]
    fn an_idle_device_saves_nothing_up() {
        let mut queue = Queue::default();
        queue.serve(1_000, 50);
        assert_eq!(queue.serve(9_000, 50), 9_050);
    }

    #[test]
    fn late_replies_do_not_slow_a_client_down() {
        let mut queue = Queue::default();
        let cost = 1_000_000;
        let mut now = 1_000_000_000;
        let start = now;
        for _ in 0..100 {
            let deadline = queue.serve(now, cost);
            now = deadline + 300_000; // the program woke up late, the client asks again at once
            queue.was_late(deadline, 300_000);
        }
        assert_eq!(now - start, 100 * cost + 300_000);
    }

    #[test]
    fn no_more_is_forgiven_than_the_limit() {
        let mut queue = Queue::default();
        let done = queue.serve(1_000_000_000, 1_000);
        queue.was_late(done, 10 * FORGIVEN);
        let now = done + 10 * FORGIVEN;
        assert_eq!(queue.serve(now, 1_000), now - FORGIVEN + 1_000);
    }

    #[test]
    fn nobody_has_asked_before_the_last_reply() {
        let mut queue = Queue::default();
        let done = queue.serve(1_000_000_000, 1_000);
        queue.was_late(done, 0);
        assert_eq!(queue.serve(done - 300, 1_000), done + 1_000);
    }

    #[test]
    fn nothing_is_given_back_to_who_asks_later() {
        let mut queue = Queue::default();
        let done = queue.serve(1_000_000_000, 1_000);
        queue.was_late(done, 500);
        let now = done + 501 + FORGIVEN;
        assert_eq!(queue.serve(now, 1_000), now + 1_000);
    }

    #[test]
    fn reads_go_before_what_nobody_waits_for() {
        let mut queue = Queue::default();
        let (done, mark) = queue.put_behind(1_000, 500);
        assert_eq!(done, 1_500);
        assert_eq!(queue.serve(1_000, 100), 1_100);
        assert_eq!(queue.settled(mark), 1_600);
        assert_eq!(queue.owed(1_100), 500);
        assert_eq!(queue.owed(1_600), 0);
    }

    #[test]
    fn a_mark_is_settled_before_what_came_after_it() {
        let mut queue = Queue::default();
        let (first, mark) = queue.put_behind(1_000, 500);
        queue.put_behind(1_000, 5_000);
        assert_eq!(queue.settled(mark), first);
    }
}
