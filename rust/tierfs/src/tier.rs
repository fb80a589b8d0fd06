//! When is a request answered? What a tier takes for reads, writes and operations on names.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::inodes::{Inode, Key};
use crate::placement::Placement;
use crate::queue::{Nanos, Queue};
use crate::stripes::Stripes;

/// What a tier is to be like.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Bytes that each target reads in a second; none: as fast as the directory beneath.
    pub read_rate: Option<f64>,
    /// Bytes that each target writes in a second.
    pub write_rate: Option<f64>,
    /// What every request takes longer, however many there are.
    pub latency: Nanos,
    /// What an operation on names or attributes takes, one at a time.
    pub metadata_cost: Nanos,
    /// Bytes that are answered before they are on their way, of all targets; none: write-through.
    pub write_back: Option<u64>,
    /// Bytes of a fast medium that is filled before the slow one; none: there is no such medium.
    pub fast: Option<u64>,
    /// How files lie on the targets.
    pub stripes: Stripes,
    /// Whether what was read or written stays in memory when a file is opened again.
    pub keep_cache: bool,
    /// How long the kernel may take names and attributes for granted.
    pub attribute_ttl: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            read_rate: None,
            write_rate: None,
            latency: 0,
            metadata_cost: 0,
            write_back: None,
            fast: None,
            stripes: Stripes { nbytes: 1 << 20, count: 1, targets: 1 },
            keep_cache: false,
            attribute_ttl: Duration::from_secs(1),
        }
    }
}

/// Operations that are counted, by the names that the counters have.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Operation {
    Lookup,
    Getattr,
    Setattr,
    Readlink,
    Mknod,
    Mkdir,
    Unlink,
    Rmdir,
    Symlink,
    Rename,
    Link,
    Open,
    Create,
    Opendir,
    Readdir,
    Getxattr,
    Setxattr,
    Listxattr,
    Removexattr,
    Fallocate,
    Statfs,
    Read,
    Write,
    Fsync,
}

/// Names of the operations, in the order of `Operation`.
pub const NAMES: [&str; 24] = [
    "lookup",
    "getattr",
    "setattr",
    "readlink",
    "mknod",
    "mkdir",
    "unlink",
    "rmdir",
    "symlink",
    "rename",
    "link",
    "open",
    "create",
    "opendir",
    "readdir",
    "getxattr",
    "setxattr",
    "listxattr",
    "removexattr",
    "fallocate",
    "statfs",
    "read",
    "write",
    "fsync",
];

/// Who a request has waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Server {
    Nobody,
    Metadata,
    Target(usize),
}

/// When a request is answered, and whom it waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// The time of the answer.
    pub at: Nanos,
    server: Server,
}

