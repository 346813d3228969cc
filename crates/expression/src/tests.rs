//! Tests expressions against the results of SQL databases and against a row interpreter.

use std::sync::Arc;

use arrow_array::*;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use super::prune::{GroupBounds, Nulls};
use super::*;

mod constants;
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a test of quadratic time")]
mod limits;
mod oracle;
mod properties;
mod random;
mod rows;

fn batch() -> RecordBatch {
    let dictionary: DictionaryArray<arrow_array::types::Int8Type> =
        vec![Some("R"), None, Some("A")].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))),
        ("small", Arc::new(Int32Array::from(vec![7, -7, 0]))),
        (
            "Price",
            Arc::new(Decimal128Array::from(vec![1050, -205, 0]).with_precision_and_scale(15, 2).unwrap()),
        ),
        (
            "tax",
            Arc::new(
                Decimal64Array::from(vec![Some(5), None, Some(8)]).with_precision_and_scale(15, 2).unwrap(),
            ),
        ),
        ("ratio", Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0]))),
        ("name", Arc::new(StringArray::from(vec![Some("Ärger"), Some("100%"), None]))),
        ("flag", Arc::new(dictionary)),
        ("day", Arc::new(Date32Array::from(vec![Some(10471), Some(0), None]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, 86_400_000_000, -1]))),
        ("ok", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("big", Arc::new(UInt64Array::from(vec![u64::MAX, 1, 0]))),
        ("odd, name", Arc::new(Int8Array::from(vec![1, 2, 3]))),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect())
        .unwrap()
}

fn shown(text: &str) -> String {
    let batch = batch();
    let values =
        match Expression::parse(text, &batch.schema()).and_then(|expression| expression.evaluate(&batch)) {
            Ok(values) => values,
            Err(error) => return format!("error: {error}"),
        };
    assert_eq!(values.len(), 3, "{text}");
    let value =
        |row| if values.is_null(row) { "∅".into() } else { array_value_to_string(&values, row).unwrap() };
    (0..3).map(value).collect::<Vec<_>>().join(" ")
}

fn type_of(text: &str) -> DataType {
    Expression::parse(text, &batch().schema()).unwrap().data_type()
}

#[test]
fn conditions_exclude_groups_by_their_bounds() {
    let column = |values: [i64; 4]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let names = |values: [&str; 4]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let min = [("a", column([0, 10, 20, 30])), ("name", names(["a", "b", "b", "d"]))];
    let max = [("a", column([9, 19, 29, 30])), ("name", names(["b", "b", "c", "e"]))];
    let [min, max] = [min, max].map(|columns| RecordBatch::try_from_iter(columns).unwrap());
    let nulls = vec![vec![Nulls::None, Nulls::Unknown, Nulls::None, Nulls::None], vec![Nulls::Unknown; 4]];
    let (schema, bounds) = (min.schema(), GroupBounds { min, max, nulls });
    for (text, expected) in [
        ("a < 10", [true, false, false, false]),
        ("a >= 19", [false, true, true, true]),
        ("25 > a", [true, true, true, false]),
        ("a = 15 or a = 25", [false, true, true, false]),
        ("a in (3, 100)", [true, false, false, false]),
        ("a between 12 and 13 and name = 'b'", [false, true, false, false]),
        ("a <> 30", [true, true, true, false]),
        ("not (a < 20)", [false, false, true, true]),
        ("a is null", [false, true, false, false]),
        ("(a < 20) is true", [true, true, false, false]),
        ("name > 'c'", [false, false, false, true]),
        ("name <> 'b'", [true, false, true, true]),
        ("a < 9.5", [true, false, false, false]),
        ("a < null", [false; 4]),
        ("a + 1 > 1000", [true; 4]),
    ] {
        let condition = Expression::condition(text, &schema).unwrap();
        assert_eq!(condition.may_select(&bounds), expected, "{text}");
    }
}

