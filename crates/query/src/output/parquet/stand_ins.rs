//! Types that Parquet lacks, and the next ones that it has: seconds are written as milliseconds, and dates in
//! milliseconds as days. Without these, other readers would see plain integers.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date64Type, Int16Type, Int32Type, Int64Type, RunEndIndexType, Time32SecondType};
use arrow_array::{Array, ArrayRef, GenericListArray, GenericListViewArray, OffsetSizeTrait};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};

use crate::Error;
use crate::output::plain::{dictionary_keys, find_in};

/// Milliseconds of a day.
const DAY_MILLIS: i64 = 24 * 60 * 60 * 1000;

/// Milliseconds of a second.
const SECOND_MILLIS: i32 = 1000;

/// Returns the schema of a file with the rows of `schema`, at any depth.
pub(super) fn stored_schema(schema: &Schema) -> Schema {
    let fields: Vec<FieldRef> = schema.fields().iter().map(stored_field).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn stored_field(field: &FieldRef) -> FieldRef {
    let stored = stored_type(field.data_type());
    if stored == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(stored))
}

fn stored_type(data_type: &DataType) -> DataType {
    use DataType::{
        Date32, Date64, FixedSizeList, LargeList, LargeListView, List, ListView, Map, Struct, Time32,
        Timestamp,
    };
    use TimeUnit::{Millisecond, Second};
    match data_type {
        Timestamp(Second, zone) => Timestamp(Millisecond, zone.clone()),
        Time32(Second) => Time32(Millisecond),
        Date64 => Date32,
        List(field) => List(stored_field(field)),
        LargeList(field) => LargeList(stored_field(field)),
        ListView(field) => ListView(stored_field(field)),
        LargeListView(field) => LargeListView(stored_field(field)),
        FixedSizeList(field, size) => FixedSizeList(stored_field(field), *size),
        Map(field, is_sorted) => Map(stored_field(field), *is_sorted),
        Struct(fields) => Struct(fields.iter().map(stored_field).collect()),
        other => other.clone(),
    }
}

/// Refuses values that the types of the file would change, which Arrow's casts cut off. Those that only exceed the
/// range of a timestamp are refused by the cast.
pub(super) fn check_values(field: &Field, arrays: &[ArrayRef]) -> Result<(), Error> {
    let is_cut =
        |data_type: &DataType| matches!(data_type, DataType::Date64 | DataType::Time32(TimeUnit::Second));
    for array in arrays {
        if find_in(array.data_type(), is_cut).is_some()
            && let Err(why) = check(array, &BooleanBuffer::new_set(array.len()))
        {
            return Err(Error::Query(format!("column {}: {why}", field.name())));
        }
    }
    Ok(())
}

/// Checks the values that are written: not those of null rows, nor those that no row refers to.
fn check(array: &ArrayRef, rows: &BooleanBuffer) -> Result<(), String> {
    let valid = array.logical_nulls();
    let rows = &valid.map_or_else(|| rows.clone(), |valid| rows & valid.inner());
    match array.data_type() {
        DataType::Date64 => {
            let dates = array.as_primitive::<Date64Type>();
            rows.set_indices().try_for_each(|row| check_date(dates.value(row)))
        }
        DataType::Time32(TimeUnit::Second) => {
            let times = array.as_primitive::<Time32SecondType>();
            let exceeds = |seconds: &i32| seconds.checked_mul(SECOND_MILLIS).is_none();
            match rows.set_indices().map(|row| times.value(row)).find(exceeds) {
                Some(seconds) => Err(format!("a time of {seconds} seconds is too large for milliseconds")),
                None => Ok(()),
            }
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let keys = dictionary_keys(dictionary);
            check_ranges(dictionary.values(), rows.set_indices().map(|row| keys[row]..keys[row] + 1))
        }
        DataType::RunEndEncoded(index, _) => match index.data_type() {
            DataType::Int16 => check_runs::<Int16Type>(array, rows),
            DataType::Int32 => check_runs::<Int32Type>(array, rows),
            _ => check_runs::<Int64Type>(array, rows),
        },
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(|column| check(column, rows)),
        DataType::List(_) => check_list(array.as_list::<i32>(), rows),
        DataType::LargeList(_) => check_list(array.as_list::<i64>(), rows),
        DataType::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let length = list.value_length() as usize;
            check_ranges(list.values(), rows.set_indices().map(|row| row * length..(row + 1) * length))
        }
        DataType::ListView(_) => check_view(array.as_list_view::<i32>(), rows),
        DataType::LargeListView(_) => check_view(array.as_list_view::<i64>(), rows),
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            let ranges = rows.set_indices().map(|row| offsets[row] as usize..offsets[row + 1] as usize);
            let used = used(map.entries().len(), ranges);
            map.entries().columns().iter().try_for_each(|column| check(column, &used))
        }
        _ => Ok(()),
    }
}

fn check_date(millis: i64) -> Result<(), String> {
    let why = if millis % DAY_MILLIS != 0 {
        "is not a whole day, the unit of dates in Parquet"
    } else if i32::try_from(millis / DAY_MILLIS).is_err() {
        "is beyond the dates of Parquet"
    } else {
        return Ok(());
    };
    Err(format!("a date64 of {millis} milliseconds {why}; convert it with cast(… as timestamp) in --select"))
}

fn check_list<O: OffsetSizeTrait>(list: &GenericListArray<O>, rows: &BooleanBuffer) -> Result<(), String> {
    let offsets = list.value_offsets();
    let ranges = rows.set_indices().map(|row| offsets[row].as_usize()..offsets[row + 1].as_usize());
    check_ranges(list.values(), ranges)
}

fn check_view<O: OffsetSizeTrait>(
    list: &GenericListViewArray<O>,
    rows: &BooleanBuffer,
) -> Result<(), String> {
    let ranges = rows.set_indices().map(|row| {
        let start = list.value_offset(row).as_usize();
        start..start + list.value_size(row).as_usize()
    });
    check_ranges(list.values(), ranges)
}

fn check_runs<I: RunEndIndexType>(array: &ArrayRef, rows: &BooleanBuffer) -> Result<(), String> {
    let runs = array.as_run::<I>();
    let values = rows.set_indices().map(|row| runs.get_physical_index(row));
    check_ranges(runs.values(), values.map(|value| value..value + 1))
}

/// Checks the rows of `values` in these ranges.
fn check_ranges(values: &ArrayRef, ranges: impl Iterator<Item = Range<usize>>) -> Result<(), String> {
    check(values, &used(values.len(), ranges))
}

/// Returns the rows, of `length`, in these ranges.
fn used(length: usize, ranges: impl Iterator<Item = Range<usize>>) -> BooleanBuffer {
    let mut used = BooleanBufferBuilder::new(length);
    used.append_n(length, false);
    for range in ranges {
        range.for_each(|row| used.set_bit(row, true));
    }
    used.finish()
}
