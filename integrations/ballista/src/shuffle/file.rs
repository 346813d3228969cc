//! A shuffle file that is being written.
//!
//! It has a temporary name until the whole task has succeeded: an earlier attempt of the same task, which Ballista numbers
//! alike, may still be writing its own, or be read.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use datafusion::common::{DataFusionError, Result};
use sakiyomi_io::{Access, Error, IoFile, WriteStream};

use super::{Shared, io_error, readable};

/// A file that is removed again, unless it gets its final name.
#[derive(Debug)]
pub(super) struct Temporary {
    path: PathBuf,
    name: PathBuf,
    is_committed: bool,
}

impl Temporary {
    /// A path beside `name`, which no other attempt has.
    pub(super) fn beside(name: &Path) -> Temporary {
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".{:016x}", rand::random::<u64>()));
        Temporary { path: path.into(), name: name.to_owned(), is_committed: false }
    }

    /// Where it is now.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn commit(&mut self) -> Result<()> {
        let renamed = fs::rename(&self.path, &self.name);
        renamed.map_err(|source| cannot("write", &self.name, &source))?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_committed {
            remove(&self.path);
        }
    }
}

/// Tells the thread that writes files that their task was cancelled: when it is dropped.
#[derive(Debug, Default)]
pub(super) struct CancelOnDrop(Arc<AtomicBool>);

/// Whether a task was cancelled.
#[derive(Clone, Debug)]
pub(super) struct Cancellation(Arc<AtomicBool>);

impl CancelOnDrop {
    pub(super) fn cancellation(&self) -> Cancellation {
        Cancellation(Arc::clone(&self.0))
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Cancellation {
    /// Fails if the task was cancelled.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(DataFusionError::Execution("the task was cancelled".into())),
            false => Ok(()),
        }
    }
}

/// A file that is being written.
pub(super) struct ShuffleFile {
    // First: its writes end before the file is removed.
    output: Output,
    file: Temporary,
    bytes: u64,
}

enum Output {
    Stream(Box<WriteStream>),
    /// The budget of buffers has no room for a further stream.
    Plain(BufWriter<File>),
}

/// A file that is whole. It is removed unless [`commit`] gives it its name.
#[derive(Debug)]
pub(super) struct Finished {
    file: Temporary,
    bytes: u64,
}

impl Finished {
    /// Its length in bytes.
    pub(super) fn len(&self) -> u64 {
        self.bytes
    }
}

impl ShuffleFile {
    /// Creates a file that will be `name`, and the directories above it.
    ///
    /// # Errors
    /// If one of them cannot be created.
    pub(super) fn create(shared: &Arc<Shared>, name: &Path) -> Result<ShuffleFile> {
        if let Some(parent) = name.parent() {
            fs::create_dir_all(parent).map_err(|source| cannot("create the directory", parent, &source))?;
        }
        let temporary = Temporary::beside(name);
        let path = temporary.path();
        let file = match IoFile::create(path, shared.options.access) {
            Err(Error::NoDirect { .. }) => IoFile::create(path, Access::Buffered),
            other => other,
        };
        let file = Arc::new(file.map_err(io_error)?);
        let output = match WriteStream::shared(&shared.io, &file, &shared.write_options()) {
            Ok(stream) => Output::Stream(Box::new(stream)),
            Err(Error::Budget { .. }) => {
                shared.plain.fetch_add(1, Ordering::Relaxed);
                let plain = File::create(path).map_err(|source| cannot("write", path, &source))?;
                Output::Plain(BufWriter::new(plain))
            }
            Err(error) => return Err(io_error(error)),
        };
        Ok(ShuffleFile { output, file: temporary, bytes: 0 })
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> u64 {
        self.bytes
    }

    /// Waits for all writes.
    ///
    /// # Errors
    /// The error of a write.
    pub(super) fn finish(self) -> Result<Finished> {
        let ShuffleFile { output, file, bytes } = self;
        match output {
            Output::Stream(stream) => stream.finish().map(drop).map_err(io_error)?,
            Output::Plain(mut plain) => {
                plain.flush().map_err(|source| cannot("write", file.path(), &source))?;
            }
        }
        Ok(Finished { file, bytes })
    }
}

/// Gives files their names when all of a task are whole: all of them, or none. `index` is that of the only file.
///
/// # Errors
/// If one cannot be renamed, or the task was cancelled.
pub(super) fn commit(
    shared: &Shared,
    mut files: Vec<Finished>,
    mut index: Option<Temporary>,
    cancellation: &Cancellation,
) -> Result<()> {
    // Two attempts of a task must not mix their files.
    let _commits = shared.commits.lock().unwrap_or_else(PoisonError::into_inner);
    cancellation.check()?;
    if let Some(index) = &index {
        // A reader finds no index rather than that of an earlier attempt beside this file.
        remove(&index.name);
    }
    let renamed =
        files.iter_mut().map(|file| &mut file.file).chain(&mut index).try_for_each(Temporary::commit);
    if let Err(error) = renamed {
        let committed = files.iter().map(|file| &file.file).filter(|file| file.is_committed);
        committed.for_each(|file| remove(&file.name));
        return Err(error);
    }
    shared.files.fetch_add(files.len() as u64, Ordering::Relaxed);
    shared.written.fetch_add(files.iter().map(Finished::len).sum(), Ordering::Relaxed);
    Ok(())
}

/// Removes a file. A failure only wastes space until Ballista removes the data of the job.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

fn cannot(what: &str, path: &Path, source: &io::Error) -> DataFusionError {
    DataFusionError::IoError(io::Error::new(
        source.kind(),
        format!("cannot {what} {}: {source}", path.display()),
    ))
}

impl Write for ShuffleFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match &mut self.output {
            Output::Stream(stream) => stream.write(bytes).map_err(readable)?,
            Output::Plain(plain) => plain.write(bytes)?,
        };
        self.bytes += written as u64;
        Ok(written)
    }

    /// Encoders flush at their end; [`ShuffleFile::finish`] waits for the writes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
