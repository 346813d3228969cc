//! Groups of equal keys that span batches, or have more pairs than a result batch.
//!
//! Both sides of a group are read in turns. The side that ends first is the inner side and stays in memory. If neither
//! side fits into the available memory, the right side is spilled and read again for each block of left rows (block
//! nested-loop join). Memory is bounded for groups of any size.

use std::sync::Arc;

use arrow_array::RecordBatch;
use sakiyomi_io::buffer::Account;

use super::assemble::assemble;
use super::cursor::Cursor;
use super::keys::Key;
use super::kind::JoinKind;
use super::layout::Layout;
use super::pairs::Pairs;
use super::result::ResultBatches;
use crate::batch_bytes::{batch_bytes, row_bytes_max};
use crate::batch_spill::{BatchReader, BatchRun, BatchWriter};
use crate::job::Reservation;
use crate::spill::SpillFiles;
use crate::{Error, Job};

/// Name of a group's memory in errors.
const GROUP_MEMORY: &str = "joining rows of equal keys";

/// A group that is being joined.
pub(super) struct Group {
    key: Key,
    stage: Stage,
    /// Memory to spill a side.
    account: Arc<Account>,
}

enum Stage {
    /// Semi or anti join: left rows are returned or skipped, right rows skipped.
    Single { gives_left: bool },
    /// The group has not been read.
    Begin,
    /// The cross product is being returned.
    Cross(Box<Cross>),
}

/// The left and the right side of a join.
pub(super) struct Sides<'a> {
    pub(super) left: &'a mut Cursor,
    pub(super) right: &'a mut Cursor,
}

