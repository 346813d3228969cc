//! `join`: rows of two tables with equal keys.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef};

use crate::batches::InMemory;
use crate::cost::Plan;
use crate::expression::{Expression, Projection, Transform};
use crate::join::{COLLISION_SUFFIX, Condition, JoinInput, JoinKind, JoinMethod};
use crate::sort::{SAMPLE_ROWS, SortOptions};
use crate::table::Table;
use crate::{Batches, Error, Job};

use super::Outcome;
use super::rows::{Input, Rows};
use super::sink::{Destination, Sink};
use super::spread::spread;

/// A join.
#[derive(Clone, Debug)]
pub struct Join {
    /// Pairs of columns; see [`Condition::parse`].
    pub on: String,
    /// Rows to keep.
    pub kind: JoinKind,
    /// A condition on joined rows.
    pub filter: Option<String>,
    /// Expressions that replace the columns of joined rows.
    pub select: Option<String>,
}

/// Joins two tables into a file, as a plan says or by sorting both.
///
/// # Errors
/// [`Error::Query`] if a column or expression does not fit; errors of reading, spilling and writing.
pub fn join(
    job: &Job,
    left: Table,
    right: Table,
    join: &Join,
    destination: &Destination,
    plan: Option<&Plan>,
) -> Result<Outcome, Error> {
    let (mut left, mut right) = (Rows::bind(Input::all(left), true)?, Rows::bind(Input::all(right), true)?);
    let condition = Condition::parse(&join.on, &left.schema(), &right.schema())?;
    // A join of empty inputs gives the schema of the result before any work.
    let empty = |rows: &Rows| {
        let streams: Vec<Box<dyn Batches>> = vec![Box::new(InMemory::new(rows.schema(), Vec::new()))];
        JoinInput { streams, is_sorted: true, sort: SortOptions::default() }
    };
    let nothing =
        crate::join::join(job, empty(&left), empty(&right), &condition, join.kind, JoinMethod::Merge)?;
    let schema = nothing.schema();
    drop(nothing);
    let stored = stored(&schema, &left.stored_schema(), &right.stored_schema());
    let filter = join.filter.as_ref().map(|text| Expression::condition(text, &schema)).transpose()?;
    let select = join.select.as_ref().map(|text| Projection::parse(text, &schema)).transpose()?;
    let result = select.as_ref().map_or(stored, Projection::schema);
    let sink = Sink::open(job, &result, destination)?;
    let progress = job.progress();
    progress.begin("reading");
    for side in [&mut left, &mut right].into_iter().filter(|side| side.is_stream()) {
        side.spool()?;
    }
    progress.expect(left.scanned_rows().unwrap_or(0) + right.scanned_rows().unwrap_or(0));
    let (method, [left_input, right_input]) = inputs(job, [&left, &right], &condition, plan)?;
    let rows = crate::join::join(job, left_input, right_input, &condition, join.kind, method)?;
    spread(job, &mut Transform::new(rows, filter, select), &sink)?;
    let received = sink.finish()?;
    Ok(Outcome {
        input_rows: left.rows_read() + right.rows_read(),
        output_rows: received.rows,
        read_bytes: left.bytes() + right.bytes(),
        output_bytes: received.bytes,
        preview: received.preview,
        ..Outcome::default()
    })
}

/// Both inputs, and the method of a plan; they are sorted without one.
fn inputs(
    job: &Job,
    [left, right]: [&Rows; 2],
    condition: &Condition,
    plan: Option<&Plan>,
) -> Result<(JoinMethod, [JoinInput; 2]), Error> {
    let (method, sorts) = plan.map_or((JoinMethod::Merge, Default::default()), Plan::join_options);
    let samples = plan.map_or([true; 2], Plan::samples_sides);
    let [left_sort, right_sort] = sorts;
    let left = input(job, left, &condition.left(), left_sort, samples[0])?;
    let right = input(job, right, &condition.right(), right_sort, samples[1])?;
    Ok((method, [left, right]))
}

/// An input to be sorted.
fn input(
    job: &Job,
    rows: &Rows,
    keys: &[usize],
    sort: SortOptions,
    is_sampled: bool,
) -> Result<JoinInput, Error> {
    let sample = is_sampled.then(|| rows.sample(job, keys, SAMPLE_ROWS)).transpose()?;
    let sort = SortOptions { sample, ..sort };
    Ok(JoinInput { streams: rows.streams(job, job.options().threads, false)?, is_sorted: false, sort })
}

/// The columns of joined rows with the types of their source files.
fn stored(joined: &Schema, left: &Schema, right: &Schema) -> SchemaRef {
    let field = |(place, field): (usize, &Arc<Field>)| {
        let name = field.name().as_str();
        let original = name.strip_suffix(COLLISION_SUFFIX).unwrap_or(name);
        let source = if place < left.fields().len() {
            Some(left.field(place))
        } else {
            right.field_with_name(name).or_else(|_| right.field_with_name(original)).ok()
        };
        let data_type = source.map_or(field.data_type(), Field::data_type).clone();
        field.as_ref().clone().with_data_type(data_type)
    };
    let fields: Vec<Field> = joined.fields().iter().enumerate().map(field).collect();
    Arc::new(Schema::new(fields))
}
