//! Chunks and runs of bytes into arrays.
use std::os::fd::RawFd;

use hyperslab_core::chunks::read::{Bytes, Chunks, read};
use hyperslab_core::error::ChunkFault;
use hyperslab_core::io::pool::Width;
use hyperslab_core::io::positioned::pread_wide;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arguments::{Box3, Columns, Filter, Many, Signals, codecs, columns, region, target};

/// The columns of a chunk table, the shape of its chunks, and their filters.
type Stored<'py> = (Columns<'py>, Vec<i64>, Vec<Filter>);

/// Read the rows of a chunk table from an open file, decode them, and put what a region takes of
/// them into `out`.
#[pyfunction]
pub fn read_chunks(
    py: Python<'_>,
    fd: RawFd,
    chunks: Stored<'_>,
    selection: Box3,
    out: &Bound<'_, PyAny>,
    threads: Many,
    depth: Many,
) -> PyResult<u64> {
    let width = Width { threads: threads.0, depth: depth.0 };
    fill(py, &chunks, selection, out, &Bytes::File(fd), width)
}

/// As `read_chunks`, from the stored bytes of each row.
#[pyfunction]
pub fn decode_chunks(
    py: Python<'_>,
    buffers: Vec<PyBackedBytes>,
    chunks: Stored<'_>,
    selection: Box3,
    out: &Bound<'_, PyAny>,
    threads: Many,
) -> PyResult<u64> {
    let slices: Vec<&[u8]> = buffers.iter().map(|buffer| &**buffer).collect();
    let width = Width { threads: threads.0, depth: threads.0 };
    fill(py, &chunks, selection, out, &Bytes::Buffers(&slices), width)
}

/// Fill a contiguous array of bytes from a position of an open file, with so many reads in flight.
#[pyfunction]
pub fn read_bytes(
    py: Python<'_>,
    fd: RawFd,
    offset: u64,
    out: &Bound<'_, PyAny>,
    depth: Many,
) -> PyResult<()> {
    let buffer = PyBuffer::<u8>::get(out)?;
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("out has to be a writable, contiguous array of bytes"));
    }
    let (memory, nbytes) = (buffer.buf_ptr() as usize, buffer.len_bytes());
    let mut signals = Signals::default();
    let result = py.detach(|| {
        // SAFETY: the buffer holds so many bytes of writable memory, and is kept until after the
        // call; nobody else writes them meanwhile, which the caller of the Python function vouches
        // for.
        unsafe {
            pread_wide(fd, offset, memory as *mut u8, nbytes, depth.0, &mut || signals.go_on())
        }
    });
    signals.or(result.map_err(|fault| ChunkFault { row: 0, fault }))
}

/// Processor time that other threads have spent on this thread's calls since it last asked, in
/// nanoseconds.
#[pyfunction]
pub fn helped_ns() -> u64 {
    hyperslab_core::io::pool::helped_ns()
}

fn fill(
    py: Python<'_>,
    (table, shape, filters): &Stored<'_>,
    selection: Box3,
    out: &Bound<'_, PyAny>,
    bytes: &Bytes<'_>,
    width: Width,
) -> PyResult<u64> {
    let ([offset, nbytes, mask, start], codecs) = (columns(table, shape.len())?, codecs(filters)?);
    let region = region(selection, shape.len())?;
    if let Bytes::Buffers(buffers) = bytes
        && buffers.len() != offset.len()
    {
        return Err(PyValueError::new_err("there have to be as many buffers as rows"));
    }
    let (_held, target) = target(out, &region)?;
    let chunks = Chunks {
        offset: &offset,
        nbytes: &nbytes,
        mask: &mask,
        start: &start,
        shape,
        codecs: &codecs,
    };
    let mut signals = Signals::default();
    let result =
        py.detach(|| read(&chunks, bytes, &region, &target, width, &mut || signals.go_on()));
    signals.or(result)
}
