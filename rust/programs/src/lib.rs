//! What the programs beside the package have in common: how they read options and start, and how they get
//! processors.

pub mod options;
pub mod processor;
pub mod starting;
