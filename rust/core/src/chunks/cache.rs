//! Decoded chunks that may be asked for again, within a limit.
//!
//! Nobody waits for the lock: in a child of fork it may be held by a thread that is not there, for
//! ever, and what it guards be half changed. A chunk that cannot be had now is decoded anew.
use std::collections::{BTreeMap, HashMap};
use std::hint::spin_loop;
use std::mem::{ManuallyDrop, take};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// What an entry takes beside its bytes, about.
const ENTRY: usize = 128;
/// How often the lock is tried: longer than somebody who is running holds it.
const TRIES: usize = 1000;

/// Chunks by row; those used longest ago make room for others.
pub struct Cache {
    limit: usize,
    kept: ManuallyDrop<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    chunks: HashMap<usize, (Arc<[u8]>, u64)>,
    used: BTreeMap<u64, usize>,
    nbytes: usize,
    clock: u64,
}

impl Kept {
    /// Note that a row was used now: its new place in the order.
    fn touch(&mut self, row: usize) -> u64 {
        self.clock += 1;
        self.used.insert(self.clock, row);
        self.clock
    }

    fn forget(&mut self, row: usize) {
        if let Some((chunk, when)) = self.chunks.remove(&row) {
            self.used.remove(&when);
            self.nbytes -= chunk.len() + ENTRY;
        }
    }
}

impl Cache {
    /// A cache of at most so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: ManuallyDrop::new(Mutex::default()) }
    }

    /// The chunk of a row, if it is still there.
    pub fn get(&self, row: usize) -> Option<Arc<[u8]>> {
        let mut kept = self.lock()?;
        let (chunk, before) =
            kept.chunks.get(&row).map(|(chunk, when)| (Arc::clone(chunk), *when))?;
        kept.used.remove(&before);
        let now = kept.touch(row);
        kept.chunks.insert(row, (Arc::clone(&chunk), now));
        Some(chunk)
    }

    /// Keep a chunk, unless it alone would fill more than a quarter of the room.
    pub fn put(&self, row: usize, chunk: &[u8]) {
        if chunk.len() > self.limit / 4 {
            return;
        }
        let chunk: Arc<[u8]> = chunk.into();
        let Some(mut kept) = self.lock() else { return };
        kept.forget(row);
        kept.nbytes += chunk.len() + ENTRY;
        let now = kept.touch(row);
        kept.chunks.insert(row, (chunk, now));
        while kept.nbytes > self.limit {
            let Some((_, &oldest)) = kept.used.first_key_value() else { break };
            kept.forget(oldest);
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, Kept>> {
        for _ in 0..TRIES {
            match self.kept.try_lock() {
                Ok(kept) => return Some(kept),
                Err(TryLockError::Poisoned(kept)) => return Some(kept.into_inner()),
                Err(TryLockError::WouldBlock) => spin_loop(),
            }
        }
        None
    }
}

impl Drop for Cache {
    /// What may be half changed is left where it is.
    fn drop(&mut self) {
        if let Some(mut kept) = self.lock() {
            drop(take(&mut *kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes() {
        let cache = Cache::new(4 * (1000 + ENTRY));
        for row in 0..4 {
            cache.put(row, &[row as u8; 1000]);
        }
        assert_eq!(cache.get(0).as_deref(), Some(&[0; 1000][..]));
        cache.put(4, &[4; 1000]);
        assert!(cache.get(1).is_none());
        assert!([0, 2, 3, 4].iter().all(|&row| cache.get(row).is_some()));
        cache.put(5, &[5; 2000]);
        assert!(cache.get(5).is_none(), "too large");
        cache.put(4, &[9; 1000]);
        assert_eq!(cache.get(4).as_deref(), Some(&[9; 1000][..]));
        assert_eq!(cache.lock().unwrap().nbytes, 4 * (1000 + ENTRY));
        assert_eq!(cache.lock().unwrap().used.len(), 4);
    }

    #[test]
    fn nobody_waits_for_who_is_not_there() {
        let cache = Cache::new(10_000);
        cache.put(1, &[1; 100]);
        let held = cache.lock().unwrap();
        assert!(cache.get(1).is_none());
        cache.put(2, &[2; 100]);
        drop(held);
        assert!(cache.get(1).is_some() && cache.get(2).is_none());
    }
}
