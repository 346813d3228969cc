//! Read-ahead of splits: while a worker decodes a split, the ranges of its next split are in flight.
//!
//! A worker's [`ReadStream`] takes its ranges from an iterator that claims splits. So a split is claimed only when its
//! first byte is about to be read, and faster workers get more splits.
//!
//! A split whose pages are in the page cache is not read ahead: its worker copies it when it comes to it, so that few
//! buffers are used, which stay in the core's caches, and no other thread is involved.

mod resident;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sakiyomi_io::buffer::Account;
use sakiyomi_io::read::FileRange;
use sakiyomi_io::{Block, IoFile, IoStats, ReadStream, SharedOptions};

use super::claims::Claims;
use super::source::Source;
use crate::{Error, Job};

/// Job phase that table reads are counted under.
pub(super) const READ_PHASE_NAME: &str = "read";

/// Minimum transfer size, used when memory is short.
const READ_MIN_BYTES: usize = 64 << 10;

/// Minimum memory of a worker, for one window of each of some columns.
const SHARE_MIN_BYTES: usize = 64 << 10;

/// Purpose that errors about the memory of a worker name.
pub(super) const SCAN_MEMORY: &str = "reading a table";

/// Maximum reads in flight per worker: enough for current devices.
const READS_AHEAD_MAX: usize = 64;

/// The unit of a table that one worker decodes: a row group, a part of a large one, or a record batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// Index of the file.
    pub(super) file: usize,
    /// Index of the row group or record batch in the file.
    pub(super) index: usize,
    /// Index of the part of a divided row group; 0 for others.
    pub(super) part: usize,
}

/// Returns the byte ranges of a split's projected columns, one per chunk.
pub(super) type RangesOf = Box<dyn Fn(Split) -> Result<Vec<Range<u64>>, Error> + Send + Sync>;

/// The splits of a scan, shared by its workers.
pub(super) struct Shared {
    sources: Vec<Source>,
    splits: Vec<Split>,
    ranges: RangesOf,
    claims: Claims,
    /// Bytes of file data per worker: the split being decoded and those read ahead.
    share: u64,
    /// Transfer size in bytes.
    block: usize,
}

impl Shared {
    /// `memory` is the number of bytes for file data of all workers together.
    pub(super) fn new(
        sources: Vec<Source>,
        splits: Vec<Split>,
        ranges: RangesOf,
        workers: usize,
        memory: usize,
        block: usize,
    ) -> Shared {
        let share = memory / workers.max(1);
        // One block is decoded while the next one is read; smaller blocks keep more reads in flight.
        let block = if block <= share / 2 { block } else { share / 4 };
        let block = block.max(READ_MIN_BYTES);
        let claims = Claims::new(splits.len(), workers);
        Shared { sources, splits, ranges, claims, share: share as u64, block }
    }
}

/// A split that a worker has claimed.
struct Claim {
    split: Split,
    file: Arc<IoFile>,
    ranges: Vec<Range<u64>>,
    /// Total bytes of the ranges.
    bytes: u64,
    way: Way,
}

/// How the bytes of a split are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Ahead of the worker, by the stream.
    Ahead,
    /// By the worker itself, from the page cache.
    Resident,
    /// In windows, because two such splits exceed the share.
    Windows,
}

/// Splits that a worker claims ahead of reading them from the page cache.
const RESIDENT_CLAIMS_MAX: usize = 2;

/// State that the range iterator shares with its worker.
#[derive(Default)]
struct Claimed {
    queue: VecDeque<Claim>,
    /// Bytes of splits in memory or in flight.
    bytes: u64,
    /// Whether a large split is claimed, during which nothing is read ahead.
    has_large: bool,
    error: Option<Error>,
}

/// Iterator over the ranges of a worker's claimed splits. Returns `None` while the worker holds enough, and resumes
/// later.
struct Ranges {
    shared: Arc<Shared>,
    worker: usize,
    claimed: Arc<Mutex<Claimed>>,
    /// Remaining ranges of the split being read.
    current: std::vec::IntoIter<Range<u64>>,
    /// The file opened last.
    file: Option<(usize, Arc<IoFile>)>,
}

impl Iterator for Ranges {
    type Item = FileRange;

