//! A program that another one has started: says that it is ready, and ends by a signal.

use std::io::{self, Write};

use nix::sys::signal::{SigHandler, SigSet, Signal, signal};

/// Tell whoever waits at the standard output that all is made.
pub fn say_ready() -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(b"ready\n")?;
    out.flush()
}

/// The signals that end the program, which no thread takes by itself that is started from now on.
pub fn ending_signals() -> nix::Result<SigSet> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    Ok(signals)
}

/// Have a write fail that goes beyond a limit of the user's (`ulimit -f`), which ends the program else.
pub fn fail_at_limits() -> nix::Result<()> {
    // SAFETY: nothing runs when the signal comes.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.map(drop)
}
