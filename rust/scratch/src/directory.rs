//! A directory, and its entries as they are listed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

use fuser::FileType;

/// Places in a directory before that of its first entry: for itself and its parent.
pub const FIRST_PLACE: u64 = 3;

#[derive(Clone, Copy)]
struct Entry {
    place: u64,
    number: u64,
}

/// A directory. Entries keep their places, whatever comes and goes while it is listed.
pub struct Directory {
    /// Number of the one above.
    pub parent: u64,
    by_name: HashMap<OsString, Entry>,
    by_place: BTreeMap<u64, OsString>,
    next_place: u64,
}

impl Directory {
    /// An empty one.
    pub fn new(parent: u64) -> Self {
        Self { parent, by_name: HashMap::new(), by_place: BTreeMap::new(), next_place: FIRST_PLACE }
    }

    /// The number of the file that is called so.
    pub fn get(&self, name: &OsStr) -> Option<u64> {
        self.by_name.get(name).map(|entry| entry.number)
    }

    /// Call a file so. A name that is there keeps its place: who lists it meanwhile sees it once.
    pub fn insert(&mut self, name: &OsStr, number: u64) {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.number = number;
            return;
        }
        let place = self.next_place;
        self.next_place += 1;
        self.by_place.insert(place, name.into());
        self.by_name.insert(name.into(), Entry { place, number });
    }

    /// Take a name away.
    pub fn remove(&mut self, name: &OsStr) {
        if let Some(entry) = self.by_name.remove(name) {
            self.by_place.remove(&entry.place);
        }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Places, names and numbers of what has its place behind this one.
    pub fn behind(&self, place: u64) -> impl Iterator<Item = (u64, &OsString, u64)> {
        self.by_place
            .range(place + 1..)
            .map(|(place, name)| (*place, name, self.by_name[name].number))
    }
}

/// An entry of a directory as it is listed.
pub struct Listed {
    /// Number of the file.
    pub number: u64,
    /// What it is.
    pub kind: FileType,
    /// Its name.
    pub name: OsString,
    /// Its place.
    pub place: u64,
}
