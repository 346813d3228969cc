//! Values of the types that were inferred from the first records.
//!
//! The library parses more than what made the type: it would drop leading zeros, a fraction of a second or a time of day.
//! Here a value that is not of its column's kind is an error, wherever it stands.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_cast::parse::Parser;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::infer::Kind;
use sakiyomi_expression::shortened;

/// The schema in which the library decodes: texts in place of the types that are parsed here.
pub(super) fn decoded_schema(stored: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| match Kind::of_type(field.data_type()) {
        Some(_) => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        None => Arc::clone(field),
    };
    Arc::new(Schema::new(stored.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Parses the texts of a batch whose columns are those of `stored` at `columns`.
pub(super) fn typed(
    batch: &RecordBatch,
    stored: &Schema,
    columns: &[usize],
) -> Result<RecordBatch, ArrowError> {
    let fields: Vec<_> = columns.iter().map(|&column| Arc::clone(&stored.fields()[column])).collect();
    let parsed =
        batch.columns().iter().zip(&fields).map(|(array, field)| match Kind::of_type(field.data_type()) {
            Some(kind) => parse(array.as_string(), kind, field),
            None => Ok(Arc::clone(array)),
        });
    let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), parsed, &options)
}

fn parse(texts: &StringArray, kind: Kind, field: &Field) -> Result<ArrayRef, ArrowError> {
    let wrong = |text: &str| {
        let (text, name) = (shortened(text), field.name());
        ArrowError::ParseError(format!("'{text}' in column {name} is not {}", kind.in_words()))
    };
    let is_of_kind = |text: &str| Kind::of(text).join(kind) == kind;
    let checked = |text: &str| if is_of_kind(text) { Ok(()) } else { Err(wrong(text)) };
    let each = || texts.iter();
    Ok(match kind {
        Kind::Integer => {
            let value = |text: &str| Kind::integer(text).ok_or_else(|| wrong(text));
            Arc::new(each().map(|text| text.map(value).transpose()).collect::<Result<Int64Array, _>>()?)
        }
        Kind::Float => {
            let value = |text: &str| {
                checked(text)?;
                Float64Type::parse(text).ok_or_else(|| wrong(text))
            };
            Arc::new(each().map(|text| text.map(value).transpose()).collect::<Result<Float64Array, _>>()?)
        }
        _ => {
            each().flatten().try_for_each(checked)?;
            let options = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(texts, field.data_type(), &options)?
        }
    })
}
