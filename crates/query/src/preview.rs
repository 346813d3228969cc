//! The first rows of a result as values for display and JSON.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, SchemaRef};

use crate::Error;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Null.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Any other value as text; decimals with all their digits.
    Text(String),
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: DataType,
}

/// Rows of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// The columns.
    pub columns: Vec<Column>,
    /// The first rows, with one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

impl Preview {
    /// Creates a preview without rows.
    #[must_use]
    pub fn new(schema: &SchemaRef) -> Preview {
        let column = |field: &arrow_schema::FieldRef| Column {
            name: field.name().clone(),
            kind: field.data_type().clone(),
        };
        Preview { columns: schema.fields().iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds rows of a batch until the preview has `rows_max` rows.
    ///
    /// # Errors
    /// If a value cannot be written as text.
    pub fn add(&mut self, batch: &RecordBatch, rows_max: usize) -> Result<(), Error> {
        let rows = batch.num_rows().min(rows_max.saturating_sub(self.rows.len()));
        if rows == 0 {
            return Ok(());
        }
        let options = FormatOptions::default();
        let batch = batch.slice(0, rows);
        let columns = batch.columns().iter().map(|column| Formatted::new(column, &options));
        let columns: Vec<Formatted<'_>> = columns.collect::<Result<_, _>>()?;
        for row in 0..rows {
            let cells = columns.iter().map(|column| column.cell(row)).collect::<Result<_, _>>()?;
            self.rows.push(cells);
        }
        Ok(())
    }
}

impl Column {
    /// Returns whether its values are numbers.
    #[must_use]
    pub fn is_numeric(&self) -> bool {
        self.kind.is_numeric()
    }
}

/// An array with its formatter.
struct Formatted<'a> {
    array: &'a dyn Array,
    text: ArrayFormatter<'a>,
}

impl<'a> Formatted<'a> {
    fn new(array: &'a dyn Array, options: &FormatOptions<'a>) -> Result<Formatted<'a>, Error> {
        Ok(Formatted { array, text: ArrayFormatter::try_new(array, options)? })
    }

    fn cell(&self, row: usize) -> Result<Cell, Error> {
        let array = self.array;
        if array.is_null(row) {
            return Ok(Cell::Null);
        }
        macro_rules! integer {
            ($kind:ty) => {
                Cell::Integer(array.as_primitive::<$kind>().value(row).into())
            };
        }
        Ok(match array.data_type() {
            DataType::Boolean => Cell::Boolean(array.as_boolean().value(row)),
            DataType::Int8 => integer!(Int8Type),
            DataType::Int16 => integer!(Int16Type),
            DataType::Int32 => integer!(Int32Type),
            DataType::Int64 => integer!(Int64Type),
            DataType::UInt8 => integer!(UInt8Type),
            DataType::UInt16 => integer!(UInt16Type),
            DataType::UInt32 => integer!(UInt32Type),
            DataType::UInt64 => match i64::try_from(array.as_primitive::<UInt64Type>().value(row)) {
                Ok(value) => Cell::Integer(value),
                Err(_) => self.text(row)?,
            },
            DataType::Float32 => Cell::Real(array.as_primitive::<Float32Type>().value(row).into()),
            DataType::Float64 => Cell::Real(array.as_primitive::<Float64Type>().value(row)),
            _ => self.text(row)?,
        })
    }

    fn text(&self, row: usize) -> Result<Cell, Error> {
        Ok(Cell::Text(self.text.value(row).try_to_string()?))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray, UInt64Array};

    use super::*;

    #[test]
    fn values_keep_their_types_and_decimals_their_digits() {
        let decimals =
            Decimal128Array::from(vec![Some(12_345), None]).with_precision_and_scale(38, 2).unwrap();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(vec![i64::MIN, 3]))),
            ("u", Arc::new(UInt64Array::from(vec![u64::MAX, 1]))),
            ("f", Arc::new(Float64Array::from(vec![Some(0.5), None]))),
            ("s", Arc::new(StringArray::from(vec!["a,b", ""]))),
            ("d", Arc::new(decimals)),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut preview = Preview::new(&batch.schema());
        preview.add(&batch, 3).unwrap();
        preview.add(&batch, 3).unwrap();
        assert_eq!(preview.rows.len(), 3);
        let text = |text: &str| Cell::Text(text.to_owned());
        let first = [
            Cell::Integer(i64::MIN),
            text("18446744073709551615"),
            Cell::Real(0.5),
            text("a,b"),
            text("123.45"),
        ];
        assert_eq!(preview.rows[0], first);
        assert_eq!(preview.rows[1], [Cell::Integer(3), Cell::Integer(1), Cell::Null, text(""), Cell::Null]);
        assert!(preview.columns[4].is_numeric() && !preview.columns[3].is_numeric());
    }
}
