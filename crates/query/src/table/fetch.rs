//! Bytes of splits, read ahead: while a worker decodes a split, the ranges of its next one are in flight.
//!
//! A worker's [`ReadStream`] takes its ranges from an iterator that claims splits. So the next split is chosen when its
//! first byte is to be read, not before, and workers share the splits however fast each of them is.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sakiyomi_io::read::FileRange;
use sakiyomi_io::{Block, IoFile, ReadStream, SharedOptions};

use super::claims::Claims;
use super::source::Source;
use crate::{Error, Job};

/// The phase of a job that the reads of tables belong to.
pub(super) const READ_PHASE_NAME: &str = "read";

/// Smallest size of reads, where memory is short.
const READ_MIN_BYTES: usize = 64 << 10;

/// Reads ahead of a worker, at most: enough for devices of today, and few for the lists that hold them.
const READS_AHEAD_MAX: usize = 64;

/// A part of a table that one worker decodes: a row group, or a record batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// The place of its file.
    pub(super) file: usize,
    /// Its place in the file: the number of the row group or of the record batch.
    pub(super) index: usize,
}

/// The bytes of a split's projected columns, one range for each chunk.
pub(super) type RangesOf = Box<dyn Fn(Split) -> Result<Vec<Range<u64>>, Error> + Send + Sync>;

/// The splits of a scan, shared by its workers.
pub(super) struct Shared {
    sources: Vec<Source>,
    splits: Vec<Split>,
    ranges: RangesOf,
    claims: Claims,
    /// Bytes that one worker's splits may have in memory, being decoded and read ahead.
    share: u64,
    /// Bytes of a read.
    block: usize,
}

impl Shared {
    /// `memory` is that of all workers, for the bytes of files.
    pub(super) fn new(
        sources: Vec<Source>,
        splits: Vec<Split>,
        ranges: RangesOf,
        workers: usize,
        memory: usize,
        block: usize,
    ) -> Shared {
        let share = memory / workers.max(1);
        let block = block.min(share / 4).max(READ_MIN_BYTES);
        let claims = Claims::new(splits.len(), workers);
        Shared { sources, splits, ranges, claims, share: share as u64, block }
    }
}

/// A split that a worker has claimed.
struct Claim {
    split: Split,
    file: Arc<IoFile>,
    /// How many ranges it has, and their bytes.
    ranges: usize,
    bytes: u64,
    is_large: bool,
}

/// What the iterator of ranges tells its worker.
#[derive(Default)]
struct Claimed {
    queue: VecDeque<Claim>,
    /// Bytes of splits in memory or in flight.
    bytes: u64,
    /// A large split is claimed: nothing is read ahead of it.
    has_large: bool,
    error: Option<Error>,
}

/// The ranges of the splits that a worker claims. It ends, and goes on later, where the worker holds enough.
struct Ranges {
    shared: Arc<Shared>,
    worker: usize,
    claimed: Arc<Mutex<Claimed>>,
    /// The ranges of the split that is being read.
    current: std::vec::IntoIter<Range<u64>>,
    /// The file that was opened last.
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
    /// Claims the next split; none if there is none now.
    fn claim(&mut self) -> Option<()> {
        let claimed = Arc::clone(&self.claimed);
        let mut claimed = lock(&claimed);
        if claimed.has_large || claimed.error.is_some() || claimed.bytes > self.shared.share / 2 {
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
        // One piece of memory for each range, unless this split and the next one are larger than the share.
        let is_large = bytes > self.shared.share / 2;
        claimed.queue.push_back(Claim { split, file, ranges: ranges.len(), bytes, is_large });
        if is_large {
            claimed.has_large = true;
            return None;
        }
        claimed.bytes += bytes;
        self.current = ranges.into_iter();
        Some(())
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
    // Its list is whole whatever its holder was doing when it panicked.
    claimed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A split whose bytes are there, or that is to be read in windows.
pub(super) struct Fetched {
    pub(super) split: Split,
    pub(super) file: Arc<IoFile>,
    /// Bytes of its ranges.
    pub(super) bytes: u64,
    /// The bytes of each range; none if they are too many to have at once.
    pub(super) parts: Option<Vec<Bytes>>,
}

/// The splits of one worker.
pub(super) struct Fetcher {
    job: Job,
    shared: Arc<Shared>,
    worker: usize,
    claimed: Arc<Mutex<Claimed>>,
    stream: ReadStream,
    /// A block that has come before its split was asked for.
    early: Option<Block>,
    /// Blocks of a split that was given up, which still come.
    unwanted: usize,
    /// Bytes of the split that is being decoded.
    current: Option<u64>,
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
        let stream = ReadStream::ranges(job.io(), ranges, &options)?;
        let (job, shared) = (job.clone(), Arc::clone(shared));
        Ok(Fetcher { job, shared, worker, claimed, stream, early: None, unwanted: 0, current: None })
    }

    /// Bytes of the files that one worker may have in memory.
    pub(super) fn share(&self) -> usize {
        self.shared.share as usize
    }

    /// The next split; the one before is done with.
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
            match self.block()? {
                Some(block) => self.early = Some(block),
                None => {
                    let claimed = lock(&self.claimed);
                    if claimed.queue.is_empty() && claimed.error.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn finish_current(&mut self) {
        if let Some(bytes) = self.current.take() {
            let mut claimed = lock(&self.claimed);
            claimed.bytes -= bytes;
            claimed.has_large = false;
            self.shared.claims.finish(self.worker);
        }
    }

    fn collect(&mut self, claim: Claim) -> Result<Fetched, Error> {
        let Claim { split, file, ranges: count, bytes, is_large } = claim;
        if is_large {
            self.current = Some(0);
            return Ok(Fetched { split, file, bytes, parts: None });
        }
        self.current = Some(bytes);
        let mut parts = Vec::with_capacity(count);
        while parts.len() < count {
            match self.block() {
                Ok(Some(block)) => parts.push(Bytes::from_owner(block)),
                Ok(None) => unreachable!("a range of a claimed split"),
                // Others have the memory: the split is read in windows, which need little.
                Err(Error::Io(sakiyomi_io::Error::AllHeld { .. })) => {
                    self.unwanted = count - parts.len();
                    return Ok(Fetched { split, file, bytes, parts: None });
                }
                Err(Error::Io(sakiyomi_io::Error::Budget { .. })) => {
                    self.unwanted = count - parts.len() - 1;
                    return Ok(Fetched { split, file, bytes, parts: None });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Fetched { split, file, bytes, parts: Some(parts) })
    }

    /// The next block that is wanted.
    fn block(&mut self) -> Result<Option<Block>, Error> {
        if let Some(block) = self.early.take() {
            return Ok(Some(block));
        }
        while self.unwanted > 0 {
            self.unwanted -= 1;
            drop(self.stream.next());
        }
        Ok(self.stream.next().transpose()?)
    }
}

impl Drop for Fetcher {
    fn drop(&mut self) {
        self.job.phases().add_io(READ_PHASE_NAME, self.stream.stats());
        self.shared.claims.leave(self.worker);
    }
}
