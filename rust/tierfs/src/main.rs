//! Emulated storage tiers: a directory through FUSE, as slow as a slower storage would be.

// Bytes and nanoseconds become costs, in which no single one of them counts.
#![allow(clippy::cast_precision_loss)]

mod arguments;
mod backing;
mod contents;
mod control;
mod filesystem;
mod handles;
mod inodes;
mod names;
mod placement;
mod queue;
mod serving;
mod starved;
mod stripes;
mod tier;
mod timer;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use hyperslab_programs::processor::go_first;
use hyperslab_programs::starting::{
    end_together, end_with_input, ending_signals, fail_at_limits, say_ready,
};
use nix::fcntl::OFlag;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};

use crate::arguments::Arguments;
use crate::serving::TierFs;
use crate::tier::Tier;
use crate::timer::Timer;

/// Threads that take requests. None waits for a tier, but any may wait for the directory beneath.
const THREADS: usize = 8;
/// How much sooner than others the program gets a processor: as soon as those who measure tiers.
const PRIORITY: libc::c_int = 1;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.iter().any(|argument| argument == "--help") {
        print!("{}", arguments::USAGE);
        return ExitCode::SUCCESS;
    }
    match arguments::parse(given).and_then(|arguments| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let shown = arguments.backing.display();
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(&arguments.backing, flags, Mode::empty())
        .map_err(|errno| format!("{shown} cannot be opened: {}", errno.desc()))?;
    end_together();
    fail_at_limits().map_err(|errno| errno.desc().to_string())?;
    allow_many_files().map_err(|errno| format!("no limit of open files: {}", errno.desc()))?;
    // The kernel has applied the caller's mask already.
    umask(Mode::empty());
    let signals = ending_signals().map_err(|errno| errno.desc().to_string())?;
    go_first(PRIORITY);
    let timer = Timer::start().map_err(|error| error.to_string())?;
    let tier = Arc::new(Tier::new(arguments.settings.clone()));
    let filesystem = TierFs::new(root, tier.clone(), timer.clone())
        .map_err(|errno| format!("{shown} has no attributes: {}", errno.desc()))?;
    let mut session = Session::new(filesystem, &arguments.mountpoint, &config(arguments))
        .map_err(|error| error.to_string())?;
    if let Some(path) = &arguments.control {
        control::serve(path, tier.clone(), timer.clone())
            .map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
    }
    unmount_on(signals, session.unmount_callable()).map_err(|error| error.to_string())?;
    if arguments.has_lifeline {
        unmount_with_input(session.unmount_callable(), arguments.mountpoint.clone())
            .map_err(|error| error.to_string())?;
    }
    say_ready().map_err(|error| error.to_string())?;
    let ended = session.run();
    // What was counted is told however the session ended.
    if let Some(path) = &arguments.control {
        control::leave(path, &tier, &timer).map_err(|error| error.to_string())?;
    }
    ended.map_err(|error| error.to_string())
}

fn config(arguments: &Arguments) -> Config {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(arguments.name.clone()),
        type_option(&arguments.subtype, &kernel),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    config.acl = if arguments.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config
}

/// The type of the mount, also where the kernel is asked for it without a helper (`fusermount3`): it
/// takes the type as an option of its own since 5.4 (fs/fuse/inode.c: `fuse_fs_parameters`).
fn type_option(subtype: &str, kernel: &str) -> MountOption {
    let mut numbers = kernel.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= (5, 4) {
        return MountOption::CUSTOM(format!("subtype={subtype}"));
    }
    MountOption::Subtype(subtype.into())
}

/// Raise the limit of open files as far as it goes: every file that the kernel knows is one.
fn allow_many_files() -> nix::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)
}

/// Unmount on a signal; while somebody is in the directory, say so and go on.
fn unmount_on(signals: SigSet, mut unmounter: SessionUnmounter) -> io::Result<()> {
    let run = move || {
        while signals.wait().is_ok() {
            if let Err(error) = unmounter.unmount() {
                eprintln!("not unmounted: {error}");
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(run)?;
    Ok(())
}

/// Unmount, and end, when whoever has started the program is gone.
fn unmount_with_input(mut unmounter: SessionUnmounter, mountpoint: PathBuf) -> io::Result<()> {
    let run = move || end_with_input(|| unmounter.unmount(), &mountpoint);
    std::thread::Builder::new().name("lifeline".into()).spawn(run)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_not_asked_for_a_type() {
        let asked = MountOption::CUSTOM("subtype=a".into());
        assert_eq!(type_option("a", "5.4.0-150-generic\n"), asked);
        assert_eq!(type_option("a", "6.1\n"), asked);
        let left_to_helper = MountOption::Subtype("a".into());
        assert_eq!(type_option("a", "4.18.0-553.el8_10.x86_64\n"), left_to_helper);
        assert_eq!(type_option("a", ""), left_to_helper);
    }
}