/// What a tier has done and what it still has to do.
pub struct Tier {
    /// What it is to be like.
    pub settings: Settings,
    targets: Vec<Mutex<Queue>>,
    metadata: Mutex<Queue>,
    placement: Option<Mutex<Placement>>,
    counts: [AtomicU64; NAMES.len()],
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl Tier {
    /// A tier that has done nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            targets: (0..settings.stripes.targets).map(|_| Mutex::default()).collect(),
            metadata: Mutex::default(),
            placement: settings.fast.map(|nbytes| Mutex::new(Placement::new(nbytes))),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            settings,
        }
    }

    /// Count an operation on names or attributes, and serve it after those before it.
    pub fn operate(&self, operation: Operation, now: Nanos) -> Due {
        self.count(operation);
        let at = match self.settings.metadata_cost {
            0 => now,
            cost => self.metadata.lock().unwrap().serve(now, cost),
        };
        let server = if at > now { Server::Metadata } else { Server::Nobody };
        Due { at: at + self.settings.latency, server }
    }

    /// Count an operation that asks nobody.
    pub fn pass(&self, operation: Operation, now: Nanos) -> Due {
        self.count(operation);
        Due { at: now + self.settings.latency, server: Server::Nobody }
    }

    /// Serve a read of bytes that the directory beneath has given.
    pub fn read(&self, file: Key, offset: u64, nbytes: u64, now: Nanos) -> Due {
        self.count(Operation::Read);
        self.bytes_read.fetch_add(nbytes, Ordering::Relaxed);
        let mut due = Due { at: now, server: Server::Nobody };
        let Some(rate) = self.settings.read_rate else { return self.delayed(due) };
        let Some(slow) = self.share(nbytes, |placement| placement.slow(file, offset, nbytes))
        else {
            return self.delayed(due);
        };
        for (target, part) in self.settings.stripes.of_range(file.number, offset, nbytes) {
            let cost = cost_of(part as f64 * slow, rate);
            let at = self.targets[target].lock().unwrap().serve(now, cost);
            if at > due.at {
                due = Due { at, server: Server::Target(target) };
            }
        }
        self.delayed(due)
    }

    /// Serve a write of bytes that the directory beneath has taken.
    pub fn write(&self, inode: &Inode, offset: u64, nbytes: u64, now: Nanos) -> Due {
        self.count(Operation::Write);
        self.bytes_written.fetch_add(nbytes, Ordering::Relaxed);
        let file = inode.key;
        let mut due = Due { at: now, server: Server::Nobody };
        let slow = self.share(nbytes, |placement| placement.write(file, offset, nbytes));
        let (Some(rate), Some(slow)) = (self.settings.write_rate, slow) else {
            return self.delayed(due);
        };
        for (target, part) in self.settings.stripes.of_range(file.number, offset, nbytes) {
            let cost = cost_of(part as f64 * slow, rate);
            let mut queue = self.targets[target].lock().unwrap();
            let answered = match self.settings.write_back {
                None => Due { at: queue.serve(now, cost), server: Server::Target(target) },
                Some(limit) => {
                    let (done, mark) = queue.put_behind(now, cost);
                    inode.mark(target, mark);
                    let limit = cost_of(limit as f64 / self.targets.len() as f64, rate);
                    Due { at: done.saturating_sub(limit), server: Server::Nobody }
                }
            };
            if answered.at > due.at {
                due = answered;
            }
        }
        self.delayed(due)
    }

    /// The time when all that was written to a file is on its targets, if no read comes in between.
    pub fn settled(&self, inode: &Inode) -> Nanos {
        let marks = inode.marks.lock().unwrap().clone();
        let marked = marks.iter().enumerate().filter_map(|(target, mark)| Some((target, (*mark)?)));
        marked
            .map(|(target, mark)| self.targets[target].lock().unwrap().settled(mark))
            .max()
            .unwrap_or(0)
    }

    /// Free the room of what lies behind the new end of a file.
    pub fn cut(&self, file: Key, nbytes: u64) {
        if let Some(placement) = &self.placement {
            placement.lock().unwrap().cut(file, nbytes);
        }
    }

    /// Free the room of a file that is gone.
    pub fn remove(&self, file: Key) {
        if let Some(placement) = &self.placement {
            placement.lock().unwrap().remove(file);
        }
    }

    /// Take note that an answer went out later than it was due.
    pub fn was_late(&self, due: Due, by: Nanos) {
        match due.server {
            Server::Nobody => {}
            Server::Metadata => self.metadata.lock().unwrap().was_late(due.at, by),
            Server::Target(target) => self.targets[target].lock().unwrap().was_late(due.at, by),
        }
    }

    /// What was done so far, as a line of JSON.
    pub fn report(&self, now: Nanos) -> String {
        let counts: Vec<String> = NAMES
            .iter()
            .zip(&self.counts)
            .map(|(name, count)| format!("\"{name}\": {}", count.load(Ordering::Relaxed)))
            .collect();
        let rate = self.settings.write_rate.unwrap_or(0.0);
        let owed: Nanos = self.targets.iter().map(|queue| queue.lock().unwrap().owed(now)).sum();
        let fast = self.placement.as_ref().map_or(0, |placement| placement.lock().unwrap().used());
        format!(
            "{{\"operations\": {{{}}}, \"read_nbytes\": {}, \"written_nbytes\": {}, \
             \"dirty_nbytes\": {}, \"fast_nbytes\": {fast}}}\n",
            counts.join(", "),
            self.bytes_read.load(Ordering::Relaxed),
            self.bytes_written.load(Ordering::Relaxed),
            (owed as f64 * rate / 1e9).round() as u64,
        )
    }

    /// Count an operation.
    pub fn count(&self, operation: Operation) {
        self.counts[operation as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn delayed(&self, due: Due) -> Due {
        Due { at: due.at + self.settings.latency, ..due }
    }

    /// The share of a range that the slow medium has to do with; none, if it has nothing to do.
    fn share(&self, nbytes: u64, slow: impl FnOnce(&mut Placement) -> u64) -> Option<f64> {
        let Some(placement) = &self.placement else { return Some(1.0) };
        match slow(&mut placement.lock().unwrap()) {
            0 => None,
            slow => Some(slow as f64 / nbytes as f64),
        }
    }
}

fn cost_of(nbytes: f64, rate: f64) -> Nanos {
    (nbytes * 1e9 / rate).round() as Nanos
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::inodes::Inodes;

    const MB: f64 = 1e6;
    const SECOND: Nanos = 1_000_000_000;
    const FILE: Key = Key { device: 1, number: 4 };

    fn inode() -> std::sync::Arc<Inode> {
        Inodes::new(File::open("/").unwrap().into(), FILE).get(1).unwrap()
    }

    #[test]
    fn reads_and_writes_share_the_bandwidth() {
        let rate = Some(100.0 * MB);
        let tier = Tier::new(Settings { read_rate: rate, write_rate: rate, ..Settings::default() });
        assert_eq!(tier.read(FILE, 0, 10_000_000, SECOND).at, SECOND + SECOND / 10);
        assert_eq!(tier.write(&inode(), 0, 10_000_000, SECOND).at, SECOND + SECOND / 5);
    }

    #[test]
    fn latencies_of_several_requests_overlap() {
        let tier = Tier::new(Settings { latency: 500, ..Settings::default() });
        assert_eq!(tier.operate(Operation::Open, SECOND).at, SECOND + 500);
        assert_eq!(tier.operate(Operation::Open, SECOND).at, SECOND + 500);
        assert_eq!(tier.read(FILE, 0, 1 << 30, SECOND).at, SECOND + 500);
    }

    #[test]
    fn operations_on_names_are_served_one_at_a_time() {
        let tier = Tier::new(Settings { metadata_cost: 1_000, ..Settings::default() });
        assert_eq!(tier.operate(Operation::Open, SECOND).at, SECOND + 1_000);
        assert_eq!(tier.operate(Operation::Unlink, SECOND).at, SECOND + 2_000);
        assert_eq!(tier.read(FILE, 0, 1 << 20, SECOND).at, SECOND);
        let report = tier.report(SECOND);
        assert!(report.contains("\"open\": 1, \"create\": 0"), "{report}");
        assert!(report.contains("\"unlink\": 1"), "{report}");
    }

    #[test]
    fn written_back_is_answered_up_to_the_limit() {
        let settings =
            Settings { write_rate: Some(MB), write_back: Some(2_000_000), ..Settings::default() };
        let tier = Tier::new(settings);
        let inode = inode();
        assert_eq!(tier.write(&inode, 0, 2_000_000, SECOND).at, SECOND);
        assert_eq!(tier.write(&inode, 0, 1_000_000, SECOND).at, 2 * SECOND);
        assert_eq!(tier.settled(&inode), 4 * SECOND);
        assert!(tier.report(SECOND).contains("\"dirty_nbytes\": 3000000"));
        assert!(tier.report(4 * SECOND).contains("\"dirty_nbytes\": 0"));
    }

    #[test]
    fn stripes_are_read_at_once() {
        let stripes = Stripes { nbytes: 1_000_000, count: 4, targets: 4 };
        let settings = Settings { read_rate: Some(MB), stripes, ..Settings::default() };
        assert_eq!(Tier::new(settings).read(FILE, 0, 4_000_000, SECOND).at, 2 * SECOND);
    }

    #[test]
    fn the_fast_medium_answers_at_once_while_it_has_room() {
        let settings = Settings {
            read_rate: Some(MB),
            write_rate: Some(MB),
            fast: Some(1 << 20),
            ..Settings::default()
        };
        let tier = Tier::new(settings);
        let inode = inode();
        assert_eq!(tier.write(&inode, 0, 1 << 20, SECOND).at, SECOND);
        assert_eq!(tier.read(FILE, 0, 1 << 20, SECOND).at, SECOND);
        assert!(tier.write(&inode, 1 << 20, 1_000_000, SECOND).at > SECOND);
        tier.remove(FILE);
        assert!(tier.report(SECOND).contains("\"fast_nbytes\": 0"));
    }
}
