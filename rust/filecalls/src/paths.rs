//! Paths, each once, put together from the names that the kernel tells.

use std::collections::HashMap;
use std::io::{self, Write};

/// Paths that were written down, by what the kernel told of them.
pub struct Paths<W> {
    places: HashMap<Vec<u8>, i32>,
    key: Vec<u8>,
    out: W,
}

/// The first byte of a path that the kernel has told, without links.
const TRUE: u8 = b'=';
/// The first byte of a path as a call had it.
const NAMED: u8 = b'?';
/// The first byte of the path that nobody knows.
const UNKNOWN: u8 = b'-';

impl<W: Write> Paths<W> {
    /// Paths that are written down, with a zero behind each.
    pub fn new(out: W) -> Self {
        Self { places: HashMap::new(), key: Vec::new(), out }
    }

    /// Place of the path of a descriptor, which has no names if it is the root.
    pub fn open(&mut self, names: &[u8]) -> io::Result<i32> {
        self.place(TRUE, b"", names, || {
            if names.is_empty() {
                return b"/".to_vec();
            }
            joined(names)
        })
    }

    /// Place of the path that a call had, relative to a folder.
    pub fn named(&mut self, name: &[u8], folder: &[u8]) -> io::Result<i32> {
        self.place(NAMED, name, folder, || {
            let name = name.strip_suffix(b"\0").unwrap_or(name);
            if name.starts_with(b"/") {
                return name.to_vec();
            }
            [joined(folder).as_slice(), b"/", name].concat()
        })
    }

    /// Place of the path that nobody knows.
    pub fn unknown(&mut self) -> io::Result<i32> {
        self.place(UNKNOWN, b"", b"", Vec::new)
    }

    /// Write down what has not been yet.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn place(
        &mut self,
        kind: u8,
        first: &[u8],
        second: &[u8],
        path: impl FnOnce() -> Vec<u8>,
    ) -> io::Result<i32> {
        self.key.clear();
        self.key.push(kind);
        self.key.extend_from_slice(first);
        self.key.extend_from_slice(second);
        if let Some(place) = self.places.get(&self.key) {
            return Ok(*place);
        }
        let place = self.places.len() as i32;
        self.places.insert(self.key.clone(), place);
        self.out.write_all(&[kind])?;
        self.out.write_all(&path())?;
        self.out.write_all(b"\0")?;
        Ok(place)
    }
}

/// A path of names from its file up to the root, with a zero behind each; nothing for the root.
fn joined(names: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(names.len() + 1);
    let names = names.strip_suffix(b"\0").unwrap_or(names);
    for name in names.split(|byte| *byte == 0).rev() {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if names.is_empty() {
        path.clear();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_once() {
        let mut written = Vec::new();
        let mut paths = Paths::new(&mut written);
        assert_eq!(paths.open(b"c\0b\0a\0").unwrap(), 0);
        assert_eq!(paths.named(b"x/../y\0", b"b\0a\0").unwrap(), 1);
        assert_eq!(paths.open(b"c\0b\0a\0").unwrap(), 0);
        assert_eq!(paths.named(b"/x\0", b"").unwrap(), 2);
        assert_eq!(paths.named(b"x\0", b"").unwrap(), 3);
        assert_eq!(paths.unknown().unwrap(), 4);
        assert_eq!(paths.open(b"").unwrap(), 5);
        paths.finish().unwrap();
        assert_eq!(written, b"=/a/b/c\0?/a/b/x/../y\0?/x\0?/x\0-\0=/\0");
    }
}
