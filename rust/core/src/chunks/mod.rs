//! Stored chunks into arrays: once by their rows, or again and again through a table with a cache.
pub mod cache;
pub mod read;
pub mod table;
