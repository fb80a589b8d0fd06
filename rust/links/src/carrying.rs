//! The loop that carries frames: waits, reads, hands over.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hyperslab_programs::processor::{Times, scheduling};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use serde_json::{Value, json};

use crate::clock::Nanos;
use crate::control::{Request, Requests};
use crate::frame::LARGEST;
use crate::switch::Switch;
use crate::tap::Tap;

/// Frames that are read from a port, or handed over, before others have their turn.
const TURN: usize = 32;

/// All that the loop has to do with.
pub struct Carrier {
    /// Says which frame goes where, and when.
    pub switch: Switch,
    /// Devices of the switch's ports.
    pub taps: Vec<Tap>,
    /// Requests about links.
    pub requests: Requests,
    /// Signals that end the program.
    pub signals: SignalFd,
    began: Instant,
    buffer: Vec<u8>,
}

/// What there is to do after waiting.
struct Ready {
    is_over: bool,
    is_asked: bool,
    ports: Vec<usize>,
}

impl Carrier {
    /// A loop whose clock begins now.
    pub fn new(switch: Switch, taps: Vec<Tap>, requests: Requests, signals: SignalFd) -> Self {
        let buffer = vec![0; LARGEST];
        Self { switch, taps, requests, signals, began: Instant::now(), buffer }
    }

    /// Carry frames until the standard input or a signal ends it.
    pub fn run(&mut self) -> Result<(), String> {
        loop {
            let ready = self.wait().map_err(|errno| format!("no waiting: {}", errno.desc()))?;
            if ready.is_over && self.is_over() {
                return Ok(());
            }
            if ready.is_asked {
                self.answer();
            }
            self.hand_over();
            for port in ready.ports {
                self.read(port);
                self.hand_over();
            }
        }
    }

    fn now(&self) -> Nanos {
        self.began.elapsed().as_nanos() as Nanos
    }

    /// Wait until something is to be read, asked or handed over.
    fn wait(&self) -> nix::Result<Ready> {
        let input = io::stdin();
        let here: Vec<usize> =
            (0..self.taps.len()).filter(|at| !self.taps[*at].is_gone()).collect();
        let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut all = vec![
            polled(input.as_fd()),
            polled(self.signals.as_fd()),
            polled(self.requests.event.as_fd()),
        ];
        all.extend(here.iter().map(|port| polled(self.taps[*port].as_fd())));
        let left = self.switch.next().map(|due| due.saturating_sub(self.now()));
        match ppoll(&mut all, left.map(|left| Duration::from_nanos(left).into()), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        let is_ready = |one: &PollFd| one.any().unwrap_or(true);
        let ports = here.into_iter().zip(&all[3..]).filter(|(_, one)| is_ready(one));
        Ok(Ready {
            is_over: is_ready(&all[0]) || is_ready(&all[1]),
            is_asked: is_ready(&all[2]),
            ports: ports.map(|(port, _)| port).collect(),
        })
    }

    /// Whether a signal has come, or whoever held the other end of the standard input is gone.
    fn is_over(&self) -> bool {
        let was_told = matches!(self.signals.read_signal(), Ok(Some(_)));
        was_told || Self::is_alone()
    }

    fn is_alone() -> bool {
        let input = io::stdin();
        let mut all = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        let has_some = ppoll(&mut all, Some(Duration::ZERO.into()), None).unwrap_or(0) > 0;
        has_some && !matches!(input.lock().read(&mut [0; 64]), Ok(1..))
    }

    fn read(&mut self, port: usize) {
        for _ in 0..TURN {
            let Some(nbytes) = self.taps[port].read(&mut self.buffer) else { return };
            let now = self.now();
            self.switch.accept(port, &self.buffer[..nbytes], now);
        }
    }

    /// Hand over what is due, as many frames as there are turns for all ports.
    fn hand_over(&mut self) {
        for _ in 0..TURN * self.taps.len() {
            let now = self.now();
            let Some(delivery) = self.switch.take(now) else { return };
            let was_taken = self.taps[delivery.port].write(&delivery.frame.data);
            self.switch.handed_over(&delivery, now, was_taken);
        }
    }

    fn answer(&mut self) {
        // The number of requests does not matter: all that wait are answered.
        let _ = self.requests.event.read();
        while let Ok(asked) = self.requests.waiting.try_recv() {
            let answer = match asked.request {
                Request::Get => self.report(),
                Request::Set(changes) => match self.switch.change(changes.into_iter()) {
                    Ok(()) => json!({"ok": true}),
                    Err(why) => json!({"error": why}),
                },
            };
            // Who has gone away wants no answer.
            let _ = asked.answer.send(answer);
        }
    }

    fn report(&self) -> Value {
        let mut report = self.switch.report(|port| self.taps[port].overflows());
        report["time_ns"] = json!(self.now());
        let times = Times::own();
        report["cpu_ns"] = json!(times.map(|times| times.cpu_ns));
        report["waited_ns"] = json!(times.map(|times| times.waited_ns));
        report["scheduling"] = json!(scheduling());
        report
    }
}
