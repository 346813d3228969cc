//! Assembly of result batches from pairs of rows.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::ArrowError;
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
    let columns = layout.origins.iter().map(|origin| match *origin {
        Origin::Left(place) => ours.gather(left.column(place)),
        Origin::Right(place) => theirs.gather(right.column(place)),
        Origin::Merged(place, other) => merged(left.column(place), &ours, right.column(other), &theirs, rows),
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    pairs.recycle(ours, theirs);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(layout.schema.clone(), columns, &options)
}

/// Returns a merged key column: the left value, or the right one if there is no left row.
fn merged(
    left: &ArrayRef,
    ours: &Gather,
    right: &ArrayRef,
    theirs: &Gather,
    rows: usize,
) -> Result<ArrayRef, ArrowError> {
    match (ours, theirs) {
        (ours, _) if ours.is_complete() => ours.gather(left),
        (_, theirs) if theirs.is_complete() => cast(&theirs.gather(right)?, left.data_type()),
        _ => {
            let right = cast(right, left.data_type())?;
            let place = |row| {
                let ours = ours.row(row).map(|place| (0, place));
                ours.or_else(|| theirs.row(row).map(|place| (1, place))).expect("a row of one side")
            };
            let places: Vec<(usize, usize)> = (0..rows).map(place).collect();
            interleave(&[left.as_ref(), right.as_ref()], &places)
        }
    }
}
