//! The plan of a statement with its predicted times, and the rejected plans.

use arrow_array::{ArrayRef, RecordBatch};

use crate::aggregate::Aggregation;
use crate::cost::{Explanation, Limits, Model, Operator, OperatorCosts, Storage, Task};
use crate::describe;
use crate::expression::Expression;
use crate::join::Condition;
use crate::order;
use crate::table::Table;
use crate::{Error, Job};

use super::aggregate::{Aggregate, bound, bound_q1};
use super::join::Join;
use super::rows::{Input, Rows};
use super::shape::{self, Shaped};
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
    fn explain(self, task: &Task) -> Result<Explanation, Error> {
        let model = Model { storage: self.storage, operators: self.operators, limits: self.limits };
        Ok(Explanation::new(task, model.choose(task)?))
    }

    fn shaped(&self, job: &Job, rows: &Rows, table: usize) -> Result<Shaped, Error> {
        shape::table(job, rows, self.cached_ratios.get(table).copied().unwrap_or_default())
    }
}

/// The plan of a sort.
///
/// # Errors
/// As [`super::sort`]; also if a calibration lacks a measurement that the plan needs.
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
    let keys = rows.sample(job, &places, shaped.sample.num_rows().max(1))?;
    let all: Vec<usize> = (0..places.len()).collect();
    let operator =
        Operator::Sort { key: shape::key(&keys, &all)?, limit_rows: sort.limit, is_stable: sort.stable };
    let taken = taken(&shaped).min(sort.limit.unwrap_or(u64::MAX));
    let output = shape::result(taken, &shaped.table.columns, destination);
    calibrated.explain(&task(operator, vec![shaped], rows.expressions(), output))
}

/// The plan of a join.
///
/// # Errors
/// As [`super::join`]; also if a calibration lacks a measurement that the plan needs.
pub fn explain_join(
    job: &Job,
    left: Table,
    right: Table,
    join: &Join,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let (left, right) = (Rows::bind(Input::all(left), true)?, Rows::bind(Input::all(right), true)?);
    let condition = Condition::parse(&join.on, &left.schema(), &right.schema())?;
    let sides = vec![calibrated.shaped(job, &left, 0)?, calibrated.shaped(job, &right, 1)?];
    let key = shape::key(&sides[0].sample, &condition.left())?;
    // Assumes a foreign key: each row of the larger table joins one row of the smaller.
    let rows = sides.iter().map(|side| side.table.rows).max().unwrap_or(0);
    let mut columns = Vec::new();
    for side in &sides {
        let growth = rows as f64 / side.table.rows.max(1) as f64;
        columns.extend(side.table.columns.iter().map(|column| crate::cost::ColumnShape {
            file_bytes: (column.file_bytes as f64 * growth) as u64,
            encoded_bytes: (column.encoded_bytes as f64 * growth) as u64,
            ..*column
        }));
    }
    let output = shape::result(rows, &columns, destination);
    calibrated.explain(&task(Operator::Join { key, build: None }, sides, 0, output))
}

/// The plan of an aggregation.
///
/// # Errors
/// As [`super::aggregate`]; also if a calibration lacks a measurement that the plan needs.
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

/// The plan of TPC-H query 1.
///
/// # Errors
/// As [`super::q1`]; also if a calibration lacks a measurement that the plan needs.
pub fn explain_q1(
    job: &Job,
    table: Table,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let (rows, aggregation) = bound_q1(table)?;
    explain_groups(job, &rows, &aggregation, destination, calibrated)
}

/// Bytes of the state of an aggregate: a 128-bit sum.
const STATE_BYTES: f64 = 16.0;

fn explain_groups(
    job: &Job,
    rows: &Rows,
    aggregation: &Aggregation,
    destination: &Destination,
    calibrated: Calibrated<'_>,
) -> Result<Explanation, Error> {
    let mut shaped = calibrated.shaped(job, rows, 0)?;
    // Without expressions, the keys are evaluated on the scanned columns.
    let keys = match rows.expressions() {
        0 => keys_of(aggregation, &shaped.sample)?,
        _ => Vec::new(),
    };
    if let Some(condition) = aggregation.condition() {
        let passing = condition.select(&shaped.sample)?.true_count();
        let passing_ratio = passing as f64 / shaped.sample.num_rows().max(1) as f64;
        shaped.selected_ratio = shaped.of_scanned(passing_ratio);
    }
    let groups = shape::groups(&keys, taken(&shaped))?;
    let aggregates = aggregation.aggregates().len() as u64;
    let key_bytes: usize = keys.iter().map(|key| key.get_array_memory_size() / key.len().max(1)).sum();
    let group_bytes = key_bytes as f64 + aggregates as f64 * STATE_BYTES;
    let computed = |argument: &&Expression| argument.as_column().is_none();
    let arguments = aggregation.aggregates().iter().filter_map(|aggregate| aggregate.argument());
    let expressions = arguments.filter(computed).count() + usize::from(aggregation.condition().is_some());
    let operator = Operator::Aggregate { groups, group_bytes, aggregates };
    let columns = describe::columns(&aggregation.schema(), groups);
    let output = shape::result(groups, &columns, destination);
    calibrated.explain(&task(operator, vec![shaped], rows.expressions() + expressions, output))
}

fn keys_of(aggregation: &Aggregation, sample: &RecordBatch) -> Result<Vec<ArrayRef>, Error> {
    aggregation.keys().iter().map(|key| key.evaluate(sample)).collect()
}

/// Estimated rows that pass the condition.
fn taken(shaped: &Shaped) -> u64 {
    (shaped.table.rows as f64 * shaped.selected_ratio) as u64
}

fn task(
    operator: Operator,
    shaped: Vec<Shaped>,
    expressions: usize,
    output: Option<crate::cost::TableShape>,
) -> Task {
    let selected_ratio = shaped.first().map_or(1.0, |first| first.selected_ratio);
    let tables = shaped.into_iter().map(|shaped| shaped.table).collect();
    Task { operator, tables, expressions: expressions as u64, selected_ratio, output }
}
