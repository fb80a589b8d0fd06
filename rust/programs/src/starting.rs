//! A program that another one has started: says that it is ready, and ends by a signal.

use std::io::{self, Write};

use nix::sys::signal::{SigSet, Signal};

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
