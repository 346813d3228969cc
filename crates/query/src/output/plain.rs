//! Types of result files: without dictionaries, which are an encoding rather than a type.

use std::sync::Arc;

use arrow_array::{AnyDictionaryArray, Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::Error;

/// Replaces dictionary and run-end encoded types by their value types, at any depth, except in columns where `is_kept`.
pub(crate) fn plain_schema(schema: &Schema, is_kept: impl Fn(usize) -> bool) -> Schema {
    let field = |(place, field)| if is_kept(place) { Arc::clone(field) } else { plain_field(field) };
    let fields: Vec<FieldRef> = schema.fields().iter().enumerate().map(field).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

/// Returns the index of each row's value in a dictionary; arbitrary for nulls, even if the dictionary is empty.
pub(crate) fn dictionary_keys(dictionary: &dyn AnyDictionaryArray) -> Vec<usize> {
    // Arrow's `normalized_keys` panics on an empty dictionary, which outer joins produce.
    if dictionary.values().is_empty() { vec![0; dictionary.len()] } else { dictionary.normalized_keys() }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let plain = plain_type(field.data_type());
    if plain == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::new(field.name(), plain, field.is_nullable()).with_metadata(field.metadata().clone()))
}

fn plain_type(data_type: &DataType) -> DataType {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct,
    };
    match data_type {
        Dictionary(_, values) => plain_type(values),
        RunEndEncoded(_, values) => plain_type(values.data_type()),
        List(field) => List(plain_field(field)),
        LargeList(field) => LargeList(plain_field(field)),
        ListView(field) => ListView(plain_field(field)),
        LargeListView(field) => LargeListView(plain_field(field)),
        FixedSizeList(field, size) => FixedSizeList(plain_field(field), *size),
        Map(field, is_sorted) => Map(plain_field(field), *is_sorted),
        Struct(fields) => Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}

/// Returns a batch with the types of a schema that [`plain_schema`] has returned.
pub(crate) fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Error> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let mut arrays = converted(vec![Arc::clone(column)], |found| found == field.data_type(), field)?;
        Ok(arrays.swap_remove(0))
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, Error>>()?;
    // A batch without columns needs an explicit row count.
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)?)
}

/// Casts arrays to the type of a column, except those for which `is_taken` holds.
pub(crate) fn converted(
    mut arrays: Vec<ArrayRef>,
    is_taken: impl Fn(&DataType) -> bool,
    field: &Field,
) -> Result<Vec<ArrayRef>, Error> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    for array in &mut arrays {
        if !is_taken(array.data_type()) {
            *array = cast_with_options(array, field.data_type(), &options).map_err(|error| {
                let (name, from, to) = (field.name(), array.data_type(), field.data_type());
                Error::Query(format!("column {name}: {from} cannot be converted to {to}: {error}"))
            })?;
        }
    }
    Ok(arrays)
}

/// Returns the first type in a schema that `is_refused` refuses, at any depth, with the name of its column.
pub(crate) fn find_type<'a>(
    schema: &'a Schema,
    is_refused: impl Fn(&DataType) -> bool + Copy,
) -> Option<(&'a str, &'a DataType)> {
    let found = |field: &'a FieldRef| {
        find_in(field.data_type(), is_refused).map(|found| (field.name().as_str(), found))
    };
    schema.fields().iter().find_map(found)
}

/// Like [`find_type`], in a type.
pub(crate) fn find_in(
    data_type: &DataType,
    is_refused: impl Fn(&DataType) -> bool + Copy,
) -> Option<&DataType> {
    use DataType::{
        Dictionary, FixedSizeList, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct,
        Union,
    };
    if is_refused(data_type) {
        return Some(data_type);
    }
    match data_type {
        Dictionary(_, values) => find_in(values, is_refused),
        List(field)
        | LargeList(field)
        | ListView(field)
        | LargeListView(field)
        | FixedSizeList(field, _)
        | Map(field, _)
        | RunEndEncoded(_, field) => find_in(field.data_type(), is_refused),
        Struct(fields) => fields.iter().find_map(|field| find_in(field.data_type(), is_refused)),
        Union(fields, _) => fields.iter().find_map(|(_, field)| find_in(field.data_type(), is_refused)),
        _ => None,
    }
}

/// Returns whether a type is invalid, such as a time unit that does not match its size. Damaged files have such
/// types.
pub(crate) fn is_impossible(data_type: &DataType) -> bool {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match data_type {
        DataType::Time32(unit) => matches!(unit, Microsecond | Nanosecond),
        DataType::Time64(unit) => matches!(unit, Second | Millisecond),
        DataType::Map(field, _) => {
            !matches!(field.data_type(), DataType::Struct(fields) if fields.len() == 2)
        }
        DataType::FixedSizeBinary(size) | DataType::FixedSizeList(_, size) => *size < 0,
        _ => false,
    }
}
