//! Destination of a result's bytes: a file that appears when complete, or a pipe or device written in place.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_io::{Access, AtomicFile, IoStats, WriteOptions, WriteStream};

use crate::output::options::Target;
use crate::{Error, Job};

/// Buffer size of pipes and devices, in bytes; the usual capacity of a pipe.
const PIPE_BUFFER_BYTES: usize = 64 << 10;

/// The name of the standard output in errors.
const STDOUT: &str = "the standard output";

/// The destination of a result and its state.
pub(crate) struct Sink {
    writer: Writer,
    path: PathBuf,
    written: u64,
    /// The first error, until it is reported.
    failure: Option<Error>,
    /// Whether there was an error, so that the result is incomplete.
    has_failed: bool,
}

enum Writer {
    /// Large aligned writes, with direct I/O if the file system supports it.
    Stream { stream: Box<WriteStream>, file: Option<AtomicFile> },
    /// A pipe or a device.
    InPlace(BufWriter<Box<dyn Write + Send>>),
    /// The sink was finished.
    Finished,
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink")
            .field("path", &self.path)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl Sink {
    /// Opens the target; no file appears yet.
    pub(crate) fn create(job: &Job, target: &Target) -> Result<Sink, Error> {
        let Target::File(path) = target else { return Sink::stdout() };
        let file = create_file(path)?;
        match file.file() {
            Ok(opened) => {
                let stream = WriteStream::shared(job.io(), opened, &WriteOptions::default())?;
                Ok(Sink::with(Writer::Stream { stream: Box::new(stream), file: Some(file) }, path))
            }
            Err(_) => Ok(Sink::in_place(Box::new(file), path)),
        }
    }

    /// Writes to a stream whose file the caller manages.
    #[cfg(test)]
    pub(crate) fn over(stream: WriteStream) -> Sink {
        let path = stream.file().path().to_owned();
        Sink::with(Writer::Stream { stream: Box::new(stream), file: None }, &path)
    }

    fn stdout() -> Result<Sink, Error> {
        let failed = |source| sakiyomi_io::Error::Open { path: STDOUT.into(), source };
        let stdout = io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
        Ok(Sink::in_place(Box::new(File::from(stdout)), Path::new(STDOUT)))
    }

    pub(crate) fn in_place(writer: Box<dyn Write + Send>, path: &Path) -> Sink {
        Sink::with(Writer::InPlace(BufWriter::with_capacity(PIPE_BUFFER_BYTES, writer)), path)
    }

    fn with(writer: Writer, path: &Path) -> Sink {
        Sink { writer, path: path.to_owned(), written: 0, failure: None, has_failed: false }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let outcome = match &mut self.writer {
            Writer::Stream { stream, .. } => stream.write_all(bytes),
            Writer::InPlace(writer) => writer.write_all(bytes),
            Writer::Finished => Err(io::ErrorKind::InvalidInput.into()),
        };
        outcome.map_err(|error| self.fail(error, bytes.len()))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Keeps an error for the caller. Returns one for the libraries in between.
    fn fail(&mut self, error: io::Error, length: usize) -> io::Error {
        let (kind, path, offset) = (error.kind(), self.path.clone(), self.written);
        let error = error.downcast().unwrap_or_else(|source| sakiyomi_io::Error::Write {
            path,
            offset,
            length,
            source,
        });
        self.failure.get_or_insert(error.into());
        self.has_failed = true;
        kind.into()
    }

    fn finish(&mut self) -> Result<(), Error> {
        if self.has_failed {
            let path = self.path.display();
            let told = || Error::Query(format!("{path} was not written, because an earlier write failed"));
            return Err(self.failure.take().unwrap_or_else(told));
        }
        match std::mem::replace(&mut self.writer, Writer::Finished) {
            Writer::Stream { stream, file } => {
                stream.finish()?;
                file.map_or(Ok(()), commit)
            }
            Writer::InPlace(mut writer) => {
                let buffered = writer.buffer().len();
                writer.flush().map_err(|error| {
                    self.written -= (buffered as u64).min(self.written);
                    let _ = self.fail(error, buffered);
                    self.failure.take().expect("just failed")
                })
            }
            Writer::Finished => Ok(()),
        }
    }
}

/// Creates a file, for direct I/O if the file system supports it.
fn create_file(path: &Path) -> Result<AtomicFile, Error> {
    let created = match AtomicFile::create_for(path, Access::Direct) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => AtomicFile::create(path),
        other => other,
    };
    created.map_err(|error| {
        let open = |source| sakiyomi_io::Error::Open { path: path.to_owned(), source };
        error.downcast().unwrap_or_else(open).into()
    })
}

fn commit(file: AtomicFile) -> Result<(), Error> {
    let path = file.target().display().to_string();
    let failed =
        |source| sakiyomi_io::Error::System { what: format!("put the result in place as {path}"), source };
    Ok(file.commit().map_err(failed)?)
}

/// A shared handle of a sink, which libraries write to.
#[derive(Clone, Debug)]
pub(crate) struct SharedSink(Arc<Mutex<Sink>>);

impl SharedSink {
    pub(crate) fn new(sink: Sink) -> SharedSink {
        SharedSink(Arc::new(Mutex::new(sink)))
    }

    fn lock(&self) -> MutexGuard<'_, Sink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends bytes.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<(), Error> {
        let outcome = self.lock().append(bytes);
        self.check(
            outcome.map_err(|source| sakiyomi_io::Error::System { what: "write the result".into(), source }),
        )
    }

    /// Replaces an error that passed through a library by the sink's original one.
    pub(crate) fn check<T>(&self, outcome: Result<T, impl Into<Error>>) -> Result<T, Error> {
        outcome.map_err(|error| self.lock().failure.take().unwrap_or_else(|| error.into()))
    }

    /// Returns the bytes appended so far.
    pub(crate) fn written(&self) -> u64 {
        self.lock().written
    }

    /// Counters of the writes.
    pub(crate) fn stats(&self) -> IoStats {
        match &self.lock().writer {
            Writer::Stream { stream, .. } => stream.stats(),
            _ => IoStats::default(),
        }
    }

    /// Writes the rest, so that the file appears.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        self.lock().finish()
    }
}

impl Write for SharedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
