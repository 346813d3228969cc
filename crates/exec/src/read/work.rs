//! State shared by the tasks of a blocked read.

use std::any::Any;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use sakiyomi_io::{Access, EngineKind, EngineSpec};

use super::block::Block;
use super::builder::Options;
use super::cancel::Tracker;
use super::decode::Format;
use super::error::Error;
use super::gather::Sink;
use super::report::Report;
use super::semaphore::{Permit, Semaphore};
use super::shape::Shape;
use super::stream::SmallBufs;
use crate::executor::Failure;

/// An error of the caller's function.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The caller's function on a block.
pub(super) type Kernel<'f, T> = dyn Fn(Block<'_>) -> Result<T, BoxError> + Send + Sync + 'f;

/// A file up to this size is read in one call by the thread that processes it: handing it over would take longer.
pub(super) const SMALL_FILE_MAX: usize = 256 << 10;
/// Maximum number of files that are processed or whose results wait for their turn; as many are opened ahead.
const FILES_MAX: u64 = 64;
/// Descriptors left to the rest of the process.
const DESCRIPTORS_RESERVED: u64 = 16;
/// Descriptors that a file may need: while it is opened ahead, mapped and read.
const DESCRIPTORS_PER_FILE: u64 = 4;

/// State shared by the tasks.
pub(super) struct Work<'g, T> {
    pub(super) read: &'g Options,
    pub(super) kernel: &'g Kernel<'g, T>,
    pub(super) shape: &'g Shape,
    pub(super) in_order: bool,
    pub(super) sink: Sink<'g, T>,
    /// Permits for blocks, and for files.
    pub(super) blocks: Semaphore,
    pub(super) files: Semaphore,
    pub(super) kept: SmallBufs,
    pub(super) tracker: Option<Tracker>,
    /// Set by the caller's functions when no more results are wanted.
    enough: &'g AtomicBool,
    /// The error that stopped the whole read, if any.
    stopped: Mutex<Option<Error>>,
    /// Counters and times of all files.
    total: Mutex<Report>,
}

impl<'g, T: Send> Work<'g, T> {
    pub(super) fn new(
        read: &'g Options,
        kernel: &'g Kernel<'g, T>,
        shape: &'g Shape,
        in_order: bool,
        sink: Sink<'g, T>,
        enough: &'g AtomicBool,
    ) -> Work<'g, T> {
        let (blocks, files) = (Semaphore::new(read.blocks_ahead()), Semaphore::new(files_max()));
        let (kept, stopped, total) = (SmallBufs::default(), Mutex::default(), Mutex::default());
        Work {
            read,
            kernel,
            shape,
            in_order,
            sink,
            blocks,
            files,
            kept,
            tracker: None,
            enough,
            stopped,
            total,
        }
    }

    /// Stops the whole read.
    pub(super) fn stop(&self, error: Error) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.close();
    }

    fn close(&self) {
        self.blocks.close();
        self.files.close();
    }

    /// Returns whether nothing more is wanted of any file.
    pub(super) fn is_stopped(&self) -> bool {
        if self.read.cancel.as_ref().is_some_and(|cancel| cancel.is_cancelled()) {
            self.stop(Error::Cancelled);
        } else if self.enough.load(Ordering::Relaxed) {
            self.close();
        }
        self.blocks.is_closed()
    }

    /// Returns the report of all files, or the error that stopped the read.
    pub(super) fn into_report(self) -> Result<Report, Error> {
        let stopped = self.stopped.into_inner().unwrap_or_else(PoisonError::into_inner);
        let total = self.total.into_inner().unwrap_or_else(PoisonError::into_inner);
        stopped.map_or(Ok(total), Err)
    }

    /// Adds the report of a file.
    pub(super) fn add(&self, report: &Report) {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).add(report);
    }

    /// Waits for permits for this many bytes and their results; `None` if the read was stopped.
    pub(super) fn room_for(&self, bytes: u64) -> Option<Permit> {
        let most = self.blocks.most() as u64;
        let count = bytes.saturating_mul(most).div_ceil(self.read.bytes_ahead());
        self.blocks.permits(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Returns the engine for files that are not resident.
    pub(super) fn method(&self) -> EngineSpec {
        let usual = if self.read.access == Access::Direct { EngineKind::Pread } else { EngineKind::Read };
        self.read.method.unwrap_or(EngineSpec::usual(usual))
    }

    /// Returns whether engine and access have their defaults.
    pub(super) fn is_usual(&self) -> bool {
        self.read.method.is_none() && self.read.access == Access::Buffered
    }

    /// Returns whether whole files are wanted, so that a small one can be read at once.
    pub(super) fn takes_small(&self) -> bool {
        self.is_usual() && self.read.range == (0..u64::MAX)
    }

    /// Returns whether pieces of a file are to be started in its order.
    pub(super) fn is_sequential(&self) -> bool {
        self.in_order || self.shape.depends_on_all()
    }

    /// Returns the sizes of pieces of which each result is kept, if it is.
    pub(super) fn sizes(&self, sizes: Range<u64>) -> Range<u64> {
        if self.in_order { self.shape.with_few_calls(sizes) } else { sizes }
    }

    /// Returns an error if a range was asked for, of an input that has no offsets.
    pub(super) fn check_whole(&self) -> io::Result<()> {
        if self.read.range == (0..u64::MAX) {
            return Ok(());
        }
        let what = "a range of an input without offsets, such as a pipe, cannot be read; read all of it";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    /// Returns the format of an input that begins so, if it is to be decoded.
    pub(super) fn format(&self, beginning: &[u8]) -> Option<&'static dyn Format> {
        self.read.decoder.and_then(|decoder| decoder.format(beginning))
    }
}

/// Returns the number of files for which there are descriptors.
fn files_max() -> usize {
    let room = sakiyomi_io::open_files_max().saturating_sub(DESCRIPTORS_RESERVED);
    (room / DESCRIPTORS_PER_FILE).clamp(1, FILES_MAX) as usize
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> Error {
    Error::Task(Failure::of_panic("block", panic))
}
