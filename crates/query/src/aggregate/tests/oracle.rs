//! Random rows, and the expected aggregates: computed row by row, on 128 bits.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type};
use arrow_cast::cast;
use arrow_schema::DataType;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::aggregate::Function;

const TEXTS: [&str; 6] = ["", "a", "b", "ab", "a longer text than eight bytes", "Ä"];
const FLAGS: [&str; 4] = ["A", "N", "R", "x"];

/// A row of the tests' table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) k: Option<i32>,
    pub(super) s: Option<&'static str>,
    pub(super) flag: &'static str,
    pub(super) code: &'static str,
    pub(super) i: Option<i64>,
    pub(super) d: Option<i64>,
    pub(super) w: Option<i128>,
    pub(super) f: Option<f64>,
    pub(super) t: Option<&'static str>,
    pub(super) day: Option<i32>,
}

/// Random rows; `wide` rows have many distinct integers, and strings instead of flags.
pub(super) fn rows(seed: u64, count: usize, wide: bool) -> Vec<Row> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut next = |most: u64| random.next_u64() % most;
    let mut rows = Vec::new();
    for _ in 0..count {
        let mut maybe = |value: u64| (next(8) > 0).then_some(value);
        let [a, b, c, d, e, f, g] = [1, 2, 3, 4, 5, 6, 7].map(|_| maybe(0).is_some());
        let mut value = |most: u64| next(most) as i64 - (most / 3) as i64;
        rows.push(Row {
            k: a.then(|| value(12) as i32),
            s: b.then(|| TEXTS[value(6).unsigned_abs() as usize % 6]),
            flag: if wide && value(9) == 0 { "long" } else { FLAGS[value(4).unsigned_abs() as usize % 4] },
            code: FLAGS[value(3).unsigned_abs() as usize % 4],
            i: c.then(|| if wide { value(1 << 40) } else { value(9) }),
            d: d.then(|| value(1_000_000)),
            w: e.then(|| i128::from(value(1 << 60)) * 1_000_000_000_000),
            f: f.then(|| match value(40) {
                0 => f64::NAN,
                1 => -0.0,
                2 => 0.0,
                other => other as f64 / 4.0,
            }),
            t: g.then(|| TEXTS[value(6).unsigned_abs() as usize % 6]),
            day: (value(5) != 0).then(|| value(3000) as i32),
        });
    }
    rows
}

fn text<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or("∅".into(), |value| value.to_string())
}

/// Prints a float as Arrow does, because a number may have two shortest texts.
fn float(value: f64) -> String {
    let array = arrow_array::Float64Array::from(vec![if value == 0.0 { 0.0 } else { value }]);
    arrow_cast::display::array_value_to_string(&array, 0).unwrap()
}

