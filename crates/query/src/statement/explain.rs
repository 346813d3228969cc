//! The plan of a statement with its predicted times, and the rejected plans.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::filter::filter_record_batch;

use crate::aggregate::direct::Direct;
use crate::aggregate::{Aggregation, group_bytes, state_counts};
use crate::cost::operators::ValueKind;
use crate::cost::shape::RowShape;
use crate::cost::{
    ColumnShape, Explanation, GroupKeyShape, GroupSize, Limits, Model, Operator, OperatorCosts, StateShape,
    Storage, Task,
};
use crate::describe;
use crate::order;
use crate::table::{ColumnStatistics, Table};
use crate::{Error, Job};
use sakiyomi_expression::Expression;

use super::aggregate::{Aggregate, bound, bound_q1};
use super::join::{Bound, Join, bound as bound_join};
use super::key::key;
use super::rows::{Input, Rows};
use super::shape::{self, SampledTable};
use super::sink::Destination;
use super::sort::Sort;

/// Measured costs for the prediction of plans.
#[derive(Clone, Debug)]
pub struct Calibrated<'a> {
    /// Costs of the devices of the tables, of the spill directories and of the result.
    pub storage: Storage<'a>,
    /// CPU costs of operators.
    pub operators: &'a OperatorCosts,
    /// The part of each table that is in the page cache, 0 to 1.
    pub cached_ratios: Vec<f64>,
    /// Limits of the job.
    pub limits: Limits,
}

impl Calibrated<'_> {
    fn explain(self, task: Task) -> Result<Explanation, Error> {
        let operators = &self.operators.for_devices(&self.storage.devices());
        let model = Model { storage: self.storage, operators, limits: self.limits };
        let choice = model.choose(&task)?;
        Ok(Explanation::new(task, choice))
    }

    fn shaped(&self, job: &Job, rows: &Rows, table: usize) -> Result<SampledTable, Error> {
        shape::table(job, rows, self.cached_ratios.get(table).copied().unwrap_or_default())
    }
}

/// Returns the plan of a sort.
///
/// # Errors
/// Returns the errors of [`super::sort`]; also an error if a calibration lacks a measurement that the plan needs.
pub fn explain_sort(
    job: &Job,
    input: Input,
    sort: &Sort,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let rows = Rows::bind(input, true)?;
    let keys = order::parse(&sort.by, &rows.schema())?;
    let shaped = calibrated.shaped(job, &rows, 0)?;
    let places: Vec<usize> = keys.iter().map(|key| key.column).collect();
    let sample = rows.typed_sample(job, &places, KEY_SAMPLE_ROWS)?;
    let key = key(sample.columns(), passing(&shaped), sampled_ratio(&rows, &shaped, &places))?;
    let operator = Operator::Sort { key, limit_rows: sort.limit, is_stable: sort.stable };
    let columns = result_columns(job, &rows, &shaped)?;
    let taken = passing(&shaped).min(sort.limit.unwrap_or(u64::MAX));
    let output = shape::result(taken, &scaled_to(&columns, &shaped, taken), destination);
    let projected = rows.is_projected().then(|| RowShape::of(&columns));
    calibrated.explain(Task { projected, ..task(operator, vec![shaped], rows.expressions(), output) })
}

/// Rows of a sample of keys: enough to see pairs of equal keys among millions.
const KEY_SAMPLE_ROWS: usize = 1 << 14;

/// Returns the columns of all rows of the table after the projection.
fn result_columns(job: &Job, rows: &Rows, shaped: &SampledTable) -> Result<Vec<ColumnShape>, Error> {
    if !rows.is_projected() {
        return Ok(shaped.table.columns.clone());
    }
    let places: Vec<usize> = (0..rows.schema().fields().len()).collect();
    let sample = rows.typed_sample(job, &places, shaped.sample.num_rows().max(1))?;
    Ok(describe::sampled_columns(sample.columns(), shaped.table.rows))
}

/// Returns the columns of `taken` of the rows of a table.
fn scaled_to(columns: &[ColumnShape], shaped: &SampledTable, taken: u64) -> Vec<ColumnShape> {
    shape::scaled(columns, taken as f64 / shaped.table.rows.max(1) as f64)
}

/// Part of the values that a sample of some columns decodes: a condition or a projection needs all that are read.
fn sampled_ratio(rows: &Rows, shaped: &SampledTable, places: &[usize]) -> f64 {
    let bytes = |column: &ColumnShape| column.encoded_bytes as f64;
    let all: f64 = shaped.table.columns.iter().map(bytes).sum();
    let sampled: f64 = places.iter().filter_map(|&place| shaped.table.columns.get(place)).map(bytes).sum();
    if rows.is_plain() && all > 0.0 { (sampled / all).min(1.0) } else { 1.0 }
}

/// Returns the plan of a join.
///
/// # Errors
/// Returns the errors of [`super::join`]; also an error if a calibration lacks a measurement that the plan needs.
pub fn explain_join(
    job: &Job,
    left: Table,
    right: Table,
    join: &Join,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let Bound { left, right, condition, .. } = bound_join(left, right, join)?;
    let sides = vec![calibrated.shaped(job, &left, 0)?, calibrated.shaped(job, &right, 1)?];
    let places = condition.left();
    let sample = left.typed_sample(job, &places, KEY_SAMPLE_ROWS)?;
    let ratio = sampled_ratio(&left, &sides[0], &places);
    let key = key(sample.columns(), sides[0].table.rows, ratio)?;
    // Assumes a foreign key: each row of the larger table joins one row of the smaller.
    let rows = sides.iter().map(|side| side.table.rows).max().unwrap_or(0);
    let mut columns = Vec::new();
    for side in &sides {
        columns.extend(scaled_to(&side.table.columns, side, rows));
    }
    let output = shape::result(rows, &columns, destination);
    calibrated.explain(task(Operator::Join { key, build: None }, sides, 0, output))
}

