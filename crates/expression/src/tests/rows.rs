//! Rows against batches: the same values, nulls and errors.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::i256;
use arrow_cast::display::array_value_to_string;
use arrow_select::take::take_record_batch;
use proptest::prelude::*;
use rand_core::SeedableRng;
use rand_pcg::Pcg64;

use super::properties::oracle_batch;
use super::{batch, random};
use crate::row::{RowExpression, RowProjection, Value};
use crate::types::flat;
use crate::{Expression, Projection};

/// The values of a row of a batch, which must have one row for values that are arrays.
fn values(row: &RecordBatch) -> Vec<Value<'_>> {
    row.columns().iter().map(|column| Value::of(column, 0)).collect()
}

fn is_same(a: &ArrayRef, b: &ArrayRef) -> bool {
    let text = |array: &ArrayRef| array_value_to_string(array, 0).ok();
    let is_same_value = || a.to_data() == b.to_data() || text(a).is_some_and(|a| Some(a) == text(b));
    a.data_type() == b.data_type() && a.is_null(0) == b.is_null(0) && (a.is_null(0) || is_same_value())
}

/// Holds an expression on each row of a batch against its value on batches of that row.
fn check(text: &str, batch: &RecordBatch) {
    let Ok(expression) = Expression::parse(text, &batch.schema()) else { return };
    let mut compiled = RowExpression::new(&expression);
    for row in 0..batch.num_rows() {
        // A slice has the memory of the other rows, which some kernels look at.
        let row = take_record_batch(batch, &UInt32Array::from(vec![row as u32])).unwrap();
        let expected = expression.evaluate(&row);
        let found = compiled.evaluate(&values(&row)).map(|value| value.to_array(&expression.data_type()));
        match (&expected, &found) {
            (Ok(expected), Ok(Ok(found))) => {
                let expected = match flat(expected.data_type()) {
                    same if same == expected.data_type() => expected.clone(),
                    values => arrow_cast::cast(expected, values).unwrap(),
                };
                assert!(is_same(&expected, found), "{text}: {found:?}, not {expected:?}");
            }
            (Err(expected), Err(found)) => assert_eq!(found.to_string(), expected.to_string(), "{text}"),
            _ => panic!("{text}: {found:?}, not {expected:?}"),
        }
    }
}

