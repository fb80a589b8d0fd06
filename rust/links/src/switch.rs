//! A switch of ports, behind each of which is a link: which frame goes where, and when.
//!
//! A frame goes up the link of its node, is switched, and goes down the link of each port that it is
//! for. Each step begins when the one before it was due, not when the program came to it. Nothing
//! here waits, reads or writes.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agenda::Agenda;
use crate::clock::Nanos;
use crate::config::{Config, Port};
use crate::counters::{Counts, Lateness};
use crate::frame::{Address, Mode, outline};
use crate::link::{Link, Settings};
use crate::table::Table;

/// The most bytes that are under way, all frames together.
const MOST_NBYTES: usize = 1 << 29;
/// Bytes that a frame takes beside its own.
const BESIDE: usize = 128;

/// A frame under way.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its bytes, as they came.
    pub data: Rc<[u8]>,
    destination: Address,
    packets: u64,
    nbytes: u64,
}

/// A frame that is to be handed over now.
#[derive(Debug)]
pub struct Delivery {
    /// Number of the port.
    pub port: usize,
    /// The frame.
    pub frame: Frame,
    /// The time when it was due.
    pub release: Nanos,
}

#[derive(Debug)]
enum Step {
    /// The frame has come up from a port.
    Switch { from: usize, frame: Frame },
    /// The frame has gone down to a port.
    HandOver { to: usize, frame: Frame },
}

#[derive(Debug)]
struct Direction {
    link: Link,
    counts: Counts,
}

#[derive(Debug)]
struct Ends {
    name: String,
    up: Direction,
    down: Direction,
}

/// A change of the links of a port; what is not named stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// What the node sends.
    pub up: Option<Settings>,
    /// What the node receives.
    pub down: Option<Settings>,
}

/// The switch.
#[derive(Debug)]
pub struct Switch {
    mode: Mode,
    ports: Vec<Ends>,
    table: Table,
    agenda: Agenda<Step>,
    held_nbytes: usize,
    lateness: Lateness,
}

impl Direction {
    fn new(settings: Settings, chance: fastrand::Rng) -> Self {
        Self { link: Link::new(settings, chance), counts: Counts::default() }
    }

    fn report(&self) -> Value {
        json!(Told { counts: &self.counts, link: self.link.settings() })
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    counts: &'a Counts,
    link: &'a Settings,
}

impl Ends {
    fn new(port: &Port, chance: &mut fastrand::Rng) -> Self {
        Self {
            name: port.name.clone(),
            up: Direction::new(port.up, chance.fork()),
            down: Direction::new(port.down, chance.fork()),
        }
    }
}

impl Switch {
    /// A switch on which nothing is under way.
    pub fn new(config: &Config) -> Self {
        let mut chance = fastrand::Rng::with_seed(config.seed);
        let addresses = config.ports.iter().zip(0..).map(|(port, number)| (port.address, number));
        Self {
            mode: config.mode,
            ports: config.ports.iter().map(|port| Ends::new(port, &mut chance)).collect(),
            table: Table::new(addresses.collect()),
            agenda: Agenda::default(),
            held_nbytes: 0,
            lateness: Lateness::default(),
        }
    }

    /// Take what a node sends.
    pub fn accept(&mut self, from: usize, data: &[u8], now: Nanos) {
        let up = &mut self.ports[from].up;
        let Some(seen) = outline(data, self.mode) else {
            up.counts.drops.malformed += 1;
            return;
        };
        self.table.hear(seen.source, from);
        match up.link.carry(now, seen.nbytes) {
            Err(why) => up.counts.failed(why, seen.packets),
            Ok(_) if self.held_nbytes > MOST_NBYTES => up.counts.drops.memory += seen.packets,
            Ok(release) => {
                up.counts.carried(seen.packets, seen.nbytes);
                let frame = Frame {
                    data: data.into(),
                    destination: seen.destination,
                    packets: seen.packets,
                    nbytes: seen.nbytes,
                };
                self.put(release, Step::Switch { from, frame });
            }
        }
    }

