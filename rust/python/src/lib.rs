//! The door between Python and `hyperslab-core`: whole batches into the caller's buffers, without
//! the GIL.
#![allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]
mod arguments;
mod chunks;
mod failure;
mod gzip;
mod kernels;
mod table;

use pyo3::prelude::*;

/// Chunks and bytes into arrays; see `_native.pyi`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ChunkError", module.py().get_type::<failure::ChunkError>())?;
    module.add_class::<table::ChunkCache>()?;
    module.add_function(wrap_pyfunction!(chunks::read_chunks, module)?)?;
    module.add_function(wrap_pyfunction!(chunks::decode_chunks, module)?)?;
    module.add_function(wrap_pyfunction!(chunks::read_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(chunks::helped_ns, module)?)?;
    module.add_function(wrap_pyfunction!(gzip::index_gzip, module)?)?;
    module.add_function(wrap_pyfunction!(gzip::gzip_intervals, module)?)?;
    module.add_function(wrap_pyfunction!(gzip::read_gzip, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::value_counts, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::binned_counts, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::shuffle, module)?)?;
    Ok(())
}