/// Columns of many types, with the ends of their ranges.
fn extremes() -> RecordBatch {
    use arrow_array::types::Float16Type;
    let halves: Float16Array = [Some(1.5f32), None, Some(-0.0), Some(f32::NAN), Some(65504.0)]
        .into_iter()
        .map(|value| value.map(<Float16Type as ArrowPrimitiveType>::Native::from_f32))
        .collect();
    let decimal = |values: [i128; 5], precision, scale| {
        Decimal128Array::from(values.to_vec()).with_precision_and_scale(precision, scale).unwrap()
    };
    let small = |values: [i64; 5], precision, scale| {
        Decimal64Array::from(values.to_vec()).with_precision_and_scale(precision, scale).unwrap()
    };
    let flags: DictionaryArray<arrow_array::types::Int8Type> =
        vec![Some("a"), None, Some("1.5"), Some("7"), Some("1998-09-02")].into_iter().collect();
    let dictionary = |values: ArrayRef| -> ArrayRef {
        let keys = Int8Array::from(vec![Some(1), Some(0), None, Some(3), Some(2)]);
        Arc::new(DictionaryArray::new(keys, values))
    };
    let float_values = Float64Array::from(vec![Some(2.6), Some(-3.5), None, Some(f64::NAN), Some(1e300)]);
    let most = 10i128.pow(38) - 1;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i8", Arc::new(Int8Array::from(vec![Some(-128), None, Some(0), Some(1), Some(127)]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(i32::MIN), Some(-1), Some(0), Some(7), Some(i32::MAX)]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(-1), Some(0), None, Some(i64::MAX)]))),
        ("u16", Arc::new(UInt16Array::from(vec![0, 1, 2, 300, u16::MAX]))),
        ("u64", Arc::new(UInt64Array::from(vec![Some(0), Some(1), None, Some(300), Some(u64::MAX)]))),
        ("f16", Arc::new(halves)),
        ("f32", Arc::new(Float32Array::from(vec![0.1, f32::NAN, -0.0, f32::MAX, -3.5]))),
        ("f64", Arc::new(Float64Array::from(vec![0.1, f64::NEG_INFINITY, 2.5, 1e300, -3.5]))),
        ("d2", Arc::new(small([155, -155, 0, 99, 999_999_999_999_999], 15, 2))),
        ("d18", Arc::new(small([1, -1, 0, 10i64.pow(18) - 1, 1 - 10i64.pow(18)], 18, 9))),
        ("d38", Arc::new(decimal([1, -5, 0, most, -most], 38, 10))),
        (
            "d76",
            Arc::new(
                Decimal256Array::from([1, -5, 0, most, 7].map(i256::from_i128).to_vec())
                    .with_precision_and_scale(60, 3)
                    .unwrap(),
            ),
        ),
        (
            "s",
            Arc::new(StringArray::from(vec![
                Some("7"),
                Some(" aÄ%_b\\ "),
                None,
                Some("1998-09-02"),
                Some(""),
            ])),
        ),
        ("v", Arc::new(StringViewArray::from(vec!["true", "Ärger und mehr als zwölf", "x", "1.25", "b"]))),
        ("flag", Arc::new(flags)),
        ("floats", dictionary(Arc::new(float_values))),
        ("prices", dictionary(Arc::new(small([155, -155, 0, 99, 1], 15, 2)))),
        (
            "spans",
            dictionary(Arc::new(IntervalYearMonthArray::from(vec![
                Some(14),
                Some(-1),
                None,
                Some(0),
                Some(3),
            ]))),
        ),
        ("ms_days", dictionary(Arc::new(Date64Array::from(vec![253_402_214_400_000, -1, 0, 1, i64::MAX])))),
        ("bytes", Arc::new(BinaryArray::from(vec![b"ab".as_slice(), b"\xff", b"", b"a", b"7"]))),
        (
            "fixed",
            Arc::new(FixedSizeBinaryArray::try_from_iter(["ab", "zz", "\0.", "aa", "77"].iter()).unwrap()),
        ),
        ("day", Arc::new(Date32Array::from(vec![Some(10471), Some(-1), None, Some(i32::MAX), Some(19782)]))),
        ("ms_day", Arc::new(Date64Array::from(vec![0, -86_400_000, 951_782_400_000, i64::MAX, 1]))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(vec![0, -1, 951_782_399_999_999, i64::MIN, i64::MAX])),
        ),
        ("at_s", Arc::new(TimestampSecondArray::from(vec![0, -1, 951_782_399, 253_402_300_800, i64::MAX]))),
        (
            "zone",
            Arc::new(
                TimestampMillisecondArray::from(vec![0, -1, 5, 951_782_399_999, 3]).with_timezone("+02:00"),
            ),
        ),
        ("clock", Arc::new(Time32SecondArray::from(vec![0, 1, 3600, 86_399, 60]))),
        ("span", Arc::new(DurationMillisecondArray::from(vec![0, -1, 1500, i64::MAX, i64::MIN]))),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true), None]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

/// The texts of the columns and of some constants.
fn operands(batch: &RecordBatch) -> Vec<String> {
    let constants = [
        "null",
        "0",
        "1",
        "-7",
        "300",
        "1.5",
        "0.005",
        "2.5e0",
        "9223372036854775807",
        "'7'",
        "'1.555'",
        "'a'",
        "true",
        "date '2000-02-29'",
        "timestamp '1999-12-31 23:59:59.5'",
        "interval '1 month 2 days'",
        "interval '90 minutes'",
        "x'6162'",
        "99999999999999999999999999999999999999",
        "1e308",
    ];
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    names.chain(constants.map(str::to_owned)).collect()
}

#[test]
fn operators_of_all_pairs_of_types_have_the_values_and_errors_of_batches() {
    let batch = extremes();
    let operands = operands(&batch);
    let signs = ["+", "-", "*", "/", "%", "=", "<", "||", "is distinct from", "like"];
    for left in &operands {
        for right in &operands {
            signs.iter().for_each(|sign| check(&format!("{left} {sign} {right}"), &batch));
            check(&format!("nullif({left}, {right})"), &batch);
            check(&format!("coalesce({left}, {right})"), &batch);
            check(&format!("case when ok then {left} else {right} end"), &batch);
        }
    }
}

