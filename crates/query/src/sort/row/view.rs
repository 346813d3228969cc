//! Views of a batch's columns for packing into rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, StringViewArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_cast::cast;
use arrow_row::Rows;
use arrow_schema::{ArrowError, DataType};

use super::dictionary::Dictionary;
use super::layout::{Column, Form, Layout};
use crate::Error;

/// The columns of a batch.
#[derive(Debug)]
pub(crate) struct BatchView {
    /// Columns in schema order.
    pub(crate) columns: Vec<ColumnView>,
    /// Number of rows.
    pub(crate) rows: usize,
}

/// A column of a batch.
#[derive(Debug)]
pub(crate) struct ColumnView {
    pub(crate) values: Values,
    /// Nulls, if there are any and the row format has a null bit for the column.
    pub(crate) nulls: Option<NullBuffer>,
}

/// The values of a column. The values of nulls are arbitrary.
#[derive(Debug)]
pub(crate) enum Values {
    /// Values of a fixed width.
    Fixed(Buffer),
    Bits(BooleanBuffer),
    /// Dictionary codes.
    Codes(Vec<u32>),
    /// Bytes with 32-bit offsets.
    Offsets32(ScalarBuffer<i32>, Buffer),
    /// Bytes with 64-bit offsets.
    Offsets64(ScalarBuffer<i64>, Buffer),
    /// Byte strings of a fixed size.
    Chunks(usize, Buffer),
    StringViews(StringViewArray),
    BinaryViews(BinaryViewArray),
    /// Arrow's row format.
    Rows(Rows),
    /// No values.
    Nothing,
}

/// Creates views of batches; caches the codes of each column's last dictionary.
#[derive(Debug)]
pub(crate) struct Viewer {
    layout: Arc<Layout>,
    dictionaries: Arc<[Dictionary]>,
    /// The last values of each dictionary, and their codes.
    known: Vec<Option<(ArrayRef, Arc<[u32]>)>>,
}

impl Viewer {
    /// Creates a viewer for batches of a layout's schema.
    pub(crate) fn new(layout: &Arc<Layout>, dictionaries: &Arc<[Dictionary]>) -> Viewer {
        let known = vec![None; layout.dictionaries];
        Viewer { layout: Arc::clone(layout), dictionaries: Arc::clone(dictionaries), known }
    }

    /// Returns a view of a batch.
    ///
    /// # Errors
    /// If the batch does not have the schema, a value is too long, or a dictionary is full.
    pub(crate) fn view(&mut self, batch: &RecordBatch) -> Result<BatchView, Error> {
        let layout = Arc::clone(&self.layout);
        if batch.num_columns() != layout.columns.len() {
            let (has, needs) = (batch.num_columns(), layout.columns.len());
            return Err(Error::Query(format!("a batch has {has} columns, but the table has {needs}")));
        }
        let columns = layout.columns.iter().zip(batch.columns()).enumerate();
        let columns = columns.map(|(index, (column, array))| {
            let field = layout.schema.field(index);
            if array.data_type() != field.data_type() {
                let (name, is, wanted) = (field.name(), array.data_type(), field.data_type());
                return Err(Error::Query(format!(
                    "column {name:?} has type {is} in a batch, but type {wanted} in the table"
                )));
            }
            self.column(column, array)
        });
        Ok(BatchView { columns: columns.collect::<Result<_, _>>()?, rows: batch.num_rows() })
    }

    fn column(&mut self, column: &Column, array: &ArrayRef) -> Result<ColumnView, Error> {
        let nulls = match column.form {
            Form::Encoded(..) | Form::Nothing => None,
            _ => array.logical_nulls().filter(|nulls| nulls.null_count() > 0),
        };
        if nulls.is_some() && column.null.is_none() {
            return Err(Error::Query("a column that is declared without nulls contains nulls".into()));
        }
        if let Form::Code { dictionary, .. } = column.form {
            return Ok(ColumnView { values: self.codes(dictionary, array)?, nulls });
        }
        let array = match *array.data_type() == column.packed_type {
            true => Arc::clone(array),
            false => cast(array, &column.packed_type)?,
        };
        let values = values(&column.form, &array)?;
        if let Values::Offsets64(offsets, _) = &values
            && offsets.windows(2).any(|pair| pair[1] - pair[0] > i64::from(u32::MAX))
        {
            return Err(Error::Query(
                "a value is longer than 4 GiB, the limit of a sort; exclude its column with --select".into(),
            ));
        }
        Ok(ColumnView { values, nulls })
    }

    fn codes(&mut self, dictionary: usize, array: &ArrayRef) -> Result<Values, Error> {
        let array = array.as_any_dictionary();
        let values = array.values();
        let known = self.known[dictionary].as_ref();
        let codes = match known.filter(|(known, _)| known.to_data().ptr_eq(&values.to_data())) {
            Some((_, codes)) => Arc::clone(codes),
            None => {
                let codes: Arc<[u32]> = self.dictionaries[dictionary].codes(values)?.into();
                self.known[dictionary] = Some((Arc::clone(values), Arc::clone(&codes)));
                codes
            }
        };
        let code = |key: &usize| codes.get(*key).copied().unwrap_or(0);
        Ok(Values::Codes(if codes.is_empty() {
            vec![0; array.len()]
        } else {
            array.normalized_keys().iter().map(code).collect()
        }))
    }
}

fn values(form: &Form, array: &ArrayRef) -> Result<Values, ArrowError> {
    Ok(match (form, array.data_type()) {
        (Form::Nothing | Form::Code { .. }, _) => Values::Nothing,
        (Form::Bool, _) => Values::Bits(array.as_boolean().values().clone()),
        (Form::Fixed(width), _) => {
            let data = array.to_data();
            Values::Fixed(data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width))
        }
        (Form::Encoded(_, converter), _) => Values::Rows(converter.convert_columns(&[Arc::clone(array)])?),
        (Form::Bytes(_), DataType::Utf8) => {
            let array = array.as_string::<i32>();
            Values::Offsets32(array.offsets().inner().clone(), array.values().clone())
        }
        (Form::Bytes(_), DataType::Binary) => {
            let array = array.as_binary::<i32>();
            Values::Offsets32(array.offsets().inner().clone(), array.values().clone())
        }
        (Form::Bytes(_), DataType::LargeUtf8) => {
            let array = array.as_string::<i64>();
            Values::Offsets64(array.offsets().inner().clone(), array.values().clone())
        }
        (Form::Bytes(_), DataType::LargeBinary) => {
            let array = array.as_binary::<i64>();
            Values::Offsets64(array.offsets().inner().clone(), array.values().clone())
        }
        (Form::Bytes(_), DataType::FixedSizeBinary(size)) => {
            let size = usize::try_from(*size).unwrap_or(0);
            let data = array.to_data();
            let bytes = data.buffers()[0].slice_with_length(data.offset() * size, data.len() * size);
            Values::Chunks(size, bytes)
        }
        (Form::Bytes(_), DataType::BinaryView) => Values::BinaryViews(array.as_binary_view().clone()),
        (Form::Bytes(_), _) => Values::StringViews(array.as_string_view().clone()),
    })
}
