//! Rectangular parts of arrays: what a chunk and a region share, and memory of any strides.
pub mod region;
pub mod target;
pub mod view;
