//! The snapshots of a pipeline that runs, one after the other in the same file.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sakiyomi_stream::{PendingSnapshot, Running, Snapshot};

use super::file;
use crate::Error;
use crate::control::Control;
use crate::input::Named;
use crate::output::Output;

/// Takes snapshots of a pipeline, as [`Pipeline::snapshots`](crate::Pipeline::snapshots) begins them, and writes them to a file, one at a time. The file has the last one that was whole.
pub struct Snapshots {
    job: Arc<Job>,
    phase: Phase,
    figures: SnapshotFigures,
}

/// Requisites of writing a snapshot.
struct Job {
    path: PathBuf,
    definition: Arc<[String]>,
    outputs: Vec<(Named, Output)>,
    control: Arc<Control>,
}

/// The snapshot under way.
enum Phase {
    Idle,
    Aligning(PendingSnapshot),
    Writing(JoinHandle<Result<Written, Error>>),
}

/// A snapshot that was written.
struct Written {
    epoch: u64,
    bytes: u64,
    alignment: Duration,
    write: Duration,
}

/// Sizes and times of snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotFigures {
    /// Snapshots that were written.
    pub taken: u64,
    /// Snapshots that were not taken or not written.
    pub failed: u64,
    /// Number of the last one in the life of the stream, which continues when it is resumed.
    pub epoch: u64,
    /// Size of the file with the last one, in bytes.
    pub bytes: u64,
    /// Size of the largest one, in bytes.
    pub bytes_max: u64,
    /// Time from the barrier's emission until it had passed all operators, of the last one.
    pub alignment: Duration,
    /// The longest alignment of all snapshots.
    pub alignment_max: Duration,
    /// Time to make the outputs and the file durable, of the last one.
    pub write: Duration,
    /// The longest write of all snapshots.
    pub write_max: Duration,
}

impl Snapshots {
    /// Snapshots of a pipeline with this definition and these outputs, in a file.
    pub(crate) fn new(
        path: PathBuf,
        definition: Arc<[String]>,
        outputs: Vec<(Named, Output)>,
        control: Arc<Control>,
    ) -> Snapshots {
        let job = Job { path, definition, outputs, control };
        Snapshots { job: Arc::new(job), phase: Phase::Idle, figures: SnapshotFigures::default() }
    }

    /// Begins a snapshot; nothing if one is under way. It is discarded if the pipeline has an error before it is complete.
    pub fn begin(&mut self, running: &mut Running) {
        if self.is_idle() {
            self.phase = Phase::Aligning(running.begin_snapshot());
        }
    }

    /// Begins the last snapshot of a pipeline whose sources are held ([`Run::halt`](crate::Run::halt)), which waits for the
    /// rows in flight of asynchronous steps: they leave once. Nothing if one is under way.
    pub fn begin_last(&mut self, running: &mut Running) {
        if self.is_idle() {
            self.phase = Phase::Aligning(running.begin_last_snapshot());
        }
    }

    /// Returns whether none is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Carries on with that which is under way, without waiting.
    ///
    /// # Errors
    /// If it was not taken or cannot be written: the file then has the previous one.
    pub fn poll(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Aligning(pending) if pending.is_complete() => {
                let aligned = self.noted(pending.wait_timed().map_err(Error::from))?;
                if self.job.is_void() {
                    return Ok(());
                }
                let thread = std::thread::Builder::new().name("stream-snapshot".into());
                let job = Arc::clone(&self.job);
                let write = move || job.write(&aligned);
                let thread = thread.spawn(write).map_err(|error| self.job.failed(error));
                self.phase = Phase::Writing(self.noted(thread)?);
                Ok(())
            }
            Phase::Writing(thread) if thread.is_finished() => self.written(thread),
            other => {
                self.phase = other;
                Ok(())
            }
        }
    }

    /// Waits until that which is under way is in the file.
    ///
    /// # Errors
    /// Returns the errors of [`Snapshots::poll`].
    pub fn complete(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => Ok(()),
            Phase::Aligning(pending) => {
                let aligned = self.noted(pending.wait_timed().map_err(Error::from))?;
                if self.job.is_void() {
                    return Ok(());
                }
                let written = self.job.write(&aligned);
                self.noted(written).map(|written| self.add(&written))
            }
            Phase::Writing(thread) => self.written(thread),
        }
    }

    /// Sizes and times until now.
    #[must_use]
    pub fn figures(&self) -> SnapshotFigures {
        self.figures
    }

    /// Removes the file: the pipeline has ended, and nothing is left to resume.
    ///
    /// # Errors
    /// If that which is under way cannot be written, or the file cannot be removed.
    pub fn remove(mut self) -> Result<(), Error> {
        self.complete()?;
        match std::fs::remove_file(&self.job.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.job.failed(error)),
            _ => Ok(()),
        }
    }

    fn written(&mut self, thread: JoinHandle<Result<Written, Error>>) -> Result<(), Error> {
        let lost = || Err(self.job.failed(std::io::Error::other("its thread has ended without a result")));
        let written = thread.join().unwrap_or_else(|_| lost());
        self.noted(written).map(|written| self.add(&written))
    }

    /// Counts a failure.
    fn noted<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.figures.failed += u64::from(result.is_err());
        result
    }

    fn add(&mut self, written: &Written) {
        let Written { epoch, bytes, alignment, write } = *written;
        let before = self.figures;
        self.figures = SnapshotFigures {
            taken: before.taken + 1,
            failed: before.failed,
            epoch,
            bytes,
            bytes_max: before.bytes_max.max(bytes),
            alignment,
            alignment_max: before.alignment_max.max(alignment),
            write,
            write_max: before.write_max.max(write),
        };
    }
}

impl Job {
    /// Returns whether an error of the pipeline has ended its sources, so that snapshots tell that they had reached
    /// their ends.
    fn is_void(&self) -> bool {
        self.control.has_failed()
    }

    fn write(&self, (snapshot, alignment): &(Snapshot, Duration)) -> Result<Written, Error> {
        let begun = Instant::now();
        for (named, output) in &self.outputs {
            output.sync().map_err(|source| named.error("sync", source))?;
        }
        let bytes = file::write(&self.path, snapshot, &self.definition)?;
        Ok(Written { epoch: snapshot.epoch, bytes, alignment: *alignment, write: begun.elapsed() })
    }

    fn failed(&self, source: std::io::Error) -> Error {
        let target = self.path.display().to_string();
        Error::Io { name: "snapshot".to_owned(), action: "write", target, source }
    }
}
