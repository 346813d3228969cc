//! Random schemas, rows, orders and limits.

use arrow_array::NullArray;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Decimal128Builder, FixedSizeBinaryBuilder, Float64Builder, Int8Builder,
    Int64Builder, ListBuilder, StringBuilder, StringDictionaryBuilder, StringViewBuilder, UInt32Builder,
};
use arrow_array::types::{Int32Type, UInt8Type};

use super::*;

/// A column of a random table.
#[derive(Clone, Copy, Debug)]
struct Column {
    kind: u8,
    /// One of this many values is null; no value is null if 0.
    nulls: u8,
    /// Approximate number of distinct values.
    values: u16,
}

/// Number of column kinds that [`array`] supports.
const KINDS: u8 = 16;

/// Returns a pseudo-random number for a row and a column.
fn mix(seed: u64, row: u64, column: u64) -> u64 {
    let mut value =
        seed ^ row.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ column.wrapping_mul(0xd6e8_feb8_6659_fd93);
    value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    value ^ (value >> 29)
}

macro_rules! build {
    ($builder:expr, $values:expr) => {{
        let mut builder = $builder;
        $values.for_each(|value| builder.append_option(value));
        Arc::new(builder.finish()) as ArrayRef
    }};
}

/// Returns a column; `draws` has a number or a null for each row.
fn array(kind: u8, draws: &[Option<u64>]) -> ArrayRef {
    let draws = draws.iter().copied();
    // Small numbers, their negatives, and numbers spread over the whole range.
    let spread = |n: u64| match n % 3 {
        0 => n as i64,
        1 => -(n as i64),
        _ => (n as i64).wrapping_mul(0x0123_4567_89ab_cdef),
    };
    let text = |n: u64| match n % 4 {
        0 => String::new(),
        1 => format!("common prefix of them {n:03}"),
        2 => "\0".repeat(n as usize % 5) + "é",
        _ => format!("{n}").repeat(1 + n as usize % 4),
    };
    match kind {
        0 => build!(Int64Builder::new(), draws.map(|n| n.map(|n| n as i64))),
        1 => build!(Int64Builder::new(), draws.map(|n| n.map(spread))),
        2 => build!(Int8Builder::new(), draws.map(|n| n.map(|n| n as i8))),
        3 => build!(UInt32Builder::new(), draws.map(|n| n.map(|n| spread(n) as u32))),
        4 => build!(BooleanBuilder::new(), draws.map(|n| n.map(|n| n % 2 == 1))),
        5 => build!(Float64Builder::new(), draws.map(|n| n.map(|n| float(n, spread(n))))),
        6 => build!(StringBuilder::new(), draws.map(|n| n.map(text))),
        7 => build!(BinaryBuilder::new(), draws.map(|n| n.map(|n| text(n).into_bytes()))),
        8 => build!(StringViewBuilder::new(), draws.map(|n| n.map(text))),
        9 => {
            build!(StringBuilder::new(), draws.map(|n| n.map(|n| ["A", "N", "R", "", "AB"][n as usize % 5])))
        }
        10 => build!(StringDictionaryBuilder::<UInt8Type>::new(), draws.map(|n| n.map(|n| text(n % 40)))),
        11 => build!(StringDictionaryBuilder::<Int32Type>::new(), draws.map(|n| n.map(text))),
        12 => build!(Decimal128Builder::new(), draws.map(|n| n.map(|n| i128::from(spread(n)) << (n % 40)))),
        13 => {
            let mut builder = FixedSizeBinaryBuilder::new(3);
            draws.for_each(|n| match n {
                Some(n) => builder.append_value([n as u8, 0, (n >> 8) as u8]).unwrap(),
                None => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
        14 => {
            let mut builder = ListBuilder::new(Int8Builder::new());
            draws.for_each(|n| match n {
                Some(n) => builder.append_value((0..n % 4).map(|i| Some((n + i) as i8))),
                None => builder.append_null(),
            });
            Arc::new(builder.finish())
        }
        _ => Arc::new(NullArray::new(draws.len())),
    }
}

fn float(n: u64, spread: i64) -> f64 {
    match n % 7 {
        0 => f64::NAN,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        _ => spread as f64 / 8.0,
    }
}

fn table(columns: &[Column], sizes: &[usize], seed: u64) -> Vec<RecordBatch> {
    let mut first = 0;
    let mut batch = |rows: usize| {
        let arrays = columns.iter().enumerate().map(|(index, column)| {
            let draws: Vec<Option<u64>> = (first..first + rows as u64)
                .map(|row| {
                    let value = mix(seed, row, index as u64);
                    let is_null = column.nulls > 0 && (value >> 40).is_multiple_of(u64::from(column.nulls));
                    (!is_null).then(|| value % u64::from(column.values.max(1)))
                })
                .collect();
            (format!("c{index}"), array(column.kind, &draws), column.nulls > 0 || column.kind == KINDS - 1)
        });
        let batch = RecordBatch::try_from_iter_with_nullable(arrays).unwrap();
        first += rows as u64;
        batch
    };
    sizes.iter().map(|&rows| batch(rows)).collect()
}

fn columns() -> impl Strategy<Value = Vec<Column>> {
    let column =
        (0..KINDS, prop_oneof![Just(0_u8), Just(1), Just(2), Just(9)], prop_oneof![1..5_u16, 5..3000_u16]);
    prop::collection::vec(column.prop_map(|(kind, nulls, values)| Column { kind, nulls, values }), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_table_is_sorted_by_any_columns_in_any_memory(
        columns in columns(),
        sizes in prop::collection::vec(1..700_usize, 1..12),
        keys in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 1..4),
        threads in 1..3_usize,
        seed in any::<u64>(),
        sampled in 0..400_usize,
        memory in (128..400_usize).prop_map(|kib| kib << 10),
        limit in prop::option::of(0..3000_u64),
    ) {
        let batches = table(&columns, &sizes, seed);
        let keys: Vec<SortKey> = keys
            .into_iter()
            .map(|(column, descending, nulls_first)| SortKey {
                column: column.index(columns.len()),
                options: Direction { descending, nulls_first },
            })
            .collect();
        let places: Vec<usize> = keys.iter().map(|key| key.column).collect();
        let sample = batches[0].project(&places).unwrap();
        let sample = (sampled > 0).then(|| sample.slice(0, sampled.min(sample.num_rows())));
        let scratch = Scratch::new("sort-random");
        let options = SortOptions { memory: Some(memory), limit, ..tiny(sample) };
        let sorted = sort(&job(&scratch, threads), inputs(&batches, threads), &keys, &options).unwrap();
        let rows: usize = sizes.iter().sum();
        prop_assert_eq!(sorted.rows(), limit.unwrap_or(u64::MAX).min(rows as u64));
        let output = collect(sorted).unwrap();
        match limit.filter(|&limit| limit < rows as u64) {
            None => check(&batches, &output, &keys),
            Some(limit) => {
                let mut expected = encoded(&batches, &keys);
                expected.sort();
                prop_assert!(expected[..limit as usize] == encoded(&output, &keys));
            }
        }
    }
}
