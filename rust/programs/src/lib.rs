//! What the programs beside the package have in common: how they start, and how they get processors.

pub mod processor;
pub mod starting;
