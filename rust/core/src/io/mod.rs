//! Reads at positions of files, and threads that wait for them.
pub mod pool;
pub mod positioned;
