//! Schemas: joining those of several files, and types of a scan's batches.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::options::Representation;
use crate::Error;

/// Maximum precision of a `Decimal64`.
const DECIMAL64_DIGITS_MAX: u8 = 18;

/// Joins the schema of a file to that of the previous files. Columns must be the same, in the same order; nullability
/// may differ. On a mismatch, returns the reason.
pub(super) fn join(known: &Schema, other: &Schema) -> Result<Schema, String> {
    let (have, found) = (known.fields(), other.fields());
    if let Some(missing) = have.get(found.len()) {
        return Err(format!("it has no column {}, which the first file has", missing.name()));
    }
    if let Some(surplus) = found.get(have.len()) {
        return Err(format!("it has a column {}, which the first file does not have", surplus.name()));
    }
    let mut fields = Vec::with_capacity(have.len());
    for (at, (have, found)) in have.iter().zip(found).enumerate() {
        if have.name() != found.name() {
            let (have, found, at) = (have.name(), found.name(), at + 1);
            return Err(format!("column {at} is {found}, and {have} in the first file"));
        }
        if !have.data_type().equals_datatype(found.data_type()) {
            let (name, have, found) = (have.name(), have.data_type(), found.data_type());
            return Err(format!("column {name} has type {found}, and {have} in the first file"));
        }
        let is_nullable = have.is_nullable() || found.is_nullable();
        fields.push(have.as_ref().clone().with_nullable(is_nullable));
    }
    Ok(Schema::new_with_metadata(fields, known.metadata().clone()))
}

/// Returns the type of a column in a scan. `is_dictionary`: its strings are dictionary-encoded throughout.
pub(super) fn represented(stored: &DataType, wanted: Representation, is_dictionary: bool) -> DataType {
    let is_string = matches!(stored, DataType::Utf8 | DataType::Utf8View);
    match stored {
        _ if is_string && is_dictionary && wanted.dictionaries => {
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        DataType::Utf8View if wanted.contiguous_strings => DataType::Utf8,
        DataType::BinaryView if wanted.contiguous_strings => DataType::Binary,
        DataType::Decimal128(digits, scale) if wanted.narrow_decimals && *digits <= DECIMAL64_DIGITS_MAX => {
            DataType::Decimal64(*digits, *scale)
        }
        other => other.clone(),
    }
}

/// Returns a field with another type.
pub(super) fn retyped(field: &Field, data_type: DataType) -> Field {
    field.clone().with_data_type(data_type)
}

/// Conversion of decoded batches to the batches of a scan.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// The scan's schema.
    pub(super) schema: SchemaRef,
    /// For each column of the schema, its index in the decoder's batches.
    pub(super) places: Vec<usize>,
}

impl Shape {
    /// Reorders the columns, and casts those that the decoder could not produce in the scan's type.
    pub(super) fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch, Error> {
        let columns = self.schema.fields().iter().zip(&self.places).map(|(field, &place)| {
            let column = batch.column(place);
            converted(column, field.data_type())
        });
        let columns = columns.collect::<Result<_, Error>>()?;
        with_rows(&self.schema, columns, batch.num_rows())
    }
}

/// Casts an array to `wanted`. A value that does not fit is an error.
pub(super) fn converted(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, Error> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    if !can_cast_types(array.data_type(), wanted) {
        let found = array.data_type();
        return Err(Error::Query(format!("a column of type {found} cannot be read as {wanted}")));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(array, wanted, &options)?)
}

/// Makes a batch, also one without columns.
pub(super) fn with_rows(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, Error> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
