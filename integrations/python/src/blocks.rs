//! `blocked_reads`: blocks of files, read ahead on threads of `exec` while Python computes.
//!
//! ```text
//! exec's threads: page cache or engine ──► Vec ──► pump ──► Queue (bounded) ──► __next__ ──► Block ──► buffers of Python
//!                                           ▲                                                 │
//!                                           └───────────────── SpareBuffers ◄─────────────────┘ dropped
//! ```
//!
//! A block's memory is written once, by the thread that reads it, and is never copied afterwards: Python's views show it
//! in place. When the last view is gone, the memory goes back to the readers: fresh memory costs a page fault for every
//! 4 KiB, which is as expensive as the copy.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};
use sakiyomi_exec::read::{self, Cancel, Mapped, blocked_reads};

use crate::arrow::{self, Division, RecordColumn};
use crate::buffer;
use crate::error::{closed, exception, of_read, sentence};
use crate::process::OfProcess;

/// Size of a block unless another one is asked for: large enough that the interpreter's cost of a block does not matter,
/// small enough for the second-level cache of a core.
const BLOCK_DEFAULT_BYTES: usize = 1 << 20;
/// Bytes of blocks that wait for Python, besides those that are being read.
const READY_MAX_BYTES: usize = 16 << 20;
/// Memory of a waiting block besides its bytes: its buffer's own record, its place, and the allocator's share.
const PIECE_OVERHEAD_BYTES: usize = 256;
/// Spare buffers: as many blocks of the default size as wait for Python.
const SPARE_BUFFERS_MAX: usize = 16;
/// Capacity of a buffer that is worth keeping.
const SPARE_MAX_BYTES: usize = 16 << 20;
/// Longest wait between two checks of signals: a delay of Ctrl-C that nobody notices.
const SIGNAL_PERIOD: Duration = Duration::from_millis(50);

/// The bytes of a block. Their memory serves again when nothing refers to them.
struct BlockBytes {
    bytes: Vec<u8>,
    spare: Arc<SpareBuffers>,
}

impl AsRef<[u8]> for BlockBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for BlockBytes {
    fn drop(&mut self) {
        self.spare.give_back(std::mem::take(&mut self.bytes));
    }
}

/// A block's bytes and their place.
struct Piece {
    bytes: Bytes,
    offset: u64,
    number: Option<u64>,
    file: usize,
}

impl Piece {
    /// The memory that it takes while it waits.
    fn memory_bytes(&self) -> usize {
        self.bytes.len() + PIECE_OVERHEAD_BYTES
    }
}

/// Buffers whose blocks are no longer used.
#[derive(Default)]
struct SpareBuffers(Mutex<Vec<Vec<u8>>>);

impl SpareBuffers {
    fn copy(self: &Arc<Self>, bytes: &[u8]) -> Bytes {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut buffer = spare.unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        Bytes::from_owner(BlockBytes { bytes: buffer, spare: Arc::clone(self) })
    }

    /// Never waits: in a forked process the lock may be held by a thread that does not exist.
    fn give_back(&self, buffer: Vec<u8>) {
        if let Ok(mut spare) = self.0.try_lock()
            && spare.len() < SPARE_BUFFERS_MAX
            && (1..=SPARE_MAX_BYTES).contains(&buffer.capacity())
        {
            spare.push(buffer);
        }
    }
}

/// Blocks that have been read and not yet taken.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    spare: Arc<SpareBuffers>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Piece>,
    ready_bytes: usize,
    /// The end of the reading, behind all blocks; an error is raised once.
    end: Option<Option<read::Error>>,
    is_closed: bool,
}

