//! Tests random expressions against the interpreter, and random text.

use std::sync::Arc;

use arrow_array::*;
use arrow_cast::display::array_value_to_string;
use arrow_ord::sort::sort_to_indices;
use arrow_schema::{DataType, Field, Schema, SortOptions};
use arrow_select::concat::concat;
use arrow_select::take::take;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::batch;
use super::oracle::{self, Cell};
use super::random;
use crate::prune::{GroupBounds, Nulls};
use crate::{Expression, Projection};

/// Converts rows of the oracle to a batch.
pub(super) fn oracle_batch(rows: &[Vec<Cell>]) -> RecordBatch {
    let numbers = |place: usize| {
        rows.iter().map(move |row| if let Cell::Number(value) = &row[place] { Some(*value) } else { None })
    };
    let longs = |place: usize| numbers(place).map(|value| value.map(|value| value as i64));
    let floats = rows.iter().map(|row| if let Cell::Float(value) = &row[4] { Some(*value) } else { None });
    let bools = rows.iter().map(|row| if let Cell::Bool(value) = &row[5] { Some(*value) } else { None });
    let texts =
        rows.iter().map(|row| if let Cell::Text(text) = &row[6] { Some(text.as_str()) } else { None });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(longs(0).collect::<Int64Array>()),
        Arc::new(numbers(1).map(|value| value.map(|value| value as i32)).collect::<Int32Array>()),
        Arc::new(numbers(2).collect::<Decimal128Array>().with_precision_and_scale(15, 2).unwrap()),
        Arc::new(longs(3).collect::<Decimal64Array>().with_precision_and_scale(9, 3).unwrap()),
        Arc::new(floats.collect::<Float64Array>()),
        Arc::new(bools.collect::<BooleanArray>()),
        Arc::new(texts.collect::<StringArray>()),
    ];
    let fields: Vec<Field> = oracle::COLUMNS
        .iter()
        .zip(&columns)
        .map(|((name, _), array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// Converts a value to a cell of the oracle.
fn oracle_cell(array: &ArrayRef, row: usize) -> Cell {
    use arrow_array::cast::AsArray;
    if array.is_null(row) {
        return Cell::Null;
    }
    match array.data_type() {
        DataType::Boolean => Cell::Bool(array.as_boolean().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).into()),
        DataType::Float64 => Cell::Float(array.as_primitive::<arrow_array::types::Float64Type>().value(row)),
        _ => Cell::Number(array_value_to_string(array, row).unwrap().replace('.', "").parse().unwrap()),
    }
}

fn is_same(a: &Cell, b: &Cell) -> bool {
    match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => a == b || a.is_nan() && b.is_nan(),
        _ => a == b,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn random_expressions_have_the_values_of_the_interpreter(seed: u64, count in 1usize..8) {
        let tree = random::tree(seed);
        let text = tree.sql();
        let generator = &mut Pcg64::seed_from_u64(seed ^ 1);
        let rows: Vec<Vec<Cell>> = (0..count).map(|_| random::row(generator)).collect();
        let batch = oracle_batch(&rows);
        let expected: Result<Vec<Cell>, _> = rows.iter().map(|row| tree.value(row)).collect();
        if expected == Err(oracle::Failed::TooLarge) || rows.iter().any(|row| tree.value(row) == Err(oracle::Failed::TooLarge)) {
            return Ok(());
        }
        let expression = Expression::parse(&text, &batch.schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let found = expression.evaluate(&batch);
        match (&expected, &found) {
            (Ok(expected), Ok(found)) => {
                for (row, expected) in expected.iter().enumerate() {
                    let cell = oracle_cell(found, row);
                    prop_assert!(is_same(&cell, expected), "{}: {:?} is {:?}, not {:?}", text, rows[row], cell, expected);
                }
                prop_assert!(expression.nullable() || found.null_count() == 0, "{}", text);
            }
            (Err(_), Err(_)) => {}
            _ => prop_assert!(false, "{}: {:?}, not {:?}", text, found.map_err(|error| error.to_string()), expected),
        }
        let printed = expression.to_string();
        let again = Expression::parse(&printed, &batch.schema()).unwrap_or_else(|error| panic!("{printed}: {error}"));
        prop_assert_eq!(again.evaluate(&batch).is_ok(), expected.is_ok(), "{}", printed);
    }
}

/// The bounds of groups of at most `rows` rows; one in four bounds is unknown.
fn bounds(batch: &RecordBatch, rows: usize, random: &mut Pcg64) -> GroupBounds {
    let groups: Vec<RecordBatch> = (0..batch.num_rows())
        .step_by(rows)
        .map(|from| batch.slice(from, rows.min(batch.num_rows() - from)))
        .collect();
    let mut extremes = |descending: bool| {
        let options = Some(SortOptions { descending, nulls_first: false });
        let columns = (0..batch.num_columns()).map(|column| {
            let of_group = |group: &RecordBatch| {
                let values = group.column(column);
                let first = sort_to_indices(values, options, Some(1)).unwrap();
                let is_known = !random.next_u64().is_multiple_of(4);
                if is_known {
                    take(values, &first, None).unwrap()
                } else {
                    new_null_array(values.data_type(), 1)
                }
            };
            let extremes: Vec<ArrayRef> = groups.iter().map(of_group).collect();
            concat(&extremes.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap()
        });
        RecordBatch::try_new(batch.schema(), columns.collect()).unwrap()
    };
    let (min, max) = (extremes(false), extremes(true));
    let nulls = |column: usize| {
        let of_group = |group: &RecordBatch| match group.column(column).null_count() {
            0 => Nulls::None,
            count if count == group.num_rows() => Nulls::All,
            _ => Nulls::Unknown,
        };
        groups.iter().map(of_group).collect()
    };
    GroupBounds { min, max, nulls: (0..batch.num_columns()).map(nulls).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_selected_row_is_in_an_excluded_group(seed: u64, rows in 1usize..40, group_rows in 1usize..8) {
        let text = random::condition_tree(seed).sql();
        let generator = &mut Pcg64::seed_from_u64(seed ^ 1);
        let rows: Vec<Vec<Cell>> = (0..rows).map(|_| random::row(generator)).collect();
        let batch = oracle_batch(&rows);
        let condition = Expression::condition(&text, &batch.schema()).unwrap();
        let bounds = bounds(&batch, group_rows, generator);
        for (group, may_select) in condition.may_select(&bounds).into_iter().enumerate() {
            let from = group * group_rows;
            let rows = batch.slice(from, group_rows.min(batch.num_rows() - from));
            let selected = condition.select(&rows).map_or(0, |mask| mask.true_count());
            prop_assert!(may_select || selected == 0, "{}: group {}: {} rows", text, group, selected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "[a-z0-9'\"(),.*+<>=%|: \\-]{0,40}|\\PC{0,30}") {
        let batch = batch();
        if let Ok(expression) = Expression::parse(&text, &batch.schema()) {
            let _ = expression.evaluate(&batch);
        }
        let _ = Projection::parse(&text, &batch.schema());
    }

    #[test]
    fn any_words_are_read_or_refused_without_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "id", "small", "price", "tax", "ratio", "name", "flag", "day", "at", "ok", "big", "1", "0", "-1", "2.5", "'a'",
            "'1998-09-02'", "date", "timestamp", "interval", "'3 days'", "month", "(", ")", "(", ")", ",", "+", "-", "*", "/",
            "%", "||", "=", "<", ">=", "and", "or", "not", "is", "null", "between", "in", "like", "case", "when", "then",
            "else", "end", "cast", "as", "int", "decimal(5,2)", "coalesce", "abs", "extract", "year", "from", "substring",
            "true", "distinct", "::", "varchar", "9223372036854775807", "1e308", "99999999999999999999999999999999999999",
        ]), 1..16),
    ) {
        let batch = batch();
        let text = words.join(" ");
        if let Ok(expression) = Expression::parse(&text, &batch.schema()) {
            let values = expression.evaluate(&batch);
            let printed = expression.to_string();
            let again = Expression::parse(&printed, &batch.schema());
            let again = again.unwrap_or_else(|error| panic!("{text}: {printed}: {error}")).evaluate(&batch);
            prop_assert_eq!(values.is_ok(), again.is_ok(), "{}: {}", text, printed);
            if let (Ok(values), Ok(again)) = (values, again) {
                for row in 0..3 {
                    prop_assert_eq!(values.is_null(row), again.is_null(row), "{}: {}", text, printed);
                }
            }
        }
    }
}