impl Sides<'_> {
    fn next_of_group(&mut self, side: Side, key: &Key) -> Result<Option<RecordBatch>, Error> {
        match side {
            Side::Left => self.left.next_of_group(key),
            Side::Right => self.right.next_of_group(key),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Group {
    /// Creates the group of a key, which is the next one on both sides.
    pub(super) fn new(kind: JoinKind, key: Key, account: &Arc<Account>) -> Group {
        let single = Stage::Single { gives_left: kind == JoinKind::Semi };
        let stage = if kind.gives_pairs() { Stage::Begin } else { single };
        Group { key, stage, account: Arc::clone(account) }
    }

    /// Returns the next result batch and the maximum bytes of its rows; `None` after the group.
    pub(super) fn next(
        &mut self,
        job: &Job,
        mut sides: Sides<'_>,
        layout: &Layout,
        pairs: &mut Pairs,
        result: &ResultBatches,
    ) -> Result<Option<(RecordBatch, usize)>, Error> {
        loop {
            match &mut self.stage {
                Stage::Single { gives_left } => {
                    while let Some(rows) = sides.left.next_of_group(&self.key)? {
                        job.check()?;
                        if *gives_left {
                            let row_bytes = row_bytes_max(&rows);
                            return Ok(Some((rows.with_schema(layout.schema.clone())?, row_bytes)));
                        }
                    }
                    while sides.right.next_of_group(&self.key)?.is_some() {
                        job.check()?;
                    }
                    return Ok(None);
                }
                Stage::Begin => {
                    self.stage =
                        Stage::Cross(Box::new(Cross::begin(job, &self.account, &mut sides, &self.key)?));
                }
                Stage::Cross(cross) => return cross.next(&self.key, sides, layout, pairs, result),
            }
        }
    }
}

/// Cross product of the outer side, in blocks, with the inner side.
struct Cross {
    outer: Side,
    /// Rows of the outer side in memory.
    block: Vec<RecordBatch>,
    /// Whether the outer side may have rows after the block.
    has_more: bool,
    inner: Inner,
    /// Current batch of the inner side.
    batch: Option<RecordBatch>,
    /// Index of the outer batch in the block, next row of it, and next row of the inner batch.
    at: (usize, usize, usize),
    /// Memory of the block and of an inner side in memory.
    reservation: Reservation,
    /// Bytes of the reservation for the inner side.
    inner_bytes: usize,
}

enum Inner {
    Memory(std::vec::IntoIter<RecordBatch>, Vec<RecordBatch>),
    Spilled(Box<BatchReader>, BatchRun, Arc<Account>),
}

impl Inner {
    fn memory(batches: Vec<RecordBatch>) -> Inner {
        Inner::Memory(batches.clone().into_iter(), batches)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        match self {
            Inner::Memory(rest, _) => Ok(rest.next()),
            Inner::Spilled(reader, ..) => reader.next(),
        }
    }

    fn rewind(&mut self) -> Result<(), Error> {
        match self {
            Inner::Memory(rest, batches) => *rest = batches.clone().into_iter(),
            Inner::Spilled(reader, run, account) => {
                // The previous reader has read everything, and holds no memory.
                **reader = run.read_within(account)?;
            }
        }
        Ok(())
    }
}

impl Cross {
    /// Reads both sides of a group until one ends or the memory is exhausted.
    fn begin(job: &Job, account: &Arc<Account>, sides: &mut Sides<'_>, key: &Key) -> Result<Cross, Error> {
        let mut reservation = job.reserve(0, GROUP_MEMORY)?;
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let (mut left_bytes, mut right_bytes) = (0, 0);
        let (inner, outer, block, inner_bytes) = loop {
            job.check()?;
            let is_left = left_bytes <= right_bytes;
            let side = if is_left { Side::Left } else { Side::Right };
            let Some(rows) = sides.next_of_group(side, key)? else {
                break if is_left {
                    (Inner::memory(left), Side::Right, right, left_bytes)
                } else {
                    (Inner::memory(right), Side::Left, left, right_bytes)
                };
            };
            let (batches, bytes) =
                if is_left { (&mut left, &mut left_bytes) } else { (&mut right, &mut right_bytes) };
            *bytes += batch_bytes(&rows);
            batches.push(rows);
            if reservation.resize(left_bytes + right_bytes, GROUP_MEMORY).is_err() {
                let run = spill_group(job, account, sides.right, right, key)?;
                // The block may use the previous reservation.
                reservation.resize(left_bytes.min(reservation.bytes()), GROUP_MEMORY)?;
                let reader = Box::new(run.read_within(account)?);
                break (Inner::Spilled(reader, run, Arc::clone(account)), Side::Left, left, 0);
            }
        };
        let has_more = true;
        Ok(Cross { outer, block, has_more, inner, batch: None, at: (0, 0, 0), reservation, inner_bytes })
    }

    fn next(
        &mut self,
        key: &Key,
        mut sides: Sides<'_>,
        layout: &Layout,
        pairs: &mut Pairs,
        result: &ResultBatches,
    ) -> Result<Option<(RecordBatch, usize)>, Error> {
        loop {
            if self.batch.is_none() {
                self.batch = self.inner.next()?;
                self.at = (0, 0, 0);
            }
            let Some(inner) = &self.batch else {
                if !self.next_block(key, &mut sides)? {
                    return Ok(None);
                }
                continue;
            };
            let Some(outer) = self.block.get(self.at.0) else {
                self.batch = None;
                continue;
            };
            let is_left = self.outer == Side::Left;
            let row_bytes = row_bytes_max(outer) + row_bytes_max(inner);
            pairs.set_capacity(result.rows_of(row_bytes));
            pair(is_left, outer.num_rows(), inner.num_rows(), &mut self.at, pairs);
            let (left, right) = if is_left { (outer, inner) } else { (inner, outer) };
            return Ok(Some((assemble(layout, left, right, pairs)?, row_bytes)));
        }
    }

    /// Reads the next block of the outer side; returns false at the end.
    fn next_block(&mut self, key: &Key, sides: &mut Sides<'_>) -> Result<bool, Error> {
        self.block.clear();
        self.reservation.resize(self.inner_bytes, GROUP_MEMORY)?;
        while self.has_more {
            let Some(rows) = sides.next_of_group(self.outer, key)? else {
                self.has_more = false;
                break;
            };
            let bytes = self.reservation.bytes() + batch_bytes(&rows);
            self.block.push(rows);
            // A block has at least one batch, which is in memory already. Larger blocks only save reads of a spilled
            // inner side.
            let is_spilled = matches!(self.inner, Inner::Spilled(..));
            if !is_spilled || self.reservation.resize(bytes, GROUP_MEMORY).is_err() {
                break;
            }
        }
        if !self.block.is_empty() {
            self.inner.rewind()?;
        }
        Ok(!self.block.is_empty())
    }
}

/// Pairs the next rows of two batches within the room of `pairs`, and advances `at`.
fn pair(is_left: bool, outer: usize, inner: usize, at: &mut (usize, usize, usize), pairs: &mut Pairs) {
    let (place, mut row, mut other) = *at;
    let mut room = pairs.room();
    let mut cross =
        |outer, inner| if is_left { pairs.cross(outer, inner) } else { pairs.cross(inner, outer) };
    while room > 0 && row < outer {
        if other == 0 && inner <= room {
            // Outer rows with all inner rows.
            let rows = (room / inner).min(outer - row);
            cross(row..row + rows, 0..inner);
            row += rows;
            room -= rows * inner;
        } else {
            let rows = room.min(inner - other);
            cross(row..row + 1, other..other + rows);
            (other, room) = (other + rows, room - rows);
            if other == inner {
                (row, other) = (row + 1, 0);
            }
        }
    }
    *at = if row == outer { (place + 1, 0, 0) } else { (place, row, other) };
}

/// Spills the right side of a group: the rows already read, and the remaining ones.
fn spill_group(
    job: &Job,
    account: &Arc<Account>,
    right: &mut Cursor,
    read: Vec<RecordBatch>,
    key: &Key,
) -> Result<BatchRun, Error> {
    let spill = SpillFiles::new(job);
    let mut writer = BatchWriter::create_within(&spill, &right.schema(), Some(account))?;
    for batch in read {
        writer.write(&batch)?;
    }
    while let Some(batch) = right.next_of_group(key)? {
        job.check()?;
        writer.write(&batch)?;
    }
    writer.finish()
}
