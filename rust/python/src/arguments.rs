//! What Python hands over, checked and copied, so that nothing it does meanwhile can matter.
use hyperslab_core::boxes::region::Region;
use hyperslab_core::boxes::target::Target;
use hyperslab_core::codec::bitshuffle::Inner;
use hyperslab_core::codec::chain::Codec;
use hyperslab_core::error::ChunkFault;
use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::raised;

/// The columns of a chunk table: offset, nbytes, mask and start.
pub type Columns<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);
/// Start, count and stride of a region in stored order; strides are at least 1.
pub type Box3 = (Vec<i64>, Vec<i64>, Vec<i64>);

/// The columns as vectors of equal length: offset, nbytes, mask, and `ndim` starts per row.
pub fn columns(columns: &Columns, ndim: usize) -> PyResult<[Vec<i64>; 4]> {
    let (offset, nbytes, mask, start) = columns;
    let vectors = [column(offset)?, column(nbytes)?, column(mask)?, column(start)?];
    let rows = vectors[0].len();
    if vectors[1].len() != rows || vectors[2].len() != rows || vectors[3].len() != rows * ndim {
        return Err(PyValueError::new_err("the columns of the chunk table differ in length"));
    }
    Ok(vectors)
}

fn column(array: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    PyBuffer::<i64>::get(array)?.to_vec(array.py())
}

/// A filter by name, and the numbers that undoing it takes: see `_native.pyi`.
pub type Filter = (String, Vec<usize>);

/// The filters in the order in which writing applied them.
pub fn codecs(named: &[Filter]) -> PyResult<Vec<Codec>> {
    named.iter().map(|(name, numbers)| codec(name, numbers)).collect()
}

fn codec(name: &str, numbers: &[usize]) -> PyResult<Codec> {
    Ok(match (name, numbers) {
        ("deflate", []) => Codec::Deflate,
        ("shuffle", &[itemsize]) => Codec::Shuffle(itemsize),
        ("fletcher32", []) => Codec::Fletcher32,
        ("zstd", []) => Codec::Zstd,
        ("lz4", []) => Codec::Lz4,
        ("lzf", []) => Codec::Lzf,
        ("blosc", []) => Codec::Blosc,
        ("bitshuffle", &[itemsize, block]) => Codec::Bitshuffle(itemsize, Inner::Nothing(block)),
        ("bitshuffle lz4", &[itemsize]) => Codec::Bitshuffle(itemsize, Inner::Lz4),
        ("bitshuffle zstd", &[itemsize]) => Codec::Bitshuffle(itemsize, Inner::Zstd),
        _ => {
            return Err(PyValueError::new_err(format!(
                "the filter {name} with {numbers:?} is not known here"
            )));
        }
    })
}

/// How many threads, or reads in flight: from 1 on, and not so many that there could only be a
/// mistake.
#[derive(Clone, Copy)]
pub struct Many(pub usize);

const MOST: usize = 4096;

impl FromPyObject<'_, '_> for Many {
    type Error = PyErr;

    fn extract(number: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let many = number.extract::<usize>().ok().filter(|many| (1..=MOST).contains(many));
        let wrong = || {
            PyValueError::new_err(format!(
                "threads and reads in flight are 1 to {MOST}, not {number:?}"
            ))
        };
        many.map(Self).ok_or_else(wrong)
    }
}

/// A region of as many axes as the chunks have, all of it at positions that exist.
pub fn region((start, count, stride): Box3, ndim: usize) -> PyResult<Region> {
    let axes = start.iter().zip(&count).zip(&stride);
    let sound = axes.clone().all(|((&a, &n), &s)| {
        a >= 0
            && n >= 1
            && s >= 1
            && (n - 1).checked_mul(s).and_then(|reach| reach.checked_add(a)).is_some()
    });
    if [start.len(), count.len(), stride.len()] != [ndim; 3] || !sound {
        return Err(PyValueError::new_err("the region does not fit the chunks' axes"));
    }
    Ok(Region { start, count, stride })
}

/// The memory of a writable array whose shape is the region's count; the buffer keeps it alive.
pub fn target(out: &Bound<'_, PyAny>, region: &Region) -> PyResult<(PyUntypedBuffer, Target)> {
    let buffer = PyUntypedBuffer::get(out)?;
    let fits = buffer.shape().iter().map(|&n| n as i64).eq(region.count.iter().copied());
    if buffer.readonly() || !fits || buffer.suboffsets().is_some() || buffer.item_size() == 0 {
        return Err(PyValueError::new_err("out has to be a writable array of the region's shape"));
    }
    // SAFETY: the buffer protocol vouches for the elements that shape and strides describe, and
    // keeps them while the buffer is held; that elements of one array do not overlap, and that
    // nobody else writes them during the call, is what the caller of the Python function vouches
    // for, as with any function that fills an array without the GIL.
    let target = unsafe {
        Target::new(buffer.buf_ptr().cast(), buffer.strides().to_vec(), buffer.item_size())
    };
    Ok((buffer, target))
}

/// Asks Python, now and then, whether a signal has come in; remembers the exception that its
/// handler raised.
#[derive(Default)]
pub struct Signals(Option<PyErr>);

impl Signals {
    /// False once a handler has raised.
    pub fn go_on(&mut self) -> bool {
        self.0 = self.0.take().or_else(|| Python::attach(|py| py.check_signals().err()));
        self.0.is_none()
    }

    /// The result of the work, or what a handler raised meanwhile.
    pub fn or<T>(self, result: Result<T, ChunkFault>) -> PyResult<T> {
        match (self.0, result) {
            (Some(raised), _) => Err(raised),
            (None, Ok(value)) => Ok(value),
            (None, Err(failed)) => Err(raised(&failed)),
        }
    }
}
