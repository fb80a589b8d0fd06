//! Working through a batch on several threads, with fewer of them computing than waiting for
//! storage. Those that only wait begin when a read has waited: where all is in memory they would be
//! in the others' way.
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{ChunkFault, Fault};

/// A read that has waited longer, and for most of its time, shows that others should be in flight
/// meanwhile.
const WAITED_NS: u64 = 50_000;
/// How often the caller is asked whether to go on.
const TICK: Duration = Duration::from_millis(50);

thread_local! {
    static HELPED_NS: Cell<u64> = const { Cell::new(0) };
}

/// Processor time that other threads have spent on this one's batches since it was last asked, in
/// nanoseconds.
pub fn helped_ns() -> u64 {
    HELPED_NS.take()
}

/// Processor time of the calling thread since it began, in nanoseconds.
fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and `time` is where its answer may be written.
    let known = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } == 0;
    if known { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 } else { 0 }
}

/// How many threads decode at a time, and how many reads are in flight.
#[derive(Clone, Copy, Debug)]
pub struct Width {
    /// Threads that decode at the same time, at least 1.
    pub threads: usize,
    /// Reads in flight where storage lets them wait, at least as many as threads.
    pub depth: usize,
}

impl Width {
    /// Threads at most, for so many pieces of work.
    fn workers(self, count: usize) -> usize {
        self.depth.max(self.threads).min(count)
    }
}

/// The threads of a batch.
struct Crew {
    /// Those that have begun and not ended.
    running: usize,
    /// Those that are to be begun.
    wanted: usize,
    /// What those that have ended spent, in nanoseconds.
    spent_ns: u64,
}

/// Leave to decode, and the buffers for it: as many as there are threads to decode.
pub struct Permits<P> {
    free: Mutex<Vec<P>>,
    freed: Condvar,
    crew: Mutex<Crew>,
    changed: Condvar,
    is_whole: AtomicBool,
}

/// One leave, given back when dropped.
pub struct Permit<'a, P> {
    permits: &'a Permits<P>,
    held: Option<P>,
}

impl<P: Default> Permits<P> {
    fn new(count: usize) -> Self {
        Self {
            free: Mutex::new((0..count).map(|_| P::default()).collect()),
            freed: Condvar::new(),
            crew: Mutex::new(Crew { running: 0, wanted: count, spent_ns: 0 }),
            changed: Condvar::new(),
            is_whole: AtomicBool::new(false),
        }
    }
}

impl<P> Permits<P> {
    /// Wait for a leave.
    pub fn take(&self) -> Permit<'_, P> {
        let mut free = lock(&self.free);
        loop {
            match free.pop() {
                Some(held) => return Permit { permits: self, held: Some(held) },
                None => free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Do a read; all threads of the batch begin once one has waited for its bytes.
    pub fn read<T>(&self, one: impl FnOnce() -> T) -> T {
        if self.is_whole.load(Ordering::Relaxed) {
            return one();
        }
        let (began, before) = (Instant::now(), thread_ns());
        let result = one();
        let spent = thread_ns() - before;
        let waited = (began.elapsed().as_nanos() as u64).saturating_sub(spent);
        if waited > WAITED_NS.max(spent) && !self.is_whole.swap(true, Ordering::Relaxed) {
            lock(&self.crew).wanted = usize::MAX;
            self.changed.notify_all();
        }
        result
    }
}

impl<P> Permit<'_, P> {
    /// The buffers that come with it.
    pub fn buffers(&mut self) -> &mut P {
        self.held.as_mut().expect("held until dropped")
    }
}

impl<P> Drop for Permit<'_, P> {
    fn drop(&mut self) {
        lock(&self.permits.free).extend(self.held.take());
        self.permits.freed.notify_one();
    }
}

/// What is done with one index: its own buffers, leave to decode, and the sign to stop.
pub type Work<'a, S, P> =
    dyn Fn(usize, &mut S, &Permits<P>, &AtomicBool) -> Result<(), Fault> + Sync + 'a;

/// Do `work(index, scratch, permits, stop)` for every index below `count`; each thread has a
/// scratch of its own. `go_on` is asked about every 50 ms, on the calling thread. The fault of the
/// lowest index that failed is returned; after the first one no new work begins.
pub fn for_each<S: Default, P: Default + Send>(
    count: usize,
    width: Width,
    go_on: &mut dyn FnMut() -> bool,
    work: &Work<S, P>,
) -> Result<(), ChunkFault> {
    if width.workers(count) <= 1 {
        return alone(count, go_on, work);
    }
    for_each_watched(count, width, go_on, work)
}

