//! The reader under `open_ahead`: a file whose data is read ahead of the program.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use std::{process, thread};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use sakiyomi_prefetch::reader::{Builder, PrefetchReader};

use crate::buffer;
use crate::error::{Error, closed, exception, of_file};
use crate::process::OfProcess;

/// A large read is made in pieces of this size, between which signals are checked: a fraction of a second on the slowest
/// storage.
const PIECE_BYTES: usize = 4 << 20;
/// Limit of the distance, unless another one is given: that of the readers in Rust and C.
const LIMIT_DEFAULT_BYTES: u64 = 512 << 20;
/// Smallest step of a fixed distance: a page, as in C.
const STEP_MIN_BYTES: u64 = 4096;
/// Least that is asked for at the end of a file, which may hold more than its size says.
const END_BYTES: usize = 4096;
/// Pause before a lock is tried again that another thread of a forked process holds.
const RETRY_PERIOD: Duration = Duration::from_millis(1);

/// The reader, which the class ``AheadFile`` of Python's makes a file.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct Reader {
    /// `None` when it is closed. The lock is never taken with the interpreter.
    open: Mutex<Option<Open>>,
    /// The process that holds the lock, or 0: a forked process may have a lock of a thread that it does not have.
    holder: AtomicU32,
    /// The process in which this was made.
    process: u32,
}

struct Open {
    reader: OfProcess<PrefetchReader>,
    /// The same file, for a forked process.
    file: File,
    options: Builder,
}

impl Open {
    /// Returns the reader; a forked process gets one of its own, at the position at which the file was forked.
    fn reader(&mut self) -> io::Result<&mut PrefetchReader> {
        if !self.reader.is_own() {
            let at = self.reader.any_process().position();
            let mut own = self.options.over(self.file.try_clone()?)?;
            own.seek(SeekFrom::Start(at))?;
            self.reader = OfProcess::new(own);
        }
        Ok(self.reader.any_process_mut())
    }
}

/// Why a reader cannot be used.
enum Refused {
    Closed,
    /// It was in use by another thread when the process was forked.
    Forked,
    System(io::Error),
}

impl Refused {
    fn exception(&self) -> PyErr {
        match self {
            Refused::Closed => closed("a file"),
            Refused::Forked => Error::new_err(
                "another thread read this file when the process was forked, so its position is unknown here; open it again",
            ),
            Refused::System(error) => exception(error),
        }
    }
}

