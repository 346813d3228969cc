//! Deep expressions, nested guards, and values at the ends of their types.

use super::*;
use crate::row::Value;

#[test]
fn deep_and_long_expressions_are_refused_and_do_not_overflow_the_stack() {
    let schema = batch().schema();
    let parse = |text: String| Expression::parse(&text, &schema);
    assert!(parse(format!("{}id{}", "(".repeat(500), ")".repeat(500))).is_err());
    assert!(parse(format!("{}ok", "not ".repeat(900))).is_err());
    assert!(parse(format!("id{}", " + 1".repeat(1000))).is_err());
    assert!(parse(format!("id{}", " + 1".repeat(90_000))).is_err());
    assert!(parse(format!("id{}", " is null".repeat(1000))).is_err());
    assert!(parse(format!("{}1{}", "case when ok then ".repeat(200), " end".repeat(200))).is_err());
    assert!(parse(format!("id{}", "::int".repeat(900))).is_err());
    assert!(parse(format!("id{}", "[1]".repeat(600))).is_err());
    assert!(parse(format!("id = 1{}", " or id = 1".repeat(400))).is_ok());
    assert!(parse(format!("id{}", " + 1".repeat(90))).is_ok());
    let list = (0..900).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    assert!(parse(format!("id in ({list})")).is_ok());
}

#[test]
fn nested_guards_are_evaluated_in_linear_time() {
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
    let batch = RecordBatch::try_from_iter([("n", rows)]).unwrap();
    // Each guard excludes one row, but only the outermost one that which fails.
    let guard = |level: usize| format!("case when n <> {level} then ");
    let nested = |depth: usize| {
        format!("{}40 / n{}", (1..=depth).map(guard).collect::<String>(), " end".repeat(depth))
    };
    let parse = |text: &str| Expression::parse(text, &batch.schema());
    let guarded = |depth: &usize| parse(&format!("case when n <> 0 then {} end", nested(*depth))).ok();
    let (depth, expression) =
        (10..40).rev().find_map(|depth| Some((depth, guarded(&depth)?))).expect("an expression");
    let begun = std::time::Instant::now();
    let values = expression.evaluate(&batch).unwrap();
    assert_eq!((values.null_count(), values.len()), (depth + 1, 20_000));
    let error = parse(&nested(depth)).unwrap().evaluate(&batch).unwrap_err().to_string();
    assert!(error.contains("division by zero"), "{error}");
    assert!(begun.elapsed().as_secs() < 2, "{depth} levels took {:?}", begun.elapsed());
}

#[test]
fn rows_of_dictionaries_are_read_in_linear_time() {
    const ROWS: usize = 100_000;
    let keys = Int32Array::from_iter((0..ROWS as i32).map(|row| (row % 3 > 0).then_some(row % 3 - 1)));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let array: ArrayRef = Arc::new(DictionaryArray::new(keys, texts));
    let begun = std::time::Instant::now();
    for row in 0..ROWS {
        let expected = if row % 3 == 1 { Value::Text("a") } else { Value::Null };
        assert_eq!(Value::of(&array, row), expected, "row {row}");
        assert!(begun.elapsed().as_secs() < 4, "{row} of {ROWS} rows took {:?}", begun.elapsed());
    }
}

#[test]
fn values_at_the_end_of_their_types_are_errors_or_values_and_never_panic() {
    for text in [
        "extract(year from day + 2000000000)",
        "extract(doy from day - 2147480000)",
        "day + 2000000000 - interval '1 month'",
        "day + 9223372036854775807",
        "day - interval '2147483647 months'",
        "cast(day + 2000000000 as timestamp)",
        "cast(day + 2000000000 as varchar)",
        "(day + 2000000000) || 'x'",
        "at + interval '999999999 years'",
        "at - interval '99999999 days'",
        "cast(9223372036854775807 as timestamp)",
        "extract(hour from cast(9223372036854775807 as timestamp))",
        "cast(cast(9223372036854775807 as timestamp) as varchar)",
        "cast(cast(9223372036854775807 as timestamp(0)) as timestamp(9))",
        "interval '1 day' + interval '2147483647 days'",
        "- interval '-2147483648 months'",
        "-(-9223372036854775807 - 1)",
        "abs(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1) / -1",
        "(-9223372036854775807 - 1) % -1",
        "small % 0",
        "cast(1e300 as int)",
        "cast(ratio * 1e300 as decimal(10, 2))",
        "cast(price as decimal(1, 0))",
        "cast(99999999999999999999999999999999999999 as decimal(76, 38)) * 10000000000000000000000000000000000000",
        "99999999999999999999999999999999999999 + price",
        "99999999999999999999999999999999999999 % price",
        "price / 0.00000000000000000000000000000000000001",
        "substring(name from -9223372036854775807 for 9223372036854775807)",
        "substring(name, 9223372036854775807, 9223372036854775807)",
        "name like '%\\'",
        "name ilike '\\\\_%'",
        "name like name",
        "date '999999-01-01'",
        "timestamp '0000-00-00 99:99:99'",
        "cast('nan' as double precision) = ratio",
        "cast('inf' as decimal(5, 2))",
        "cast(name as bytea)",
        "coalesce(null, null)",
        "case when null then null end",
        "null is null and null",
        "x'6'",
        "1e999",
    ] {
        let shown = shown(text);
        assert!(!shown.is_empty(), "{text}");
    }
}
