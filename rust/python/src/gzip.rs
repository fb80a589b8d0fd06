//! Gzip files that are entered in the middle.
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hyperslab_core::boxes::region::Region;
use hyperslab_core::boxes::target::Target;
use hyperslab_core::error::{ChunkFault, Fault};
use hyperslab_core::gzip::build::{Built, Order, build};
use hyperslab_core::gzip::points::{Point, points};
use hyperslab_core::gzip::read::{Block, Plain, Source, Windows, read, rows};
use hyperslab_core::io::pool::Width;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arguments::{Box3, Many, Signals, region, target};

/// Find the points of a gzip file: rows of int64, and '', or b'' and why the file cannot be entered
/// in the middle.
#[pyfunction]
pub fn index_gzip<'py>(
    py: Python<'py>,
    fd: RawFd,
    size: u64,
    wanted: u64,
    spacing: u64,
    sink: &Bound<'py, PyAny>,
    watch: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyBytes>, String)> {
    let (sink, watch) = (sink.clone().unbind(), watch.clone().unbind());
    let order = Order { fd, size, wanted, spacing: spacing.max(1) };
    let raised = Mutex::new(None);
    let keep_error =
        |result: PyResult<Py<PyAny>>| result.map_err(|error| lock(&raised).replace(error)).is_ok();
    let mut signals = Signals::default();
    let built = py.detach(|| {
        let mut keep = |window: &[u8]| {
            let result = Python::attach(|py| sink.call1(py, (PyBytes::new(py, window),)));
            if keep_error(result) { Ok(()) } else { Err(Fault::Cancelled) }
        };
        let mut go_on =
            |at: u64| signals.go_on() && keep_error(Python::attach(|py| watch.call1(py, (at,))));
        build(order, &mut keep, &mut go_on)
    });
    if let Some(error) = lock(&raised).take() {
        return Err(error);
    }
    match signals.or(built.map_err(|fault| ChunkFault { row: 0, fault }))? {
        Built::Index(points) => {
            let bytes: Vec<u8> =
                points.iter().flat_map(Point::row).flat_map(i64::to_ne_bytes).collect();
            Ok((PyBytes::new(py, &bytes), String::new()))
        }
        Built::Unfit(why) => Ok((PyBytes::new(py, b""), why)),
    }
}

/// A C-ordered array in a gzip file: rows of the index, first plain byte, shape, bytes of an
/// element.
type Array<'py> = (Bound<'py, PyAny>, u64, Vec<i64>, usize);

/// The intervals, by the row that they begin with, that hold elements of a region.
#[pyfunction]
pub fn gzip_intervals(py: Python<'_>, array: Array<'_>, selection: Box3) -> PyResult<Vec<usize>> {
    let (points, offset, shape, itemsize) = array;
    let (points, region) = (checked(&points)?, inside(selection, &shape)?);
    Ok(py.detach(|| {
        rows(&points, Plain { offset, shape: &shape, itemsize: itemsize.max(1) }, &region)
    }))
}

/// Read a region of an array in an open gzip file into `out`; the bytes taken from the file, and
/// from that of the windows.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call a batch, whose parts Python keeps apart")]
pub fn read_gzip(
    py: Python<'_>,
    fd: RawFd,
    array: Array<'_>,
    windows_fd: Option<RawFd>,
    windows: &[u8],
    selection: Box3,
    out: &Bound<'_, PyAny>,
    threads: Many,
    depth: Many,
) -> PyResult<u64> {
    let (points, offset, shape, itemsize) = array;
    let (points, region) = (checked(&points)?, inside(selection, &shape)?);
    let (held, elements) = target(out, &region)?;
    if held.item_size() != itemsize {
        return Err(PyValueError::new_err(format!(
            "out has elements of {} bytes, not {itemsize}",
            held.item_size()
        )));
    }
    let strides = [held.strides(), &[1]].concat();
    // SAFETY: the same memory as `elements`, for which `target` vouches, with an axis of the bytes
    // of an element.
    let bytes = unsafe { Target::new(held.buf_ptr().cast(), strides, 1) };
    let windows = windows_fd.map_or(Windows::Memory(windows), |fd| Windows::File(fd, 0));
    let source =
        Source { fd, points: &points, windows, plain: Plain { offset, shape: &shape, itemsize } };
    let (mut signals, block) = (Signals::default(), Block { elements, bytes });
    let width = Width { threads: threads.0, depth: depth.0 };
    let result = py.detach(|| read(&source, &region, &block, width, &mut || signals.go_on()));
    signals.or(result)
}

fn checked(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Point>> {
    let rows = PyBuffer::<i64>::get(rows)?.to_vec(rows.py())?;
    Signals::default().or(points(&rows).map_err(|fault| ChunkFault { row: 0, fault }))
}

/// A region that lies within the array.
fn inside(selection: Box3, shape: &[i64]) -> PyResult<Region> {
    let region = region(selection, shape.len())?;
    let mut axes = region.start.iter().zip(&region.count).zip(&region.stride).zip(shape);
    if axes.all(|(((start, count), stride), extent)| start + (count - 1) * stride < *extent) {
        Ok(region)
    } else {
        Err(PyValueError::new_err("the region reaches beyond the array"))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
