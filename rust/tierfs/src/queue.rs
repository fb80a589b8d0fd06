//! A device that serves one request after another, as a calendar: when is a request done?
//!
//! Times are nanoseconds of a clock that begins with the program, costs nanoseconds of the device.
//! Nothing here waits. A deadline is computed from the one before it, so that a late reply does not
//! make the next one later; what the program itself was late is given back, and nothing else: a
//! device that was idle has not saved anything up.

use std::collections::VecDeque;
use std::time::Duration;

/// Nanoseconds since the program's clock began, or between two of its times.
pub type Nanos = u64;

/// The most that is given back of what the program was late.
pub const FORGIVEN: Nanos = Duration::from_millis(20).as_nanos() as Nanos;

/// How long those in front may keep the device from what is behind. From then on every request in
/// front brings as much of what is behind with it, as schedulers of disks do: a sync ends though
/// reads never do.
const PATIENCE: Nanos = Duration::from_millis(500).as_nanos() as Nanos;

/// What a device has still to do.
///
/// Requests in front of the queue are waited for by who made them; those behind have been answered
/// and are done when the device has nothing else to do, or has let them wait for too long.
#[derive(Debug, Default)]
pub struct Queue {
    /// When all that is waited for is done.
    front: Nanos,
    /// When all is done.
    end: Nanos,
    /// Cost of all that was ever put behind.
    behind: Nanos,
    /// The mark up to which what was put behind is done.
    done: Nanos,
    /// Marks up to which it will be done among those in front, and when.
    brought: VecDeque<(Nanos, Nanos)>,
    /// When the device last had nothing to do in front.
    free: Nanos,
    /// What the program was late with the reply to one of the newest requests.
    late: Nanos,
    /// When a reply went out last, before which nobody has asked again.
    answered: Nanos,
}

impl Queue {
    /// Serve a request before all that nobody waits for: the time when it is done.
    pub fn serve(&mut self, now: Nanos, cost: Nanos) -> Nanos {
        let begun = self.begun(now);
        self.note_done(begun);
        let start = self.front.max(begun);
        let brought = self.bring(start, cost);
        self.front = start + brought + cost;
        self.end = self.end.max(start) + cost;
        self.front
    }

    /// What of all that is behind is served right before a request in front.
    fn bring(&mut self, start: Nanos, cost: Nanos) -> Nanos {
        let owed = self.end.saturating_sub(start);
        if owed == 0 || start < self.free + PATIENCE {
            return 0;
        }
        let brought = owed.min(cost);
        self.brought.push_back((self.behind.saturating_sub(owed - brought), start + brought));
        brought
    }

    /// Take note of what has been done of all that was put behind.
    fn note_done(&mut self, now: Nanos) {
        while let Some((mark, _)) = self.brought.front().copied().filter(|(_, at)| *at <= now) {
            self.brought.pop_front();
            self.done = self.done.max(mark);
        }
        if self.front <= now {
            self.free = now;
            self.done = self.done.max(self.behind.saturating_sub(self.end.saturating_sub(now)));
        }
    }

    /// Serve a request behind all others: the time when it is done, and its mark.
    pub fn put_behind(&mut self, now: Nanos, cost: Nanos) -> (Nanos, Nanos) {
        let begun = self.begun(now);
        self.note_done(begun);
        self.end = self.end.max(begun) + cost;
        self.behind += cost;
        (self.end, self.behind)
    }

    /// The time when all up to a mark is done, if nothing else comes in front of it.
    pub fn settled(&self, mark: Nanos) -> Nanos {
        if mark <= self.done {
            return 0;
        }
        match self.brought.iter().find(|(brought, _)| mark <= *brought) {
            Some((_, at)) => *at,
            None => self.end.saturating_sub(self.behind - mark),
        }
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
    fn what_is_behind_is_done_though_reads_never_end() {
        let mut queue = Queue::default();
        let cost = 10_000_000;
        let mut now = 1_000_000_000;
        let start = now;
        let (_, mark) = queue.put_behind(now, 10 * cost);
        let mut reads = [queue.serve(now, cost), queue.serve(now, cost)];
        while queue.settled(mark) > now {
            now = reads[0];
            reads = [reads[1], queue.serve(now, cost)];
            assert!(now < start + 10 * PATIENCE, "it waits for ever");
        }
        assert!(now >= start + PATIENCE);
        assert!(now <= start + PATIENCE + 30 * cost);
        assert_eq!(queue.owed(now), 0);
    }

    #[test]
    fn what_is_done_is_not_put_off_by_later_reads() {
        let mut queue = Queue::default();
        let (done, mark) = queue.put_behind(1_000, 500);
        queue.serve(done + 10, 100);
        assert!(queue.settled(mark) <= done);
    }

    #[test]
    fn a_mark_is_settled_before_what_came_after_it() {
        let mut queue = Queue::default();
        let (first, mark) = queue.put_behind(1_000, 500);
        queue.put_behind(1_000, 5_000);
        assert_eq!(queue.settled(mark), first);
    }
}