impl Reader {
    fn lock(&self) -> Result<MutexGuard<'_, Option<Open>>, Refused> {
        if self.process == process::id() {
            return Ok(self.open.lock().unwrap_or_else(PoisonError::into_inner));
        }
        loop {
            match self.open.try_lock() {
                Ok(open) => return Ok(open),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if self.holder.load(Relaxed) != process::id() => {
                    return Err(Refused::Forked);
                }
                Err(TryLockError::WouldBlock) => thread::sleep(RETRY_PERIOD),
            }
        }
    }

    /// Runs `work` on the reader, without the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut PrefetchReader) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| self.work(work)).map_err(|refused| refused.exception())
    }

    fn work<T>(&self, work: impl FnOnce(&mut PrefetchReader) -> io::Result<T>) -> Result<T, Refused> {
        let mut open = self.lock()?;
        self.holder.store(process::id(), Relaxed);
        let done = match open.as_mut() {
            None => Err(Refused::Closed),
            Some(open) => open.reader().and_then(work).map_err(Refused::System),
        };
        self.holder.store(0, Relaxed);
        done
    }

    /// Reads until `target` is full or the file ends, in pieces; returns the number of bytes.
    fn fill(&self, target: &mut [u8]) -> PyResult<usize> {
        let mut done = 0;
        while done < target.len() {
            let end = target.len().min(done + PIECE_BYTES);
            let read = self.work(|reader| reader.read(&mut target[done..end]));
            let bytes = match read {
                Ok(bytes) => bytes,
                // The next read meets the error again.
                Err(_) if done > 0 => break,
                Err(refused) => return Err(refused.exception()),
            };
            done += bytes;
            if bytes == 0 {
                break;
            }
            if done < target.len() {
                Python::attach(|py| py.check_signals())?;
            }
        }
        Ok(done)
    }
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (path, limit, step, memory))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        limit: Option<u64>,
        step: Option<u64>,
        memory: Option<u64>,
    ) -> PyResult<Reader> {
        let limit = limit.unwrap_or(LIMIT_DEFAULT_BYTES);
        let builder = match step {
            None => Builder::default().auto(limit),
            Some(step @ ..STEP_MIN_BYTES) => {
                return Err(PyValueError::new_err(format!(
                    "step is {step}; leave it out, or give at least {STEP_MIN_BYTES} bytes"
                )));
            }
            Some(step) => Builder::default().fixed(limit, step),
        };
        let options = memory.map_or(builder, |bytes| builder.memory(bytes));
        let failed = |source| of_file(&sakiyomi_io::Error::Open { path: path.clone(), source });
        let open = py.detach(|| {
            let file = File::open(&path)?;
            Ok(Open { reader: OfProcess::new(options.over(file.try_clone()?)?), file, options })
        });
        let open = Mutex::new(Some(open.map_err(failed)?));
        Ok(Reader { open, holder: AtomicU32::new(0), process: process::id() })
    }

    /// Reads into a buffer until it is full or the file ends.
    fn readinto(&self, target: &Bound<'_, PyAny>) -> PyResult<usize> {
        buffer::fill(target, |target| self.fill(target))?
    }

    /// Reads all that is left.
    fn readall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut parts = Vec::new();
        loop {
            // A file that grows meanwhile is read in several parts.
            let left = self.with(py, |reader| {
                let at = reader.position();
                let end = reader.seek(SeekFrom::End(0))?;
                reader.seek(SeekFrom::Start(at))?;
                Ok(end.saturating_sub(at))
            })?;
            // Files of the kernel, such as those in /proc, have the size 0 whatever they hold.
            let asked = usize::try_from(left).unwrap_or(usize::MAX).max(END_BYTES);
            let mut read = 0;
            let part = PyBytes::new_with(py, asked, |target| {
                read = py.detach(|| self.fill(target))?;
                Ok(())
            })?;
            if read < asked {
                // Nothing is left of most files, whose only part is returned without a copy.
                if read > 0 {
                    parts.push(PyBytes::new(py, &part.as_bytes()[..read]));
                }
                break;
            }
            parts.push(part);
        }
        match parts.len() {
            1 => Ok(parts.remove(0)),
            _ => Ok(PyBytes::new(py, b"").call_method1("join", (parts,))?.cast_into()?),
        }
    }

    fn seek(&self, py: Python<'_>, offset: i64, whence: i32) -> PyResult<u64> {
        let to = match whence {
            0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| before(offset))?),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => {
                return Err(PyValueError::new_err(format!(
                    "whence is {whence}; give 0 (from the beginning), 1 (from the position) or 2 (from the end)"
                )));
            }
        };
        self.with(py, |reader| match reader.seek(to) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            other => other.map(Some),
        })?
        .ok_or_else(|| before(offset))
    }

    fn tell(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |reader| Ok(reader.position()))
    }

    /// The figures so far, by the names of the C interface.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let so_far = self.with(py, |reader| Ok(reader.statistics()))?;
        let figures = PyDict::new(py);
        figures.set_item("read_bytes", so_far.read_bytes)?;
        figures.set_item("prefetched_bytes", so_far.prefetched_bytes)?;
        figures.set_item("waits", so_far.waits)?;
        figures.set_item("io_wait_ns", nanos(so_far.io_wait))?;
        figures.set_item("io_hidden_ns", nanos(so_far.io_hidden))?;
        figures.set_item("ahead_bytes", so_far.ahead.end - so_far.ahead.start)?;
        Ok(figures)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            // A file of a forked process that another thread read in the first one stays open until the process ends.
            if let Ok(mut open) = self.lock() {
                drop(open.take());
            }
        });
    }
}

fn before(offset: i64) -> PyErr {
    PyValueError::new_err(format!(
        "cannot seek by {offset}: that is before the beginning, or beyond the largest offset"
    ))
}

/// Returns a time in the unit of results.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
