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

/// Returns the first of the files, from `turn` on, that has room for `wanted` bytes, else for the `needed` ones. Files in
/// memory are left to the operators while others have room.
///
/// # Errors
/// [`Error::SpillFull`] if all are full.
pub(super) fn with_room(files: &[Spill], turn: usize, wanted: u64, needed: u64) -> Result<usize, Error> {
    let first = |has: &dyn Fn(&Spill) -> bool| {
        (0..files.len()).map(|index| (turn + index) % files.len()).find(|&file| has(&files[file]))
    };
    first(&|file| file.has_room(wanted))
        .or_else(|| first(&|file| file.has_room(needed)))
        .or_else(|| first(&|file| file.has_space(needed)))
        .ok_or_else(|| full(files, needed))
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

#[cfg(test)]
mod tests {
    use sakiyomi_io::fake::{FakeDisk, Faults};
    use sakiyomi_io::{BufferPool, Io, Memory};
    use sakiyomi_testing::skipped;

    use super::*;
    use crate::JobOptions;

    /// A directory that is removed at the end of the test.
    struct MemoryDirectory(PathBuf);

    impl Drop for MemoryDirectory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn memory_is_spilled_to_once_no_other_directory_has_room() {
        let directory = MemoryDirectory(format!("/dev/shm/sakiyomi-files-{}", std::process::id()).into());
        if std::fs::create_dir(&directory.0).is_err() {
            return skipped("memory_is_spilled_to", "needs a writable /dev/shm");
        }
        let spill = vec![directory.0.clone(), directory.0.clone()];
        let job = Job::new(JobOptions { memory: 32 << 20, spill, ..JobOptions::default() }).unwrap();
        let in_memory: Vec<Spill> =
            job.options().spill.iter().map(|directory| job.spill_file(directory).unwrap()).collect();
        assert_eq!(with_room(&in_memory, 1, 1000, 1000).unwrap(), 1);
        // More than the share of spilled data is in use.
        let _reserved = job.reserve(job.available() / 2, "a test").unwrap();
        assert!(!in_memory[0].has_room(1000) && in_memory[0].has_space(1000));
        assert_eq!(with_room(&in_memory, 1, 2000, 1000).unwrap(), 1, "two directories in memory");
        let disk = FakeDisk::default();
        let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
        let io = Io::over(disk.engine(4, Faults::default()), pool);
        for (capacity, chosen) in [(1 << 20, 2), (50_000, 2), (1, 0)] {
            let file = disk.limited_file(format!("/{capacity}/spill").as_ref(), 4096, capacity).unwrap();
            let files = [&in_memory[..], &[Spill::over(&io, file)]].concat();
            assert_eq!(with_room(&files, 0, 100_000, 40_000).unwrap(), chosen, "{capacity}");
        }
        let error = with_room(&in_memory, 0, u64::MAX, u64::MAX).unwrap_err();
        assert!(matches!(error, Error::SpillFull { .. }), "{error}");
    }
}