    /// The time when there is something to do.
    pub fn next(&self) -> Option<Nanos> {
        self.agenda.first()
    }

    /// The next frame that is to be handed over by now.
    pub fn take(&mut self, now: Nanos) -> Option<Delivery> {
        while let Some((release, step)) = self.agenda.take(now) {
            match step {
                Step::Switch { from, frame } => {
                    self.held_nbytes -= held(&frame);
                    self.forward(from, &frame, release);
                }
                Step::HandOver { to, frame } => {
                    self.held_nbytes -= held(&frame);
                    return Some(Delivery { port: to, frame, release });
                }
            }
        }
        None
    }

    /// Take note that a frame was handed over, or that the device did not take it.
    pub fn handed_over(&mut self, delivery: &Delivery, now: Nanos, was_taken: bool) {
        let Frame { packets, nbytes, .. } = delivery.frame;
        let counts = &mut self.ports[delivery.port].down.counts;
        if !was_taken {
            counts.drops.tap += packets;
            return;
        }
        counts.carried(packets, nbytes);
        self.lateness.count(now.saturating_sub(delivery.release));
    }

    /// Change links for all that comes: all of them, or none and a sentence.
    pub fn change(
        &mut self,
        changes: impl Iterator<Item = (String, Change)>,
    ) -> Result<(), String> {
        let mut found = Vec::new();
        for (name, change) in changes {
            let number = self.ports.iter().position(|port| port.name == name);
            let number = number.ok_or_else(|| format!("there is no port {name:?}"))?;
            for (direction, settings) in [("up", &change.up), ("down", &change.down)] {
                let checked = settings.as_ref().map_or(Ok(()), |one| one.check(self.mode));
                checked.map_err(|why| format!("port {name:?}, {direction}: {why}"))?;
            }
            found.push((number, change));
        }
        for (number, Change { up, down }) in found {
            let port = &mut self.ports[number];
            for (direction, settings) in [(&mut port.up, up), (&mut port.down, down)] {
                if let Some(settings) = settings {
                    direction.link.change(settings);
                }
            }
        }
        Ok(())
    }

    /// All that was counted. A device says how many frames it had no room for, by its port's number.
    pub fn report(&self, overflows: impl Fn(usize) -> u64) -> Value {
        let mut ports = serde_json::Map::new();
        for (number, port) in self.ports.iter().enumerate() {
            let mut up = port.up.report();
            up["drops"]["tap"] = json!(overflows(number));
            ports.insert(port.name.clone(), json!({"up": up, "down": port.down.report()}));
        }
        json!({"mode": self.mode, "ports": ports, "late": self.lateness})
    }

    /// Send a frame down to the port of its station; to all others, if that is not known.
    fn forward(&mut self, from: usize, frame: &Frame, now: Nanos) {
        match self.table.port_of(frame.destination) {
            Some(to) if to == from => {}
            Some(to) => self.send_down(to, frame, now),
            None => {
                for to in (0..self.ports.len()).filter(|to| *to != from) {
                    self.send_down(to, frame, now);
                }
            }
        }
    }

    fn send_down(&mut self, to: usize, frame: &Frame, now: Nanos) {
        let down = &mut self.ports[to].down;
        match down.link.carry(now, frame.nbytes) {
            Err(why) => down.counts.failed(why, frame.packets),
            Ok(release) => self.put(release, Step::HandOver { to, frame: frame.clone() }),
        }
    }

