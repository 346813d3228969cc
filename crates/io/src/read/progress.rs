//! Progress of a read: the next step after the outcome of a call.

use std::io;
use std::ops::Range;

use crate::engine::Op;
use crate::write::progress::is_interruption;

/// The range of one read, and the requested part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset of the read in bytes; a multiple of the alignment.
    pub(crate) offset: u64,
    /// Length of the read in bytes; a multiple of the alignment, so that it may extend beyond the file's end.
    pub(crate) length: usize,
    /// The requested bytes, counted from `offset`.
    pub(crate) within: Range<usize>,
    alignment: usize,
}

impl Span {
    /// Widens a range of a file of `size` bytes to the alignment. Returns the end of the file as the error if it does
    /// not contain the range.
    pub(crate) fn checked(range: Range<u64>, alignment: u64, size: u64) -> Result<Span, u64> {
        if range.end > size || usize::try_from(range.end - range.start).is_err() {
            return Err(size);
        }
        Ok(Span::new(range, alignment, size))
    }

    /// Widens a range of a file of `size` bytes to the alignment.
    pub(crate) fn new(range: Range<u64>, alignment: u64, size: u64) -> Span {
        debug_assert!(range.start < range.end && range.end <= size);
        let offset = range.start / alignment * alignment;
        let length = (range.end - offset).next_multiple_of(alignment);
        let within = (range.start - offset) as usize..(range.end - offset) as usize;
        Span { offset, length: length as usize, within, alignment: alignment as usize }
    }
}

/// The next step after a call.
#[derive(Debug)]
pub(crate) enum Next {
    /// Submit the read again for the missing bytes.
    GoOn,
    /// The read is complete.
    Whole,
    /// The file now ends here; it was larger when it was opened.
    Shrunk {
        /// Offset in bytes from the file's start.
        at: u64,
    },
    /// The read failed.
    Failed(io::Error),
}

/// Maximum consecutive calls that transfer nothing without an error.
const RETRIES_MAX: u32 = 1000;

/// The progress of a read.
#[derive(Debug)]
pub(crate) struct Progress {
    span: Span,
    /// The most bytes received after any call.
    most: usize,
    retries: u32,
}

impl Progress {
    pub(crate) fn new(span: Span) -> Progress {
        Progress { span, most: 0, retries: 0 }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Returns the next step after a call of `op` with `result`.
    pub(crate) fn after(&mut self, op: &mut Op, result: io::Result<usize>) -> Next {
        match result {
            Err(error) if is_interruption(&error) && self.retries < RETRIES_MAX => {
                self.retries += 1;
                Next::GoOn
            }
            Err(error) => Next::Failed(error),
            Ok(count) => self.after_bytes(op, count),
        }
    }

    fn after_bytes(&mut self, op: &mut Op, count: usize) -> Next {
        let wanted = self.span.within.end;
        let got = op.done;
        if got >= wanted {
            // Bytes beyond the requested range are cut off: the file may have grown meanwhile.
            op.rewind(wanted);
            return Next::Whole;
        }
        // Two calls ended at the same place, or the last one returned nothing: this is the file's end.
        if count == 0 || got <= self.most {
            return Next::Shrunk { at: self.span.offset + got as u64 };
        }
        (self.most, self.retries) = (got, 0);
        // Direct transfers continue at a multiple of the alignment; the bytes after it are read again.
        op.rewind(got / self.span.alignment * self.span.alignment);
        Next::GoOn
    }
}