/// Returns the plan of an aggregation.
///
/// # Errors
/// Returns the errors of [`super::aggregate`]; also an error if a calibration lacks a measurement that the plan needs.
pub fn explain_aggregate(
    job: &Job,
    input: Input,
    aggregate: &Aggregate,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let (rows, aggregation) = bound(input, aggregate)?;
    explain_groups(job, &rows, &aggregation, destination, calibrated)
}

/// Returns the plan of TPC-H query 1.
///
/// # Errors
/// Returns the errors of [`super::q1`]; also an error if a calibration lacks a measurement that the plan needs.
pub fn explain_q1(
    job: &Job,
    table: Table,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let (rows, aggregation) = bound_q1(table)?;
    explain_groups(job, &rows, &aggregation, destination, calibrated)
}

fn explain_groups(
    job: &Job,
    rows: &Rows,
    aggregation: &Aggregation,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let mut shaped = calibrated.shaped(job, rows, 0)?;
    let places: Vec<usize> = (0..rows.schema().fields().len()).collect();
    let mut sample = rows.typed_sample(job, &places, KEY_SAMPLE_ROWS)?;
    if let Some(condition) = aggregation.condition() {
        let passing = condition.select(&sample)?;
        let passing_ratio = passing.true_count() as f64 / sample.num_rows().max(1) as f64;
        shaped.selected_ratio = shaped.of_scanned(passing_ratio);
        sample = filter_record_batch(&sample, &passing)?;
    }
    let keys = keys_of(aggregation, &sample)?;
    let groups = shape::groups(&keys, passing(&shaped), groups_max(rows, aggregation))?;
    let [table_bytes, record_bytes] = group_bytes(aggregation, &keys)?;
    let [sums, counts, others] = state_counts(aggregation, &sample)?;
    let states = StateShape { sums, counts, others };
    let size = GroupSize { table_bytes, record_bytes };
    let computed = |argument: &&Expression| argument.as_column().is_none();
    let arguments = aggregation.aggregates().iter().filter_map(|aggregate| aggregate.argument());
    let expressions = arguments.filter(computed).count() + usize::from(aggregation.condition().is_some());
    let operator = Operator::Aggregate { groups, size, key: key_shape(&keys), states };
    let mut columns = describe::columns(&aggregation.schema(), groups);
    columns.splice(..keys.len(), describe::sampled_columns(&keys, groups));
    let output = shape::result(groups, &columns, destination);
    calibrated.explain(task(operator, vec![shaped], rows.expressions() + expressions, output))
}

/// Returns the most groups that the bounds of integer keys allow.
fn groups_max(rows: &Rows, aggregation: &Aggregation) -> u64 {
    let of_key = |key: &Expression| {
        let column = key.as_column().filter(|_| !rows.is_projected())?;
        values_max(&rows.table().statistics(*rows.columns().get(column)?))
    };
    let sizes = aggregation.keys().iter().map(|key| of_key(key).unwrap_or(u64::MAX));
    sizes.fold(1, u64::saturating_mul)
}

/// Returns the number of integers or days within the bounds of a column, and null.
fn values_max(statistics: &ColumnStatistics) -> Option<u64> {
    let bound = |bound: &Option<ArrayRef>| {
        let bound = bound.as_ref()?;
        // Days are cast to 64 bits by way of 32.
        let bound = match bound.data_type() {
            DataType::Date32 => cast(bound, &DataType::Int32).ok()?,
            other if other.is_integer() => bound.clone(),
            _ => return None,
        };
        let bound = cast(&bound, &DataType::Int64).ok()?;
        bound.as_primitive_opt::<Int64Type>()?.iter().next()?
    };
    let (least, most) = (bound(&statistics.min)?, bound(&statistics.max)?);
    Some(most.abs_diff(least).saturating_add(2))
}

/// Returns the key of a group, by sampled values.
fn key_shape(keys: &[ArrayRef]) -> GroupKeyShape {
    if Direct::default().assign(keys, &mut Vec::new()) {
        return GroupKeyShape { texts: 0, codes: keys.len() as u64 };
    }
    let is_text = |key: &&ArrayRef| matches!(describe::sampled(key).0, ValueKind::Text | ValueKind::Code);
    GroupKeyShape { texts: keys.iter().filter(is_text).count() as u64, codes: 0 }
}

fn keys_of(aggregation: &Aggregation, sample: &RecordBatch) -> Result<Vec<ArrayRef>, Error> {
    aggregation.keys().iter().map(|key| Ok(key.evaluate(sample)?)).collect()
}

/// Estimated rows that pass the condition.
fn passing(shaped: &SampledTable) -> u64 {
    (shaped.table.rows as f64 * shaped.selected_ratio) as u64
}

fn task(
    operator: Operator,
    shaped: Vec<SampledTable>,
    expressions: usize,
    output: Option<crate::cost::TableShape>,
) -> Task {
    let selected_ratio = shaped.first().map_or(1.0, |first| first.selected_ratio);
    let tables = shaped.into_iter().map(|shaped| shaped.table).collect();
    let expressions = expressions as u64;
    Task { operator, tables, expressions, selected_ratio, projected: None, output }
}

#[cfg(test)]
mod tests;
