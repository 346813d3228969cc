//! The spill files of an operator, one in each directory.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_io::Spill;

use crate::{Error, Job};

/// The spill files of an operator, created on first use; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct SpillFiles {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    job: Job,
    files: Mutex<Vec<Spill>>,
    /// Number of runs or chunks so far.
    turn: AtomicUsize,
}

impl SpillFiles {
    /// Uses the spill directories of a job.
    pub(crate) fn new(job: &Job) -> SpillFiles {
        #[cfg(test)]
        let files = job.spill_files();
        #[cfg(not(test))]
        let files = Vec::new();
        SpillFiles::with(job, files)
    }

    /// Uses existing files.
    #[cfg(test)]
    pub(crate) fn over(job: &Job, files: Vec<Spill>) -> SpillFiles {
        SpillFiles::with(job, files)
    }

    fn with(job: &Job, files: Vec<Spill>) -> SpillFiles {
        let shared = Shared { job: job.clone(), files: Mutex::new(files), turn: AtomicUsize::new(0) };
        SpillFiles { shared: Arc::new(shared) }
    }

    /// Returns the job that spills.
    pub(crate) fn job(&self) -> &Job {
        &self.shared.job
    }

    /// Returns the files, which are created now if they do not exist.
    ///
    /// # Errors
    /// If the job has no spill directory, or a file cannot be created.
    pub(super) fn files(&self) -> Result<Vec<Spill>, Error> {
        let job = &self.shared.job;
        let mut files = self.shared.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.is_empty() {
            let directories = job.options().spill.iter();
            *files = directories.map(|directory| job.spill_file(directory)).collect::<Result<_, _>>()?;
        }
        if files.is_empty() {
            return Err(Error::Query(
                "the data does not fit into memory, and the job has no directory for spill files; name one with --spill"
                    .into(),
            ));
        }
        Ok(files.clone())
    }

    /// Leaves the files to the readers of their runs: they are closed with the last of them. A later spill creates others.
    pub(crate) fn leave(&self) {
        self.shared.files.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the index of the next file in turn.
    pub(super) fn next_turn(&self) -> usize {
        self.shared.turn.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns the first of the files, from `turn` on, that has room for `bytes` bytes.
///
/// # Errors
/// [`Error::SpillFull`] if all are full.
pub(super) fn with_room(files: &[Spill], turn: usize, bytes: u64) -> Result<usize, Error> {
    let all = (0..files.len()).map(|index| (turn + index) % files.len());
    all.into_iter().find(|&file| files[file].has_room(bytes)).ok_or_else(|| full(files, bytes))
}

/// Returns the error of full spill directories.
fn full(files: &[Spill], needed_bytes: u64) -> Error {
    let spilled_bytes = files.iter().map(|file| file.stats().live_bytes).sum();
    let directories = files.iter().map(|spill| directory(spill.file().path())).collect();
    Error::SpillFull { spilled_bytes, needed_bytes, directories }
}

/// Turns the error of a full disk into that of full spill directories.
pub(super) fn spill_error(files: &[Spill], error: sakiyomi_io::Error) -> Error {
    match error {
        sakiyomi_io::Error::Full { needed, .. } => full(files, needed),
        other => other.into(),
    }
}

/// Returns the directory of a spill file, which has no name of its own.
fn directory(file: &std::path::Path) -> PathBuf {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(file).to_owned()
}

/// Returns the error of data that was not read back as it was written.
pub(super) fn damaged(file: &std::path::Path, offset: u64) -> Error {
    Error::SpillDamaged { directory: directory(file), offset }
}
