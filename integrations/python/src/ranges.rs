//! Ranges of a file in an order that the program knows: `prefetch`, and the mapped file under `load_safetensors`.

use std::ffi::c_int;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use sakiyomi_prefetch::MappedReader;
use sakiyomi_prefetch::ranges::{self, Builder, Prefetch as Ranges};

use crate::buffer;
use crate::error::{closed, of_ranges};
use crate::process::OfProcess;
use crate::reader::nanos;

/// Bytes that are waited for between two checks of signals: as many as the fetching threads have in flight on slow
/// storage, so that the pieces cost no time.
const WAIT_PIECE_BYTES: u64 = 16 << 20;

fn builder(memory: Option<u64>) -> Builder {
    memory.map_or_else(Builder::default, |bytes| Builder::default().memory(bytes))
}

fn parsed(pairs: Vec<(u64, u64)>) -> Vec<Range<u64>> {
    pairs.into_iter().map(|(start, stop)| start..stop).collect()
}

/// Waits for bytes in pieces, between which signals are checked, until `wait` returns false for one. Returns whether it
/// returned true for all.
fn in_pieces(
    py: Python<'_>,
    bytes: Range<u64>,
    wait: impl Fn(Range<u64>) -> Result<bool, ranges::Error> + Sync,
) -> PyResult<bool> {
    let mut at = bytes.start;
    loop {
        let end = bytes.end.min(at.saturating_add(WAIT_PIECE_BYTES));
        let goes_on = py.detach(|| wait(at..end)).map_err(|error| of_ranges(&error))?;
        at = end;
        if !goes_on || at >= bytes.end {
            return Ok(goes_on);
        }
        py.check_signals()?;
    }
}

/// Ranges of a file, read into the page cache in their order, ahead of the program.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct Prefetch {
    /// `None` when it is closed. The lock is held for a moment only.
    open: OfProcess<Mutex<Option<Arc<Ranges>>>>,
}

impl Prefetch {
    fn ranges(&self) -> PyResult<Arc<Ranges>> {
        let open = self.open.get("this Prefetch")?;
        let open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(|| closed("ranges"))
    }
}

#[pymethods]
impl Prefetch {
    #[new]
    #[pyo3(signature = (path, ranges, memory))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        ranges: Vec<(u64, u64)>,
        memory: Option<u64>,
    ) -> PyResult<Prefetch> {
        let ranges = parsed(ranges);
        let opened = py.detach(|| builder(memory).open(path, ranges)).map_err(|error| of_ranges(&error))?;
        Ok(Prefetch { open: OfProcess::new(Mutex::new(Some(Arc::new(opened)))) })
    }

    /// Size of the file when it was opened, in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.ranges()?.size())
    }

    /// Returns a range, cut at the end of the file: ``(start, stop)``.
    fn range(&self, index: usize) -> PyResult<(u64, u64)> {
        let range = self.ranges()?.range(index).map_err(|error| of_ranges(&error))?;
        Ok((range.start, range.end))
    }

    /// Waits until a range is cached.
    ///
    /// Returns True if it is, and False if the kernel does not cache this file, so that reads of it will wait.
    fn wait(&self, py: Python<'_>, index: usize) -> PyResult<bool> {
        let ranges = self.ranges()?;
        let bytes = ranges.range(index).map_err(|error| of_ranges(&error))?;
        in_pieces(py, bytes, |piece| ranges.wait_for_bytes(&piece))
    }

    /// Reports that the first ``count`` ranges have been used, so that prefetching goes on behind them.
    fn advance(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let ranges = self.ranges()?;
        py.detach(|| ranges.advance(count));
        Ok(())
    }

    /// The figures so far: prefetched_bytes, ahead_bytes, waits, io_wait_ns.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let so_far = self.ranges()?.statistics();
        let figures = PyDict::new(py);
        figures.set_item("prefetched_bytes", so_far.prefetched_bytes)?;
        figures.set_item("ahead_bytes", so_far.ahead_bytes)?;
        figures.set_item("waits", so_far.waits)?;
        figures.set_item("io_wait_ns", nanos(so_far.io_wait))?;
        Ok(figures)
    }

    /// Ends prefetching. What is cached stays cached.
    fn close(&self, py: Python<'_>) {
        if let Ok(open) = self.open.get("this Prefetch") {
            py.detach(|| drop(open.lock().unwrap_or_else(PoisonError::into_inner).take()));
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) {
        self.close(py);
    }
}

/// A mapped file whose ranges are prefetched in their order.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct MappedFile {
    reader: Arc<OfProcess<MappedReader>>,
}

#[pymethods]
impl MappedFile {
    #[new]
    #[pyo3(signature = (path, ranges, memory))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        ranges: Vec<(u64, u64)>,
        memory: Option<u64>,
    ) -> PyResult<MappedFile> {
        let ranges = parsed(ranges);
        let mapped = py.detach(|| MappedReader::new(builder(memory).open(path, ranges)?));
        Ok(MappedFile { reader: Arc::new(OfProcess::new(mapped.map_err(|error| of_ranges(&error))?)) })
    }

    /// Size of the file when it was opened, in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.reader.get("this file")?.size())
    }

    /// Returns a range after waiting until it is in memory, and reports that those before it have been used.
    fn range(&self, py: Python<'_>, index: usize) -> PyResult<MappedRange> {
        let reader = self.reader.get("this file")?;
        let ranges = reader.prefetch();
        let bytes = ranges.range(index).map_err(|error| of_ranges(&error))?;
        py.detach(|| ranges.advance(index));
        // The slice is the owner's to make; here its pages enter the page table, so that they stay until it is used.
        in_pieces(py, bytes.clone(), |piece| reader.populate(piece).map(|()| true))?;
        Ok(MappedRange { reader: Arc::clone(&self.reader), bytes })
    }
}

/// Bytes of a mapped file, with the buffer protocol.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct MappedRange {
    reader: Arc<OfProcess<MappedReader>>,
    bytes: Range<u64>,
}

#[pymethods]
impl MappedRange {
    /// Whether bytes were accessed that the file no longer had, so that zeros were read instead.
    #[getter]
    fn is_truncated(&self) -> bool {
        self.reader.any_process().is_truncated()
    }

    #[expect(unsafe_code, reason = "the buffer protocol")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let Self { reader, bytes } = slf.get();
        let reader = reader.get("this file")?;
        let slice = slf.py().detach(|| reader.slice(bytes.clone())).map_err(|error| of_ranges(&error))?;
        // SAFETY: Python passes the view, and the mapping lives as long as its owner. Its bytes change only if another
        // program writes to the file, which the documentation forbids.
        unsafe { buffer::export(&slf, slice, view, flags) }
    }
}
