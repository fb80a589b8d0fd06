//! One direction of a link: what it loses, how fast it sends, and how far it goes.

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Nanos};
use crate::frame::Mode;

/// The longest time of a setting: an hour.
const LONGEST: Nanos = 3_600_000_000_000;
/// How long packets wait at most before they are sent, unless it is said otherwise: 50 ms.
const QUEUE: Nanos = 50_000_000;

/// What a link is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Bits that are sent in a second; without: any number.
    pub rate_bits: Option<u64>,
    /// Time from where a packet was sent to where it arrives.
    pub delay_ns: Nanos,
    /// By how much that time is longer or shorter at most, evenly spread.
    pub jitter_ns: Nanos,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet is not delayed, and overtakes those that are.
    pub reorder: f64,
    /// How long packets wait at most before they are sent.
    pub queue_ns: Nanos,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rate_bits: None,
            delay_ns: 0,
            jitter_ns: 0,
            loss: 0.0,
            reorder: 0.0,
            queue_ns: QUEUE,
        }
    }
}

impl Settings {
    /// A sentence if no link can be like that.
    pub fn check(&self, mode: Mode) -> Result<(), String> {
        if self.rate_bits == Some(0) {
            return Err("a rate is at least one bit in a second, or null for none".into());
        }
        if [self.delay_ns, self.jitter_ns, self.queue_ns].iter().any(|time| *time > LONGEST) {
            return Err("delay, jitter and queue are of an hour at most".into());
        }
        if [self.loss, self.reorder].iter().any(|share| !(0.0..=1.0).contains(share)) {
            return Err("loss and reorder are probabilities, from 0 to 1".into());
        }
        if self.reorder > 0.0 && self.delay_ns == 0 {
            return Err("without a delay there is nothing to overtake: reorder needs one".into());
        }
        if mode == Mode::Gso && (self.loss > 0.0 || self.reorder > 0.0) {
            return Err(
                "loss and reorder are of single packets, and the mode \"gso\" has up to 45 \
                 of them in one: they need the mode \"exact\""
                    .into(),
            );
        }
        Ok(())
    }
}

/// Why a link did not carry a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    /// It was to be lost.
    Loss,
    /// Too many were waiting.
    Queue,
}

/// A direction of a link, with what is under way.
#[derive(Debug)]
pub struct Link {
    settings: Settings,
    clock: Clock,
    /// When the last packet arrives that no other one may overtake.
    last: Nanos,
    chance: fastrand::Rng,
}

impl Link {
    /// A link on which nothing is under way.
    pub fn new(settings: Settings, chance: fastrand::Rng) -> Self {
        Self { settings, clock: Clock::default(), last: 0, chance }
    }

    /// What the link is like.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Change what the link is like for all that comes; what is under way stays as it is.
    pub fn change(&mut self, settings: Settings) {
        self.settings = settings;
        self.clock.change_rate();
    }

    /// Carry so many bytes: the time when they have arrived at the other end.
    pub fn carry(&mut self, arrival: Nanos, nbytes: u64) -> Result<Nanos, Failure> {
        if self.happens(self.settings.loss) {
            return Err(Failure::Loss);
        }
        let sent = match self.settings.rate_bits {
            None => arrival,
            Some(_) if self.clock.backlog(arrival) > self.settings.queue_ns => {
                return Err(Failure::Queue);
            }
            Some(rate) => self.clock.send(arrival, nbytes, rate),
        };
        if self.happens(self.settings.reorder) {
            return Ok(sent);
        }
        self.last = self.last.max(sent.saturating_add(self.delay()));
        Ok(self.last)
    }

    fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.chance.f64() < probability
    }

    fn delay(&mut self) -> Nanos {
        let Settings { delay_ns, jitter_ns, .. } = self.settings;
        if jitter_ns == 0 {
            return delay_ns;
        }
        (delay_ns + self.chance.u64(..=2 * jitter_ns)).saturating_sub(jitter_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn link(settings: Settings) -> Link {
        Link::new(settings, fastrand::Rng::with_seed(7))
    }

    #[test]
    fn a_wire_without_settings_is_none() {
        assert_eq!(link(Settings::default()).carry(5, 1_500), Ok(5));
    }

    #[test]
    fn delay_comes_after_sending() {
        let settings =
            Settings { rate_bits: Some(8_000_000), delay_ns: 5 * MS, ..Settings::default() };
        let mut link = link(settings);
        assert_eq!(link.carry(0, 1_000), Ok(6 * MS));
        assert_eq!(link.carry(0, 1_000), Ok(7 * MS));
    }

    #[test]
    fn the_queue_is_limited_in_time() {
        let mut link = link(Settings { rate_bits: Some(8_000_000), ..Settings::default() });
        let carried = (0..100).filter(|_| link.carry(0, 1_000).is_ok()).count();
        assert_eq!(carried, 51); // 50 ms are full, the one that fills them included
        assert_eq!(link.carry(0, 1_000), Err(Failure::Queue));
        assert_eq!(link.carry(MS, 1_000), Ok(52 * MS));
    }

    #[test]
    fn one_that_is_longer_than_the_queue_still_passes() {
        let mut link =
            link(Settings { rate_bits: Some(8_000), queue_ns: 0, ..Settings::default() });
        assert_eq!(link.carry(0, 1_000), Ok(1_000 * MS));
        assert_eq!(link.carry(1, 1_000), Err(Failure::Queue));
    }

    #[test]
    fn loss_is_as_frequent_as_asked_for() {
        let mut link = link(Settings { loss: 0.02, ..Settings::default() });
        let lost = (0..100_000).filter(|_| link.carry(0, 1) == Err(Failure::Loss)).count();
        assert!((1_850..2_150).contains(&lost), "{lost}");
    }

    #[test]
    fn the_same_seed_loses_the_same_packets() {
        let lost = || {
            let mut link = link(Settings { loss: 0.3, ..Settings::default() });
            (0..1_000).map(|_| link.carry(0, 1).is_err()).collect::<Vec<_>>()
        };
        assert_eq!(lost(), lost());
    }

    #[test]
    fn jitter_keeps_the_order_and_the_bounds() {
        let settings = Settings { delay_ns: 5 * MS, jitter_ns: MS, ..Settings::default() };
        let mut link = link(settings);
        let mut before = 0;
        for number in 0..10_000 {
            let now = number * 10_000;
            let release = link.carry(now, 1_500).unwrap();
            assert!(release >= before);
            assert!(release >= now + 4 * MS && release <= now + 6 * MS);
            before = release;
        }
    }

    #[test]
    fn jitter_of_packets_far_apart_is_even_around_the_delay() {
        let settings = Settings { delay_ns: 5 * MS, jitter_ns: MS, ..Settings::default() };
        let mut link = link(settings);
        let count = 10_000;
        let delays: Vec<Nanos> = (0..count)
            .map(|number| link.carry(number * 100 * MS, 1).unwrap() % (100 * MS))
            .collect();
        let mean = delays.iter().sum::<Nanos>() / count;
        assert!(mean.abs_diff(5 * MS) < MS / 50, "{mean}");
        assert!(*delays.iter().min().unwrap() < 4 * MS + MS / 50);
        assert!(*delays.iter().max().unwrap() > 6 * MS - MS / 50);
    }

    #[test]
    fn more_jitter_than_delay_does_not_go_back_in_time() {
        let mut link = link(Settings { delay_ns: 1, jitter_ns: MS, ..Settings::default() });
        assert!(
            (0..1_000).all(|number| link.carry(number * 10 * MS, 1).unwrap() >= number * 10 * MS)
        );
    }

    #[test]
    fn packets_overtake_where_that_is_asked_for() {
        let mut link = link(Settings { delay_ns: 5 * MS, reorder: 0.25, ..Settings::default() });
        let releases: Vec<Nanos> = (0..10_000).map(|at| link.carry(at, 1).unwrap()).collect();
        let early = releases.iter().zip(0..).filter(|(release, at)| *release == at).count();
        assert!((2_300..2_700).contains(&early), "{early}");
        let rest =
            releases.iter().zip(0..).filter(|(release, at)| **release == at + 5 * MS).count();
        assert_eq!(early + rest, 10_000);
    }

    #[test]
    fn a_shorter_delay_does_not_overtake_what_is_under_way() {
        let mut link = link(Settings { delay_ns: 50 * MS, ..Settings::default() });
        link.carry(0, 1).unwrap();
        link.change(Settings { delay_ns: MS, ..Settings::default() });
        assert_eq!(link.carry(1, 1), Ok(50 * MS));
        assert_eq!(link.carry(60 * MS, 1), Ok(61 * MS));
    }

    #[test]
    fn what_no_link_can_be_is_said() {
        let refused = |settings: Settings, mode| settings.check(mode).unwrap_err();
        let default = Settings::default;
        let rate = Settings { rate_bits: Some(0), ..default() };
        assert!(refused(rate, Mode::Exact).contains("at least one bit"));
        let long = Settings { delay_ns: LONGEST + 1, ..default() };
        assert!(refused(long, Mode::Exact).contains("an hour"));
        for share in [-0.1, 1.1, f64::NAN] {
            let loss = Settings { loss: share, ..default() };
            assert!(refused(loss, Mode::Exact).contains("from 0 to 1"));
        }
        let reorder = Settings { reorder: 0.1, ..default() };
        assert!(refused(reorder, Mode::Exact).contains("nothing to overtake"));
        let loss = Settings { loss: 0.1, ..default() };
        assert!(loss.check(Mode::Exact).is_ok());
        assert!(refused(loss, Mode::Gso).contains("need the mode \"exact\""));
        assert!(default().check(Mode::Gso).is_ok());
    }
}
