//! A shuffle file that is being written.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::{DataFusionError, Result};
use sakiyomi_io::{Access, Error, IoFile, WriteStream};

use super::{Shared, io_error, readable};

/// A file under its final name, which is removed again unless it is finished: only its task's success makes it known.
pub(super) struct ShuffleFile {
    /// `None` once it is finished.
    output: Option<Output>,
    path: PathBuf,
    bytes: u64,
    shared: Arc<Shared>,
}

enum Output {
    Stream(Box<WriteStream>),
    /// The budget of buffers has no room for a further stream.
    Plain(BufWriter<File>),
}

impl ShuffleFile {
    /// Creates the file, and the directories above it.
    ///
    /// # Errors
    /// If one of them cannot be created.
    pub(super) fn create(shared: &Arc<Shared>, path: &Path) -> Result<ShuffleFile> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|source| cannot("create the directory", parent, &source))?;
        }
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
        let path = path.to_owned();
        Ok(ShuffleFile { output: Some(output), path, bytes: 0, shared: Arc::clone(shared) })
    }

    /// Bytes written so far.
    pub(super) fn len(&self) -> u64 {
        self.bytes
    }

    /// Waits for all writes; returns the length of the file.
    ///
    /// # Errors
    /// The error of a write.
    pub(super) fn finish(mut self) -> Result<u64> {
        let outcome = match self.output.take() {
            Some(Output::Stream(stream)) => stream.finish().map(drop).map_err(io_error),
            Some(Output::Plain(mut plain)) => {
                plain.flush().map_err(|source| cannot("write", &self.path, &source))
            }
            None => Ok(()),
        };
        if let Err(error) = outcome {
            remove(&self.path);
            return Err(error);
        }
        self.shared.files.fetch_add(1, Ordering::Relaxed);
        self.shared.written.fetch_add(self.bytes, Ordering::Relaxed);
        Ok(self.bytes)
    }
}

/// Removes an unfinished file. A failure only wastes space until Ballista removes the data of the job.
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
            Some(Output::Stream(stream)) => stream.write(bytes).map_err(readable)?,
            Some(Output::Plain(plain)) => plain.write(bytes)?,
            None => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        self.bytes += written as u64;
        Ok(written)
    }

    /// Encoders flush at their end; [`ShuffleFile::finish`] waits for the writes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for ShuffleFile {
    fn drop(&mut self) {
        if self.output.take().is_some() {
            remove(&self.path);
        }
    }
}
