//! A call as the program in the kernel has written it down: `struct record` of calls.bpf.c.

const HEADER_NBYTES: usize = 48;
const IS_MADE: u8 = 1;
const IS_BY_NAME: u8 = 2;
const HAS_FIRST: u8 = 8;
const HAS_SECOND: u8 = 16;
const IS_NOWHERE: u8 = 32;

/// A call that has ended.
#[derive(Debug, PartialEq)]
pub struct Seen<'a> {
    /// When it began, by the clock that runs since the machine started.
    pub start_ns: i64,
    /// How long it took.
    pub duration_ns: i64,
    /// What it returned; an error if it is below zero.
    pub result: i64,
    /// What it has moved or mapped.
    pub nbytes: i64,
    /// Process of the thread.
    pub process: i32,
    /// Number of the call.
    pub call: u16,
    /// Whether it has made its file.
    pub is_made: bool,
    /// What it was asked about.
    pub files: Files<'a>,
}

/// Files of a call, each as names from the file up to the root with a zero behind each.
#[derive(Debug, PartialEq)]
pub enum Files<'a> {
    /// One or two descriptors; none for one that is no file.
    Open(Option<&'a [u8]>, Option<&'a [u8]>),
    /// A path as the call has it, and the folder that it is relative to.
    Named(&'a [u8], &'a [u8]),
    /// A path that nobody knows.
    Unknown,
    /// Nothing, as a pipe is no file.
    None,
}

impl<'a> Seen<'a> {
    /// The call of a record; none if it is none.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (header, names) = bytes.split_at_checked(HEADER_NBYTES)?;
        let flags = header[38];
        let first = usize::from(u16::from_ne_bytes(header[40..42].try_into().ok()?));
        let second = usize::from(u16::from_ne_bytes(header[42..44].try_into().ok()?));
        let (first, rest) = names.split_at_checked(first)?;
        let second = rest.get(..second)?;
        let files = if flags & IS_BY_NAME == 0 {
            open(flags, first, second)
        } else {
            named(flags, first, second)
        };
        Some(Self {
            start_ns: number(header, 0)?,
            duration_ns: number(header, 8)?,
            result: number(header, 16)?,
            nbytes: number(header, 24)?,
            process: i32::from_ne_bytes(header[32..36].try_into().ok()?),
            call: u16::from_ne_bytes(header[36..38].try_into().ok()?),
            is_made: flags & IS_MADE != 0,
            files,
        })
    }
}

fn open<'a>(flags: u8, first: &'a [u8], second: &'a [u8]) -> Files<'a> {
    let has = |flag| flags & flag != 0;
    Files::Open(has(HAS_FIRST).then_some(first), has(HAS_SECOND).then_some(second))
}

fn named<'a>(flags: u8, name: &'a [u8], folder: &'a [u8]) -> Files<'a> {
    if name.is_empty() {
        return Files::Unknown;
    }
    if flags & IS_NOWHERE == 0 {
        return Files::Named(name, folder);
    }
    match name {
        b"\0" => Files::None, // the descriptor itself is meant
        _ => Files::Unknown,
    }
}

fn number(header: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_ne_bytes(header[at..at + 8].try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(result: i64, flags: u8, first: &[u8], second: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [5, 6, result, 7] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(8_u32.to_ne_bytes());
        bytes.extend(9_u16.to_ne_bytes());
        bytes.extend([flags, 0]);
        bytes.extend((first.len() as u16).to_ne_bytes());
        bytes.extend((second.len() as u16).to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(first);
        bytes.extend(second);
        bytes
    }

    #[test]
    fn every_number_has_its_place() {
        let bytes = record(3, IS_MADE | HAS_FIRST, b"b\0a\0", b"");
        let seen = Seen::of(&bytes).unwrap();
        assert_eq!((seen.start_ns, seen.duration_ns, seen.result, seen.nbytes), (5, 6, 3, 7));
        assert_eq!((seen.process, seen.call, seen.is_made), (8, 9, true));
        assert_eq!(seen.files, Files::Open(Some(b"b\0a\0"), None));
    }

    #[test]
    fn names_may_be_unknown() {
        let named = record(-2, IS_BY_NAME, b"x\0", b"a\0");
        assert_eq!(Seen::of(&named).unwrap().files, Files::Named(b"x\0", b"a\0"));
        let unread = record(-14, IS_BY_NAME, b"", b"");
        assert_eq!(Seen::of(&unread).unwrap().files, Files::Unknown);
        let nowhere = record(-9, IS_BY_NAME | IS_NOWHERE, b"x\0", b"");
        assert_eq!(Seen::of(&nowhere).unwrap().files, Files::Unknown);
        let pipe = record(0, IS_BY_NAME | IS_NOWHERE, b"\0", b"");
        assert_eq!(Seen::of(&pipe).unwrap().files, Files::None);
    }

    #[test]
    fn what_is_cut_is_no_record() {
        let bytes = record(0, 0, b"b\0a\0", b"");
        assert_eq!(Seen::of(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Seen::of(&bytes[..40]), None);
    }
}
