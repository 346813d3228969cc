//! Forward window over ranges of a file, with few bytes in memory at a time.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sakiyomi_io::buffer::Account;
use sakiyomi_io::{Block, IoFile, ReadStream, SharedOptions};

use crate::table::fetch::READ_PHASE_NAME;
use crate::{Error, Job};

/// Read-ahead of a window in blocks: only one, so that many columns can have windows at once.
const WINDOW_AHEAD: usize = 1;

/// The blocks of a range around the requested bytes.
pub(super) struct Window {
    job: Job,
    stream: ReadStream,
    /// Bytes of a block.
    bytes: usize,
    /// The block read last. No other block is held, so that the stream's guaranteed buffer suffices.
    block: Option<Block>,
    /// Bytes that may be requested again: a header is read twice.
    kept: Bytes,
    kept_at: u64,
}

impl Window {
    /// Opens a window on ranges in the order of the file, with reads of `block` bytes.
    pub(super) fn open(
        job: &Job,
        account: &Arc<Account>,
        file: &Arc<IoFile>,
        ranges: Vec<Range<u64>>,
        block: usize,
    ) -> Result<Window, Error> {
        let options = SharedOptions { block, ahead: WINDOW_AHEAD, ..SharedOptions::default() };
        let kept_at = ranges.first().map_or(0, |range| range.start);
        let stream = ReadStream::extents(job.io(), Some(account), file, ranges, &options)?;
        Ok(Window { job: job.clone(), stream, bytes: block, block: None, kept: Bytes::new(), kept_at })
    }

    /// Copies bytes and keeps them, as they may be requested again. Earlier bytes are discarded.
    pub(super) fn peek(&mut self, offset: u64, length: usize) -> Result<Bytes, Error> {
        let bytes = self.take(offset, length)?;
        (self.kept, self.kept_at) = (bytes.clone(), offset);
        Ok(bytes)
    }

    /// Copies bytes and discards them and earlier ones.
    pub(super) fn take(&mut self, offset: u64, length: usize) -> Result<Bytes, Error> {
        let kept = std::mem::take(&mut self.kept);
        let skipped = usize::try_from(offset.saturating_sub(self.kept_at)).unwrap_or(usize::MAX);
        let kept = kept.get(skipped..).unwrap_or_default();
        let mut gathered = Vec::with_capacity(length);
        gathered.extend_from_slice(&kept[..kept.len().min(length)]);
        if gathered.len() == length && kept.len() > length {
            (self.kept, self.kept_at) = (Bytes::copy_from_slice(&kept[length..]), offset + length as u64);
        }
        while gathered.len() < length {
            let at = offset + gathered.len() as u64;
            let block = self.block_at(at)?;
            let from = (at - block.offset()) as usize;
            let count = (block.len() - from).min(length - gathered.len());
            gathered.extend_from_slice(&block[from..from + count]);
        }
        Ok(gathered.into())
    }

    /// Returns the block with the byte at `at`, which must not precede the current block.
    fn block_at(&mut self, at: u64) -> Result<&Block, Error> {
        loop {
            if self.block.as_ref().is_some_and(|block| at < block.offset() + block.len() as u64) {
                break;
            }
            self.block = None;
            let next = self.stream.next().transpose().map_err(|error| too_many(error, self.bytes))?;
            // The range was checked against the file, and the stream reports a truncated file.
            self.block = Some(next.expect("a byte of the range"));
        }
        Ok(self.block.as_ref().expect("a block with the byte"))
    }
}

/// Too many windows for the memory of a worker is an error after which fewer columns are decoded at a time.
fn too_many(error: sakiyomi_io::Error, needed: usize) -> Error {
    match error {
        sakiyomi_io::Error::AllHeld { .. } => {
            let what = "reading all columns of a row group at once".to_owned();
            Error::Memory { what, needed: needed as u64, available: 0 }
        }
        other => Error::Io(other),
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.job.phases().add_io(READ_PHASE_NAME, self.stream.stats());
    }
}