#[test]
fn casts_and_functions_of_all_types_have_the_values_and_errors_of_batches() {
    let batch = extremes();
    let types = [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "real",
        "double",
        "decimal(3, 1)",
        "decimal(18, 9)",
        "decimal(38, 10)",
        "decimal(38, 0)",
        "decimal(60, 20)",
        "varchar",
        "bytea",
        "date",
        "timestamp(0)",
        "timestamp(3)",
        "timestamp",
        "timestamp(9)",
        "interval",
    ];
    let functions = [
        "- x",
        "not x",
        "x is null",
        "x is not null",
        "x is true",
        "x is not false",
        "x is unknown",
        "abs(x)",
        "ceil(x)",
        "floor(x)",
        "lower(x)",
        "upper(x)",
        "length(x)",
        "trim(x)",
        "substring(x, 2)",
        "substring(x, i8)",
        "substring(x, 0, 3)",
        "substring(x, 1, i32)",
        "starts_with(x, 'a')",
        "ends_with(x, '')",
        "contains(x, 'Ä')",
        "starts_with(x, s)",
        "contains(v, x)",
        "x like '%\\%_b%'",
        "x not like 'Ä%'",
        "x ilike 'ä%'",
        "x in (1, 7, null)",
        "x between 0 and 7",
        "upper(lower(x) || x) || lower(x)",
    ];
    let parts = ["year", "quarter", "month", "week", "day", "dow", "doy", "hour", "minute", "second"];
    for x in operands(&batch) {
        for to in types {
            check(&format!("cast({x} as {to})"), &batch);
            check(&format!("try_cast({x} as {to})"), &batch);
            check(&format!("cast(cast({x} as {to}) as varchar)"), &batch);
        }
        functions.iter().for_each(|text| check(&text.replace('x', &x), &batch));
        parts.iter().for_each(|part| check(&format!("extract({part} from {x})"), &batch));
    }
}

#[test]
fn dates_have_the_parts_of_their_year_month_and_day() {
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values((-720_000..2_940_000).step_by(997)));
    let batch = RecordBatch::try_from_iter([("day", days)]).unwrap();
    for part in ["year", "quarter", "month", "day", "dow", "doy"] {
        let expression = Expression::parse(&format!("extract({part} from day)"), &batch.schema()).unwrap();
        let expected = expression.evaluate(&batch).unwrap();
        let mut compiled = RowExpression::new(&expression);
        for row in 0..batch.num_rows() {
            let found = compiled.evaluate(&[Value::of(batch.column(0), row)]).unwrap();
            assert_eq!(found, Value::of(&expected, row), "{part} of day {row}");
        }
    }
}

#[test]
fn later_inputs_are_evaluated_only_as_needed() {
    let batch = extremes();
    for text in [
        "i32 <> 0 and 10 / i32 > 0",
        "i32 = 0 or 10 / i32 > 0",
        "ok and 10 / i32 > 0",
        "case when i32 <> 0 then 10 / i32 when 1 / i32 > 0 then 1 end",
        "case i32 when 0 then 0 else 1 / i32 end",
        "coalesce(nullif(i32, 0), 1 / i32)",
        "i32 in (0, 1 / i32)",
        "i32 between 1 and 1 / i32",
        "10 / i32 > 0 and i32 <> 0",
        "null and 1 / i32 > 0",
        "1 / 0",
        "case when i32 = 7 then 1 / 0 end",
    ] {
        assert!(Expression::parse(text, &batch.schema()).is_ok(), "{text}");
        check(text, &batch);
    }
}

#[test]
fn a_projection_of_rows_has_the_names_types_and_values_of_one_of_batches() {
    let batch = batch();
    let projection =
        Projection::parse("*, small * 2 as twice, lower(name) || 'x', price / 3", &batch.schema()).unwrap();
    let mut rows = RowProjection::new(&projection);
    assert_eq!(rows.schema(), projection.schema());
    let expected = projection.apply(&batch).unwrap();
    for row in 0..batch.num_rows() {
        let (expected, row) = (expected.slice(row, 1), batch.slice(row, 1));
        let mut count = 0;
        rows.evaluate(&values(&row), |place, value| {
            assert_eq!(place, count);
            count += 1;
            let expected = expected.column(place);
            let found = value.to_array(expected.data_type()).unwrap();
            assert_eq!(
                array_value_to_string(&found, 0).unwrap(),
                array_value_to_string(expected, 0).unwrap()
            );
        })
        .unwrap();
        assert_eq!(count, expected.num_columns());
    }
}

