//! What can go wrong with a chunk.
use std::fmt;

/// Why a chunk could not be read or decoded, in words that follow its name.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The system refused a read: position and reason.
    Unreadable(u64, String),
    /// The file ends here, so many bytes too early.
    Short(u64, u64),
    /// The stored bytes are not what the filters would have written.
    Corrupt(String),
    /// What says where the bytes are, a table or an index, is damaged or belongs to another file.
    Misplaced(String),
    /// There is no memory for a chunk of so many bytes.
    Memory(u64),
    /// The caller asked to stop.
    Cancelled,
}

impl Fault {
    /// The kind of fault in one word, for those who do not read sentences.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unreadable(..) => "unreadable",
            Self::Short(..) => "short",
            Self::Corrupt(_) => "corrupt",
            Self::Misplaced(_) => "misplaced",
            Self::Memory(_) => "memory",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(at, why) => {
                write!(f, "cannot be read: reading at byte {at} failed: {why}")
            }
            Self::Short(at, missing) => {
                write!(f, "is cut off: the file ends at byte {at}, {missing} bytes too early")
            }
            Self::Corrupt(why) | Self::Misplaced(why) => f.write_str(why),
            Self::Memory(nbytes) => {
                write!(f, "does not fit in memory: {nbytes} bytes are not to be had")
            }
            Self::Cancelled => f.write_str("was not read: stopped"),
        }
    }
}

/// A fault, and the row of the chunk table that it concerns.
#[derive(Debug, PartialEq, Eq)]
pub struct ChunkFault {
    /// Index of the row.
    pub row: usize,
    /// What is wrong with it.
    pub fault: Fault,
}

/// Short for a corrupt chunk.
pub fn corrupt<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Corrupt(why.into()))
}

/// Short for a damaged table or index.
pub fn misplaced<T>(why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Misplaced(why.into()))
}
