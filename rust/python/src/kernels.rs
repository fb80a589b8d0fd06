//! Histograms of arrays, and their bytes in another order.
use hyperslab_core::boxes::view::View;
use hyperslab_core::codec::shuffle::shuffle as put_apart;
use hyperslab_core::count::batch::{Element, Kind, Refusal};
use hyperslab_core::count::bins::binned_counts as count_between;
use hyperslab_core::count::values::value_counts as count_values;
use hyperslab_core::error::{ChunkFault, Fault};
use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments::Signals;

/// Add to `counts` how often each of the integers from `low` on occurs.
#[pyfunction]
pub fn value_counts(
    py: Python<'_>,
    block: &Bound<'_, PyAny>,
    low: i128,
    counts: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (_block, element, view) = viewed(block)?;
    let mut held = PyBuffer::<i64>::get(counts)?;
    let counts = filled(&mut held)?;
    if !(-(1 << 64)..1 << 65).contains(&low) {
        return Err(PyValueError::new_err("low is no 64-bit integer"));
    }
    let mut signals = Signals::default();
    let end = low + counts.len() as i128;
    let result = py.detach(|| count_values(&view, element, low, counts, &mut || signals.go_on()));
    result.map_err(|refusal| match refusal {
        Refusal::Outside => {
            PyValueError::new_err(format!("there are values other than {low} to {}", end - 1))
        }
        _ => raised(refusal, signals),
    })
}

/// Add to `counts` how many values lie between increasing edges; returns how many lie below, above,
/// and are NaN.
#[pyfunction]
pub fn binned_counts(
    py: Python<'_>,
    block: &Bound<'_, PyAny>,
    edges: &Bound<'_, PyAny>,
    counts: &Bound<'_, PyAny>,
) -> PyResult<(u64, u64, u64)> {
    let (_block, element, view) = viewed(block)?;
    let edges = PyBuffer::<f64>::get(edges)?.to_vec(py)?;
    let mut held = PyBuffer::<i64>::get(counts)?;
    let counts = filled(&mut held)?;
    let increase = edges.windows(2).all(|pair| pair[0] < pair[1]);
    if counts.is_empty() || edges.len() != counts.len() + 1 || !increase {
        return Err(PyValueError::new_err("edges have to increase, and be one more than counts"));
    }
    let mut signals = Signals::default();
    let result =
        py.detach(|| count_between(&view, element, &edges, counts, &mut || signals.go_on()));
    let apart = result.map_err(|refusal| raised(refusal, signals))?;
    Ok((apart.below, apart.above, apart.nan))
}

/// Write the bytes of contiguous elements to `stored` as HDF5's shuffle filter orders them.
#[pyfunction]
pub fn shuffle(
    py: Python<'_>,
    plain: PyBuffer<u8>,
    itemsize: usize,
    stored: PyBuffer<u8>,
) -> PyResult<()> {
    let both = plain.is_c_contiguous()
        && stored.is_c_contiguous()
        && plain.item_count() == stored.item_count();
    if itemsize == 0 || stored.readonly() || !both {
        return Err(PyValueError::new_err(
            "shuffle takes two contiguous arrays of as many bytes, one to be written to",
        ));
    }
    let count = plain.item_count();
    // SAFETY: both buffers are contiguous, of `count` bytes, and held; the caller lets nobody write
    // to either meanwhile, and `stored` is not `plain`, which is checked.
    let (from, to) = unsafe {
        let (from, to) = (plain.buf_ptr().cast::<u8>(), stored.buf_ptr().cast::<u8>());
        let apart = from as usize + count <= to as usize || to as usize + count <= from as usize;
        if !apart {
            return Err(PyValueError::new_err("the arrays of shuffle share memory"));
        }
        if count == 0 {
            return Ok(());
        }
        (std::slice::from_raw_parts(from, count), std::slice::from_raw_parts_mut(to, count))
    };
    py.detach(|| put_apart(from, itemsize, to));
    Ok(())
}

/// The memory of an array to read, and what its elements are; the buffer keeps it alive.
fn viewed(block: &Bound<'_, PyAny>) -> PyResult<(PyUntypedBuffer, Element, View)> {
    let buffer = PyUntypedBuffer::get(block)?;
    let element = element(buffer.format().to_bytes(), buffer.item_size());
    let element = element.filter(|_| buffer.suboffsets().is_none());
    let element = element
        .ok_or_else(|| PyValueError::new_err("values of this dtype are not counted here"))?;
    // SAFETY: the buffer protocol vouches for the elements that shape and strides describe, and
    // keeps them while the buffer is held.
    let view = unsafe { View::new(buffer.buf_ptr().cast(), buffer.shape(), buffer.strides()) };
    Ok((buffer, element, view))
}

/// What a format of the struct module, of a single element, says.
fn element(format: &[u8], itemsize: usize) -> Option<Element> {
    let (order, code) = match format {
        [code] => (b'@', *code),
        [order, code] => (*order, *code),
        _ => return None,
    };
    let swapped = match order {
        b'@' | b'=' | b'^' => false,
        b'<' => cfg!(target_endian = "big"),
        b'>' | b'!' => cfg!(target_endian = "little"),
        _ => return None,
    };
    let kind = match (code, itemsize) {
        (b'?', 1) => Kind::Bool,
        (b'b' | b'h' | b'i' | b'l' | b'q', 1 | 2 | 4 | 8) => Kind::Signed(itemsize),
        (b'B' | b'H' | b'I' | b'L' | b'Q', 1 | 2 | 4 | 8) => Kind::Unsigned(itemsize),
        (b'f', 4) | (b'd', 8) => Kind::Float(itemsize),
        _ => return None,
    };
    Some(Element { kind, swapped })
}

/// The counts, to be written.
fn filled(buffer: &mut PyBuffer<i64>) -> PyResult<&mut [i64]> {
    let bins = buffer.item_count();
    if buffer.readonly()
        || !buffer.is_c_contiguous()
        || buffer.dimensions() != 1
        || bins > u32::MAX as usize - 2
    {
        return Err(PyValueError::new_err(
            "counts have to be a writable, contiguous array of one axis",
        ));
    }
    // SAFETY: the buffer holds so many aligned integers of writable memory while it is borrowed;
    // nobody else uses them meanwhile, which the caller of the Python function vouches for.
    Ok(unsafe { std::slice::from_raw_parts_mut(buffer.buf_ptr().cast(), bins) })
}

fn raised(refusal: Refusal, signals: Signals) -> PyErr {
    match refusal {
        Refusal::Outside | Refusal::Kind => {
            PyValueError::new_err("values of this dtype are not counted here")
        }
        Refusal::Cancelled => {
            signals.or::<()>(Err(ChunkFault { row: 0, fault: Fault::Cancelled })).unwrap_err()
        }
    }
}
