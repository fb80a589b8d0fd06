//! Emulated links: a switch of network namespaces whose ports are slow, distant or lossy.

mod agenda;
mod arguments;
mod carrying;
mod clock;
mod config;
mod control;
mod counters;
mod frame;
mod link;
mod switch;
mod table;
mod tap;

use std::fs;
use std::process::ExitCode;

use hyperslab_programs::processor::{go_first, precise_sleep};
use hyperslab_programs::starting::{ending_signals, say_ready};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};

use crate::arguments::Arguments;
use crate::carrying::Carrier;
use crate::switch::Switch;
use crate::tap::Tap;

/// Code of a program that was called in a wrong way.
const USAGE: u8 = 2;
/// How much sooner than others the program gets a processor: before those who measure.
const PRIORITY: libc::c_int = 10;

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.iter().any(|argument| argument == "--help") {
        print!("{}", arguments::USAGE);
        return ExitCode::SUCCESS;
    }
    let arguments = match arguments::parse(given) {
        Ok(arguments) => arguments,
        Err(why) => return fail(&why, USAGE),
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&why, 1),
    }
}

fn fail(why: &str, code: u8) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(code)
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let Arguments { config: path, control: socket } = arguments;
    let wrong = |why: String| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let config = config::parse(&text).map_err(wrong)?;
    let signals = readable_signals().map_err(|errno| errno.desc().to_string())?;
    let taps: Result<Vec<Tap>, String> =
        config.ports.iter().map(|port| Tap::open(port, config.mode)).collect();
    let taps = taps?;
    // Links are changed by who has started the program, and by nobody else.
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    let requests = control::serve(socket)
        .map_err(|error| format!("{} cannot be made: {error}", socket.display()))?;
    go_first(PRIORITY);
    precise_sleep();
    let mut carrier = Carrier::new(Switch::new(&config), taps, requests, signals);
    say_ready().map_err(|error| error.to_string())?;
    let ended = carrier.run();
    // Whoever has removed the folder has removed the socket.
    let _ = fs::remove_file(socket);
    ended
}

/// The signals that end the program, as something to be read.
fn readable_signals() -> nix::Result<SignalFd> {
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&ending_signals()?, flags)
}
