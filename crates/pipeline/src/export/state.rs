//! The state: windows, sessions and rows that wait for others.

use std::fmt::Write;

use sakiyomi_expression::Expression;
use sakiyomi_expression::row::Value;
use sakiyomi_stream::operators::{Window as Times, saved_join, saved_sessions, saved_windows};
use sakiyomi_stream::{Decoder, Snapshot, StateError, states_of_bins};
use serde_json::{Value as Json, json};

use super::{refused, saved};
use crate::Error;
use crate::plan::{Bound, BoundCall, Plan};
use crate::row::{KeyForm, Row, RowBuilder, read};
use crate::spec::Window;
use crate::step::{Total, Totals};

/// Returns a line for each window, session and row that operators keep, in the order of the operators.
///
/// | `kind` | other keys |
/// |---|---|
/// | `window` | `start_ns`, `end_ns`, `key`, `totals` |
/// | `session` | `first_ns`, `last_ns` (event times of the first and the last row), `key`, `totals` |
/// | `left`, `right` | `time_ns`, `row` |
///
/// Floats and sums are texts, so that no digit is lost. `totals` has for each call `[count]`, `[sum, count]` or, of `min`
/// and `max`, `[value]`.
///
/// # Errors
/// If a state is damaged.
pub(super) fn lines(plan: &Plan, snapshot: &Snapshot) -> Result<String, Error> {
    let mut lines = String::new();
    for (node, found) in plan.nodes.iter().enumerate() {
        let Some(bytes) = saved(snapshot, &found.name) else { continue };
        let damaged = |error: StateError| refused(&found.name, &error.to_string());
        let states = match plan.division(node) {
            Some(_) => states_of_bins(bytes).map_err(damaged)?,
            None => vec![bytes.to_vec()],
        };
        for state in states {
            for mut line in records(&found.bound, &state).map_err(damaged)? {
                line["uid"] = Json::from(found.name.as_str());
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "{line}");
            }
        }
    }
    Ok(lines)
}

fn records(bound: &Bound, state: &[u8]) -> Result<Vec<Json>, StateError> {
    match bound {
        Bound::Aggregate { keys, calls, window: Some(Window::Session { .. }), .. } => {
            let line = |(key, [first_ns, last_ns], totals): (Vec<u8>, [u64; 2], Totals)| {
                let (key, totals) = (key_of(keys, &key)?, totals_of(calls, &totals)?);
                let line = json!({"kind": "session", "first_ns": first_ns, "last_ns": last_ns});
                Ok(with(line, key, totals))
            };
            saved_sessions(state)?.into_iter().map(line).collect()
        }
        Bound::Aggregate { keys, calls, .. } => {
            let line = |(key, window, totals): (Vec<u8>, Times, Totals)| {
                let (key, totals) = (key_of(keys, &key)?, totals_of(calls, &totals)?);
                let line = json!({"kind": "window", "start_ns": window.start_ns, "end_ns": window.end_ns});
                Ok(with(line, key, totals))
            };
            saved_windows(state)?.into_iter().map(line).collect()
        }
        Bound::Join { .. } => {
            let [lefts, rights] = saved_join::<Vec<u8>, Row>(state)?;
            let line = |kind: &'static str| move |(time_ns, row): (u64, Row)| json!({"kind": kind, "time_ns": time_ns, "row": values(&row)});
            let lefts = lefts.into_iter().map(line("left"));
            Ok(lefts.chain(rights.into_iter().map(line("right"))).collect())
        }
        _ => Ok(Vec::new()),
    }
}

fn with(mut line: Json, key: Json, totals: Json) -> Json {
    line["key"] = key;
    line["totals"] = totals;
    line
}

fn key_of(keys: &[Expression], bytes: &[u8]) -> Result<Json, StateError> {
    let (mut decoder, mut row) = (Decoder::new(bytes), RowBuilder::default());
    keys.iter().try_for_each(|key| read(KeyForm::of(&key.data_type()), &mut decoder, &mut row))?;
    Ok(values(&row.finish(None)))
}

fn totals_of(calls: &[BoundCall], totals: &Totals) -> Result<Json, StateError> {
    let one = |(call, total): (&BoundCall, &Total)| {
        Ok(match total {
            Total::Count(count) => json!([count]),
            Total::Exact(sum, count) => json!([sum.to_string(), count]),
            Total::Float(sum, count) => json!([float(*sum), count]),
            Total::Extreme(bytes) if bytes.is_empty() => json!([null]),
            Total::Extreme(bytes) => {
                let mut row = RowBuilder::default();
                read(KeyForm::of(&call.data_type), &mut Decoder::new(bytes), &mut row)?;
                values(&row.finish(None))
            }
            Total::Distinct(_) => return Err(StateError::Value("a total with a counterpart")),
        })
    };
    calls.iter().zip(totals.each()).map(one).collect()
}

fn values(row: &Row) -> Json {
    let value = |value: Value<'_>| match value {
        Value::Bool(value) => Json::from(value),
        Value::Int(value) => Json::from(value),
        Value::UInt(value) => Json::from(value),
        Value::Float(value) => Json::from(float(value)),
        Value::Text(text) => Json::from(text),
        Value::Decimal(value) => Json::from(value.to_string()),
        Value::Null | Value::Binary(_) | Value::Array(_) => Json::Null,
    };
    row.values().map(value).collect()
}

/// Returns a float as Java reads it.
fn float(value: f64) -> String {
    match value {
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        value => format!("{value:?}"),
    }
}