#[test]
fn rows_that_do_not_fit_the_schema_are_errors() {
    let batch = batch();
    let parse = |text| RowExpression::new(&Expression::parse(text, &batch.schema()).unwrap());
    let error = |text, row: &[Value<'_>]| parse(text).evaluate(row).unwrap_err().to_string();
    assert!(error("small + 1", &[Value::Int(1)]).contains("column small is missing"));
    assert!(error("id + 1", &[Value::Text("1")]).contains("column id has"));
    assert!(
        error("cast(\"odd, name\" as decimal(60, 1))", &[Value::Int(300); 12])
            .contains("is not a value of type Int8")
    );
    assert!(parse("id + 1").select(&[Value::Int(1)]).unwrap_err().to_string().contains("not a condition"));
}

#[test]
fn long_patterns_have_the_values_and_errors_of_batches() {
    // A text and a null.
    let batch = batch().slice(1, 2);
    for (count, like) in [(4096, "not like"), (60_000, "like")] {
        check(&format!("name {like} '{}'", "_".repeat(count)), &batch);
    }
    let text = format!("name like '{}'", "_".repeat(60_000));
    assert!(Expression::parse(&text, &batch.schema()).unwrap().evaluate(&batch).is_err());
}

/// Arrays of one row, some of whose nulls are not in the array itself.
#[test]
fn values_of_encoded_and_nested_types_are_arrays_or_null() {
    use arrow_array::types::{Int8Type, Int16Type};
    use arrow_schema::{Field, UnionFields};
    let encoded = |value: Option<i32>| -> ArrayRef {
        let ends = Int16Array::from(vec![1]);
        Arc::new(RunArray::<Int16Type>::try_new(&ends, &Int32Array::from(vec![value])).unwrap())
    };
    let union = |value: Option<i32>| -> ArrayRef {
        let field = Field::new("a", arrow_schema::DataType::Int32, true);
        let fields = UnionFields::try_new([0], [field]).unwrap();
        let values: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        Arc::new(UnionArray::try_new(fields, vec![0].into(), None, vec![values]).unwrap())
    };
    let wide = |value: Option<i128>| -> ArrayRef {
        let values = Decimal256Array::from(vec![None, value.map(i256::from_i128)]);
        Arc::new(DictionaryArray::<Int8Type>::new(Int8Array::from(vec![1]), Arc::new(values)))
    };
    let rows = [[encoded(Some(7)), union(Some(7)), wide(Some(7))], [encoded(None), union(None), wide(None)]];
    for (row, is_null) in rows.into_iter().zip([false, true]) {
        let names =
            ["encoded", "union", "wide"].into_iter().zip(row).map(|(name, array)| (name, array, true));
        let batch = RecordBatch::try_from_iter_with_nullable(names).unwrap();
        for (array, value) in batch.columns().iter().zip(values(&batch)) {
            assert_eq!(value == Value::Null, is_null, "{array:?}");
            let kept = value.to_array(array.data_type()).unwrap();
            assert_eq!(kept.data_type(), flat(array.data_type()));
            assert_eq!(kept.is_null(0) || kept.logical_null_count() == 1, is_null, "{array:?}");
        }
        for text in ["encoded is null", "union is null", "wide is null", "wide + 1", "cast(wide as int)"] {
            assert!(Expression::parse(text, &batch.schema()).is_ok(), "{text}");
            check(text, &batch);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn random_expressions_have_the_same_values_on_rows_as_on_batches(seed: u64, count in 1usize..8) {
        let generator = &mut Pcg64::seed_from_u64(seed ^ 1);
        let rows: Vec<_> = (0..count).map(|_| random::row(generator)).collect();
        let batch = oracle_batch(&rows);
        check(&random::tree(seed).sql(), &batch);
        check(&random::condition_tree(seed).sql(), &batch);
    }

    #[test]
    fn random_patterns_match_on_rows_as_on_batches(text in "[aÄb%_\\\\\n]{0,8}", pattern in "[aÄ%_\\\\]{0,7}") {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![text]));
        let batch = RecordBatch::try_from_iter([("s", texts)]).unwrap();
        check(&format!("s like '{pattern}'"), &batch);
        check(&format!("s not like '{pattern}'"), &batch);
    }
}