    fn put(&mut self, release: Nanos, step: Step) {
        let (Step::Switch { frame, .. } | Step::HandOver { frame, .. }) = &step;
        self.held_nbytes += held(frame);
        self.agenda.put(release, step);
    }
}

fn held(frame: &Frame) -> usize {
    frame.data.len() + BESIDE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::frame;
    use crate::frame::{HEADER, LARGEST};

    const MS: Nanos = 1_000_000;
    const ALL: Address = [0xff; 6];

    fn station(number: u8) -> Address {
        [2, 0, 0, 0, 0, number]
    }

    fn config(mode: Mode, up: Settings, down: Settings) -> Config {
        let port = |number: u8| Port {
            name: format!("n{number}"),
            namespace: "/proc/self/ns/net".into(),
            device: "eth0".into(),
            address: station(number),
            up,
            down,
        };
        Config { mode, seed: 3, ports: (0..3).map(port).collect() }
    }

    fn switch(up: Settings, down: Settings) -> Switch {
        Switch::new(&config(Mode::Exact, up, down))
    }

    /// Ports and times at which frames come out, in their order.
    fn all(switch: &mut Switch) -> Vec<(usize, Nanos)> {
        let mut out = Vec::new();
        while let Some(now) = switch.next() {
            if let Some(delivery) = switch.take(now) {
                switch.handed_over(&delivery, now, true);
                out.push((delivery.port, delivery.release));
            }
        }
        out
    }

    #[test]
    fn frames_go_to_their_station_and_to_all_where_it_is_unknown() {
        let mut switch = switch(Settings::default(), Settings::default());
        switch.accept(0, &frame(station(1), station(0), 60), 5);
        assert_eq!(all(&mut switch), [(1, 5)]);
        switch.accept(0, &frame(ALL, station(0), 60), 6);
        assert_eq!(all(&mut switch), [(1, 6), (2, 6)]);
        switch.accept(0, &frame(station(9), station(0), 60), 7);
        assert_eq!(all(&mut switch), [(1, 7), (2, 7)]);
        switch.accept(2, &frame(station(0), station(9), 60), 8);
        switch.accept(0, &frame(station(9), station(0), 60), 9);
        assert_eq!(all(&mut switch), [(0, 8), (2, 9)]);
        switch.accept(2, &frame(station(9), station(2), 60), 10);
        assert_eq!(all(&mut switch), []);
    }

    #[test]
    fn both_links_are_passed() {
        let up = Settings { rate_bits: Some(8_000_000), delay_ns: 5 * MS, ..Settings::default() };
        let down = Settings { rate_bits: Some(4_000_000), ..Settings::default() };
        let mut switch = switch(up, down);
        switch.accept(0, &frame(station(1), station(0), 1_000), 0);
        switch.accept(0, &frame(station(1), station(0), 1_000), 0);
        assert_eq!(all(&mut switch), [(1, 8 * MS), (1, 10 * MS)]);
    }

    #[test]
    fn a_late_program_does_not_make_links_slower() {
        let up = Settings { delay_ns: 5 * MS, ..Settings::default() };
        let mut switch = switch(up, Settings { delay_ns: MS, ..Settings::default() });
        switch.accept(0, &frame(station(1), station(0), 60), 0);
        let delivery = switch.take(100 * MS).unwrap();
        assert_eq!(delivery.release, 6 * MS);
        switch.handed_over(&delivery, 100 * MS, true);
        let report = switch.report(|_| 0);
        assert_eq!(report["late"]["most_ns"], json!(94 * MS));
    }

    #[test]
    fn links_down_are_shared_by_all_who_send() {
        let down = Settings { rate_bits: Some(8_000_000), ..Settings::default() };
        let mut switch = switch(Settings::default(), down);
        switch.accept(0, &frame(station(2), station(0), 1_000), 0);
        switch.accept(1, &frame(station(2), station(1), 1_000), 0);
        assert_eq!(all(&mut switch), [(2, MS), (2, 2 * MS)]);
    }

    #[test]
    fn drops_are_counted_where_they_happen() {
        let up = Settings { rate_bits: Some(8_000_000), queue_ns: 0, ..Settings::default() };
        let mut switch = switch(up, Settings { loss: 1.0, ..Settings::default() });
        switch.accept(0, &frame(station(1), station(0), 1_000), 0);
        switch.accept(0, &frame(station(1), station(0), 1_000), 0);
        switch.accept(0, &[1; 13], 0);
        assert_eq!(all(&mut switch), []);
        let report = switch.report(|port| port as u64 + 7);
        let drops = |port: &str, direction: &str| report["ports"][port][direction]["drops"].clone();
        let expected = json!({"loss": 0, "queue": 1, "tap": 7, "memory": 0, "malformed": 1});
        assert_eq!(drops("n0", "up"), expected);
        assert_eq!(drops("n1", "down")["loss"], 1);
        assert_eq!(report["ports"]["n0"]["up"]["packets"], 1);
        assert_eq!(report["ports"]["n0"]["up"]["link"]["rate_bits"], 8_000_000);
    }

    #[test]
    fn what_a_device_does_not_take_is_counted() {
        let mut switch = switch(Settings::default(), Settings::default());
        switch.accept(0, &frame(station(1), station(0), 60), 0);
        let delivery = switch.take(0).unwrap();
        switch.handed_over(&delivery, 0, false);
        let down = &switch.report(|_| 0)["ports"]["n1"]["down"];
        assert_eq!((&down["drops"]["tap"], &down["packets"]), (&json!(1), &json!(0)));
    }

    #[test]
    fn links_change_at_once_or_not_at_all() {
        let mut switch = switch(Settings::default(), Settings::default());
        let delay = Settings { delay_ns: MS, ..Settings::default() };
        let good = Change { up: Some(delay), down: None };
        let bad = Change { up: None, down: Some(Settings { loss: 2.0, ..Settings::default() }) };
        let changes = [("n0".into(), good), ("n1".into(), bad)];
        let why = switch.change(changes.into_iter()).unwrap_err();
        assert!(why.starts_with("port \"n1\", down: loss and reorder are prob"), "{why}");
        switch.accept(0, &frame(station(1), station(0), 60), 0);
        assert_eq!(all(&mut switch), [(1, 0)]);
        let nowhere = [("n0".into(), good), ("n7".into(), good)];
        assert_eq!(switch.change(nowhere.into_iter()).unwrap_err(), "there is no port \"n7\"");
        switch.change([("n0".into(), good)].into_iter()).unwrap();
        switch.accept(0, &frame(station(1), station(0), 60), 1);
        switch.accept(1, &frame(station(0), station(1), 60), 1);
        assert_eq!(all(&mut switch), [(0, 1), (1, MS + 1)]);
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let mut switch =
            switch(Settings { delay_ns: MS, ..Settings::default() }, Settings::default());
        let frame = frame(station(1), station(0), 60_000);
        let accepted = 3 * MOST_NBYTES / 2 / frame.len();
        for _ in 0..accepted {
            switch.accept(0, &frame, 0);
        }
        let report = switch.report(|_| 0);
        let dropped = report["ports"]["n0"]["up"]["drops"]["memory"].as_u64().unwrap() as usize;
        assert!(dropped > accepted / 4 && dropped < accepted / 2, "{dropped} of {accepted}");
        assert!(switch.held_nbytes <= MOST_NBYTES + frame.len() + BESIDE);
        assert_eq!(all(&mut switch).len(), accepted - dropped);
        assert_eq!(switch.held_nbytes, 0);
    }

    #[test]
    fn whatever_comes_is_switched_or_counted() {
        for mode in [Mode::Exact, Mode::Gso] {
            let down = Settings { rate_bits: Some(1_000_000), ..Settings::default() };
            let mut switch = Switch::new(&config(mode, Settings::default(), down));
            let mut chance = fastrand::Rng::with_seed(5);
            let mut data = vec![0; LARGEST];
            let count = 10_000;
            for number in 0..count {
                let nbytes = chance.usize(..=if number % 100 == 0 { LARGEST } else { 200 });
                chance.fill(&mut data[..nbytes.min(HEADER + 80)]);
                switch.accept(chance.usize(..3), &data[..nbytes], number * 1_000);
                while let Some(delivery) = switch.take(number * 1_000) {
                    switch.handed_over(&delivery, number * 1_000, true);
                }
            }
            all(&mut switch);
            assert_eq!(switch.held_nbytes, 0);
            let frames = |ends: &Ends| ends.up.counts.frames + ends.up.counts.drops.malformed;
            assert_eq!(switch.ports.iter().map(frames).sum::<u64>(), count);
        }
    }
}
