//! How often values occur in a block, whatever its strides.
pub mod batch;
pub mod bins;
pub mod counter;
pub mod values;