#[test]
fn a_number_of_many_digits_equals_the_float_that_is_printed_so() {
    let value: f64 = "0.10000000000000005".parse().unwrap();
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![value.next_down(), value, value.next_up()]));
    let batch = RecordBatch::try_from_iter([("x", floats)]).unwrap();
    let equal =
        Expression::parse("x = 0.10000000000000005", &batch.schema()).unwrap().evaluate(&batch).unwrap();
    assert_eq!(array_value_to_string(&equal, 1).unwrap(), "true");
    assert_eq!(equal.as_any().downcast_ref::<BooleanArray>().unwrap().true_count(), 1);
}

#[test]
fn parts_of_the_unit_of_a_time_are_kept() {
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
    let nanoseconds: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![123_456_789]));
    let batch = RecordBatch::try_from_iter([("s", seconds), ("n", nanoseconds)]).unwrap();
    for (text, expected) in [
        ("s + interval '500 milliseconds'", "1970-01-01T00:00:00.500"),
        ("s + interval '90 seconds'", "1970-01-01T00:01:30"),
        ("s + (n - timestamp '1970-01-01 00:00:00')", "1970-01-01T00:00:00.123456789"),
        ("n = timestamp '1970-01-01 00:00:00.123456789'", "true"),
        ("n < timestamp '1970-01-01 00:00:00.12345678901'", "false"),
    ] {
        let value = Expression::parse(text, &batch.schema()).unwrap().evaluate(&batch).unwrap();
        assert_eq!(array_value_to_string(&value, 0).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_value_of_a_dictionary_that_no_row_has_is_not_cast() {
    let texts: DictionaryArray<arrow_array::types::Int8Type> = vec!["7", "x", "8"].into_iter().collect();
    let batch = RecordBatch::try_from_iter([("s", Arc::new(texts) as ArrayRef)]).unwrap();
    let cast = Expression::parse("cast(s as int)", &batch.schema()).unwrap();
    assert!(cast.evaluate(&batch).is_err());
    let value = cast.evaluate(&batch.slice(2, 1)).unwrap();
    assert_eq!(array_value_to_string(&value, 0).unwrap(), "8");
}

#[test]
fn values_of_dictionaries_are_cast_as_others() {
    let keys = Int8Array::from(vec![Some(1), None, Some(0)]);
    let dictionary = |values: ArrayRef| Arc::new(DictionaryArray::new(keys.clone(), values)) as ArrayRef;
    let prices = Decimal64Array::from(vec![155, -250]).with_precision_and_scale(4, 2).unwrap();
    let late = Date64Array::from(vec![0, 253_402_214_400_000]);
    let batch = RecordBatch::try_from_iter([
        ("floats", dictionary(Arc::new(Float64Array::from(vec![2.5, -2.6])))),
        ("prices", dictionary(Arc::new(prices))),
        ("days", dictionary(Arc::new(late))),
        ("nested", dictionary(dictionary(Arc::new(Float32Array::from(vec![0.6, 3.5]))))),
    ])
    .unwrap();
    let cast = |text: &str| Expression::parse(text, &batch.schema()).unwrap().evaluate(&batch);
    for (text, expected) in [
        ("cast(floats as int)", "-3  2"),
        ("cast(prices as bigint)", "-3  2"),
        ("cast(nested as smallint)", "  4"),
        ("cast(days as timestamp)", "9999-12-31T00:00:00  1970-01-01T00:00:00"),
        ("try_cast(days as timestamp(9))", "  1970-01-01T00:00:00"),
    ] {
        let values = cast(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let shown: Vec<String> = (0..3).map(|row| array_value_to_string(&values, row).unwrap()).collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }
    assert!(cast("cast(days as timestamp(9))").is_err());
}

#[test]
fn casts_round_as_in_postgresql() {
    for (text, expected) in [
        ("cast(1.5e0 as int)", "2 2 2"),
        ("cast(2.5e0 as int)", "2 2 2"),
        ("cast(-0.5e0 as int)", "0 0 0"),
        ("cast(2.6e0 as bigint)", "3 3 3"),
        ("cast(2.5 as int)", "3 3 3"),
        ("cast(-2.5 as int)", "-3 -3 -3"),
        ("cast(price as int)", "11 -2 0"),
        ("try_cast(ratio as int)", "0 ∅ 0"),
        ("cast(255.4e0 as uint8)", "255 255 255"),
        ("try_cast(255.5e0 as uint8)", "∅ ∅ ∅"),
        ("cast('1.555' as decimal(5, 2))", "1.56 1.56 1.56"),
        ("cast(1.555 as decimal(5, 2))", "1.56 1.56 1.56"),
        ("try_cast('1.5' as int)", "∅ ∅ ∅"),
        ("cast(cast(2.5 as real) as int)", "2 2 2"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    for text in ["cast('1.5' as int)", "cast(ratio as int)", "cast('1e3' as bigint)"] {
        assert!(shown(text).starts_with("error: "), "{text}: {}", shown(text));
    }
}

#[test]
fn an_interval_without_a_unit_is_refused() {
    for text in ["day - interval '3'", "at + interval '1.5'"] {
        assert!(shown(text).contains("needs a unit"), "{}", shown(text));
    }
    assert_eq!(shown("day - interval '3 days'"), shown("day - interval '3' day"));
}

#[test]
fn a_date_beyond_the_range_of_nanoseconds_is_an_error() {
    let late: ArrayRef = Arc::new(Date64Array::from(vec![253_402_214_400_000]));
    let batch = RecordBatch::try_from_iter([("d", late)]).unwrap();
    let cast = |to: &str| {
        Expression::parse(&format!("cast(d as {to})"), &batch.schema()).and_then(|cast| cast.evaluate(&batch))
    };
    assert!(cast("timestamp(9)").is_err());
    assert!(cast("timestamp(6)").is_ok());
}

#[test]
fn expressions_have_the_values_of_sql() {
    for (text, expected) in [
        ("id + 1", "2 3 ∅"),
        ("small / 2", "3 -3 0"),
        ("small % 4", "3 -3 0"),
        ("-small", "-7 7 0"),
        ("price * 2", "21.00 -4.10 0.00"),
        ("price / 3", "3.500000 -0.683333 0.000000"),
        ("2.00 / 3", "0.666667 0.666667 0.666667"),
        ("cast(7 as decimal(3, 0)) / id", "7.0000 3.5000 ∅"),
        ("price % 0.5", "0.00 -0.05 0.00"),
        ("1 - tax", "0.95 ∅ 0.92"),
        ("price * (1 - tax)", "9.9750 ∅ 0.0000"),
        ("ratio + 1", "1.5 NaN 1.0"),
        ("1 / ratio", "2.0 NaN -inf"),
        ("ratio = 0", "false false true"),
        ("ratio > 1e300", "false true false"),
        ("ratio = ratio", "true true true"),
        ("id = 1 and ok", "true false ∅"),
        ("id = 2 or ok", "true true ∅"),
        ("not ok", "false true ∅"),
        ("ok is true", "true false false"),
        ("ok is not false", "true false true"),
        ("id is null", "false false true"),
        ("ok is unknown", "false false true"),
        ("id is distinct from 1", "false true true"),
        ("id is not distinct from null", "false false true"),
        ("id between 1 and 1", "true false ∅"),
        ("small not between -7 and 0", "true false false"),
        ("id in (2, null)", "∅ true ∅"),
        ("small in (7, 0)", "true false true"),
        ("name like '%g__'", "true false ∅"),
        ("name like '100\\%'", "false true ∅"),
        ("name not ilike 'ärger'", "false true ∅"),
        ("flag = 'R'", "true ∅ false"),
        ("flag || name", "RÄrger ∅ ∅"),
        ("flag like 'A'", "false ∅ true"),
        ("lower(name)", "ärger 100% ∅"),
        ("upper(flag)", "R ∅ A"),
        ("length(name)", "5 4 ∅"),
        ("substring(name from 2 for 2)", "rg 00 ∅"),
        ("substring(name, 0, 2)", "Ä 1 ∅"),
        ("substring(name from 9)", "  ∅"),
        ("trim('  a ') || 'b'", "ab ab ab"),
        ("coalesce(id, 9)", "1 2 9"),
        ("coalesce(tax, price)", "0.05 -2.05 0.08"),
        ("nullif(small, 0)", "7 -7 ∅"),
        ("abs(small)", "7 7 0"),
        ("abs(price)", "10.50 2.05 0.00"),
        ("ceil(ratio)", "1.0 NaN -0.0"),
        ("floor(price)", "10 -3 0"),
        ("ceil(price)", "11 -2 0"),
        ("floor(0.99999999999999999999)", "0 0 0"),
        ("ceil(-0.99999999999999999999)", "0 0 0"),
        ("ceil(99999999999999999.1)", "100000000000000000 100000000000000000 100000000000000000"),
        ("floor(-99999999999999999.1)", "-100000000000000000 -100000000000000000 -100000000000000000"),
        ("floor(cast(id as decimal(5, 0)))", "1 2 ∅"),
        ("floor(cast(price as decimal(60, 30)) - 0.000000000000000000000000000001)", "10 -3 -1"),
        ("ceil(cast(null as decimal(4, 4)))", "∅ ∅ ∅"),
        ("case when id = 1 then 'one' when id = 2 then name end", "one 100% ∅"),
        ("case small when 7 then 1 else 0.5 end", "1.0 0.5 0.5"),
        ("case when small <> 0 then 14 / small end", "2 -2 ∅"),
        ("small <> 0 and 14 / small > 0", "true false false"),
        ("small = 0 or 14 / small > 0", "true false true"),
        ("cast(small as varchar)", "7 -7 0"),
        ("cast('12' as int) + small", "19 5 12"),
        ("cast(case when small > 0 then '7' end as int)", "7 ∅ ∅"),
        ("try_cast(name as int)", "∅ ∅ ∅"),
        ("name::varchar is null", "false false true"),
        ("day = date '1998-09-02'", "true false ∅"),
        ("day <= '1998-09-02'", "true true ∅"),
        ("day + 1", "1998-09-03 1970-01-02 ∅"),
        ("day - date '1998-09-01'", "1 -10470 ∅"),
        ("day - interval '1' month", "1998-08-02 1969-12-01 ∅"),
        ("date '1998-12-01' - interval '90 days' = day", "true false ∅"),
        ("day + interval '1 hour'", "1998-09-02T01:00:00 1970-01-01T01:00:00 ∅"),
        ("extract(year from day)", "1998 1970 ∅"),
        ("date_part('month', day)", "9 1 ∅"),
        ("extract(hour from at)", "0 0 23"),
        ("at > '1970-01-01 12:00:00'", "false true false"),
        ("at >= day", "false true ∅"),
        ("big > id", "true false ∅"),
        ("big + 1.5", "18446744073709551616.5 2.5 1.5"),
        ("\"odd, name\" * 2", "2 4 6"),
        ("null", "  "),
        ("null + 1", "∅ ∅ ∅"),
        ("small > null", "∅ ∅ ∅"),
        ("'it''s'", "it's it's it's"),
        ("0.1 + 0.2 = 0.3", "true true true"),
        ("x'6162' = cast('ab' as bytea)", "true true true"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn results_have_the_documented_types() {
    for (text, expected) in [
        ("small + 1", DataType::Int64),
        ("big + big", DataType::UInt64),
        ("big + id", DataType::Decimal128(21, 0)),
        ("tax + 1", DataType::Decimal64(16, 2)),
        ("1 - tax", DataType::Decimal64(16, 2)),
        ("price * tax", DataType::Decimal128(30, 4)),
        ("tax * tax", DataType::Decimal128(30, 4)),
        ("price / tax", DataType::Decimal128(21, 6)),
        ("price * ratio", DataType::Float64),
        ("day - day", DataType::Int64),
        ("at - at", DataType::Duration(TimeUnit::Microsecond)),
        ("length(name)", DataType::Int64),
        ("floor(price)", DataType::Decimal128(15, 0)),
        ("ceil(tax)", DataType::Decimal64(15, 0)),
        ("floor(ratio)", DataType::Float64),
    ] {
        assert_eq!(type_of(text), expected, "{text}");
    }
}

#[test]
fn errors_name_the_piece_that_is_wrong() {
    for (text, part) in [
        ("pric + 1", "no column is named pric; did you mean Price"),
        ("14 / small", "14 / small: division by zero"),
        ("big * 2", "big * 2: a result does not fit UInt64"),
        ("price / 0", "division by zero"),
        ("id = 'x'", "'x' cannot be read as BIGINT"),
        ("day > 'yesterday'", "'yesterday' cannot be read as DATE"),
        ("day > 3", "CAST one of them"),
        ("name + 1", "does not take"),
        ("name and ok", "where a condition is needed"),
        ("sum(id)", "an aggregate"),
        ("lengt(name)", "did you mean length"),
        ("(select 1)", "a subquery is not supported"),
        ("id in (select 1)", "a subquery is not supported"),
        ("t.id", "not supported"),
        ("", "empty"),
        ("id +", "expected an expression"),
        ("id id2", "it ends before"),
        ("name like 'a' escape '!'", "escape"),
        ("extract(fortnight from day)", "fortnight"),
        ("date_part('fortnight', day)", "no part of a date"),
        ("cast(day as boolean)", "cannot be cast"),
        ("cast(name as int)", "CAST(\"name\" AS INTEGER)"),
        ("substring(name from 1 for -1)", "negative"),
        ("abs(name)", "takes a number"),
        ("length(name, name)", "takes 1 argument"),
        ("cast(id as decimal(90, 2))", "not supported"),
        ("x'+f'", "not supported"),
        ("x'f-'", "not supported"),
    ] {
        let shown = shown(text);
        assert!(shown.starts_with("error: ") && shown.contains(part), "{text}: {shown}");
    }
}

#[test]
fn a_projection_computes_names_and_columns() {
    let batch = batch();
    let project = |text| Projection::parse(text, &batch.schema());
    let names = |text| -> Vec<String> {
        project(text).unwrap().schema().fields().iter().map(|field| field.name().clone()).collect()
    };
    assert_eq!(names("ID, small * 2 as double, price*2"), ["id", "double", "price * 2"]);
    assert_eq!(names("* except (at, ok, \"odd, name\"), 1 as one").len(), 10);
    assert_eq!(names("* exclude id").len(), 11);
    assert!(project("id, *").unwrap_err().to_string().contains("two columns"));
    assert!(project("* except (nobody)").unwrap_err().to_string().contains("nobody"));
    assert!(project("t.*").is_err());
    let projection = project("small + 1 as next, name").unwrap();
    assert_eq!(projection.columns(), [1, 5]);
    let kept = batch.project(&[1, 5]).unwrap();
    let moved = projection.clone().onto(&[1, 5]).apply(&kept).unwrap();
    assert_eq!(moved, projection.apply(&batch).unwrap());
    assert_eq!(projection.to_string(), "small + 1 AS \"next\", \"name\"");
}

#[test]
fn sixty_four_bits_compute_what_the_types_say() {
    let batch = batch();
    let texts = [
        "price * (1 - tax) * (1 + tax)",
        "price * (1 - tax)",
        "small * id",
        "id",
        "price / 2",
        "-tax",
        "ratio",
    ];
    let expressions: Vec<Expression> =
        texts.iter().map(|text| Expression::parse(text, &batch.schema()).unwrap()).collect();
    let mut program = narrow::Program::new(&expressions);
    for _ in 0..2 {
        program.run(&batch);
        for (place, expression) in expressions.iter().enumerate().filter(|(place, _)| *place < 4) {
            let narrow = program.output(place).unwrap_or_else(|| panic!("{expression}"));
            let wide = expression.evaluate(&batch).unwrap();
            for row in (0..3).filter(|&row| wide.is_valid(row)) {
                let text = array_value_to_string(&wide, row).unwrap().replace('.', "");
                assert_eq!(i128::from(narrow.values[row]), text.parse::<i128>().unwrap(), "{expression}");
                assert!(narrow.values[row].unsigned_abs() <= narrow.bound);
                assert!(narrow.nulls.is_none_or(|nulls| nulls.is_valid(row)));
            }
        }
        assert!(program.output(4).is_none() && program.output(5).is_some() && program.output(6).is_none());
    }
}
