//! Byte ranges, codecs and boxes: stored chunks become elements of a caller's array.
//!
//! Knows no file format, no engine and no Python. Everything is in stored order (slowest axis
//! first), in elements where it is a position in an array and in bytes where it is one in a file.
//! Input is never trusted: sizes are checked before memory is taken, and what a stream decodes to
//! is bounded by the chunk it belongs to.
//!
//! Rooms from top to bottom; `tests/rooms.rs` holds that each uses only those below it, and that no
//! modules use each other in a circle:
//!
//! ```text
//! chunks | gzip | count    chunks and gzip files into arrays; how often values occur
//! codec | boxes | io       what filters stored; which elements are wanted; reads and threads
//! memory                   buffers that only grow
//! error                    what can go wrong
//! ```
#[cfg(not(target_pointer_width = "64"))]
compile_error!("positions in files are 64 bits wide");

pub mod boxes;
pub mod chunks;
pub mod codec;
pub mod count;
pub mod error;
pub mod gzip;
pub mod io;
pub mod memory;
