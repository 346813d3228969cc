//! `io_report`: the waits of this process by file.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use sakiyomi_prefetch::{FileWait, WaitWatch, Waits};
use sakiyomi_report::Document;
use sakiyomi_report::result::{FileWaits, WaitsResult};

use crate::error::{Error, closed, exception};
use crate::process::OfProcess;
use crate::reader::nanos;
use crate::simulation::{build, json};

/// A watch over the threads of this process.
#[pyclass(frozen, module = "sakiyomi")]
pub(crate) struct IoWatch {
    /// `None` when it has ended.
    watch: OfProcess<Mutex<Option<WaitWatch>>>,
}

#[pymethods]
impl IoWatch {
    #[new]
    fn new(py: Python<'_>) -> PyResult<IoWatch> {
        let watch = py.detach(WaitWatch::start).map_err(|error| {
            Error::new_err(format!("the waits of this process cannot be seen: /proc: {error}"))
        })?;
        Ok(IoWatch { watch: OfProcess::new(Mutex::new(Some(watch))) })
    }

    /// Ends the watch, and returns the document of its report.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        let watch = self.watch.get("this report")?;
        let watch = watch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let watch = watch.ok_or_else(|| closed("a report"))?;
        let waits = py.detach(|| watch.finish()).map_err(|error| exception(&error))?;
        json(&Document::new(build(), result(waits)))
    }
}

fn result(waits: Waits) -> WaitsResult {
    let notes = [
        "Waits of sakiyomi's own threads, which read ahead, and of other processes are not counted.",
        "A page fault waits for a page of a mapping; its file is not visible.",
        "Asynchronous I/O (io_uring, Linux AIO) and waits for pipes, sockets and locks are not waits for I/O here.",
    ];
    WaitsResult {
        elapsed_ns: nanos(waits.elapsed),
        computing_ns: nanos(waits.cpu_time),
        io_wait_ns: nanos(waits.io_wait),
        core_wait_ns: nanos(waits.core_wait),
        threads: waits.threads,
        samples: waits.samples,
        read_bytes: waits.read_bytes,
        storage_read_bytes: waits.storage_bytes.0,
        storage_written_bytes: waits.storage_bytes.1,
        major_faults: waits.major_faults,
        files: waits.files.into_iter().map(file).collect(),
        notes: notes.map(str::to_owned).to_vec(),
    }
}

fn file(wait: FileWait) -> FileWaits {
    FileWaits {
        path: wait.path.map(|path| path.to_string_lossy().into_owned()),
        call: wait.kind.name().to_owned(),
        io_wait_ns: nanos(wait.io_wait),
        samples: wait.samples,
    }
}
