//! Types that Parquet lacks are written as the next ones that it has, and read back as these.

use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use arrow_array::builder::{Date64Builder, FixedSizeBinaryBuilder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int32Type};
use arrow_array::{
    Array, Date64Array, Decimal128Array, DictionaryArray, FixedSizeListArray, Int16Array, Int32Array,
    Int64Array, ListArray, ListViewArray, MapArray, RunArray, StringArray, StructArray, Time32SecondArray,
    TimestampMillisecondArray, TimestampSecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::extension::Uuid;
use arrow_schema::{Fields, TimeUnit};

use super::*;
use crate::table::{OpenOptions, Table};

/// Milliseconds of a day.
const DAY_MILLIS: i64 = 86_400_000;

fn seconds(zone: Option<&str>) -> TimestampSecondArray {
    let array = TimestampSecondArray::from(vec![Some(-1), None, Some(1_700_000_000)]);
    match zone {
        Some(zone) => array.with_timezone(zone),
        None => array,
    }
}

fn list_of(values: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", values.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([2, 0, 1]), values, None))
}

#[test]
fn seconds_become_milliseconds_and_dates_days_at_any_depth() {
    let scratch = Scratch::new("stand-ins");
    let path = scratch.path("t.parquet");
    let times: ArrayRef = Arc::new(seconds(Some("Asia/Tokyo")));
    let dates: ArrayRef =
        Arc::new(Date64Array::from(vec![Some(-DAY_MILLIS), None, Some(20_000 * DAY_MILLIS)]));
    let clock: ArrayRef = Arc::new(Time32SecondArray::from(vec![Some(0), Some(86_399), None]));
    let fields: Fields = vec![Field::new("d", dates.data_type().clone(), true)].into();
    let entries: Fields = vec![
        Field::new("keys", DataType::Utf8, false),
        Field::new("values", times.data_type().clone(), true),
    ]
    .into();
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let pairs = StructArray::new(entries.clone(), vec![keys, times.clone()], None);
    let entry = Arc::new(Field::new("entries", DataType::Struct(entries), false));
    let map = MapArray::new(entry, OffsetBuffer::from_lengths([1, 2, 0]), pairs, None, false);
    let coded = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![2, 0, 0]), times.clone());
    let batch = table(&[
        ("plain", Arc::new(seconds(None))),
        ("zone", times.clone()),
        ("date", dates.clone()),
        ("clock", clock.clone()),
        ("list", list_of(times)),
        ("pair", Arc::new(StructArray::new(fields, vec![dates], None))),
        ("map", Arc::new(map)),
        ("coded", Arc::new(coded)),
    ]);
    let groups = [vec![batch.clone()]];
    write(&path, &batch.schema(), &groups, &OutputOptions::new(Format::Parquet)).unwrap();
    let found = Table::open(&[path], &OpenOptions::default()).unwrap().schema();
    let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("Asia/Tokyo".into()));
    assert_eq!(*found.field(0).data_type(), DataType::Timestamp(TimeUnit::Millisecond, None));
    assert_eq!(*found.field(1).data_type(), zoned);
    assert_eq!(*found.field(2).data_type(), DataType::Date32);
    assert_eq!(*found.field(3).data_type(), DataType::Time32(TimeUnit::Millisecond));
    assert_eq!(*found.field(7).data_type(), zoned);
    // All values are those of a cast, also for the library's reader.
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(scratch.path("t.parquet")).unwrap());
    let rows: Vec<RecordBatch> = reader.unwrap().build().unwrap().map(Result::unwrap).collect();
    assert_eq!(rows[0].schema().fields(), found.fields());
    assert_eq!(concat_batches(&rows[0].schema(), &rows).unwrap(), joined(&rows[0].schema(), &groups));
}

