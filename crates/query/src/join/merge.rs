//! Merge join of two sorted streams.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{SchemaRef, SortOptions};
use sakiyomi_io::buffer::Account;

use super::assemble::assemble;
use super::condition::Condition;
use super::cursor::Cursor;
use super::group::{Group, Sides};
use super::keys::{KeyEncoder, KeyValues};
use super::kind::JoinKind;
use super::layout::Layout;
use super::pairs::Pairs;
use super::result::{RESULT_BATCH_ROWS, ResultBatches};
use super::scan::{Stop, scan};
use crate::batch_spill::reserve_spill;
use crate::{Batches, Error, Job};

/// Result stream of a merge join in key order. Rows with null keys keep their position relative to their side.
pub struct MergeJoin {
    job: Job,
    kind: JoinKind,
    layout: Layout,
    left: Cursor,
    right: Cursor,
    pairs: Pairs,
    group: Option<Group>,
    /// Memory to spill a side of a group, reserved before any row is joined.
    account: Arc<Account>,
    result: ResultBatches,
    has_ended: bool,
}

impl MergeJoin {
    /// Joins two streams that are sorted by the columns of the condition, each in the direction of `order`. Nulls may
    /// be first or last.
    ///
    /// # Errors
    /// [`Error::Arrow`] if a type has no order; [`Error::Memory`] if the job has no memory left to spill rows.
    ///
    /// # Panics
    /// If `order` does not have one direction for each pair.
    pub fn new(
        job: &Job,
        left: Box<dyn Batches>,
        right: Box<dyn Batches>,
        condition: &Condition,
        order: &[SortOptions],
        kind: JoinKind,
    ) -> Result<MergeJoin, Error> {
        MergeJoin::with_batch_rows(job, left, right, condition, order, kind, RESULT_BATCH_ROWS)
    }

    /// Like [`MergeJoin::new`], with result batches of at most `batch_rows` rows.
    pub(super) fn with_batch_rows(
        job: &Job,
        left: Box<dyn Batches>,
        right: Box<dyn Batches>,
        condition: &Condition,
        order: &[SortOptions],
        kind: JoinKind,
        batch_rows: usize,
    ) -> Result<MergeJoin, Error> {
        assert_eq!(condition.pairs.len(), order.len(), "a direction for each pair of columns");
        let types = condition.pairs.iter().map(|pair| pair.data_type.clone());
        let encoder = Arc::new(KeyEncoder::new(&types.zip(order.iter().copied()).collect::<Vec<_>>())?);
        let layout = Layout::new(&left.schema(), &right.schema(), condition, kind);
        let result = ResultBatches::new(job, layout.schema.clone(), batch_rows);
        Ok(MergeJoin {
            job: job.clone(),
            kind,
            layout,
            left: Cursor::new(left, Arc::clone(&encoder), condition.left(), "left"),
            right: Cursor::new(right, encoder, condition.right(), "right"),
            pairs: Pairs::with_capacity(batch_rows),
            group: None,
            account: reserve_spill(job, "joining rows")?,
            result,
            has_ended: false,
        })
    }

    /// Adds rows to the result; returns true at the end.
    fn step(&mut self) -> Result<bool, Error> {
        if let Some(group) = &mut self.group {
            let sides = Sides { left: &mut self.left, right: &mut self.right };
            match group.next(&self.job, sides, &self.layout, &mut self.pairs, &self.result)? {
                Some((batch, row_bytes)) => self.result.push(batch, row_bytes)?,
                None => self.group = None,
            }
            return Ok(false);
        }
        let (has_left, has_right) = (self.left.refill()?, self.right.refill()?);
        self.pairs.set_capacity(self.result.rows_of(self.row_bytes()));
        if self.take_nulls()? {
            return Ok(false);
        }
        match (has_left, has_right) {
            (true, true) => self.merge()?,
            (true, false) if self.kind.keeps_left() => {
                let window = self.left.window();
                self.take_left(window.row..window.end)?;
            }
            (false, true) if self.kind.keeps_right() => {
                let window = self.right.window();
                self.take_right(window.row..window.end)?;
            }
            _ => return Ok(true),
        }
        Ok(false)
    }

    /// Returns the maximum bytes of a result row.
    fn row_bytes(&self) -> usize {
        self.left.row_bytes() + self.right.row_bytes()
    }

    /// Consumes rows with null keys, which have no match; returns false if the next rows have keys.
    fn take_nulls(&mut self) -> Result<bool, Error> {
        let left = self.left.window().row..self.left.null_end();
        let right = self.right.window().row..self.right.null_end();
        if !left.is_empty() {
            if self.kind.keeps_left() { self.take_left(left)? } else { self.left.advance_to(left.end)? }
        } else if !right.is_empty() {
            if self.kind.keeps_right() {
                self.take_right(right)?
            } else {
                self.right.advance_to(right.end)?
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Adds left rows without a match to the result, as many as fit.
    fn take_left(&mut self, rows: Range<usize>) -> Result<(), Error> {
        let end = rows.end.min(rows.start + self.pairs.room());
        self.pairs.left_only(rows.start..end);
        self.flush()?;
        self.left.advance_to(end)
    }

    /// Adds right rows without a match to the result, as many as fit.
    fn take_right(&mut self, rows: Range<usize>) -> Result<(), Error> {
        let end = rows.end.min(rows.start + self.pairs.room());
        self.pairs.right_only(rows.start..end);
        self.flush()?;
        self.right.advance_to(end)
    }

    /// Merges the next rows of both sides.
    fn merge(&mut self) -> Result<(), Error> {
        let (mut ours, mut theirs) = (self.left.window(), self.right.window());
        let (kind, pairs) = (self.kind, &mut self.pairs);
        let stop = match (self.left.keys(), self.right.keys()) {
            (KeyValues::Narrow(left), KeyValues::Narrow(right)) => {
                scan(kind, (left.as_slice(), &mut ours), (right.as_slice(), &mut theirs), pairs)
            }
            (KeyValues::Wide(left), KeyValues::Wide(right)) => {
                scan(kind, (left.as_slice(), &mut ours), (right.as_slice(), &mut theirs), pairs)
            }
            (KeyValues::Rows(left), KeyValues::Rows(right)) => {
                scan(kind, (left, &mut ours), (right, &mut theirs), pairs)
            }
            _ => unreachable!("the keys of both sides have one form"),
        };
        self.flush()?;
        if stop == Stop::Group {
            self.group = Some(Group::new(self.kind, self.left.keys().owned(ours.row), &self.account));
        }
        self.left.advance_to(ours.row)?;
        self.right.advance_to(theirs.row)
    }

    /// Assembles the pairs and adds them to the result.
    fn flush(&mut self) -> Result<(), Error> {
        if !self.pairs.is_empty() {
            let batch = assemble(&self.layout, self.left.batch(), self.right.batch(), &mut self.pairs)?;
            self.result.push(batch, self.row_bytes())?;
        }
        Ok(())
    }
}

impl Batches for MergeJoin {
    fn schema(&self) -> SchemaRef {
        self.layout.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            if let Some(batch) = self.result.pop() {
                return Ok(Some(batch));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.job.check()?;
            self.has_ended = self.step()?;
            if self.has_ended {
                self.result.finish()?;
            }
        }
    }
}
