//! Gzip files entered in the middle: their points, and reads between these.
pub mod build;
pub mod interval;
pub mod points;
pub mod read;
pub mod stream;
