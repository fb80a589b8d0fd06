//! A program that another one has started: says that it is ready, and ends by a signal.

use std::io::{self, Write};
use std::path::Path;

use nix::mount::{MntFlags, umount2};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Tell whoever waits at the standard output that all is made.
pub fn say_ready() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(b"ready\n")?;
    out.flush()
}

/// Say a line on standard error in one piece: whoever reads it meanwhile sees all of it, or nothing.
pub fn say_line(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The signals that end the program, which no thread takes by itself that is started from now on.
pub fn ending_signals() -> nix::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(signals)
}

/// End when whoever has started the program is gone, whose end of the standard input is closed then, and
/// cut off those who are still in the directory that it serves.
pub fn end_with_input(unmount: impl FnOnce() -> io::Result<()>, mountpoint: &Path) {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    if unmount().is_err() {
        let _ = umount2(mountpoint, MntFlags::MNT_DETACH);
    }
    std::process::exit(0);
}

/// End with all threads when one of them fails: who waits for its answer would wait for ever.
pub fn end_together() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |told| {
        say(told);
        std::process::abort();
    }));
}

/// Have files grow as far as the user may let them (`ulimit -f`), whose limit is for other programs,
/// and a write beyond that fail, which ends the program else.
pub fn fail_at_limits() -> nix::Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_FSIZE)?;
    setrlimit(Resource::RLIMIT_FSIZE, most, most)?;
    // SAFETY: nothing runs when the signal comes.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.map(drop)
}
