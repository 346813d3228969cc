//! Pairs of rows of a left and a right batch, from which a result batch is gathered.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, UInt32Array, make_array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, UnionMode};
use arrow_select::concat::concat;
use arrow_select::take::take;

/// Marks a missing row.
const NO_ROW: u32 = u32::MAX;

/// Paired row numbers of the left and the right batch.
#[derive(Debug)]
pub(super) struct Pairs {
    left: Column,
    right: Column,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Column {
    rows: Vec<u32>,
    /// Number of [`NO_ROW`] entries.
    missing: usize,
    /// Successor of the last row, if all rows are consecutive.
    next: Option<u32>,
}

impl Pairs {
    /// Creates an empty list with room for `capacity` pairs.
    pub(super) fn with_capacity(capacity: usize) -> Pairs {
        let column = || Column { rows: Vec::with_capacity(capacity), ..Column::default() };
        Pairs { left: column(), right: column(), capacity }
    }

    /// Limits the number of pairs.
    pub(super) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Returns the number of pairs that still fit.
    pub(super) fn room(&self) -> usize {
        self.capacity.saturating_sub(self.left.rows.len())
    }

    pub(super) fn len(&self) -> usize {
        self.left.rows.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left.rows.is_empty()
    }

    pub(super) fn clear(&mut self) {
        for column in [&mut self.left, &mut self.right] {
            column.rows.clear();
            (column.missing, column.next) = (0, None);
        }
    }

    /// Pairs each left row with each right row.
    pub(super) fn cross(&mut self, left: Range<usize>, right: Range<usize>) {
        if right.len() == 1 {
            self.right.repeat(right.start, left.len());
            self.left.extend(left);
        } else {
            for row in left {
                self.left.repeat(row, right.len());
                self.right.extend(right.clone());
            }
        }
    }

    /// Pairs a left row with a right row.
    pub(super) fn push(&mut self, left: u32, right: u32) {
        self.left.push(left);
        self.right.push(right);
    }

    /// Adds left rows without right rows.
    pub(super) fn left_only(&mut self, left: Range<usize>) {
        self.right.skip(left.len());
        self.left.extend(left);
    }

    /// Adds right rows without left rows.
    pub(super) fn right_only(&mut self, right: Range<usize>) {
        self.left.skip(right.len());
        self.right.extend(right);
    }

    /// Takes the left rows for gathering; [`Pairs::recycle`] returns their memory.
    pub(super) fn take_left(&mut self) -> Gather {
        self.left.take()
    }

    /// Takes the right rows for gathering.
    pub(super) fn take_right(&mut self) -> Gather {
        self.right.take()
    }

    /// Reuses the memory of gathered rows, and removes all pairs.
    pub(super) fn recycle(&mut self, left: Gather, right: Gather) {
        for (column, gather) in [(&mut self.left, left), (&mut self.right, right)] {
            if let Gather::Take(rows, _) = gather
                && let Ok(rows) = rows.into_parts().1.into_inner().into_vec::<u32>()
            {
                column.rows = rows;
            }
        }
        self.clear();
    }
}

impl Column {
    fn extend(&mut self, rows: Range<usize>) {
        let (start, end) = (rows.start as u32, rows.end as u32);
        self.follow(start, end);
        self.rows.extend(start..end);
    }

    fn push(&mut self, row: u32) {
        self.follow(row, row.wrapping_add(1));
        self.rows.push(row);
    }

    fn repeat(&mut self, row: usize, count: usize) {
        if count == 1 {
            return self.push(row as u32);
        }
        self.follow(NO_ROW, NO_ROW);
        self.rows.extend(std::iter::repeat_n(row as u32, count));
    }

    fn skip(&mut self, count: usize) {
        self.follow(NO_ROW, NO_ROW);
        self.missing += count;
        self.rows.extend(std::iter::repeat_n(NO_ROW, count));
    }

    /// Updates `next` for new rows `start..end`; [`NO_ROW`] is never consecutive.
    fn follow(&mut self, start: u32, end: u32) {
        let is_next = if self.rows.is_empty() { start != NO_ROW } else { self.next == Some(start) };
        self.next = is_next.then_some(end);
    }

