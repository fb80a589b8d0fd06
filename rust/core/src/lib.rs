//! Byte ranges, codecs and boxes: stored chunks become elements of a caller's array.
//!
//! Knows no file format, no engine and no Python. Everything is in stored order (slowest axis first), in elements
//! where it is a position in an array and in bytes where it is one in a file. Input is never trusted: sizes are
//! checked before memory is taken, and what a stream decodes to is bounded by the chunk it belongs to.
#[cfg(not(target_pointer_width = "64"))]
compile_error!("positions in files are 64 bits wide");

pub mod batch;
pub mod binned_counts;
pub mod bitshuffle;
pub mod blosc;
pub mod blosclz;
pub mod cache;
pub mod codec;
pub mod counter;
pub mod error;
pub mod fletcher;
pub mod gzip;
pub mod gzip_build;
pub mod gzip_decode;
pub mod gzip_read;
pub mod gzip_stream;
pub mod lz4;
pub mod lzf;
pub mod pool;
pub mod positioned;
pub mod read;
pub mod region;
pub mod repeat;
pub mod shuffle;
pub mod table;
pub mod target;
pub mod value_counts;
pub mod view;
