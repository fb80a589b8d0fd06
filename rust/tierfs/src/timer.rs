//! Replies that go out at set times, from a thread of their own: no other thread waits for them.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hyperslab_programs::processor::precise_sleep;

use crate::queue::Nanos;

/// What is done at a time; it is told how late it is.
type Act = Box<dyn FnOnce(Nanos) + Send>;

struct Entry {
    due: Nanos,
    order: u64,
    act: Act,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The largest entry is the one that is due first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

#[derive(Default)]
struct Waiting {
    entries: BinaryHeap<Entry>,
    order: u64,
}

/// A clock, and what is to be done at its times.
#[derive(Clone)]
pub struct Timer {
    began: Instant,
    waiting: Arc<(Mutex<Waiting>, Condvar)>,
}

impl Timer {
    /// A timer with a thread of its own, which ends with the program.
    pub fn start() -> std::io::Result<Self> {
        let timer = Self { began: Instant::now(), waiting: Arc::default() };
        let own = timer.clone();
        std::thread::Builder::new().name("timer".into()).spawn(move || own.run())?;
        Ok(timer)
    }

    /// The time.
    pub fn now(&self) -> Nanos {
        self.began.elapsed().as_nanos() as Nanos
    }

    /// Do something at a time; at once, on the thread that asks, if the time has come.
    pub fn at(&self, due: Nanos, act: impl FnOnce(Nanos) + Send + 'static) {
        let now = self.now();
        if due <= now {
            act(now - due);
            return;
        }
        let (waiting, changed) = &*self.waiting;
        let mut waiting = waiting.lock().unwrap();
        let is_first = waiting.entries.peek().is_none_or(|first| due < first.due);
        waiting.order += 1;
        let order = waiting.order;
        waiting.entries.push(Entry { due, order, act: Box::new(act) });
        drop(waiting);
        if is_first {
            changed.notify_one();
        }
    }

    fn run(&self) {
        precise_sleep();
        loop {
            let entry = self.next();
            (entry.act)(self.now() - entry.due);
        }
    }

    /// The entry that is due, once one is.
    fn next(&self) -> Entry {
        let (waiting, changed) = &*self.waiting;
        let mut waiting = waiting.lock().unwrap();
        loop {
            let now = self.now();
            let Some(due) = waiting.entries.peek().map(|first| first.due) else {
                waiting = changed.wait(waiting).unwrap();
                continue;
            };
            if due <= now {
                return waiting.entries.pop().expect("one was seen under the same lock");
            }
            let left = Duration::from_nanos(due - now);
            waiting = changed.wait_timeout(waiting, left).unwrap().0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_due_first_is_done_first() {
        let timer = Timer::start().unwrap();
        let (done, seen) = mpsc::channel();
        let now = timer.now();
        for delay in [30, 10, 20] {
            let done = done.clone();
            let due = now + delay * 1_000_000;
            timer.at(due, move |_| done.send(delay).unwrap());
        }
        assert_eq!(seen.iter().take(3).collect::<Vec<_>>(), [10, 20, 30]);
        assert!(timer.now() >= now + 30_000_000);
    }

    #[test]
    fn what_is_past_is_done_at_once() {
        let timer = Timer::start().unwrap();
        let caller = std::thread::current().id();
        let (done, seen) = mpsc::channel();
        let due = timer.now();
        std::thread::sleep(Duration::from_millis(2));
        timer.at(due, move |late| done.send((late, std::thread::current().id())).unwrap());
        let (late, who) = seen.recv().unwrap();
        assert_eq!(who, caller);
        assert!(late >= 2_000_000, "{late}");
    }
}
