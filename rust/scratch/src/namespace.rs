//! Namespaces in which a user may mount a file system that nobody else sees.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{getegid, geteuid};

/// Go on in the user namespace of the first process that lets this one in, or else in one of its
/// own, as the same user, and see mounts of its own.
///
/// Processes of two user namespaces may not look into one another, even if they are one user's.
/// No other thread may be there yet.
pub fn leave(beside: &[u32]) -> io::Result<()> {
    if !beside.iter().any(|pid| join_user(*pid).is_ok()) {
        make_user()?;
    }
    unshare(CloneFlags::CLONE_NEWNS)?;
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)?;
    Ok(())
}

fn make_user() -> io::Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

fn join_user(pid: u32) -> io::Result<()> {
    let user = File::open(format!("/proc/{pid}/ns/user"))?;
    Ok(setns(user, CloneFlags::CLONE_NEWUSER)?)
}

/// Become a command that sees what a process has mounted; returns if that is not possible.
pub fn enter(pid: u32, command: &[String]) -> io::Error {
    match join(pid) {
        Ok(()) => Command::new(&command[0]).args(&command[1..]).exec(),
        Err(error) => error,
    }
}

fn join(pid: u32) -> io::Result<()> {
    let here = std::env::current_dir()?;
    let theirs = PathBuf::from(format!("/proc/{pid}/ns"));
    let (user, mounts) = (File::open(theirs.join("user"))?, File::open(theirs.join("mnt"))?);
    if !is_same(&user, Path::new("/proc/self/ns/user"))? {
        setns(user, CloneFlags::CLONE_NEWUSER)?;
    }
    if !is_same(&mounts, Path::new("/proc/self/ns/mnt"))? {
        setns(mounts, CloneFlags::CLONE_NEWNS)?;
    }
    std::env::set_current_dir(here)
}

fn is_same(namespace: &File, own: &Path) -> io::Result<bool> {
    let (theirs, own) = (namespace.metadata()?, std::fs::metadata(own)?);
    Ok((theirs.dev(), theirs.ino()) == (own.dev(), own.ino()))
}