    fn next(&mut self) -> Option<FileRange> {
        loop {
            if let Some((_, file)) = &self.file
                && let Some(range) = self.current.next()
            {
                return Some((Arc::clone(file), range));
            }
            self.claim()?;
        }
    }
}

impl Ranges {
    /// Claims the next split; `None` if none is available now.
    fn claim(&mut self) -> Option<()> {
        let claimed = Arc::clone(&self.claimed);
        let mut claimed = lock(&claimed);
        let resident = claimed.queue.iter().filter(|claim| claim.way == Way::Resident).count();
        let is_full = claimed.bytes > self.shared.share / 2 || resident == RESIDENT_CLAIMS_MAX;
        if claimed.has_large || claimed.error.is_some() || is_full {
            return None;
        }
        let split = self.shared.splits[self.shared.claims.claim(self.worker)?];
        let opened = self.open(split.file).and_then(|file| Ok((file, (self.shared.ranges)(split)?)));
        let (file, ranges) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                claimed.error = Some(error);
                return None;
            }
        };
        let bytes = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        // Each range is read into one buffer, unless two such splits exceed the share.
        let way = match () {
            () if bytes > self.shared.share / 2 => Way::Windows,
            () if resident::is_resident(&file, &ranges) => Way::Resident,
            () => Way::Ahead,
        };
        match way {
            Way::Windows => claimed.has_large = true,
            Way::Resident => claimed.bytes += bytes,
            Way::Ahead => {
                claimed.bytes += bytes;
                self.current = ranges.clone().into_iter();
            }
        }
        claimed.queue.push_back(Claim { split, file, ranges, bytes, way });
        (way != Way::Windows).then_some(())
    }

    fn open(&mut self, file: usize) -> Result<Arc<IoFile>, Error> {
        if let Some((known, open)) = &self.file
            && *known == file
        {
            return Ok(Arc::clone(open));
        }
        let open = self.shared.sources[file].io_file()?;
        self.file = Some((file, Arc::clone(&open)));
        Ok(open)
    }
}

fn lock(claimed: &Mutex<Claimed>) -> MutexGuard<'_, Claimed> {
    // The queue stays consistent even if a holder panicked.
    claimed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A split whose bytes are in memory, or that must be read in windows.
pub(super) struct Fetched {
    pub(super) split: Split,
    pub(super) file: Arc<IoFile>,
    /// The bytes of each range; `None` if they do not fit into memory at once.
    pub(super) parts: Option<Vec<Bytes>>,
}

/// Fetches the splits of one worker.
pub(super) struct Fetcher {
    job: Job,
    shared: Arc<Shared>,
    worker: usize,
    claimed: Arc<Mutex<Claimed>>,
    stream: ReadStream,
    /// Memory of the worker's blocks and windows.
    account: Arc<Account>,
    /// A block read before its split was requested.
    early: Option<Block>,
    /// Blocks of an abandoned split that are still to be read and discarded.
    unwanted: usize,
    /// Bytes of the split being decoded.
    current: Option<u64>,
    /// Bytes copied from the page cache so far.
    copied_bytes: u64,
}

impl Fetcher {
    pub(super) fn new(job: &Job, shared: &Arc<Shared>, worker: usize) -> Result<Fetcher, Error> {
        let claimed = Arc::new(Mutex::new(Claimed::default()));
        let ranges = Ranges {
            shared: Arc::clone(shared),
            worker,
            claimed: Arc::clone(&claimed),
            current: Vec::new().into_iter(),
            file: None,
        };
        let ahead = (shared.share as usize / shared.block).clamp(2, READS_AHEAD_MAX);
        let options = SharedOptions { block: shared.block, ahead, ..SharedOptions::default() };
        let bytes = (shared.share as usize).max(SHARE_MIN_BYTES).min(job.io().pool().budget());
        let account = Arc::new(job.account(bytes, SCAN_MEMORY)?);
        let stream = ReadStream::ranges_within(job.io(), Some(&account), ranges, &options)?;
        let (job, shared) = (job.clone(), Arc::clone(shared));
        Ok(Fetcher {
            job,
            shared,
            worker,
            claimed,
            stream,
            account,
            early: None,
            unwanted: 0,
            current: None,
            copied_bytes: 0,
        })
    }

