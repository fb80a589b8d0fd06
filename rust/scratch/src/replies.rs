//! Answers to the kernel.

use std::time::Duration;

use fuser::{FileAttr, Generation, ReplyEmpty, ReplyEntry, ReplyXattr};
use nix::errno::Errno;

/// Ten years, which is for ever.
pub const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Numbers are never given to another file.
const GENERATION: Generation = Generation(0);

pub fn said(errno: Errno) -> fuser::Errno {
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
