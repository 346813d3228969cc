//! Pairs of rows of two inputs.

use sakiyomi_stream::operators::{LateCounter, TimeJoin, key_into, side};
use sakiyomi_stream::{Flow, Join};

use super::aggregate::{TimeOf, push_time};
use super::{Division, Prepare, RowErrors, WrappedJoin, keyed, write_key};
use crate::row::{Row, RowBuilder};

/// An input of a join.
#[derive(Clone, Debug)]
pub(crate) struct JoinInput {
    /// Cells of the key.
    pub(crate) keys: Vec<usize>,
    /// Cells that the output has.
    pub(crate) columns: Vec<usize>,
    pub(crate) time: TimeOf,
}

/// Adds the operator of a step: pairs with equal keys whose event times are apart by `within_ns` at most. The counter is
/// that of late rows.
pub(crate) fn join(
    flows: [Flow<Row>; 2],
    name: &str,
    division: Option<Division>,
    inputs: &[JoinInput; 2],
    within_ns: u64,
    errors: &RowErrors,
) -> (Flow<Row>, Vec<LateCounter>) {
    keyed::join(flows, name, division, || pairs(inputs.clone(), within_ns, errors))
}

/// Returns the operator, and its counter.
fn pairs(
    inputs: [JoinInput; 2],
    within_ns: u64,
    errors: &RowErrors,
) -> (WrappedJoin<impl Join<Left = Row, Right = Row, Out = Row>>, LateCounter) {
    let prepare = |input: &JoinInput| Prepare::of_join(input.keys.clone(), errors.clone());
    let prepared = [prepare(&inputs[0]), prepare(&inputs[1])];
    let of = |input: &JoinInput| {
        let JoinInput { keys, time, .. } = input.clone();
        let key = key_into(move |row: &Row, key: &mut Vec<u8>| write_key(row, &keys, key));
        side(move |row: &Row| TimeOf::of(Some(time), row), key)
    };
    let sides = [of(&inputs[0]), of(&inputs[1])];
    let mut builder = RowBuilder::default();
    let combine = move |one: &Row, other: &Row| {
        for (row, input) in [one, other].into_iter().zip(&inputs) {
            for &cell in &input.columns {
                builder.push(row.value(cell), None);
            }
        }
        let times =
            [one, other].into_iter().zip(&inputs).map(|(row, input)| TimeOf::of(Some(input.time), row));
        push_time(times.max().unwrap_or(0), &mut builder);
        builder.finish(None)
    };
    let within = i64::try_from(within_ns).unwrap_or(i64::MAX);
    let [left_side, right_side] = sides;
    let join = TimeJoin::interval(-within..=within, left_side, right_side, combine);
    let (late, [left, right]) = (join.late_counter(), prepared);
    (WrappedJoin { left, right, join }, late)
}