fn decimal(value: i128, scale: usize) -> String {
    let digits = format!("{:0width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if value < 0 { "-" } else { "" })
}

fn day(value: i32) -> String {
    let date = arrow_array::Date32Array::from(vec![value]);
    arrow_cast::display::array_value_to_string(&date, 0).unwrap()
}

/// The values of a row's keys, as printed in results.
pub(super) fn key(row: &Row, keys: &str) -> Vec<String> {
    let value = |name: &str| match name {
        "k" => text(row.k),
        "s" => text(row.s),
        "flag" => row.flag.to_owned(),
        "code" => row.code.to_owned(),
        "i" => text(row.i),
        "f" => text(row.f.map(float)),
        "w" => text(row.w.map(|value| decimal(value, 1))),
        "day" => text(row.day.map(day)),
        other => panic!("{other}"),
    };
    keys.split(", ").filter(|name| !name.is_empty()).map(value).collect()
}

fn counts(row: &Row, condition: Option<&str>) -> bool {
    match condition {
        None => true,
        Some("k > 3") => row.k.is_some_and(|k| k > 3),
        Some("i % 8 <> 0") => row.i.is_some_and(|i| i % 8 != 0),
        Some("d >= 0.01 or f is null") => row.f.is_none() || row.d.is_some_and(|d| d >= 1),
        Some(other) => panic!("{other}"),
    }
}

/// Returns `value / count`, rounded half away from zero.
fn rounded(value: i128, count: i128) -> i128 {
    let twice = 2 * value.abs() / count;
    (twice + 1) / 2 * value.signum()
}

fn aggregate(rows: &[&Row], function: Function, argument: &str) -> String {
    let integers: Vec<i128> = rows
        .iter()
        .filter_map(|row| match argument {
            "i" => row.i.map(i128::from),
            "d" => row.d.map(i128::from),
            "w" => row.w,
            "day" => row.day.map(i128::from),
            _ => None,
        })
        .collect();
    let floats: Vec<f64> = rows.iter().filter_map(|row| row.f).collect();
    let texts: BTreeSet<&str> = rows.iter().filter_map(|row| row.t).collect();
    let sum: i128 = integers.iter().sum();
    let count = integers.len() as i128;
    let order = |a: &&f64, b: &&f64| {
        let key = |value: f64| (value.is_nan(), value + 0.0);
        key(**a).partial_cmp(&key(**b)).unwrap_or(a.is_nan().cmp(&b.is_nan()))
    };
    match (function, argument) {
        (Function::CountDistinct, "t") => texts.len().to_string(),
        (Function::CountDistinct, "f") => {
            floats.iter().map(|&value| float(value)).collect::<BTreeSet<_>>().len().to_string()
        }
        (Function::Count, "f") => floats.len().to_string(),
        (Function::Min, "t") => text(texts.first()),
        (Function::Sum, "f") => text((!floats.is_empty()).then(|| float(floats.iter().sum()))),
        (Function::Min, "f") => text(floats.iter().min_by(order).map(|value| float(*value))),
        (Function::Max, "f") => text(floats.iter().max_by(order).map(|value| float(*value))),
        _ if integers.is_empty() => "∅".into(),
        (Function::Sum, "i") => sum.to_string(),
        (Function::Sum, "d") => decimal(sum, 2),
        (Function::Sum, "w") => decimal(sum, 1),
        (Function::Avg, "d") => decimal(rounded(sum * 10_000, count), 6),
        (Function::Avg, "i") => float((sum / count) as f64 + (sum % count) as f64 / count as f64),
        (Function::Min, "i") => integers.iter().min().unwrap().to_string(),
        (Function::Max, "d") => decimal(*integers.iter().max().unwrap(), 2),
        (Function::Max, "w") => decimal(*integers.iter().max().unwrap(), 1),
        (Function::Max, "day") => day(*integers.iter().max().unwrap() as i32),
        other => panic!("{other:?}"),
    }
}

/// The expected results of groups, by key.
pub(super) fn expected(
    rows: &[Row],
    keys: &str,
    aggregates: &[(Function, &str)],
    condition: Option<&str>,
) -> BTreeMap<Vec<String>, Vec<String>> {
    let mut groups: BTreeMap<Vec<String>, Vec<&Row>> = BTreeMap::new();
    if keys.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in rows.iter().filter(|row| counts(row, condition)) {
        groups.entry(key(row, keys)).or_default().push(row);
    }
    let results = |rows: &Vec<&Row>| {
        let mut results: Vec<String> =
            aggregates.iter().map(|(function, argument)| aggregate(rows, *function, argument)).collect();
        results.push(rows.len().to_string());
        results
    };
    groups.iter().map(|(key, rows)| (key.clone(), results(rows))).collect()
}

/// Computes TPC-H query 1 row by row.
pub(super) fn query_1(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let mut groups: BTreeMap<(String, String), [i128; 6]> = BTreeMap::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).unwrap();
        let number = |name: &str| column(name).as_primitive::<Decimal128Type>();
        let [quantity, price, discount, tax] =
            ["l_quantity", "l_extendedprice", "l_discount", "l_tax"].map(number);
        let [flag, status] =
            ["l_returnflag", "l_linestatus"].map(|name| cast(column(name), &DataType::Utf8).unwrap());
        let day = column("l_shipdate").as_primitive::<Date32Type>();
        // 1998-09-02 in days since 1970-01-01.
        for row in (0..batch.num_rows()).filter(|&row| day.value(row) <= 10_471) {
            let [quantity, price, discount, tax] =
                [quantity, price, discount, tax].map(|column| column.value(row));
            let key =
                (flag.as_string::<i32>().value(row).into(), status.as_string::<i32>().value(row).into());
            let discounted = price * (100 - discount);
            let values = [quantity, price, discounted, discounted * (100 + tax), discount, 1];
            groups.entry(key).or_default().iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
    }
    let result = |((flag, status), [quantity, price, discounted, charge, discount, count]): (
        (String, String),
        [i128; 6],
    )| {
        let average = |sum: i128| decimal(rounded(sum * 10_000, count), 6);
        vec![
            flag,
            status,
            decimal(quantity, 2),
            decimal(price, 2),
            decimal(discounted, 4),
            decimal(charge, 6),
            average(quantity),
            average(price),
            average(discount),
            count.to_string(),
        ]
    };
    groups.into_iter().map(result).collect()
}