/// As `for_each`, but the calling thread only watches: for work that goes on, and heeds `stop`, for
/// longer than a caller wants to wait.
pub fn for_each_watched<S: Default, P: Default + Send>(
    count: usize,
    width: Width,
    go_on: &mut dyn FnMut() -> bool,
    work: &Work<S, P>,
) -> Result<(), ChunkFault> {
    let workers = width.workers(count);
    let (stop, permits) =
        (AtomicBool::new(false), Permits::new(width.threads.clamp(1, workers.max(1))));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<ChunkFault>));
    let one = || {
        let _ending = Ending(&permits.crew, &permits.changed);
        let mut scratch = S::default();
        while !stop.load(Ordering::Relaxed) {
            let row = next.fetch_add(1, Ordering::Relaxed);
            if row >= count {
                break;
            }
            if let Err(fault) = work(row, &mut scratch, &permits, &stop) {
                stop.store(true, Ordering::Relaxed);
                let mut first = lock(&failed);
                if fault != Fault::Cancelled && first.as_ref().is_none_or(|known| row < known.row) {
                    *first = Some(ChunkFault { row, fault });
                }
            }
        }
    };
    let (mut cancelled, mut started, mut asked) = (false, 0, Instant::now());
    thread::scope(|scope| {
        let mut crew = lock(&permits.crew);
        loop {
            while started < workers.min(crew.wanted) && (crew.running > 0 || started == 0) {
                crew.running += 1;
                // Where the system gives no more threads, those that there are do the work.
                if thread::Builder::new().spawn_scoped(scope, one).is_err() {
                    crew.running -= 1;
                    crew.wanted = started;
                } else {
                    started += 1;
                }
            }
            if crew.running == 0 {
                break;
            }
            crew =
                permits.changed.wait_timeout(crew, TICK).unwrap_or_else(PoisonError::into_inner).0;
            if crew.running > 0 && !cancelled && asked.elapsed() >= TICK {
                drop(crew);
                cancelled = !go_on();
                stop.fetch_or(cancelled, Ordering::Relaxed);
                asked = Instant::now();
                crew = lock(&permits.crew);
            }
        }
    });
    if started == 0 {
        return alone(count, go_on, work);
    }
    HELPED_NS.set(HELPED_NS.get() + lock(&permits.crew).spent_ns);
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(fault) => Err(fault),
        None if cancelled => Err(ChunkFault { row: 0, fault: Fault::Cancelled }),
        None => Ok(()),
    }
}

/// Counts a thread out, also one that panics, and what it has spent.
struct Ending<'a>(&'a Mutex<Crew>, &'a Condvar);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut crew = lock(self.0);
        crew.spent_ns += thread_ns();
        crew.running -= 1;
        self.1.notify_all();
    }
}

fn alone<S: Default, P: Default>(
    count: usize,
    go_on: &mut dyn FnMut() -> bool,
    work: &Work<S, P>,
) -> Result<(), ChunkFault> {
    let (stop, permits) = (AtomicBool::new(false), Permits::new(1));
    let (mut scratch, mut asked) = (S::default(), Instant::now());
    for row in 0..count {
        if asked.elapsed() > TICK {
            if !go_on() {
                return Err(ChunkFault { row, fault: Fault::Cancelled });
            }
            asked = Instant::now();
        }
        work(row, &mut scratch, &permits, &stop).map_err(|fault| ChunkFault { row, fault })?;
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_few_decode_at_a_time() {
        for (threads, depth) in [(1, 1), (1, 4), (2, 8), (3, 1)] {
            let done: Vec<AtomicUsize> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            let (busy, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let result = for_each::<(), ()>(
                100,
                Width { threads, depth },
                &mut || true,
                &|row, (), permits, _| {
                    let _permit = permits.take();
                    most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    done[row].fetch_add(1, Ordering::SeqCst);
                    busy.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                },
            );
            assert_eq!(result, Ok(()));
            assert!(done.iter().all(|times| times.load(Ordering::SeqCst) == 1));
            assert!(most.load(Ordering::SeqCst) <= threads);
        }
    }

    #[test]
    fn all_threads_begin_when_a_read_has_waited() {
        for (waits, most) in [(false, 2), (true, 6)] {
            let (reading, together) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let result = for_each::<(), ()>(
                60,
                Width { threads: 2, depth: 6 },
                &mut || true,
                &|_, (), permits, _| {
                    together
                        .fetch_max(reading.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    permits.read(|| {
                        if waits {
                            thread::sleep(Duration::from_millis(5));
                        }
                    });
                    reading.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                },
            );
            assert_eq!(result, Ok(()));
            let together = together.into_inner();
            assert!(
                if waits { together == most } else { together <= most },
                "{together} reads in flight"
            );
        }
    }

    #[test]
    fn what_other_threads_spend_is_known_once() {
        let spin = |_: usize, (): &mut (), _: &Permits<()>, _: &AtomicBool| {
            let until = thread_ns() + 2_000_000;
            while thread_ns() < until {}
            Ok(())
        };
        helped_ns();
        for_each(10, Width { threads: 1, depth: 1 }, &mut || true, &spin).unwrap();
        assert_eq!(helped_ns(), 0, "nobody helped");
        for_each(10, Width { threads: 1, depth: 3 }, &mut || true, &spin).unwrap();
        let spent = helped_ns();
        assert!(spent >= 20_000_000, "{spent}");
        assert_eq!(helped_ns(), 0);
    }

    #[test]
    fn the_first_fault_ends_the_work() {
        for depth in [1, 4] {
            let result = for_each::<(), ()>(
                1000,
                Width { threads: 1, depth },
                &mut || true,
                &|row, (), _, _| {
                    if row >= 7 { Err(Fault::Memory(row as u64)) } else { Ok(()) }
                },
            );
            assert_eq!(result, Err(ChunkFault { row: 7, fault: Fault::Memory(7) }));
        }
    }

    #[test]
    fn a_caller_that_says_no_is_obeyed() {
        for depth in [1, 4] {
            let result = for_each::<(), ()>(
                usize::MAX,
                Width { threads: 1, depth },
                &mut || false,
                &|_, (), _, _| {
                    thread::sleep(Duration::from_micros(100));
                    Ok(())
                },
            );
            assert!(matches!(result, Err(ChunkFault { fault: Fault::Cancelled, .. })));
        }
    }

    #[test]
    fn a_single_piece_of_work_is_stopped_where_somebody_watches() {
        let endless = |_: usize, (): &mut (), _: &Permits<()>, stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(100));
            }
            Err(Fault::Cancelled)
        };
        let result = for_each_watched(1, Width { threads: 1, depth: 1 }, &mut || false, &endless);
        assert_eq!(result, Err(ChunkFault { row: 0, fault: Fault::Cancelled }));
        assert_eq!(
            for_each_watched(0, Width { threads: 9, depth: 9 }, &mut || false, &endless),
            Ok(())
        );
    }
}
