//! How long a thread has waited for a processor: time of this machine, none of the storage that is
//! emulated.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use hyperslab_programs::processor::{TOLD, Times};

use crate::queue::Nanos;

/// Bytes of three numbers of 64 bits, with what is between them.
const LONGEST: usize = 64;

thread_local! {
    static OWN: RefCell<Watch> = RefCell::new(Watch::begin());
}

/// Time for which this thread has waited since it last asked; 0 where the kernel does not say.
pub fn since_last() -> Nanos {
    OWN.with_borrow_mut(Watch::step)
}

struct Watch {
    file: Option<File>,
    waited: Nanos,
}

impl Watch {
    fn begin() -> Self {
        let mut watch = Self { file: File::open(TOLD).ok(), waited: 0 };
        watch.step();
        watch
    }

    fn step(&mut self) -> Nanos {
        let before = self.waited;
        self.waited = self.told().unwrap_or(before);
        self.waited.saturating_sub(before)
    }

    fn told(&self) -> Option<Nanos> {
        let mut text = [0; LONGEST];
        let count = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let times = Times::of(std::str::from_utf8(&text[..count]).ok()?)?;
        Some(times.waited_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn who_shares_processors_has_waited() {
        let processors = std::thread::available_parallelism().unwrap().get();
        let busy = || {
            since_last();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(200) {}
            (since_last(), since_last())
        };
        let threads: Vec<_> = (0..3 * processors).map(|_| std::thread::spawn(busy)).collect();
        let waited: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let most = waited.iter().map(|(first, _)| *first).max().unwrap();
        assert!(most > Duration::from_millis(40).as_nanos() as Nanos, "{waited:?}");
        let told_again = waited.iter().filter(|(first, second)| second >= first).count();
        assert!(told_again < waited.len(), "{waited:?}");
    }
}
