//! What is to be made, as a file says it.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

use crate::frame::{Address, Mode};
use crate::link::Settings;

/// The longest name of a device (`IFNAMSIZ` of Linux, less its end).
const LONGEST_DEVICE: usize = 15;

/// All ports, and how frames are handed over.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How frames are handed over.
    pub mode: Mode,
    /// Where chance begins: the same seed loses the same packets.
    pub seed: u64,
    /// The ports of the switch.
    pub ports: Vec<Port>,
}

/// A port of the switch: a device in a network namespace, and the link to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Name by which it is spoken of.
    pub name: String,
    /// File of the namespace.
    pub namespace: PathBuf,
    /// Name of the device there.
    pub device: String,
    /// Address of the device.
    #[serde(deserialize_with = "address")]
    pub address: Address,
    /// What the node sends.
    #[serde(default)]
    pub up: Settings,
    /// What the node receives.
    #[serde(default)]
    pub down: Settings,
}

/// What a text says; a sentence if it is wrong.
pub fn parse(text: &str) -> Result<Config, String> {
    let config: Config = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check(&config)?;
    Ok(config)
}

fn check(config: &Config) -> Result<(), String> {
    if config.ports.is_empty() {
        return Err("there is no port".into());
    }
    let mut names = HashSet::new();
    let mut addresses = HashSet::new();
    for port in &config.ports {
        let wrong = |why: &str| Err(format!("port {:?}: {why}", port.name));
        if !names.insert(&port.name) {
            return wrong("another one has its name");
        }
        if !addresses.insert(port.address) {
            return wrong("another one has its address");
        }
        if port.address[0] & 1 != 0 || port.address == [0; 6] {
            return wrong("its address is not one of a single device");
        }
        if !is_device(&port.device) {
            return wrong(&format!("{:?} is no name of a device", port.device));
        }
        for (direction, settings) in [("up", &port.up), ("down", &port.down)] {
            settings
                .check(config.mode)
                .map_err(|why| format!("port {:?}, {direction}: {why}", port.name))?;
        }
    }
    Ok(())
}

/// Whether Linux gives a device this very name: it fills in what `%` asks for.
fn is_device(name: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_graphic() && !"/%:".contains(letter);
    (1..=LONGEST_DEVICE).contains(&name.len())
        && name.chars().all(is_allowed)
        && !matches!(name, "." | "..")
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
    let text = String::deserialize(deserializer)?;
    address_of(&text).ok_or_else(|| {
        de::Error::custom(format!("{text:?} is no address such as 02:00:00:00:00:01"))
    })
}

fn address_of(text: &str) -> Option<Address> {
    let parts: Option<Vec<u8>> = text.split(':').map(byte_of).collect();
    parts?.try_into().ok()
}

fn byte_of(digits: &str) -> Option<u8> {
    let is_plain = digits.len() == 2 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
    is_plain.then(|| u8::from_str_radix(digits, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(more: &str) -> String {
        format!(
            r#"{{"name": "w1", "namespace": "/run/netns/w1", "device": "eth0",
                "address": "02:00:00:00:0a:01"{more}}}"#
        )
    }

    fn parsed(mode: &str, ports: &[String]) -> Result<Config, String> {
        let ports = ports.join(", ");
        parse(&format!(r#"{{"mode": "{mode}", "seed": 1, "ports": [{ports}]}}"#))
    }

    #[test]
    fn a_port_is_what_the_file_says() {
        let links = r#", "up": {"rate_bits": 100, "delay_ns": 5}, "down": {"loss": 0.5}"#;
        let config = parsed("exact", &[port(links)]).unwrap();
        assert_eq!((config.mode, config.seed), (Mode::Exact, 1));
        let port = &config.ports[0];
        assert_eq!(port.address, [2, 0, 0, 0, 10, 1]);
        assert_eq!(
            (port.up.rate_bits, port.up.delay_ns, port.up.queue_ns),
            (Some(100), 5, 50_000_000)
        );
        assert_eq!((port.down.rate_bits, port.down.loss), (None, 0.5));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |ports: &[String]| parsed("gso", ports).unwrap_err();
        assert_eq!(wrong(&[]), "there is no port");
        assert!(wrong(&[port(""), port("")]).contains("port \"w1\": another one has its name"));
        let other = port("").replace("\"w1\"", "\"w2\"");
        assert!(wrong(&[port(""), other]).contains("port \"w2\": another one has its address"));
        let lossy = r#", "up": {"loss": 0.1}"#;
        assert!(wrong(&[port(lossy)]).contains("port \"w1\", up: loss and reorder are of single"));
        assert!(wrong(&[port(r#", "speed": 1"#)]).contains("unknown field `speed`"));
        assert!(wrong(&[port(r#", "up": {"delay_ns": -1}"#)]).contains("integer `-1`"));
        assert!(wrong(&[port("").replace("02:", "01:")]).contains("not one of a single device"));
        assert!(wrong(&[port("").replace("02:", "")]).contains("is no address such as"));
        assert!(parsed("fast", &[port("")]).unwrap_err().contains("unknown variant `fast`"));
        for name in ["", "eth%d", "a/b", "..", "a b", "longer-than-fifteen"] {
            let named = port("").replace("eth0", name);
            assert!(wrong(&[named]).contains("is no name of a device"), "{name}");
        }
    }

    #[test]
    fn addresses_are_six_bytes() {
        assert_eq!(address_of("02:00:00:00:0A:ff"), Some([2, 0, 0, 0, 10, 255]));
        for text in
            ["", "02:00:00:00:0a", "02:00:00:00:0a:ff:00", "02:00:00:00:0a:+f", "2:0:0:0:0:1"]
        {
            assert_eq!(address_of(text), None, "{text}");
        }
    }
}
