//! The program in the kernel: loaded, told what to look at, and heard.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use aya::maps::{Array, Map, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, include_bytes_aligned};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::plans::{Plan, Plans};

/// Programs, by the tracepoints that run them. The last one follows: what it adds is looked at whole.
const TRACEPOINTS: [(&str, &str); 3] =
    [("on_exit", "sys_exit"), ("on_enter", "sys_enter"), ("on_fork", "sched_process_fork")];
const FAULTS: [&str; 5] =
    ["lost_calls", "lost_threads", "unread_names", "cut_paths", "foreign_calls"];
static OBJECT: &[u8] = include_bytes_aligned!("calls.bpf.o");
/// Size of `struct thread` of calls.bpf.c, whose first field says that it is the counter's.
const THREAD_NBYTES: usize = 72 + 48 + 8192;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;

/// Calls that are looked at, until it is dropped.
pub struct Kernel {
    ring: RingBuf<MapData>,
    faults: Array<MapData, u64>,
    _programs: Ebpf,
}

/// What went wrong, and how often: places of `faults` in calls.bpf.c.
#[derive(Debug, Default, PartialEq)]
pub struct Faults([u64; FAULTS.len()]);

impl Faults {
    /// The counts as JSON.
    pub fn told(&self) -> String {
        let pairs = FAULTS.iter().zip(self.0);
        let told: Vec<_> = pairs.map(|(name, count)| format!("\"{name}\": {count}")).collect();
        format!("{{{}}}", told.join(", "))
    }
}

impl Kernel {
    /// Look at calls of all that this thread starts from now on. A sentence if the kernel refuses.
    pub fn start(plans: &Plans, ring_nbytes: Option<u32>) -> Result<Self, String> {
        let btf = Btf::from_sys_fs()
            .map_err(|error| format!("the kernel tells nothing of its structures ({error})"))?;
        let mut loader = EbpfLoader::new();
        loader.btf(Some(&btf)).allow_unsupported_maps();
        if let Some(nbytes) = ring_nbytes {
            loader.map_max_entries("ring", nbytes);
        }
        let mut programs = loader.load(OBJECT).map_err(|error| refusal(&error))?;
        set_plans(&mut programs, plans)?;
        follow_own(programs.map("threads").ok_or("the program has no threads")?)?;
        for (program, tracepoint) in TRACEPOINTS {
            attach(&mut programs, program, tracepoint, &btf).map_err(|error| refusal(&*error))?;
        }
        // Not taken before: programs are loaded with descriptors of maps.
        let faults = Array::try_from(taken(&mut programs, "faults")?).map_err(|e| refusal(&e))?;
        let ring = RingBuf::try_from(taken(&mut programs, "ring")?).map_err(|e| refusal(&e))?;
        Ok(Self { ring, faults, _programs: programs })
    }

    /// Hand over what has come.
    pub fn take(&mut self, mut each: impl FnMut(&[u8])) {
        while let Some(record) = self.ring.next() {
            each(&record);
        }
    }

    /// Wait until much has come, or for some time.
    pub fn wait(&self, period: Duration) -> Result<(), String> {
        let mut ring = [PollFd::new(self.ring.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(period).unwrap_or(PollTimeout::ZERO);
        match poll(&mut ring, limit) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.desc().to_string()),
        }
    }

    /// What went wrong so far.
    pub fn faults(&self) -> Result<Faults, String> {
        let mut found = Faults::default();
        for (place, count) in (0..).zip(&mut found.0) {
            *count = self.faults.get(&place, 0).map_err(|error| error.to_string())?;
        }
        Ok(found)
    }
}

fn attach(
    programs: &mut Ebpf,
    name: &str,
    tracepoint: &str,
    btf: &Btf,
) -> Result<(), Box<dyn std::error::Error>> {
    let program = programs.program_mut(name).ok_or("the program is not there")?;
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, btf)?;
    program.attach()?;
    Ok(())
}

fn taken(programs: &mut Ebpf, name: &str) -> Result<Map, String> {
    programs.take_map(name).ok_or(format!("the program has no {name}"))
}

fn set_plans(programs: &mut Ebpf, plans: &Plans) -> Result<(), String> {
    let map = programs.map_mut("plans").ok_or("the program has no plans")?;
    let mut by_number: Array<_, Plan> = Array::try_from(map).map_err(|error| refusal(&error))?;
    for (number, plan) in &plans.by_number {
        by_number.set(*number, *plan, 0).map_err(|error| refusal(&error))?;
    }
    Ok(())
}

/// Mark this thread as the one that starts the command.
fn follow_own(threads: &Map) -> Result<(), String> {
    let Map::Unsupported(threads) = threads else {
        return Err("threads are no storage of tasks".into());
    };
    let own = own_descriptor().map_err(|error| error.to_string())?;
    let mut value = [0_u8; THREAD_NBYTES];
    value[0] = 1;
    let key = own.as_raw_fd();
    let update = Update {
        map: threads.fd().as_fd().as_raw_fd() as u32,
        unused: 0,
        key: (&raw const key) as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the call reads a key of four bytes and a value of the map's size, both of which are
    // there until it returns.
    let done = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_MAP_UPDATE_ELEM, &raw const update, size_of::<Update>())
    };
    if done < 0 {
        return Err(refusal(&io::Error::last_os_error()));
    }
    Ok(())
}

/// What bpf(2) takes for a new value of a map.
#[repr(C)]
struct Update {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A descriptor of this process, as the kernel's storage of tasks wants it.
fn own_descriptor() -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers alone.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: nobody else has this descriptor, which the call has made.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// What the kernel said, on one line: the innermost reason.
fn refusal(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    let said: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_by_name() {
        let told = Faults([1, 0, 2, 0, 3]).told();
        assert!(told.starts_with(r#"{"lost_calls": 1, "lost_threads": 0, "unread_names": 2"#));
        assert!(told.ends_with(r#""cut_paths": 0, "foreign_calls": 3}"#));
    }
}
