//! Cursor over one side of a merge join: its batches with their keys, and the next row.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::keys::{Key, KeyEncoder, KeySlice, KeyValues, with_keys};
use crate::batch_bytes::row_bytes_max;
use crate::{Batches, Error};

/// Rows searched linearly before the search for the end of a group becomes exponential: most foreign-key groups are
/// shorter.
const LINEAR_SEARCH_ROWS: usize = 8;

/// The rows of a batch that a merge may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The next row.
    pub(super) row: usize,
    /// End of the rows with keys: the next null key, or the end of the batch.
    pub(super) end: usize,
    /// Groups that start before this row end in this batch.
    pub(super) complete: usize,
}

/// A cursor over the sorted batches of one side.
pub(super) struct Cursor {
    input: Box<dyn Batches>,
    encoder: Arc<KeyEncoder>,
    /// Indices of the key columns.
    places: Vec<usize>,
    /// `left` or `right`, for errors.
    name: &'static str,
    batch: RecordBatch,
    /// Maximum bytes of a copied row of the batch.
    row_bytes: usize,
    keys: KeyValues,
    /// Remaining ranges of rows with non-null keys, the next one last.
    runs: Vec<(usize, usize)>,
    window: Window,
    has_ended: bool,
    /// Last key of the previous range.
    last: Option<Key>,
    /// Number of rows in previous batches.
    rows_before: u64,
}

impl Cursor {
    pub(super) fn new(
        input: Box<dyn Batches>,
        encoder: Arc<KeyEncoder>,
        places: Vec<usize>,
        name: &'static str,
    ) -> Cursor {
        let (batch, keys) = (RecordBatch::new_empty(input.schema()), encoder.empty());
        let window = Window { row: 0, end: 0, complete: 0 };
        Cursor {
            input,
            encoder,
            places,
            name,
            batch,
            row_bytes: 0,
            keys,
            runs: Vec::new(),
            window,
            has_ended: false,
            last: None,
            rows_before: 0,
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    /// Returns the batch of the next row.
    pub(super) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// Returns the maximum bytes of a copied row of the batch.
    pub(super) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Returns the keys of the batch.
    pub(super) fn keys(&self) -> &KeyValues {
        &self.keys
    }

    /// Returns the next rows with keys; the window is empty if the next key is null.
    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// Loads batches until there is a next row; returns false at the end.
    pub(super) fn refill(&mut self) -> Result<bool, Error> {
        while self.window.row == self.batch.num_rows() {
            if self.has_ended {
                return Ok(false);
            }
            self.rows_before += self.batch.num_rows() as u64;
            let next = self.input.next()?;
            self.has_ended = next.is_none();
            self.batch = next.unwrap_or_else(|| RecordBatch::new_empty(self.input.schema()));
            self.load()?;
        }
        Ok(true)
    }

    fn load(&mut self) -> Result<(), Error> {
        let rows = self.batch.num_rows();
        if u32::try_from(rows).is_err() {
            return Err(Error::Query(format!("a batch of {rows} rows is too large to join")));
        }
        self.row_bytes = row_bytes_max(&self.batch);
        let nulls = self.encoder.encode(&self.batch, &self.places, &mut self.keys)?;
        self.runs.clear();
        match nulls {
            Some(nulls) => self.runs.extend(nulls.valid_slices()),
            None => self.runs.extend((rows > 0).then_some((0, rows))),
        }
        self.runs.reverse();
        self.window = Window { row: 0, end: 0, complete: 0 };
        self.enter_run()
    }

    /// Returns the end of the rows with null keys that start at the next row.
    pub(super) fn null_end(&self) -> usize {
        match self.runs.last() {
            _ if self.window.row < self.window.end => self.window.row,
            Some(run) => run.0,
            None => self.batch.num_rows(),
        }
    }

    /// Advances to a row of the window, to its end, or to the end of rows with null keys.
    pub(super) fn advance_to(&mut self, row: usize) -> Result<(), Error> {
        self.window.row = row;
        if row >= self.window.end { self.enter_run() } else { Ok(()) }
    }

    /// Opens the window if a range of rows with keys starts at the next row.
    fn enter_run(&mut self) -> Result<(), Error> {
        let row = self.window.row;
        let Some((start, end)) = self.runs.pop_if(|run| run.0 == row) else {
            self.window = Window { row, end: row, complete: row };
            return Ok(());
        };
        let is_at_batch_end = end == self.batch.num_rows();
        let complete = with_keys!(&self.keys, keys => {
            self.check_order(keys, start, end)?;
            if is_at_batch_end { last_group(keys, start, end) } else { end }
        });
        self.last = Some(self.keys.owned(end - 1));
        self.window = Window { row, end, complete };
        Ok(())
    }

    fn check_order<K: KeySlice + ?Sized>(&self, keys: &K, start: usize, end: usize) -> Result<(), Error> {
        let follows = self.last.as_ref().is_none_or(|last| self.keys.compare(start, last) != Ordering::Less);
        // No early exit: faster for sorted input.
        let is_sorted =
            (start + 1..end).fold(true, |sorted, row| sorted & (keys.key(row - 1) <= keys.key(row)));
        if follows && is_sorted {
            return Ok(());
        }
        let descends = (start + 1..end).find(|&row| keys.key(row - 1) > keys.key(row));
        let row = self.rows_before + if follows { descends.unwrap_or(start) } else { start } as u64;
        Err(Error::Query(format!(
            "row {row} of the {} side is out of order; a merge join needs both sides sorted by its key columns",
            self.name
        )))
    }

    /// Returns the next rows of a group up to the end of the batch; `None` after the last one.
    pub(super) fn next_of_group(&mut self, key: &Key) -> Result<Option<RecordBatch>, Error> {
        if !self.refill()? {
            return Ok(None);
        }
        let Window { row, end, .. } = self.window;
        if row == end || self.keys.compare(row, key) != Ordering::Equal {
            return Ok(None);
        }
        let group_end = with_keys!(&self.keys, keys => {
            let first = keys.key(row);
            first_not(row + 1, end, |other| keys.key(other) == first)
        });
        let rows = self.batch.slice(row, group_end - row);
        self.advance_to(group_end)?;
        Ok(Some(rows))
    }
}

/// Returns the first row of a range for which a monotonic condition does not hold, or `end`.
pub(super) fn first_not(start: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let linear_end = end.min(start + LINEAR_SEARCH_ROWS);
    for row in start..linear_end {
        if !holds(row) {
            return row;
        }
    }
    let (mut low, mut step) = (linear_end, LINEAR_SEARCH_ROWS);
    while low < end {
        let probe = (low + step - 1).min(end - 1);
        if !holds(probe) {
            return partition_point(low, probe, holds);
        }
        (low, step) = (probe + 1, 2 * step);
    }
    end
}

/// Binary search for [`first_not`]; the condition does not hold for `end`.
fn partition_point(mut start: usize, mut end: usize, holds: impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle) {
            start = middle + 1;
        } else {
            end = middle;
        }
    }
    start
}

/// Returns the first row of the last group of a non-empty range.
fn last_group<K: KeySlice + ?Sized>(keys: &K, start: usize, end: usize) -> usize {
    let last = keys.key(end - 1);
    // Searches backwards from the end.
    end - first_not(1, end - start, |back| keys.key(end - 1 - back) == last)
}

#[cfg(test)]
mod tests;
