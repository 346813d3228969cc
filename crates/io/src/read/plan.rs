//! The plan of reads for the requested ranges.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::file::IoFile;

/// A requested range of a file.
pub type FileRange = (Arc<IoFile>, Range<u64>);

/// One read, and the ranges that it covers.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) file: Arc<IoFile>,
    pub(super) first: Range<u64>,
    /// The further ranges, in ascending order.
    pub(super) others: Vec<Range<u64>>,
}

impl Planned {
    fn one(file: &Arc<IoFile>, first: Range<u64>) -> Planned {
        Planned { file: Arc::clone(file), first, others: Vec::new() }
    }

    /// Returns the span of all its ranges, gaps included.
    pub(super) fn span(&self) -> Range<u64> {
        self.first.start..self.others.last().unwrap_or(&self.first).end
    }
}

/// Source of the next reads.
pub(super) enum Plan {
    /// Ranges of a file one after the other, in blocks whose size may change on the way.
    Blocks { file: Arc<IoFile>, rest: VecDeque<Range<u64>> },
    /// Given ranges, each returned as one block.
    Ranges { ranges: Box<dyn Iterator<Item = FileRange> + Send>, next: VecDeque<FileRange>, gap: u64 },
}

impl Plan {
    pub(super) fn is_at_end(&mut self) -> bool {
        match self {
            Plan::Blocks { rest, .. } => {
                while rest.front().is_some_and(Range::is_empty) {
                    rest.pop_front();
                }
                rest.is_empty()
            }
            Plan::Ranges { ranges, next, .. } => {
                if next.is_empty() {
                    next.extend(ranges.next());
                }
                next.is_empty()
            }
        }
    }

    /// Returns the next read, of about `block` bytes. Ranges that are close together become one read of at most that
    /// size; a larger single range is read whole.
    pub(super) fn next(&mut self, block: usize) -> Option<Planned> {
        if self.is_at_end() {
            return None;
        }
        Some(match self {
            Plan::Blocks { file, rest } => {
                // Blocks end at multiples of their size, so that those after the first are aligned.
                let range = rest.front_mut()?;
                let end = (range.start / block as u64 + 1) * block as u64;
                let part = range.start..end.min(range.end);
                range.start = part.end;
                Planned::one(file, part)
            }
            Plan::Ranges { ranges, next, gap } => {
                let (file, first) = next.pop_front()?;
                let mut planned = Planned::one(&file, first);
                while let Some((file_after, after)) = next.pop_front().or_else(|| ranges.next()) {
                    let span = planned.span();
                    let is_near = Arc::ptr_eq(&file, &file_after)
                        && (span.end..=span.end.saturating_add(*gap)).contains(&after.start)
                        && after.end >= after.start
                        && after.end - span.start <= block as u64;
                    if !is_near {
                        next.push_front((file_after, after));
                        break;
                    }
                    planned.others.push(after);
                }
                planned
            }
        })
    }

    /// Puts back the read that was planned last.
    pub(super) fn put_back(&mut self, planned: Planned) {
        match self {
            Plan::Blocks { rest, .. } => rest.push_front(planned.span()),
            Plan::Ranges { next, .. } => {
                for part in planned.others.into_iter().rev().chain([planned.first]) {
                    next.push_front((Arc::clone(&planned.file), part));
                }
            }
        }
    }
}