/// The next thing for Python.
enum Next {
    Piece(Piece),
    End(Option<read::Error>),
    Closed,
    NotYet,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a piece when there is room; an error ends the reading, because the iterator was closed.
    fn give(&self, piece: Piece) -> io::Result<()> {
        let mut state = self.lock();
        while state.ready_bytes >= READY_MAX_BYTES && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.ready_bytes += piece.memory_bytes();
        state.ready.push_back(piece);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    fn end(&self, end: Option<read::Error>) {
        self.lock().end = Some(end);
        self.changed.notify_all();
    }

    /// Takes what comes next, after waiting up to `wait` for it.
    fn take(&self, wait: Duration) -> Next {
        let mut state = self.lock();
        if state.ready.is_empty() && state.end.is_none() && !state.is_closed && !wait.is_zero() {
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.is_closed {
            return Next::Closed;
        }
        let Some(piece) = state.ready.pop_front() else {
            return state.end.as_mut().map_or(Next::NotYet, |end| Next::End(end.take()));
        };
        let was_full = state.ready_bytes >= READY_MAX_BYTES;
        state.ready_bytes -= piece.memory_bytes();
        drop(state);
        if was_full {
            self.changed.notify_all();
        }
        Next::Piece(piece)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.ready = VecDeque::new();
        drop(state);
        self.changed.notify_all();
    }
}

/// A block of a file, or whole records, with the buffer protocol.
///
/// `memoryview(block)`, `numpy.frombuffer(block, ...)`, `pyarrow.py_buffer(block)`, `re`, `hashlib` and `struct` use its
/// memory in place. It is read-only, and stays valid for as long as anything refers to it.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct Block {
    piece: Piece,
    paths: Py<PyTuple>,
}

#[pymethods]
impl Block {
    /// Offset of its first byte from the beginning of the file, in bytes.
    #[getter]
    fn offset(&self) -> u64 {
        self.piece.offset
    }

    /// Its number in the file, from 0; None for records.
    #[getter]
    fn number(&self) -> Option<u64> {
        self.piece.number
    }

    /// The number of its file, from 0, in the order of the paths.
    #[getter]
    fn file(&self) -> usize {
        self.piece.file
    }

    /// The path of its file, as it was given.
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.paths.bind(py).get_item(self.piece.file)
    }

    /// Counts a byte, such as ``block.count(b"\n")``, without the interpreter's lock.
    fn count(&self, py: Python<'_>, byte: &Bound<'_, PyAny>) -> PyResult<usize> {
        let byte = one_byte(byte, "byte")?;
        Ok(py.detach(|| memchr::memchr_iter(byte, &self.piece.bytes).count()))
    }

    fn __len__(&self) -> usize {
        self.piece.bytes.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.piece.bytes)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let Piece { bytes, offset, .. } = &self.piece;
        Ok(format!("<sakiyomi.Block of {} bytes at {offset} of {}>", bytes.len(), self.path(py)?.repr()?))
    }

    #[expect(unsafe_code, reason = "the buffer protocol")]
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: Python passes the view, and a block's bytes never change.
        unsafe { buffer::export(&slf, &slf.get().piece.bytes, view, flags) }
    }
}

/// An iterator over blocks of files, which are read ahead.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct BlockedReads {
    reading: Arc<OfProcess<Reading>>,
    paths: Py<PyTuple>,
    division: Option<Division>,
}

/// A read in progress, which ends when this is dropped.
struct Reading {
    queue: Arc<Queue>,
    cancel: Cancel,
}

impl Reading {
    fn close(&self) {
        self.cancel.cancel();
        self.queue.close();
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.close();
    }
}

