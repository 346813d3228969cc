//! Shared parts of `wc` and `grep`: options of reading, progress, circumstances of a run, and messages about files that
//! cannot be read.

use std::error::Error as _;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use sakiyomi_exec::read::{BlockedRead, Error, IoThread, Report, blocked_reads};
use sakiyomi_io::{Access, EngineKind, EngineSpec};
use sakiyomi_model::Bytes;
use sakiyomi_os::stdio;
use sakiyomi_report::{Document, Run};
use serde::Serialize;

use crate::args::parse_method;
use crate::console::without_numbers;
use crate::progress::Progress;
use crate::provenance;

const FILES: &str = "Reading files";

/// How files are read while their blocks are worked on.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReadingArgs {
    /// Read with this method (read, pread:N, aio:N, uring:N, uring-sqpoll:N, mmap:N, populate:N) [default: cached data is mapped or copied, whichever is faster, and the I/O thread reads the rest into the page cache]
    #[arg(long, help_heading = FILES, value_name = "METHOD", value_parser = parse_method)]
    method: Option<EngineSpec>,
    /// Bypass the page cache
    #[arg(long, help_heading = FILES)]
    direct: bool,
    /// Number of compute threads [default: the number of cores]
    #[arg(long, help_heading = FILES, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Size of the blocks that are worked on [default: as many bytes as are at hand]
    #[arg(long, help_heading = FILES, value_name = "SIZE")]
    block: Option<Bytes>,
    /// Thread that reads
    #[arg(long, help_heading = FILES, value_enum, value_name = "THREAD", default_value = "dedicated")]
    io_thread: Reader,
}

/// Values of `--io-thread`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reader {
    /// A dedicated I/O thread.
    Dedicated,
    /// Each compute thread reads its own blocks.
    Shared,
}

impl ReadingArgs {
    /// Returns whether no option says how to read.
    pub(crate) fn is_usual(&self) -> bool {
        self.method.is_none() && !self.direct
    }

    /// Opens a file with these options.
    pub(crate) fn read(&self, path: &Path) -> Result<BlockedRead> {
        self.read_all([path])
    }

    /// Opens files with these options.
    pub(crate) fn read_all(&self, paths: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<BlockedRead> {
        let block = self.block.map(|block| usize::try_from(block.0).unwrap_or(usize::MAX));
        ensure!(
            block.is_none_or(|block| (1..=1 << 30).contains(&block)),
            "--block {}: give 1 byte to 1 GiB",
            self.block.unwrap_or_default()
        );
        ensure!(
            self.method.is_none_or(|method| method.kind != EngineKind::Null),
            "--method null reads nothing; it is for `sakiyomi probe`"
        );
        let access = if self.direct { Access::Direct } else { Access::Buffered };
        let io = match self.io_thread {
            Reader::Dedicated => IoThread::Dedicated,
            Reader::Shared => IoThread::Shared,
        };
        let mut read = blocked_reads(paths).access(access).io_thread(io);
        read = block.map_or(read.clone(), |block| read.block(block));
        read = self.threads.map_or(read.clone(), |threads| read.threads(usize::from(threads)));
        Ok(self.method.map_or(read.clone(), |method| read.method(method)))
    }
}

/// Opens standard input without `io::stdin`, which buffers; the descriptor's offset is shared with its other holders.
pub(crate) fn stdin() -> io::Result<File> {
    stdio::was_open(io::stdin().as_fd())?;
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// The progress of all files that a command reads, on a terminal. It needs the sizes of all: what is read from a pipe may
/// wait for its writer, and what is typed would appear beside a bar.
#[derive(Clone, Default)]
pub(crate) struct Bar(Option<Arc<Shown>>);

struct Shown {
    progress: Mutex<Progress>,
    /// Bytes of all files so far.
    done_bytes: AtomicU64,
}

impl Bar {
    /// Makes one for these files; `-` and an empty name are standard input.
    pub(crate) fn new(names: impl IntoIterator<Item = impl AsRef<OsStr>>, quiet: bool) -> Bar {
        if quiet || !io::stderr().is_terminal() {
            return Bar::default();
        }
        let shown =
            |total| Shown { progress: Mutex::new(Progress::new(Some(total), false)), done_bytes: 0.into() };
        Bar(total_bytes(names).map(shown).map(Arc::new))
    }

    /// Lets a read tell its progress.
    pub(crate) fn on(&self, read: BlockedRead) -> BlockedRead {
        let Some(shown) = &self.0 else { return read };
        let (shown, before) = (Arc::clone(shown), shown.done_bytes.load(Ordering::Relaxed));
        read.progress(move |progress| shown.set(before + progress.done_bytes))
    }

    /// Counts bytes that were processed otherwise.
    pub(crate) fn add(&self, bytes: u64) {
        if let Some(shown) = &self.0 {
            shown.set(shown.done_bytes.load(Ordering::Relaxed) + bytes);
        }
    }
}

impl Shown {
    fn set(&self, done_bytes: u64) {
        self.done_bytes.store(done_bytes, Ordering::Relaxed);
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).set_bytes(done_bytes);
    }
}

/// Returns the size of all files, unless one has none. Files that cannot be read, and directories, have no bytes.
fn total_bytes(names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<u64> {
    let mut total = 0;
    for name in names {
        let name = name.as_ref();
        let is_stdin = name.is_empty() || name == "-";
        let metadata = if is_stdin { stdin().and_then(|stdin| stdin.metadata()) } else { fs::metadata(name) };
        match metadata {
            Ok(metadata) if metadata.is_file() => total += metadata.len(),
            // A second operand, so that names are printed.
            Ok(metadata) if !metadata.is_dir() && name != "/dev/null" => return None,
            Ok(_) | Err(_) => {}
        }
    }
    Some(total)
}

/// Circumstances of a run that reads files. The method of reading varies between runs.
#[derive(Serialize)]
pub(crate) struct ReadingRun {
    #[serde(flatten)]
    run: Run,
    computing_ns: u64,
    read_bytes: u64,
    resident_bytes: u64,
    mapped_bytes: u64,
    copied_bytes: u64,
    /// Method by which data that was not cached was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    io_thread_is_urgent: Option<bool>,
}

/// Returns a result with the circumstances of the run that read for it.
pub(crate) fn document<R>(
    schema: &str,
    report: &Report,
    wall: Duration,
    result: R,
) -> Document<R, ReadingRun> {
    let run = ReadingRun {
        run: provenance::run(wall),
        computing_ns: report.computing.as_nanos() as u64,
        read_bytes: report.bytes,
        resident_bytes: report.resident_bytes,
        mapped_bytes: report.mapped_bytes,
        copied_bytes: report.bytes - report.mapped_bytes,
        method: report.method.map(|method| method.to_string()),
        io_thread_is_urgent: report.io_is_urgent,
    };
    Document { schema: schema.to_owned(), run, result }
}

/// Describes an error without the system's number.
pub(crate) fn plainly(error: &io::Error) -> String {
    without_numbers(&error.to_string())
}

/// Returns whether a file was truncated while it was read.
pub(crate) fn is_truncated(error: &Error) -> bool {
    match error {
        Error::Io(sakiyomi_io::Error::Shrunk { .. }) => true,
        Error::Stream { source, .. } => source.kind() == io::ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// Describes the error of a file whose name precedes the message.
pub(crate) fn describe(error: &Error) -> String {
    match error {
        error if is_truncated(error) => "the file was truncated while it was read".to_owned(),
        Error::Open { source, .. } | Error::Stream { source, .. } => plainly(source),
        error => {
            let causes = std::iter::successors(error.source(), |&cause| cause.source());
            causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
        }
    }
}
