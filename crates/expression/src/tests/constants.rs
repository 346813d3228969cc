//! Constants beside columns: their digits, units and ranges.

use super::*;

#[test]
fn digits_of_strings_are_kept() {
    let prices = Decimal128Array::from(vec![155, 156]).with_precision_and_scale(4, 2).unwrap();
    let batch = RecordBatch::try_from_iter([
        ("price", Arc::new(prices) as ArrayRef),
        ("s", Arc::new(TimestampSecondArray::from(vec![0, 1]))),
        ("us", Arc::new(TimestampMicrosecondArray::from(vec![0, 1]))),
        ("far", Arc::new(TimestampSecondArray::from(vec![253_402_300_799, -62_135_596_800]))),
        ("clock", Arc::new(Time32SecondArray::from(vec![0, 1]))),
        ("n", Arc::new(Int64Array::from(vec![1, 2]))),
    ])
    .unwrap();
    for (text, expected) in [
        ("price = '1.555'", "false false"),
        ("price < '1.555'", "true false"),
        ("price <> '1.555'", "true true"),
        ("price between '1.549' and '1.551'", "true false"),
        ("price in ('1.555', '1.5600')", "false true"),
        ("price = ' +15.50e-1 '", "true false"),
        ("price > '.0'", "true true"),
        ("price = '123456789012345678901234567890'", "false false"),
        ("price + '0.005'", "1.555 1.565"),
        ("price + '1'", "2.55 2.56"),
        ("coalesce(nullif(price, '1.55'), '0.125')", "0.125 1.560"),
        ("case when price > '1.555' then price else '-1e1' end", "-10.00 1.56"),
        ("s = '1970-01-01 00:00:00.5'", "false false"),
        ("s < '1970-01-01 00:00:00.5'", "true false"),
        ("s = '1970-01-01 00:00:01.000'", "false true"),
        ("us < '1970-01-01 00:00:00.000000600'", "true false"),
        ("s - '1970-01-01 00:00:00.25'", "-PT0.25S PT0.75S"),
        ("far > '0001-01-01 00:00:00.5'", "true false"),
        ("far = '9999-12-31 23:59:59'", "true false"),
        ("clock = '00:00:00.5'", "false false"),
        ("clock < '00:00:00.5'", "true false"),
        ("clock = '00:00:01'", "false true"),
    ] {
        let expression =
            Expression::parse(text, &batch.schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let values = expression.evaluate(&batch).unwrap();
        let shown: Vec<String> = (0..2).map(|row| array_value_to_string(&values, row).unwrap()).collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }
    for text in [
        "n = '1.5'",
        "n + '1.5'",
        "price = '1.5x'",
        "price = 'nan'",
        "price = '1e999'",
        "price = 'e5'",
        "price = '-.'",
        "price = '--1'",
        "price = ''",
        "s > 'x'",
    ] {
        assert!(Expression::parse(text, &batch.schema()).is_err(), "{text}");
    }
}

/// Values of expressions on the rows of a batch, separated by spaces.
fn values(text: &str, batch: &RecordBatch) -> String {
    let expression =
        Expression::parse(text, &batch.schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
    let values = expression.evaluate(batch).unwrap_or_else(|error| panic!("{text}: {error}"));
    let shown: Vec<String> =
        (0..batch.num_rows()).map(|row| array_value_to_string(&values, row).unwrap()).collect();
    shown.join(" ")
}

#[test]
fn strings_beside_times_are_rounded_to_microseconds_and_have_the_range_of_the_times() {
    // 9999-12-31 23:59:59, and 2000-01-01.
    let seconds = [253_402_300_799, 946_684_800];
    let zone = TimestampMicrosecondArray::from(seconds.map(|second| second * 1_000_000).to_vec());
    let batch = RecordBatch::try_from_iter([
        ("s", Arc::new(TimestampSecondArray::from(seconds.to_vec())) as ArrayRef),
        ("ms", Arc::new(TimestampMillisecondArray::from(seconds.map(|second| second * 1000).to_vec()))),
        ("us", Arc::new(TimestampMicrosecondArray::from(seconds.map(|second| second * 1_000_000).to_vec()))),
        ("zone", Arc::new(zone.with_timezone("+00:00"))),
        ("day", Arc::new(Date64Array::from(seconds.map(|second| second * 1000).to_vec()))),
        ("ns", Arc::new(TimestampNanosecondArray::from(vec![0, 2]))),
        ("clock", Arc::new(Time32SecondArray::from(vec![0, 1]))),
        ("clock_ns", Arc::new(Time64NanosecondArray::from(vec![0, 2]))),
    ])
    .unwrap();
    for column in ["s", "ms", "us", "zone", "day"] {
        for (condition, expected) in [
            ("= '2000-01-01 00:00:00.0000005'", "false true"),
            ("< '2000-01-01 00:00:00.0000005001'", "false true"),
            ("< '2000-01-01 00:00:00.000000500000000001'", "false true"),
            ("= '1999-12-31 23:59:59.9999995'", "false true"),
            ("= '1999-12-31 23:59:59.9999985'", "false false"),
            ("= '1999-12-31 23:59:59.9999994'", "false false"),
            ("> '1999-12-31 23:59:59.9999994'", "true true"),
            ("< '3000-01-01 00:00:00.0000001'", "false true"),
            ("= '3000-01-01 00:00:00.1234567'", "false false"),
            ("= '9999-12-31 23:59:59.0000001'", "true false"),
            ("< '9999-12-31 23:59:59.9999999'", "true true"),
            ("= '0001-01-01 00:00:00.1234567'", "false false"),
        ] {
            let text = format!("{column} {condition}");
            assert_eq!(values(&text, &batch), expected, "{text}");
        }
    }
    for (text, expected) in [
        ("day = '2000-01-01'", "false true"),
        ("day < '2000-01-01 00:00:00.0005'", "false true"),
        ("day = '2000-01-01 00:00:00.0005'", "false false"),
        ("us - '2000-01-01 00:00:00.0000015'", "PT252455615998.999998S -PT0.000002S"),
        ("us - '2000-01-01 00:00:00.0000025'", "PT252455615998.999998S -PT0.000002S"),
        ("zone > '2000-01-01 02:00:00.0000006+02:00'", "true false"),
        ("ns = '1970-01-01 00:00:00.0000000015'", "false true"),
        ("ns < '1970-01-01 00:00:00.000000001'", "true false"),
        ("clock < '00:00:00.0000006'", "true false"),
        ("clock = '00:00:00.0000005'", "true false"),
        ("clock < '23:59:59.9999999'", "true true"),
        ("clock_ns = '00:00:00.000000002'", "false true"),
    ] {
        assert_eq!(values(text, &batch), expected, "{text}");
    }
}

#[test]
fn decimals_of_more_digits_than_any_type_compare_as_all_their_digits() {
    let narrow = Decimal128Array::from(vec![0, 155]).with_precision_and_scale(4, 2).unwrap();
    let wide = Decimal128Array::from(vec![0, 15_500_000_000]).with_precision_and_scale(38, 10).unwrap();
    let whole = Decimal256Array::from_iter_values([0, 1].map(arrow_buffer::i256::from_i128));
    let whole = whole.with_precision_and_scale(76, 0).unwrap();
    let columns =
        [("narrow", Arc::new(narrow) as ArrayRef), ("wide", Arc::new(wide)), ("whole", Arc::new(whole))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for (text, expected) in [
        ("whole = '1.25'", "false false"),
        ("whole < '1.04'", "true true"),
        ("whole > '0.96'", "false true"),
        ("whole = '10e-1'", "false true"),
    ] {
        assert_eq!(values(text, &batch), expected, "{text}");
    }
    let (zeros, nines) = ("0".repeat(100), "9".repeat(100));
    for column in ["narrow", "wide"] {
        for (condition, expected) in [
            ("= '1e-100'", "false false"),
            ("> '1e-100'", "false true"),
            ("> '-1E-100'", "true true"),
            ("< '1e-2000000000'", "true false"),
            ("= '0e100'", "true false"),
            ("= '-0.000e-999'", "true false"),
            ("= '155e-2'", "false true"),
            (&format!("= '1.55{zeros}'"), "false true"),
            (&format!("= '1.55{zeros}1'"), "false false"),
            (&format!("< '1.55{zeros}1'"), "true true"),
            (&format!("< '1.54{nines}'"), "true false"),
            (&format!("= '0.{zeros}155e101'"), "false true"),
            (&format!("= '155{zeros}e-102'"), "false true"),
            ("= '1.55000000000000000000000000000000000000000001'", "false false"),
        ] {
            let text = format!("{column} {condition}");
            assert_eq!(values(&text, &batch), expected, "{text}");
        }
        for text in ["1e76", "1e2000000000", "1e-99999999999", "0e", "0e1x", "1e", "1e5e5", "1.5.5", "1 5"] {
            let text = format!("{column} = '{text}'");
            let error = Expression::parse(&text, &batch.schema()).unwrap_err().to_string();
            assert!(error.contains("cannot be read as"), "{text}: {error}");
        }
    }
}

#[test]
fn timestamps_have_nanoseconds_if_their_digits_need_and_their_year_allows_them() {
    let microseconds: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0]));
    let batch = RecordBatch::try_from_iter([("us", microseconds)]).unwrap();
    for (text, expected, unit) in [
        ("timestamp '3000-01-01 00:00:00.0000000'", "3000-01-01T00:00:00", TimeUnit::Microsecond),
        (
            "timestamp '3000-01-01 00:00:00.1234560000000'",
            "3000-01-01T00:00:00.123456",
            TimeUnit::Microsecond,
        ),
        ("timestamp '3000-01-01 00:00:00.0000007'", "3000-01-01T00:00:00.000001", TimeUnit::Microsecond),
        ("timestamp '2000-01-01 00:00:00.0000007'", "2000-01-01T00:00:00.000000700", TimeUnit::Nanosecond),
        (
            "timestamp '2000-01-01 00:00:00.00000000150'",
            "2000-01-01T00:00:00.000000002",
            TimeUnit::Nanosecond,
        ),
        ("timestamp '2000-01-01 00:00:00.000000'", "2000-01-01T00:00:00", TimeUnit::Microsecond),
        ("timestamp(6) '2000-01-01 00:00:00.0000007'", "2000-01-01T00:00:00.000001", TimeUnit::Microsecond),
        ("timestamp(6) '2000-01-01 00:00:00.0000005'", "2000-01-01T00:00:00", TimeUnit::Microsecond),
        ("timestamp(9) '2000-01-01 00:00:00.0'", "2000-01-01T00:00:00", TimeUnit::Nanosecond),
    ] {
        let expression =
            Expression::parse(text, &batch.schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(values(text, &batch), expected, "{text}");
        assert_eq!(expression.data_type(), DataType::Timestamp(unit, None), "{text}");
    }
    assert_eq!(values("us < timestamp '3000-01-01 00:00:00.0000007'", &batch), "true");
    for text in ["timestamp(9) '3000-01-01 00:00:00'", "timestamp '3000-01-01 00:00:00.0000007x'"] {
        assert!(Expression::parse(text, &batch.schema()).is_err(), "{text}");
    }
}
