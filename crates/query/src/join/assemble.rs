//! Assembly of result batches from pairs of rows.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::interleave::interleave;

use super::layout::{Layout, Origin};
use super::pairs::{Gather, Pairs};

/// Gathers the paired rows of a left and a right batch, and clears the pairs. Consecutive rows are not copied.
pub(super) fn assemble(
    layout: &Layout,
    left: &RecordBatch,
    right: &RecordBatch,
    pairs: &mut Pairs,
) -> Result<RecordBatch, ArrowError> {
    let rows = pairs.len();
    let (ours, theirs) = (pairs.take_left(), pairs.take_right());
    let columns = layout.origins.iter().zip(layout.schema.fields()).map(|(origin, field)| match *origin {
        Origin::Left(place) => ours.gather(left.column(place)),
        Origin::Right(place) => theirs.gather(right.column(place)),
        Origin::Merged(place, other) => {
            let (left, right) = ((left.column(place), &ours), (right.column(other), &theirs));
            merged(left, right, rows, field.data_type())
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    pairs.recycle(ours, theirs);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(layout.schema.clone(), columns, &options)
}

/// Returns a merged key column: the left value, or the right one if the left row is missing.
fn merged(
    (left, ours): (&ArrayRef, &Gather),
    (right, theirs): (&ArrayRef, &Gather),
    rows: usize,
    to: &DataType,
) -> Result<ArrayRef, ArrowError> {
    match (ours, theirs) {
        (ours, _) if ours.is_complete() => cast(&ours.gather(left)?, to),
        (_, theirs) if theirs.is_complete() => cast(&theirs.gather(right)?, to),
        _ => {
            let (left, right) = (cast(left, to)?, cast(right, to)?);
            let place = |row| {
                let ours = ours.row(row).map(|place| (0, place));
                ours.or_else(|| theirs.row(row).map(|place| (1, place))).expect("a row of one side")
            };
            let places: Vec<(usize, usize)> = (0..rows).map(place).collect();
            interleave(&[left.as_ref(), right.as_ref()], &places)
        }
    }
}
