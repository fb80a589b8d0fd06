//! Which station is behind which port.

use std::collections::HashMap;

use crate::frame::Address;

/// The most stations that are remembered: whoever makes addresses up makes no memory grow.
const MOST: usize = 4_096;

/// Stations that have been heard, and those that are known from the start, which never move.
#[derive(Debug, Default)]
pub struct Table {
    known: HashMap<Address, usize>,
    heard: HashMap<Address, usize>,
}

impl Table {
    /// A table of stations that are known, each by its port.
    pub fn new(known: HashMap<Address, usize>) -> Self {
        Self { known, heard: HashMap::new() }
    }

    /// Remember the port behind which a station was heard.
    pub fn hear(&mut self, station: Address, port: usize) {
        if is_group(station) || self.known.contains_key(&station) {
            return;
        }
        if self.heard.len() < MOST || self.heard.contains_key(&station) {
            self.heard.insert(station, port);
        }
    }

    /// The port of a station; none if it is a group or was never heard.
    pub fn port_of(&self, station: Address) -> Option<usize> {
        self.known.get(&station).or_else(|| self.heard.get(&station)).copied()
    }
}

/// Whether an address stands for several stations, or all.
fn is_group(address: Address) -> bool {
    address[0] & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = [2, 0, 0, 0, 0, 1];
    const B: Address = [2, 0, 0, 0, 0, 2];

    #[test]
    fn stations_are_where_they_were_heard_last() {
        let mut table = Table::default();
        assert_eq!(table.port_of(A), None);
        table.hear(A, 1);
        table.hear(B, 2);
        table.hear(A, 3);
        assert_eq!((table.port_of(A), table.port_of(B)), (Some(3), Some(2)));
    }

    #[test]
    fn known_stations_do_not_move() {
        let mut table = Table::new(HashMap::from([(A, 0)]));
        table.hear(A, 1);
        assert_eq!(table.port_of(A), Some(0));
    }

    #[test]
    fn groups_are_nowhere() {
        let mut table = Table::default();
        table.hear([0xff; 6], 1);
        assert_eq!(table.port_of([0xff; 6]), None);
    }

    #[test]
    fn made_up_stations_do_not_fill_the_memory() {
        let mut table = Table::default();
        table.hear(A, 1);
        for number in 0..100_000_u32 {
            let [a, b, c, d] = number.to_be_bytes();
            table.hear([4, 0, a, b, c, d], 2);
        }
        assert_eq!(table.heard.len(), MOST);
        table.hear(A, 3);
        assert_eq!(table.port_of(A), Some(3));
    }
}
