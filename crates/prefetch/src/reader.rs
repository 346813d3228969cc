//! A reader that prefetches its file while the program computes.
//!
//! ```no_run
//! use std::io::BufRead;
//! let reader = sakiyomi_prefetch::PrefetchReader::open("large.csv")?;
//! let lines = reader.lines().count();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The program's side is a plain buffered reader. It publishes its position and waiting time in atomic variables
//! (`progress`); a thread runs the [controller](crate::controller) and has the page cache filled ahead (`ahead`).
//! Nothing else connects the two: reads return what the kernel returns at that moment, so a file that grows, shrinks or
//! is written to reads as without prefetching.
//!
//! The thread is started when a read has had to wait and enough data is left for it to matter; files that are cached
//! are therefore read at the speed of a plain reader. Where nothing can be read ahead (pipes, terminals, small files)
//! this is a plain reader.

mod ahead;
mod progress;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sakiyomi_io::Error;
use sakiyomi_model::Nanos;
use sakiyomi_os::cpu;

use crate::cached_file::CachedFile;
use crate::{Limit, State};
use ahead::{Ahead, Task};
use progress::Progress;

/// Minimum transfer size for smaller reads: the default read-ahead window of most devices.
const BUFFER_BYTES: usize = 128 << 10;
/// A large read publishes its position after this many bytes.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes left after the first read below which starting a thread costs more than it can gain.
const REMAINDER_MIN_BYTES: u64 = 512 << 10;

/// A reader that prefetches its file.
#[derive(Debug)]
pub struct PrefetchReader {
    file: Arc<CachedFile>,
    kind: Kind,
    /// Offset of the next read from the kernel: the end of the buffer.
    offset: u64,
    buffer: Vec<u8>,
    /// The part of the buffer that has not been consumed.
    unread: Range<usize>,
    progress: Arc<Progress>,
    ahead: Help,
    options: Builder,
}

/// Kind of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    /// Its size does not change.
    BlockDevice {
        size: u64,
    },
    /// An input without positions.
    Stream,
}

#[derive(Debug)]
enum Help {
    NotYet,
    Never,
    Runs(Ahead),
}

/// Options of a reader.
#[derive(Clone, Copy, Debug)]
pub struct Builder {
    limit: Limit,
    memory: Option<u64>,
}

/// Statistics of a reader so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes read from the file into the program's memory.
    pub read_bytes: u64,
    /// Bytes read into the page cache ahead of the program that were not cached before.
    pub prefetched_bytes: u64,
    /// Number of reads in which the program waited.
    pub waits: u64,
    /// Total time of these waits: time in reads that was not CPU time.
    pub io_wait: Duration,
    /// Estimated additional waiting time without prefetching, extrapolated from the time before anything was
    /// prefetched.
    pub io_hidden: Duration,
    /// The range requested ahead of the program, in bytes from the beginning of the file.
    pub ahead: Range<u64>,
    /// The controller's state, with the reason if it is idle; `None` before there was anything to decide.
    pub state: Option<State>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { limit: Limit::AUTO, memory: None }
    }
}

impl Builder {
    /// Sets the automatic limit: as far ahead as it pays, at most `most` bytes. The default, with 512 MiB.
    #[must_use]
    pub fn auto(self, most: u64) -> Builder {
        Builder { limit: Limit::Auto { most }, ..self }
    }

    /// Sets a fixed limit: always reads ahead, `step` bytes at a time, unless more than `limit` bytes lie ahead.
    #[must_use]
    pub fn fixed(self, limit: u64, step: u64) -> Builder {
        Builder { limit: Limit::Fixed { limit, step }, ..self }
    }

    /// Sets the memory budget for data ahead of the program, in bytes. The default is a quarter of the available
    /// memory.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Builder {
        Builder { memory: Some(bytes), ..self }
    }

    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be opened, or is a directory.
    pub fn open(self, path: impl AsRef<Path>) -> Result<PrefetchReader, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(Error::NotAFile { path: path.to_owned(), what: "a directory" });
        }
        self.over(file).map_err(failed)
    }

    /// Reads an open file from its current position. The position of the file itself does not move, unless it is a pipe
    /// or similar.
    ///
    /// # Errors
    /// If its kind cannot be determined, or it is a directory.
    pub fn over(self, mut file: File) -> io::Result<PrefetchReader> {
        let kind = file.metadata()?.file_type();
        let (kind, offset) = match file.stream_position() {
            _ if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(position) if kind.is_file() => (Kind::File, position),
            Ok(position) if kind.is_block_device() => {
                let size = file.seek(SeekFrom::End(0))?;
                file.seek(SeekFrom::Start(position))?;
                (Kind::BlockDevice { size }, position)
            }
            _ => (Kind::Stream, 0),
        };
        let ahead = if kind == Kind::Stream { Help::Never } else { Help::NotYet };
        Ok(PrefetchReader {
            file: Arc::new(CachedFile::new(file)),
            kind,
            offset,
            buffer: Vec::new(),
            unread: 0..0,
            progress: Arc::new(Progress::new(offset)),
            ahead,
            options: self,
        })
    }
}

impl PrefetchReader {
    /// Opens a file with default options.
    ///
    /// # Errors
    /// If it cannot be opened, or is a directory.
    pub fn open(path: impl AsRef<Path>) -> Result<PrefetchReader, Error> {
        Builder::default().open(path)
    }

