//! Types that Parquet lacks, and the next ones that it has: seconds are written as milliseconds, and dates in
//! milliseconds as days. Without these, other readers would see plain integers.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date64Type, Time32SecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef, Schema, TimeUnit};

use crate::Error;
use crate::output::plain::find_in;

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
            && let Err(why) = check(array)
        {
            return Err(Error::Query(format!("column {}: {why}", field.name())));
        }
    }
    Ok(())
}

fn check(array: &ArrayRef) -> Result<(), String> {
    match array.data_type() {
        DataType::Date64 => {
            let whole = |millis: i64| millis % DAY_MILLIS == 0 && i32::try_from(millis / DAY_MILLIS).is_ok();
            match array.as_primitive::<Date64Type>().iter().flatten().find(|&millis| !whole(millis)) {
                Some(millis) => Err(format!(
                    "a date64 of {millis} milliseconds is not a whole day, the unit of dates in Parquet; convert it \
                     with cast(… as timestamp) in --select"
                )),
                None => Ok(()),
            }
        }
        DataType::Time32(TimeUnit::Second) => {
            let exceeds = |seconds: &i32| seconds.checked_mul(SECOND_MILLIS).is_none();
            match array.as_primitive::<Time32SecondType>().iter().flatten().find(exceeds) {
                Some(seconds) => Err(format!("a time of {seconds} seconds is too large for milliseconds")),
                None => Ok(()),
            }
        }
        DataType::Dictionary(..) => check(array.as_any_dictionary().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().try_for_each(check),
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (start, end) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            check(&list.values().slice(start as usize, (end - start) as usize))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (start, end) = (list.value_offsets()[0], list.value_offsets()[list.len()]);
            check(&list.values().slice(start as usize, (end - start) as usize))
        }
        DataType::FixedSizeList(..) => check(array.as_fixed_size_list().values()),
        DataType::ListView(_) => check(array.as_list_view::<i32>().values()),
        DataType::LargeListView(_) => check(array.as_list_view::<i64>().values()),
        DataType::Map(..) => {
            let map = array.as_map();
            let (start, end) = (map.value_offsets()[0], map.value_offsets()[map.len()]);
            let entries = map.entries().slice(start as usize, (end - start) as usize);
            entries.columns().iter().try_for_each(check)
        }
        _ => Ok(()),
    }
}