#[pymethods]
impl BlockedReads {
    #[new]
    #[pyo3(signature = (paths, block, records, threads))]
    fn new(
        py: Python<'_>,
        paths: Bound<'_, PyTuple>,
        block: Option<usize>,
        records: Option<Bound<'_, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<BlockedReads> {
        if block == Some(0) {
            return Err(PyValueError::new_err("block is 0; give at least one byte"));
        }
        if threads == Some(0) {
            return Err(PyValueError::new_err("threads is 0; give at least one"));
        }
        let names: Vec<PathBuf> = paths.extract()?;
        let (queue, cancel) = (Arc::new(Queue::default()), Cancel::new());
        let read = blocked_reads(names).block(block.unwrap_or(BLOCK_DEFAULT_BYTES)).cancelled_by(&cancel);
        let read = match threads {
            Some(threads) => read.threads(threads),
            None => read,
        };
        let spare = Arc::clone(&queue.spare);
        let piece = move |block: read::Block<'_>, number| Piece {
            bytes: spare.copy(&block),
            offset: block.offset(),
            number,
            file: block.file(),
        };
        let division = records.map(division).transpose()?;
        let mapped = match division {
            None => read.map_blocks(move |block| piece(block, Some(block.number()))),
            Some(Division::Ended(end)) => read.records(end).map_blocks(move |block| piece(block, None)),
            Some(Division::Long(bytes)) => {
                read.records_of_length(bytes).map_blocks(move |block| piece(block, None))
            }
        };
        let pumped = Arc::clone(&queue);
        let reading = Arc::new(OfProcess::new(Reading { queue, cancel }));
        let pump = move || pump(mapped, &pumped);
        py.detach(|| thread::Builder::new().name("sakiyomi-blocks".into()).spawn(pump))
            .map_err(|error| exception(&error))?;
        Ok(BlockedReads { reading, paths: paths.unbind(), division })
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Block>> {
        let queue = &self.reading.get("this iterator")?.queue;
        let mut next = queue.take(Duration::ZERO);
        loop {
            match next {
                Next::Piece(piece) => {
                    return Ok(Some(Block { piece, paths: self.paths.clone_ref(py) }));
                }
                Next::End(None) => return Ok(None),
                Next::End(Some(error)) => return Err(of_read(&error)),
                Next::Closed => return Err(closed("blocks")),
                Next::NotYet => {
                    py.check_signals()?;
                    next = py.detach(|| queue.take(SIGNAL_PERIOD));
                }
            }
        }
    }

    /// Returns the records that are left as a stream of the Arrow PyCapsule interface, with a column ``record``.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'_, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        self.reading.get("this iterator")?;
        let Some(division) = self.division else {
            return Err(PyValueError::new_err(
                "blocks without records are not a table; give blocked_reads records=b\"\\n\", or the length of a record",
            ));
        };
        let column = RecordColumn::new(division, requested_schema.as_ref())?;
        arrow::stream(py, Box::new(RecordStream { reading: Arc::clone(&self.reading), column }))
    }

    /// Ends the reading. Blocks that were taken stay valid.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.reading.is_own() {
            let reading = self.reading.get("this iterator")?;
            py.detach(|| reading.close());
        }
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

/// The records of blocks as batches of Arrow's. Any thread may read them, with or without the interpreter.
struct RecordStream {
    reading: Arc<OfProcess<Reading>>,
    column: RecordColumn,
}

impl Iterator for RecordStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let external = |error| ArrowError::ExternalError(Box::new(error));
        let reading = match self.reading.get("this iterator") {
            Ok(reading) => reading,
            Err(error) => return Some(Err(external(io::Error::other(error.to_string())))),
        };
        loop {
            match reading.queue.take(SIGNAL_PERIOD) {
                Next::Piece(piece) => return Some(self.column.batch(piece.bytes)),
                Next::End(None) => return None,
                Next::End(Some(error)) => return Some(Err(external(io::Error::other(sentence(&error))))),
                Next::Closed => {
                    return Some(Err(external(io::Error::other(
                        "the blocks were closed while they were read",
                    ))));
                }
                Next::NotYet => {}
            }
        }
    }
}

impl RecordBatchReader for RecordStream {
    fn schema(&self) -> SchemaRef {
        self.column.schema()
    }
}

/// Reads until the end, an error, or until the iterator is closed.
fn pump(mapped: Mapped<'_, Piece>, queue: &Queue) {
    let end = mapped.in_order(|piece| queue.give(piece));
    queue.end(end.err());
}

fn division(records: Bound<'_, PyAny>) -> PyResult<Division> {
    let Ok(length) = records.extract::<usize>() else {
        return one_byte(&records, "records").map(Division::Ended);
    };
    if length == 0 {
        return Err(PyValueError::new_err(
            "records is 0; give the length of a record, or the byte that ends it",
        ));
    }
    Ok(Division::Long(length))
}

fn one_byte(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u8> {
    let Ok(bytes) = value.cast::<PyBytes>() else {
        return Err(PyTypeError::new_err(format!(
            "{name} is {}; give a byte such as b\"\\n\"",
            value.repr()?
        )));
    };
    match bytes.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(PyValueError::new_err(format!(
            "{name} is {}; give a single byte such as b\"\\n\"",
            bytes.repr()?
        ))),
    }
}
