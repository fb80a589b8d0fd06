//! What is due at which time; what is due at the same time keeps its order.

use std::collections::BTreeMap;

use crate::clock::Nanos;

/// Items by the time of their release and the number under which they came.
#[derive(Debug)]
pub struct Agenda<T> {
    items: BTreeMap<(Nanos, u64), T>,
    number: u64,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), number: 0 }
    }
}

impl<T> Agenda<T> {
    /// Note an item down for a time.
    pub fn put(&mut self, release: Nanos, item: T) {
        self.items.insert((release, self.number), item);
        self.number += 1;
    }

    /// The time of the first release.
    pub fn first(&self) -> Option<Nanos> {
        self.items.first_key_value().map(|((release, _), _)| *release)
    }

    /// The first item with its time, if that has come.
    pub fn take(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        let first = self.items.first_entry()?;
        let release = first.key().0;
        (release <= now).then(|| (release, first.remove()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_release_comes_first_and_equal_ones_in_their_order() {
        let mut agenda = Agenda::default();
        for (release, item) in [(30, 'd'), (10, 'a'), (20, 'b'), (20, 'c')] {
            agenda.put(release, item);
        }
        assert_eq!(agenda.first(), Some(10));
        assert_eq!(agenda.take(9), None);
        assert_eq!(agenda.take(10), Some((10, 'a')));
        assert_eq!(agenda.take(10), None);
        let rest: Vec<char> =
            std::iter::from_fn(|| agenda.take(99)).map(|(_, item)| item).collect();
        assert_eq!(rest, ['b', 'c', 'd']);
        assert_eq!(agenda.first(), None);
    }
}
