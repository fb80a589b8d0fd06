//! Chunks and runs of bytes into arrays.
use std::os::fd::RawFd;

use hyperslab_core::codec::Codec;
use hyperslab_core::error::ChunkFault;
use hyperslab_core::pool::Width;
use hyperslab_core::positioned::pread_wide;
use hyperslab_core::read::{Bytes, Chunks, read};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arguments::{Box3, Columns, Signals, codecs, columns, region, target};

/// Read the rows of a chunk table from an open file, decode them, and put what a region takes of them into `out`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call a batch, whose parts Python keeps apart")]
pub fn read_chunks(
    py: Python<'_>,
    fd: RawFd,
    table: Columns<'_>,
    shape: Vec<i64>,
    filters: Vec<(String, u32)>,
    selection: Box3,
    out: &Bound<'_, PyAny>,
    threads: usize,
    depth: usize,
) -> PyResult<u64> {
    fill(py, &table, &shape, &codecs(&filters)?, selection, out, &Bytes::File(fd), Width { threads, depth })
}

/// As `read_chunks`, from the stored bytes of each row.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call a batch, whose parts Python keeps apart")]
pub fn decode_chunks(
    py: Python<'_>,
    buffers: Vec<PyBackedBytes>,
    table: Columns<'_>,
    shape: Vec<i64>,
    filters: Vec<(String, u32)>,
    selection: Box3,
    out: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<u64> {
    let slices: Vec<&[u8]> = buffers.iter().map(|buffer| &**buffer).collect();
    let width = Width { threads, depth: threads };
    fill(py, &table, &shape, &codecs(&filters)?, selection, out, &Bytes::Buffers(&slices), width)
}

/// Fill a contiguous array of bytes from a position of an open file, with so many reads in flight.
#[pyfunction]
pub fn read_bytes(py: Python<'_>, fd: RawFd, offset: u64, out: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
    let buffer = PyBuffer::<u8>::get(out)?;
    if buffer.readonly() || !buffer.is_c_contiguous() {
        return Err(PyValueError::new_err("out has to be a writable, contiguous array of bytes"));
    }
    let (memory, nbytes) = (buffer.buf_ptr() as usize, buffer.len_bytes());
    let mut signals = Signals::default();
    let result = py.detach(|| {
        // SAFETY: the buffer holds so many bytes of writable memory, and is kept until after the call; nobody else
        // writes them meanwhile, which the caller of the Python function vouches for.
        unsafe { pread_wide(fd, offset, memory as *mut u8, nbytes, depth, &mut || signals.go_on()) }
    });
    signals.or(result.map_err(|fault| ChunkFault { row: 0, fault }))
}

/// Processor time that other threads have spent on this thread's calls since it last asked, in nanoseconds.
#[pyfunction]
pub fn helped_ns() -> u64 {
    hyperslab_core::pool::helped_ns()
}

#[allow(clippy::too_many_arguments, reason = "as above")]
fn fill(
    py: Python<'_>,
    table: &Columns<'_>,
    shape: &[i64],
    codecs: &[Codec],
    selection: Box3,
    out: &Bound<'_, PyAny>,
    bytes: &Bytes<'_>,
    width: Width,
) -> PyResult<u64> {
    let [offset, nbytes, mask, start] = columns(table, shape.len())?;
    let region = region(selection, shape.len())?;
    if let Bytes::Buffers(buffers) = bytes
        && buffers.len() != offset.len()
    {
        return Err(PyValueError::new_err("there have to be as many buffers as rows"));
    }
    let (_held, target) = target(out, &region)?;
    let chunks = Chunks { offset: &offset, nbytes: &nbytes, mask: &mask, start: &start, shape, codecs };
    let mut signals = Signals::default();
    let result = py.detach(|| read(&chunks, bytes, &region, &target, width, &mut || signals.go_on()));
    signals.or(result)
}
