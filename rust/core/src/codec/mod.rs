//! What writers have done to the bytes of a chunk, undone.
pub mod bitshuffle;
pub mod blosc;
pub mod blosclz;
pub mod chain;
pub mod fletcher;
pub mod lz4;
pub mod lzf;
pub mod repeat;
pub mod shuffle;
pub mod streams;
