//! The command, and all that it has started.

use std::ffi::OsString;
use std::process;

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Exit status of a shell for a command that signal 0 would end.
const SIGNAL: i32 = 128;

/// A command that was started.
pub struct Command {
    first: Pid,
    /// Its exit status as a shell has it, once it has ended.
    pub status: u8,
}

impl Command {
    /// Start a command; whatever it leaves behind comes to this process.
    pub fn start(words: &[OsString]) -> Result<Self, String> {
        set_child_subreaper(true).map_err(|errno| errno.desc().to_string())?;
        leave_interrupts().map_err(|errno| errno.desc().to_string())?;
        let child = process::Command::new(&words[0])
            .args(&words[1..])
            .spawn()
            .map_err(|error| format!("{}: {error}", words[0].display()))?;
        Ok(Self { first: Pid::from_raw(child.id() as i32), status: 0 })
    }

    /// Whether it has ended, and all that it has started.
    pub fn is_over(&mut self) -> Result<bool, String> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => self.end(pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => self.end(pid, SIGNAL + signal as i32),
                Ok(WaitStatus::StillAlive) => return Ok(false),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::ECHILD) => return Ok(true),
                Err(errno) => return Err(errno.desc().to_string()),
            }
        }
    }

    fn end(&mut self, pid: Pid, status: i32) {
        if pid == self.first {
            self.status = status as u8;
        }
    }
}

/// Have Ctrl-C end the command alone, which takes it as if it was started without this program.
fn leave_interrupts() -> nix::Result<()> {
    let nothing = SigAction::new(SigHandler::Handler(ignore), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler does nothing.
    unsafe { sigaction(Signal::SIGINT, &nothing) }.map(drop)
}

extern "C" fn ignore(_: i32) {}
