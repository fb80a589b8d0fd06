//! The counters of a tier, for whoever connects to a socket beside it, and in a file at the end.

use std::fs;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use crate::tier::Tier;
use crate::timer::Timer;

/// Answer everybody who connects with a line of JSON, from a thread that ends with the program.
pub fn serve(path: &Path, tier: Arc<Tier>, timer: Timer) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let run = move || {
        for stream in listener.incoming() {
            // Who connects and goes away again has asked for nothing.
            let _ =
                stream.and_then(|mut stream| stream.write_all(tier.report(timer.now()).as_bytes()));
        }
    };
    std::thread::Builder::new().name("control".into()).spawn(run)?;
    Ok(())
}

/// Leave the counters in a file beside the socket, for who has waited until nobody was there.
pub fn leave(path: &Path, tier: &Tier, timer: &Timer) -> io::Result<()> {
    fs::write(path.with_extension("end"), tier.report(timer.now()))
}