    fn take(&mut self) -> Gather {
        let length = self.rows.len();
        if self.missing == length {
            return Gather::Nulls(length);
        }
        if self.next.is_some() {
            return Gather::Slice(self.rows[0] as usize, length);
        }
        let mut rows = std::mem::take(&mut self.rows);
        let nulls = (self.missing > 0).then(|| {
            let nulls = rows.iter().map(|&row| row != NO_ROW).collect::<NullBuffer>();
            rows.iter_mut().filter(|row| **row == NO_ROW).for_each(|row| *row = 0);
            nulls
        });
        let is_present = self.missing == 0;
        Gather::Take(UInt32Array::new(ScalarBuffer::from(rows), nulls), is_present)
    }
}

/// Operation that gathers the rows of one side in result order.
#[derive(Debug)]
pub(super) enum Gather {
    /// This many nulls.
    Nulls(usize),
    /// Consecutive rows: start and number of rows.
    Slice(usize, usize),
    /// Row numbers, null for a missing row; true if none is missing.
    Take(UInt32Array, bool),
}

impl Gather {
    /// Returns whether each result row has a row of this side.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self, Gather::Slice(..) | Gather::Take(_, true))
    }

    /// Gathers the rows of a column.
    pub(super) fn gather(&self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        match self {
            Gather::Nulls(rows) => Ok(arrow_array::new_null_array(column.data_type(), *rows)),
            Gather::Slice(start, rows) if *start == 0 && *rows == column.len() => Ok(column.clone()),
            Gather::Slice(start, rows) => Ok(column.slice(*start, *rows)),
            Gather::Take(rows, false) if ignores_missing(column.data_type()) => take_or_null(column, rows),
            Gather::Take(rows, _) => take(column, rows, None),
        }
    }

    /// Returns the row of this side in result row `at`.
    pub(super) fn row(&self, at: usize) -> Option<usize> {
        match self {
            Gather::Nulls(_) => None,
            Gather::Slice(start, _) => Some(start + at),
            Gather::Take(rows, _) => (!rows.is_null(at)).then(|| rows.value(at) as usize),
        }
    }
}

/// Returns whether the library takes the row at a missing index, too.
fn ignores_missing(data_type: &DataType) -> bool {
    matches!(data_type, DataType::RunEndEncoded(..) | DataType::Union(_, UnionMode::Dense))
}

/// Gathers rows, with a null that is appended to the column for each missing row.
fn take_or_null(column: &ArrayRef, rows: &UInt32Array) -> Result<ArrayRef, ArrowError> {
    let none = arrow_array::new_null_array(column.data_type(), 1);
    let with_null = concat(&[column.as_ref(), none.as_ref()])?;
    let places = rows.iter().map(|row| row.unwrap_or(column.len() as u32)).collect::<UInt32Array>();
    let gathered = take(&with_null, &places, None)?;
    // The library gives the children of some types other names.
    let data = gathered.to_data().into_builder().data_type(column.data_type().clone()).build()?;
    Ok(make_array(data))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{Int64Array, RunArray, UnionArray};
    use arrow_cast::display::array_value_to_string;
    use arrow_schema::{Field, UnionFields};

    use super::*;

    #[test]
    fn a_missing_row_is_null_in_columns_of_any_type() {
        let runs =
            RunArray::<Int32Type>::try_new(&vec![2, 3].into(), &Int64Array::from(vec![10, 20])).unwrap();
        let fields = UnionFields::from_fields(vec![Field::new("n", DataType::Int64, true)]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![10, 10, 20]));
        let union =
            UnionArray::try_new(fields, vec![0; 3].into(), Some(vec![0, 1, 2].into()), vec![numbers.clone()]);
        let columns: [ArrayRef; 3] = [Arc::new(runs), Arc::new(union.unwrap()), numbers];
        for column in columns {
            let mut pairs = Pairs::with_capacity(4);
            for (row, is_paired) in [(2, true), (0, false), (1, true)] {
                if is_paired { pairs.push(row, 0) } else { pairs.right_only(0..1) }
            }
            let gathered = pairs.left.take().gather(&column).unwrap();
            assert_eq!(gathered.data_type(), column.data_type());
            let shown: Vec<String> =
                (0..3).map(|row| array_value_to_string(&gathered, row).unwrap()).collect();
            assert!(
                shown[0].contains("20") && !shown[1].contains("10") && shown[2].contains("10"),
                "{shown:?}"
            );
        }
    }
}
