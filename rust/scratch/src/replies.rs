//! Answers to the kernel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuser::{FileAttr, Generation, ReplyEmpty, ReplyEntry, ReplyXattr};
use hyperslab_programs::starting::say_line;
use nix::errno::Errno;

/// Ten years, which is for ever.
pub const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Numbers are never given to another file.
const GENERATION: Generation = Generation(0);

/// Whether anybody was told that there is no room.
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// An error as the kernel takes it. The first one for want of room is said on standard error, too:
/// programs that fail by it name a file, and not the scratch that is full.
pub fn said(errno: Errno) -> fuser::Errno {
    if errno == Errno::ENOSPC && !IS_FULL.swap(true, Ordering::Relaxed) {
        say_line("full: no space left on device");
    }
    fuser::Errno::from_i32(errno as i32)
}

pub fn reply_entry(reply: ReplyEntry, found: Result<FileAttr, Errno>) {
    match found {
        Ok(attributes) => reply.entry(&FOR_EVER, &attributes, GENERATION),
        Err(errno) => reply.error(said(errno)),
    }
}

pub fn reply_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(said(errno)),
    }
}

/// Answer with the value of an extended attribute, or with its length if there is no buffer.
pub fn reply_value(reply: ReplyXattr, found: Result<Vec<u8>, Errno>, size: u32) {
    match found {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(said(errno)),
    }
}
