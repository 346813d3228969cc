//! Row groups that a condition excludes.

use std::sync::Arc;

use ::parquet::file::properties::WriterProperties;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use sakiyomi_testing::Scratch;

use super::{MIB, job, open, write_parquet};
use crate::table::{Representation, ScanOptions, Table};
use sakiyomi_expression::Expression;

/// Number of selected rows, and of skipped row groups, of a scan with a condition; the rows are filtered as operators do.
fn selected(table: &Table, text: &str, representation: Representation) -> (usize, usize) {
    let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
    let condition = Expression::condition(text, &table.scan_schema(&columns, representation)).unwrap();
    let options =
        ScanOptions { representation, condition: Some(condition.clone()), ..ScanOptions::new(columns) };
    let mut rows = 0;
    for mut stream in table.scan(&job(64 * MIB), &options).unwrap() {
        while let Some(batch) = stream.next().unwrap() {
            rows += condition.select(&batch).unwrap().true_count();
        }
    }
    (rows, table.extent(&options).skipped_groups)
}

fn numbers(rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter((0..rows).map(|row| (row % 7 > 0).then_some(row))));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..rows).map(|row| if row == 3 { f64::NAN } else { row as f64 }),
    ));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("name {:04}", row / 25))));
    RecordBatch::try_from_iter([("id", ids), ("ratio", floats), ("name", names)]).unwrap()
}

#[test]
fn groups_beyond_the_bounds_are_not_read() {
    let scratch = Scratch::new("prune");
    let path = scratch.path("numbers");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(50)).build();
    write_parquet(&path, &[numbers(1000)], properties);
    let table = open(&path).unwrap();
    for representation in [Representation::STORED, Representation::COMPACT] {
        let found = |text: &str| selected(&table, text, representation);
        assert_eq!(found("id between 100 and 150"), (44, 18));
        assert_eq!(found("id < 0"), (0, 20));
        assert_eq!(found("name = 'name 0007'"), (25, 19));
        assert_eq!(found("id is null and id > 990"), (0, 19));
        // NaN is greater than all numbers, and not within the bounds.
        assert_eq!(found("ratio > 2000"), (1, 0));
        assert_eq!(found("id + 0 < 0"), (0, 0));
    }
    let columns = vec![0];
    let extent = table.extent(&ScanOptions::new(columns.clone()));
    assert_eq!((extent.groups, extent.rows, extent.bytes), (20, Some(1000), table.bytes(&columns)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_selected_row_is_skipped(
        seed: u64, group in 1usize..60, least in 0i64..400, length in 0i64..100, is_negated: bool, is_text: bool,
    ) {
        let scratch = Scratch::new("prune-random");
        let path = scratch.path("numbers");
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(group))
            .set_statistics_truncate_length(Some(1 + (seed % 9) as usize));
        let batch = numbers(400);
        write_parquet(&path, std::slice::from_ref(&batch), properties.build());
        let most = least + length;
        let text = match is_text {
            true => format!("name >= 'name {:04}' and name <= 'name {:04}'", least / 25, most / 25),
            false => format!("id >= {least} and id <= {most}"),
        };
        let text = if is_negated { format!("not ({text})") } else { text };
        let condition = Expression::condition(&text, &batch.schema()).unwrap();
        let expected = condition.select(&batch).unwrap().true_count();
        prop_assert_eq!(selected(&open(&path).unwrap(), &text, Representation::COMPACT).0, expected);
    }
}