    /// Returns a builder to set options.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the statistics so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.progress.statistics()
    }

    /// Returns the position of the program, in bytes from the beginning of the file; for an input without positions,
    /// the number of bytes read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.offset - self.unread.len() as u64
    }

    /// Makes one read from the kernel, which may be short.
    fn pull(&mut self, into: Into<'_>) -> io::Result<usize> {
        let target = match into {
            Into::Buffer => &mut self.buffer[..],
            Into::Program(target) => target,
        };
        let (from, since) = (self.offset, self.progress.now());
        let steps_back = self.progress.begins(since, from);
        let (begun, cpu_time) = (Instant::now(), cpu::of_this_thread());
        let result = read_once(self.file.file(), self.kind, target, from);
        let io_wait = begun.elapsed().saturating_sub(cpu::of_this_thread().saturating_sub(cpu_time));
        let bytes = *result.as_ref().unwrap_or(&0) as u64;
        let reaches = self.progress.ends(bytes, io_wait);
        self.offset += bytes;
        match &self.ahead {
            Help::Runs(ahead) if steps_back || reaches => ahead.call(),
            Help::NotYet if bytes > 0 && self.wants_help() => self.ahead = self.begin_ahead(from, since),
            _ => {}
        }
        result
    }

    /// Returns whether to start the thread: without waits nothing can be hidden, and a thread would only cost. A
    /// fixed limit is always kept.
    fn wants_help(&self) -> bool {
        matches!(self.options.limit, Limit::Fixed { .. }) || self.progress.has_waited()
    }

    /// Starts prefetching after a first read that began at this offset and time.
    fn begin_ahead(&self, from: u64, since: Nanos) -> Help {
        let size = match self.kind {
            Kind::BlockDevice { size } => size,
            _ => self.file.file().metadata().map_or(0, |metadata| metadata.len()),
        };
        if size.saturating_sub(self.offset) < REMAINDER_MIN_BYTES {
            // The file may grow.
            return Help::NotYet;
        }
        let task = Task {
            file: Arc::clone(&self.file),
            progress: Arc::clone(&self.progress),
            limit: self.options.limit,
            memory: self.options.memory,
            from,
            since,
            size,
            can_grow: self.kind == Kind::File,
        };
        Ahead::start(task).map_or(Help::Never, Help::Runs)
    }
}

/// Destination of a read.
enum Into<'a> {
    Buffer,
    Program(&'a mut [u8]),
}

fn read_once(mut file: &File, kind: Kind, target: &mut [u8], at: u64) -> io::Result<usize> {
    loop {
        let result = match kind {
            Kind::Stream => file.read(target),
            _ => file.read_at(target, at),
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl Read for PrefetchReader {
    /// Reads from the buffer, or else as much as the file provides; short only at its end, or where the kernel's read
    /// is short.
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.unread.is_empty() && target.len() >= BUFFER_BYTES {
            return self.read_large(target);
        }
        let available = self.fill_buf()?;
        let count = available.len().min(target.len());
        target[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl PrefetchReader {
    /// Seeks in a stream: some devices support it, others return an error.
    fn seek_stream(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Current(way) => {
                let behind = way.checked_sub_unsigned(self.unread.len() as u64);
                SeekFrom::Current(behind.ok_or(io::ErrorKind::InvalidInput)?)
            }
            other => other,
        };
        let at = { self.file.file() }.seek(to)?;
        self.unread = 0..0;
        Ok(at)
    }

    /// Reads past the buffer, in pieces, so that the prefetching thread sees the progress.
    fn read_large(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.unread = 0..0;
        let mut done = 0;
        while done < target.len() {
            let end = target.len().min(done + PIECE_BYTES);
            match self.pull(Into::Program(&mut target[done..end])) {
                Ok(bytes) => {
                    done += bytes;
                    if bytes < PIECE_BYTES {
                        break;
                    }
                }
                // The bytes read are returned; the next read meets the error again.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl BufRead for PrefetchReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unread.is_empty() {
            if self.buffer.is_empty() {
                // Zeroed memory from the system costs nothing until it is touched.
                self.buffer = vec![0; BUFFER_BYTES];
            }
            self.unread = 0..0;
            self.unread = 0..self.pull(Into::Buffer)?;
        }
        Ok(&self.buffer[self.unread.clone()])
    }

    fn consume(&mut self, amount: usize) {
        self.unread.start = self.unread.end.min(self.unread.start + amount);
    }
}

impl Seek for PrefetchReader {
    /// Seeks to a position, and discards the buffer: the next read returns what the file contains then.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, way) = match (self.kind, to) {
            (Kind::Stream, _) => return self.seek_stream(to),
            (_, SeekFrom::Start(at)) => (at, 0),
            (_, SeekFrom::Current(way)) => (self.position(), way),
            (Kind::File, SeekFrom::End(way)) => (self.file.file().metadata()?.len(), way),
            (Kind::BlockDevice { size }, SeekFrom::End(way)) => (size, way),
        };
        let at = from.checked_add_signed(way).filter(|&at| i64::try_from(at).is_ok());
        let at = at.ok_or(io::ErrorKind::InvalidInput)?;
        self.unread = 0..0;
        self.offset = at;
        Ok(at)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        match self.kind {
            Kind::Stream => {
                Ok({ self.file.file() }.stream_position()?.saturating_sub(self.unread.len() as u64))
            }
            _ => Ok(self.position()),
        }
    }

    fn seek_relative(&mut self, way: i64) -> io::Result<()> {
        let inside = self.unread.start.checked_add_signed(way as isize);
        if self.kind != Kind::Stream && inside.is_some_and(|start| start <= self.unread.end) {
            self.unread.start = inside.unwrap_or_default();
            return Ok(());
        }
        self.seek(SeekFrom::Current(way)).map(drop)
    }
}
