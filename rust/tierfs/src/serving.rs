//! A tier as the kernel sees it: what it knows of the directory beneath, and answers that are given
//! when the tier says so.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use fuser::{
    FileAttr, FileHandle, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyXattr,
};
use nix::errno::Errno;
use nix::sys::stat::{FileStat, fstat};

use crate::backing::{self, Named};
use crate::handles::{Handles, Listing, Open};
use crate::inodes::{Inode, Inodes, Key};
use crate::queue::{FORGIVEN, Nanos};
use crate::starved;
use crate::tier::{Due, Operation, Tier};
use crate::timer::Timer;

/// Numbers of files are not given to others while the kernel knows them.
pub const GENERATION: Generation = Generation(0);

/// The file system of one tier.
pub struct TierFs {
    pub tier: Arc<Tier>,
    pub timer: Timer,
    pub inodes: Inodes,
    pub files: Handles<Open>,
    pub listings: Handles<Listing>,
    /// Whether the directory beneath may say when a file is closed that data of it are lost.
    pub is_told_at_close: bool,
}

impl TierFs {
    /// A directory as a tier.
    pub fn new(root: OwnedFd, tier: Arc<Tier>, timer: Timer) -> Result<Self, Errno> {
        let key = Key::of(&fstat(&root)?);
        let is_told_at_close = backing::is_told_at_close(&root);
        Ok(Self {
            tier,
            timer,
            inodes: Inodes::new(root, key),
            files: Handles::new(),
            listings: Handles::new(),
            is_told_at_close,
        })
    }

    /// The time at which a request would have been seen if this thread had not waited for a
    /// processor.
    pub fn now(&self) -> Nanos {
        let waited = starved::since_last().min(FORGIVEN);
        self.timer.now().saturating_sub(waited)
    }

    /// Answer when it is time to.
    pub fn answer(&self, due: Due, act: impl FnOnce() + Send + 'static) {
        // What this request has waited for since it was seen makes its answer late, not the next one.
        starved::since_last();
        let tier = self.tier.clone();
        self.timer.at(due.at, move |late| {
            tier.was_late(due, late);
            act();
        });
    }

    /// Count and serve an operation on names or attributes.
    pub fn operate(&self, operation: Operation) -> Due {
        self.tier.operate(operation, self.now())
    }

    /// Answer an operation that returns nothing.
    pub fn answer_empty(&self, due: Due, done: Result<(), Errno>, reply: ReplyEmpty) {
        self.answer(due, move || match done {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(said(errno)),
        });
    }

    /// Answer an operation that returns a file by its name.
    pub fn answer_entry(&self, due: Due, found: Result<Named, Errno>, reply: ReplyEntry) {
        let ttl = self.tier.settings.attribute_ttl;
        let found = found.map(|(fd, stat)| self.remember(fd, &stat));
        self.answer(due, move || match found {
            Ok(attributes) => reply.entry(&ttl, &attributes, GENERATION),
            Err(errno) => reply.error(said(errno)),
        });
    }

    /// Answer an operation that returns the attributes of a file.
    pub fn answer_attributes(
        &self,
        due: Due,
        number: INodeNo,
        found: Result<FileStat, Errno>,
        reply: ReplyAttr,
    ) {
        let ttl = self.tier.settings.attribute_ttl;
        self.answer(due, move || match found {
            Ok(stat) => reply.attr(&ttl, &backing::attributes(&stat, number.0)),
            Err(errno) => reply.error(said(errno)),
        });
    }

    /// Answer an operation that opens something.
    pub fn answer_opened(
        &self,
        due: Due,
        opened: Result<(FileHandle, FopenFlags), Errno>,
        reply: ReplyOpen,
    ) {
        self.answer(due, move || match opened {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(errno) => reply.error(said(errno)),
        });
    }

    pub fn remember(&self, fd: OwnedFd, stat: &FileStat) -> FileAttr {
        let number = self.inodes.remember(fd, Key::of(stat));
        backing::attributes(stat, number)
    }

    pub fn stat(&self, number: INodeNo) -> Result<FileStat, Errno> {
        fstat(&self.inodes.get(number.0)?.fd)
    }

    pub fn forget_file(&self, number: INodeNo, lookups: u64) {
        let Some(inode) = self.inodes.forget(number.0, lookups) else { return };
        if backing::is_gone(&inode) {
            self.tier.remove(inode.key);
        }
    }
}

/// Act once all of a file is on its targets: reads that came in between have put that off.
pub fn when_settled(
    timer: &Timer,
    tier: Arc<Tier>,
    inode: Arc<Inode>,
    latency: Nanos,
    act: impl FnOnce() + Send + 'static,
) {
    let settled = tier.settled(&inode);
    if settled <= timer.now() {
        let due = timer.now() + latency;
        timer.at(due, move |_| act());
        return;
    }
    let own = timer.clone();
    timer.at(settled, move |_| when_settled(&own, tier, inode, latency, act));
}

pub fn said(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno as i32)
}

/// Answer with the value of an extended attribute, or with its length if there is no buffer.
pub fn reply_value(reply: ReplyXattr, found: Result<(Vec<u8>, usize), Errno>, size: u32) {
    match found {
        Ok((_, length)) if size == 0 => reply.size(length as u32),
        Ok((value, _)) => reply.data(&value),
        Err(errno) => reply.error(said(errno)),
    }
}