#[test]
fn values_that_a_stand_in_would_change_are_refused_by_name() {
    let scratch = Scratch::new("stand-ins-refused");
    let nested = |millis| {
        let mut list = ListBuilder::new(Date64Builder::new());
        list.append_value([Some(0), Some(millis)]);
        list.finish()
    };
    let part_of_day = Date64Array::from(vec![0, 1]);
    let runs16 = RunArray::try_new(&Int16Array::from(vec![1, 3]), &part_of_day).unwrap();
    let runs32 = RunArray::try_new(&Int32Array::from(vec![1, 3]), &part_of_day).unwrap();
    let runs64 = RunArray::try_new(&Int64Array::from(vec![1, 3]), &part_of_day).unwrap();
    let coded = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![1]), Arc::new(part_of_day));
    let cases: [(ArrayRef, &str); 9] = [
        (Arc::new(runs16), "a date64 of 1 milliseconds is not a whole day"),
        (Arc::new(runs32), "is not a whole day"),
        (Arc::new(runs64), "is not a whole day"),
        (Arc::new(coded), "is not a whole day"),
        (Arc::new(Date64Array::from(vec![DAY_MILLIS, 1])), "a date64 of 1 milliseconds is not a whole day"),
        (
            Arc::new(Date64Array::from(vec![i64::MAX / DAY_MILLIS * DAY_MILLIS])),
            "is beyond the dates of Parquet; convert it",
        ),
        (Arc::new(nested(-5)), "a date64 of -5 milliseconds"),
        (Arc::new(Time32SecondArray::from(vec![i32::MAX])), "is too large for milliseconds"),
        (Arc::new(TimestampSecondArray::from(vec![i64::MAX])), "Overflow"),
    ];
    for (array, expected) in cases {
        let batch = table(&[("odd", array)]);
        let groups = [vec![batch.clone()]];
        let options = OutputOptions::new(Format::Parquet);
        let refused = write(&scratch.path("t"), &batch.schema(), &groups, &options).unwrap_err().to_string();
        assert!(refused.contains("column odd") && refused.contains(expected), "{refused}");
    }
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn values_of_no_row_are_written_whatever_they_are() {
    let scratch = Scratch::new("stand-ins-hidden");
    let dates: ArrayRef = Arc::new(Date64Array::from(vec![DAY_MILLIS, 1, 2 * DAY_MILLIS]));
    let coded = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![Some(2), None]), Arc::clone(&dates));
    let runs = RunArray::try_new(&Int32Array::from(vec![1, 2, 4]), &dates).unwrap().slice(2, 2);
    let item = Arc::new(Field::new("item", DataType::Date64, true));
    let first_and_third = ScalarBuffer::from(vec![0, 2]);
    let sizes = ScalarBuffer::from(vec![1, 1]);
    let view = ListViewArray::new(Arc::clone(&item), first_and_third, sizes, Arc::clone(&dates), None);
    let is_valid = || Some(NullBuffer::from(vec![true, false]));
    let offsets = OffsetBuffer::from_lengths([1, 2]);
    let list = ListArray::new(Arc::clone(&item), offsets, Arc::clone(&dates), is_valid());
    let fixed = FixedSizeListArray::new(item, 1, dates.slice(0, 2), is_valid());
    let fields: Fields = vec![Field::new("d", DataType::Date64, true)].into();
    let pair = StructArray::new(fields, vec![dates.slice(0, 2)], is_valid());
    let batch = table(&[
        ("coded", Arc::new(coded)),
        ("runs", Arc::new(runs)),
        ("view", Arc::new(view)),
        ("list", Arc::new(list)),
        ("fixed", Arc::new(fixed)),
        ("pair", Arc::new(pair)),
    ]);
    let groups = [vec![batch.clone()]];
    write(&scratch.path("t"), &batch.schema(), &groups, &OutputOptions::new(Format::Parquet)).unwrap();
    let file = std::fs::File::open(scratch.path("t")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    let rows: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1);
    let days = |column: &ArrayRef| column.as_primitive::<Date32Type>().iter().collect::<Vec<_>>();
    assert_eq!(days(rows[0].column(0)), [Some(2), None]);
    assert_eq!(days(rows[0].column(1)), [Some(2), Some(2)]);
    for (name, column) in [("list", 3), ("fixed", 4), ("pair", 5)] {
        let column = rows[0].column(column);
        assert!(column.is_valid(0) && column.is_null(1), "{name}");
    }
}

#[test]
fn types_without_a_form_in_parquet_are_refused_before_anything_is_made() {
    let scratch = Scratch::new("stand-ins-types");
    let mut empty = FixedSizeBinaryBuilder::new(0);
    empty.append_value([]).unwrap();
    let negative = Decimal128Array::from(vec![5]).with_precision_and_scale(9, -2).unwrap();
    let arrays: [ArrayRef; 2] = [Arc::new(empty.finish()), Arc::new(negative)];
    for array in arrays {
        let schema = table(&[("odd", array)]).schema();
        let target = Target::File(scratch.path("t"));
        let refused = Output::create(&job(), &target, &schema, &OutputOptions::new(Format::Parquet));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with("column odd: Parquet has no type for"), "{refused}");
    }
    assert_eq!(scratch.entries(), 0);
}

#[test]
fn uuids_stay_uuids() {
    let scratch = Scratch::new("stand-ins-uuid");
    let path = scratch.path("t.parquet");
    let mut values = FixedSizeBinaryBuilder::new(16);
    values.append_value([7; 16]).unwrap();
    let field = Field::new("id", DataType::FixedSizeBinary(16), true).with_extension_type(Uuid);
    let schema: SchemaRef = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(values.finish())]).unwrap();
    write(&path, &schema, &[vec![batch]], &OutputOptions::new(Format::Parquet)).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
    let logical = reader.parquet_schema().column(0).logical_type_ref().cloned();
    assert_eq!(logical, Some(::parquet::basic::LogicalType::Uuid));
    assert_eq!(Table::open(&[path], &OpenOptions::default()).unwrap().schema().fields(), schema.fields());
}

#[test]
fn a_zone_beside_seconds_is_that_of_the_writer() {
    // As pyarrow writes them: milliseconds, and a schema that says seconds.
    let scratch = Scratch::new("stand-ins-zone");
    let path = scratch.path("t.parquet");
    let millis = TimestampMillisecondArray::from(vec![1000]).with_timezone("UTC");
    let batch = table(&[("t", Arc::new(millis))]);
    let declared = table(&[("t", Arc::new(seconds(Some("Asia/Tokyo"))))]).schema();
    let pair = ::parquet::file::metadata::KeyValue::new(
        ::parquet::arrow::ARROW_SCHEMA_META_KEY.to_owned(),
        ::parquet::arrow::encode_arrow_schema(&declared),
    );
    let properties = ::parquet::file::properties::WriterProperties::builder();
    let options = ::parquet::arrow::arrow_writer::ArrowWriterOptions::new()
        .with_properties(properties.set_key_value_metadata(Some(vec![pair])).build())
        .with_skip_arrow_metadata(true);
    let file = std::fs::File::create(&path).unwrap();
    let mut writer =
        ::parquet::arrow::ArrowWriter::try_new_with_options(file, batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let zone = DataType::Timestamp(TimeUnit::Millisecond, Some("Asia/Tokyo".into()));
    assert_eq!(*Table::open(&[path], &OpenOptions::default()).unwrap().schema().field(0).data_type(), zone);
}
