//! What goes wrong with a chunk, as Python hears of it.
use hyperslab_core::error::{ChunkFault, Fault};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

pyo3::create_exception!(
    hyperslab._native,
    ChunkError,
    pyo3::exceptions::PyValueError,
    "What is wrong with a chunk: row, kind, text."
);

/// A fault as the exception that is raised for it: `MemoryError`, or `ChunkError` with its row, its
/// kind and its text.
pub fn raised(failed: &ChunkFault) -> PyErr {
    let text = failed.fault.to_string();
    if let Fault::Memory(_) = failed.fault {
        return PyMemoryError::new_err(text);
    }
    Python::attach(|py| chunk_error(py, failed, &text).unwrap_or_else(|error| error))
}

fn chunk_error(py: Python<'_>, failed: &ChunkFault, text: &str) -> PyResult<PyErr> {
    let error = py.get_type::<ChunkError>().call1((failed.row, text))?;
    error.setattr("row", failed.row)?;
    error.setattr("kind", failed.fault.kind())?;
    error.setattr("text", text)?;
    Ok(PyErr::from_value(error))
}
