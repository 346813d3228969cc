//! Reference join: a nested loop over all pairs of rows, as text.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::Schema;

use super::super::{Condition, JoinKind};

/// Text of a null.
const NULL_TEXT: &str = "null";

/// Returns the values of a column as text.
fn texts(column: &ArrayRef) -> Vec<String> {
    let options = FormatOptions::default().with_null(NULL_TEXT);
    let formatter = ArrayFormatter::try_new(column, &options).unwrap();
    (0..column.len()).map(|row| formatter.value(row).to_string()).collect()
}

/// Returns the rows of a batch as text.
pub(super) fn rows_of(batch: &RecordBatch) -> Vec<Vec<String>> {
    let columns: Vec<Vec<String>> = batch.columns().iter().map(texts).collect();
    // Normalizes zeros, because a merged key may have either of two equal values.
    let value = |text: &String| if text == "-0.0" { "0.0".to_owned() } else { text.clone() };
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| value(&column[row])).collect()).collect()
}

/// Returns the keys of all rows as text; `None` if a key column is null.
fn keys(batch: &RecordBatch, places: &[usize], condition: &Condition) -> Vec<Option<Vec<String>>> {
    let columns = places.iter().zip(&condition.pairs).map(|(&place, pair)| {
        let column = cast(batch.column(place), &pair.data_type).unwrap();
        let nulls = column.logical_nulls();
        let value = |(row, text): (usize, String)| {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            (!is_null).then(|| if text == "-0.0" { "0.0".to_owned() } else { text })
        };
        texts(&column).into_iter().enumerate().map(value).collect::<Vec<_>>()
    });
    let columns: Vec<Vec<Option<String>>> = columns.collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

/// Returns the rows of a join of tables whose key columns have the same names.
pub(super) fn joined(
    kind: JoinKind,
    left: &RecordBatch,
    right: &RecordBatch,
    condition: &Condition,
    schema: &Schema,
) -> Vec<Vec<String>> {
    let (ours, theirs) =
        (keys(left, &condition.left(), condition), keys(right, &condition.right(), condition));
    let mut pairs = Vec::new();
    let mut has_partner = vec![false; right.num_rows()];
    for (row, key) in ours.iter().enumerate() {
        let partners: Vec<usize> =
            (0..theirs.len()).filter(|&other| key.is_some() && theirs[other] == *key).collect();
        partners.iter().for_each(|&other| has_partner[other] = true);
        match kind {
            JoinKind::Semi if !partners.is_empty() => pairs.push((Some(row), None)),
            JoinKind::Anti | JoinKind::Left | JoinKind::Full if partners.is_empty() => {
                pairs.push((Some(row), None))
            }
            JoinKind::Semi | JoinKind::Anti => {}
            _ => pairs.extend(partners.into_iter().map(|other| (Some(row), Some(other)))),
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        pairs.extend(
            (0..right.num_rows()).filter(|&other| !has_partner[other]).map(|other| (None, Some(other))),
        );
    }
    let (our_rows, their_rows) = (rows_of(left), rows_of(right));
    let row = |(ours, theirs): (Option<usize>, Option<usize>)| {
        let value = |rows: &[Vec<String>], row: Option<usize>, place: usize| {
            row.map_or_else(|| NULL_TEXT.to_owned(), |row| rows[row][place].clone())
        };
        let (our_schema, their_schema) = (left.schema(), right.schema());
        let columns = schema.fields().iter().map(|field| match our_schema.index_of(field.name()) {
            Ok(place) => {
                // A merged key column.
                let is_merged =
                    kind.gives_pairs() && schema.index_of(&format!("{}_right", field.name())).is_err();
                let other = their_schema.index_of(field.name());
                match (ours, other) {
                    (None, Ok(other)) if is_merged => value(&their_rows, theirs, other),
                    _ => value(&our_rows, ours, place),
                }
            }
            Err(_) => {
                let name = field.name().trim_end_matches("_right");
                value(&their_rows, theirs, their_schema.index_of(name).unwrap())
            }
        });
        columns.collect()
    };
    pairs.into_iter().map(row).collect()
}