    /// Memory of the worker, for windows: while a split is read in windows, no block of it is held.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Returns the bytes of file data that one worker may hold.
    pub(super) fn share(&self) -> usize {
        self.shared.share as usize
    }

    /// Releases the previous split and returns the next one.
    pub(super) fn next(&mut self) -> Result<Option<Fetched>, Error> {
        self.finish_current();
        loop {
            let claim = {
                let mut claimed = lock(&self.claimed);
                match claimed.queue.pop_front() {
                    None => claimed.error.take().map_or(Ok(None), Err)?,
                    claim => claim,
                }
            };
            if let Some(claim) = claim {
                return self.collect(claim).map(Some);
            }
            // Claims the next split.
            let block = self.block();
            let is_claimed = {
                let claimed = lock(&self.claimed);
                !claimed.queue.is_empty() || claimed.error.is_some()
            };
            match block {
                Ok(Some(block)) => self.early = Some(block),
                Ok(None) if !is_claimed => return Ok(None),
                Ok(None) => {}
                // No block was read: the claimed split is read in windows, unless memory is released in time.
                Err(error) if is_claimed && is_all_held(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn finish_current(&mut self) {
        if let Some(bytes) = self.current.take() {
            let mut claimed = lock(&self.claimed);
            claimed.bytes -= bytes;
            claimed.has_large = claimed.queue.iter().any(|claim| claim.way == Way::Windows);
            self.shared.claims.finish(self.worker);
        }
    }

    fn collect(&mut self, claim: Claim) -> Result<Fetched, Error> {
        let Claim { split, file, ranges, bytes, way } = claim;
        match way {
            Way::Windows => {
                self.current = Some(0);
                return Ok(Fetched { split, file, parts: None });
            }
            Way::Resident => {
                self.current = Some(bytes);
                // The splits behind this one may have to be read ahead.
                self.stream.start()?;
                let parts = resident::copy(&file, ranges, &self.account)?;
                self.copied_bytes += if parts.is_some() { bytes } else { 0 };
                return Ok(Fetched { split, file, parts });
            }
            Way::Ahead => {}
        }
        let count = ranges.len();
        self.current = Some(bytes);
        let mut parts = Vec::with_capacity(count);
        while parts.len() < count {
            match self.block() {
                Ok(Some(block)) => parts.push(Bytes::from_owner(block)),
                Ok(None) => return Err(ended()),
                // Other workers hold the memory: read this split in windows, which need little. No block was read, so
                // that blocks of an earlier split may be left too.
                Err(error) if is_all_held(&error) => {
                    self.unwanted += count - parts.len();
                    return Ok(Fetched { split, file, parts: None });
                }
                Err(Error::Io(sakiyomi_io::Error::Budget { .. })) => {
                    self.unwanted = count - parts.len() - 1;
                    return Ok(Fetched { split, file, parts: None });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Fetched { split, file, parts: Some(parts) })
    }

    /// Returns the next block of a split that was not abandoned. [`sakiyomi_io::Error::AllHeld`] stands for no block;
    /// other errors stand for one.
    fn block(&mut self) -> Result<Option<Block>, Error> {
        if let Some(block) = self.early.take() {
            return Ok(Some(block));
        }
        while self.unwanted > 0 {
            match self.stream.next() {
                Some(Ok(_) | Err(sakiyomi_io::Error::Budget { .. })) => self.unwanted -= 1,
                Some(Err(error)) => return Err(error.into()),
                None => return Err(ended()),
            }
        }
        Ok(self.stream.next().transpose()?)
    }
}

fn is_all_held(error: &Error) -> bool {
    matches!(error, Error::BuffersFull { .. })
}

/// Returns the error of a stream that has failed before.
fn ended() -> Error {
    Error::Query("a file cannot be read any more, because an earlier read has failed".into())
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.job.phases().add_io(READ_PHASE_NAME, self.stream.stats());
        self.job.phases().add_io(READ_PHASE_NAME, IoStats { bytes: self.copied_bytes, ..IoStats::default() });
        self.shared.claims.leave(self.worker);
    }
}

#[cfg(test)]
mod tests;
