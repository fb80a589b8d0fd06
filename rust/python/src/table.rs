//! A chunk table that is asked again and again.
use std::os::fd::RawFd;

use hyperslab_core::chunks::table::Table;
use hyperslab_core::error::ChunkFault;
use hyperslab_core::io::pool::Width;
use pyo3::prelude::*;

use crate::arguments::{Box3, Columns, Filter, Many, Signals, codecs, columns, region, target};

/// The chunks of one array, with a cache of those that were decoded for a part of them.
#[pyclass(frozen, module = "hyperslab._native")]
pub struct ChunkCache {
    table: Table,
    ndim: usize,
}

#[pymethods]
impl ChunkCache {
    #[new]
    fn new(
        table: Columns<'_>,
        shape: Vec<i64>,
        extent: Vec<i64>,
        filters: Vec<Filter>,
        cache_nbytes: usize,
    ) -> PyResult<Self> {
        let ndim = shape.len();
        let made =
            Table::new(columns(&table, ndim)?, shape, &extent, codecs(&filters)?, cache_nbytes);
        let table = Signals::default().or(made.map_err(|fault| ChunkFault { row: 0, fault }))?;
        Ok(Self { table, ndim })
    }

    /// Whether every element of the array has its chunk.
    #[getter]
    fn is_complete(&self) -> bool {
        self.table.is_complete()
    }

    /// Read a region from an open file into `out`; None, with nothing done, where several reads of
    /// a chunk pay off.
    fn read(
        &self,
        py: Python<'_>,
        fd: RawFd,
        selection: Box3,
        out: &Bound<'_, PyAny>,
        threads: Many,
        depth: Many,
    ) -> PyResult<Option<u64>> {
        let region = region(selection, self.ndim)?;
        let (_held, target) = target(out, &region)?;
        let mut signals = Signals::default();
        let width = Width { threads: threads.0, depth: depth.0 };
        let result =
            py.detach(|| self.table.read(fd, &region, &target, width, &mut || signals.go_on()));
        signals.or(result)
    }
}
