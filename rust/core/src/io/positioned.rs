//! Reading bytes at a position of an open file.
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Fault;
use crate::io::pool::{Permits, Width, for_each};

/// Up to here bytes are asked for at once: a system call for a stored chunk of usual size.
pub const USUAL: usize = 64 << 20;
/// Of more bytes so many are asked for at once, so that a long read can be stopped.
const PIECE: usize = 8 << 20;

/// Fill `nbytes` of memory from a position of a file.
///
/// # Safety
/// `to` points to `nbytes` of writable memory that nobody else uses meanwhile.
pub unsafe fn pread(
    fd: RawFd,
    mut at: u64,
    mut to: *mut u8,
    nbytes: usize,
    stop: &AtomicBool,
) -> Result<(), Fault> {
    let most = if nbytes <= USUAL { USUAL } else { PIECE };
    let mut left = nbytes;
    while left > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(Fault::Cancelled);
        }
        let position = i64::try_from(at).map_err(|_| Fault::Short(at, left as u64))?;
        // SAFETY: the caller vouches for `left` bytes from `to`.
        let count = unsafe { libc::pread64(fd, to.cast(), left.min(most), position) };
        match usize::try_from(count) {
            Ok(0) => return Err(Fault::Short(at, left as u64)),
            Ok(count) => {
                // SAFETY: the system has written `count` of the `left` bytes.
                to = unsafe { to.add(count) };
                at += count as u64;
                left -= count;
            }
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(Fault::Unreadable(at, error.to_string()));
                }
            }
        }
    }
    Ok(())
}

/// Bytes of one read where several are in flight: long enough that the call itself does not count.
const PART: usize = 4 << 20;

/// Fill memory from a position of a file, with several reads in flight if it is long.
///
/// # Safety
/// As for `pread`.
pub unsafe fn pread_wide(
    fd: RawFd,
    at: u64,
    to: *mut u8,
    nbytes: usize,
    depth: usize,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), Fault> {
    let memory = Memory(to);
    let part = |row: usize, (): &mut (), _: &Permits<()>, stop: &AtomicBool| {
        let first = row * PART;
        // SAFETY: the parts are disjoint pieces of what the caller vouches for.
        unsafe { pread(fd, at + first as u64, memory.at(first), PART.min(nbytes - first), stop) }
    };
    let width = Width { threads: depth, depth };
    for_each(nbytes.div_ceil(PART), width, go_on, &part).map_err(|chunk| chunk.fault)
}

/// A pointer that threads may share.
struct Memory(*mut u8);

// SAFETY: the threads of `pread_wide` write disjoint parts of it.
unsafe impl Sync for Memory {}

impl Memory {
    /// # Safety
    /// `offset` lies within the memory.
    unsafe fn at(&self, offset: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.0.add(offset) }
    }
}
