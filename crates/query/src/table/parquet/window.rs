//! A range of a file of which few bytes are in memory at a time, read forward.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sakiyomi_io::{Block, IoFile, ReadStream, SharedOptions};

use crate::table::fetch::READ_PHASE_NAME;
use crate::{Error, Job};

/// Blocks that a window reads ahead: one, so that many columns can have windows at the same time.
const WINDOW_AHEAD: usize = 1;

/// The part of a range around the bytes that are asked for.
pub(super) struct Window {
    job: Job,
    stream: ReadStream,
    /// The block that was read last. No other is held, so that the stream's guarantee is enough to go on.
    block: Option<Block>,
    /// Bytes that were asked for, and not passed: a header that is looked at twice.
    kept: Bytes,
    kept_at: u64,
}

impl Window {
    pub(super) fn open(
        job: &Job,
        file: &Arc<IoFile>,
        range: Range<u64>,
        block: usize,
    ) -> Result<Window, Error> {
        let options = SharedOptions { block, ahead: WINDOW_AHEAD, ..SharedOptions::default() };
        let kept_at = range.start;
        let stream = ReadStream::shared(job.io(), file, range, &options)?;
        Ok(Window { job: job.clone(), stream, block: None, kept: Bytes::new(), kept_at })
    }

    /// A copy of some bytes, which are kept: they may be asked for again. Those before them are no longer needed.
    pub(super) fn peek(&mut self, offset: u64, length: usize) -> Result<Bytes, Error> {
        let bytes = self.take(offset, length)?;
        (self.kept, self.kept_at) = (bytes.clone(), offset);
        Ok(bytes)
    }

    /// A copy of some bytes. They and those before them are no longer needed.
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

    /// The block that has the byte at an offset, which is not before the last one.
    fn block_at(&mut self, at: u64) -> Result<&Block, Error> {
        loop {
            if self.block.as_ref().is_some_and(|block| at < block.offset() + block.len() as u64) {
                break;
            }
            self.block = None;
            let next = self.stream.next().transpose()?;
            // The range was checked against the file, and a shorter file is the stream's error.
            self.block = Some(next.expect("a byte of the range"));
        }
        Ok(self.block.as_ref().expect("a block with the byte"))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.job.phases().add_io(READ_PHASE_NAME, self.stream.stats());
    }
}
