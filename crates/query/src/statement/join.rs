//! `join`: rows of two tables with equal keys.

use std::sync::Arc;

use arrow_schema::{Field, Schema, SchemaRef, SortOptions as Direction};

use crate::batches::InMemory;
use crate::expression::{Expression, Projection, Transform};
use crate::join::{COLLISION_SUFFIX, Condition, JoinKind, MergeJoin};
use crate::order::SortKey;
use crate::sort::{SAMPLE_ROWS, SortOptions, Sorted};
use crate::table::Table;
use crate::{Batches, Error, Job};

use super::Outcome;
use super::rows::{Input, Rows};
use super::sink::{Destination, Sink};

/// A join.
#[derive(Clone, Debug)]
pub struct Join {
    /// Pairs of columns: [`Condition::parse`].
    pub on: String,
    /// Rows to keep.
    pub kind: JoinKind,
    /// A condition on joined rows.
    pub filter: Option<String>,
    /// Expressions that replace the columns of joined rows.
    pub select: Option<String>,
}

/// Of the job's buffers, the part that the sort of each side takes: both hold their rows at the same time.
const SIDE_MEMORY_PARTS: usize = 3;

/// Joins two tables into a file.
///
/// # Errors
/// [`Error::Query`] if a column or expression does not fit; and whatever reading, spilling and writing meet.
pub fn join(
    job: &Job,
    left: Table,
    right: Table,
    join: &Join,
    destination: &Destination,
) -> Result<Outcome, Error> {
    let (left, right) = (Rows::bind(Input::all(left), true)?, Rows::bind(Input::all(right), true)?);
    let condition = Condition::parse(&join.on, &left.schema(), &right.schema())?;
    // The schema of the result is known before the work is done.
    let joined = |left: Box<dyn Batches>, right: Box<dyn Batches>| {
        let order = vec![ASCENDING; condition.pairs.len()];
        MergeJoin::new(job, left, right, &condition, &order, join.kind)
    };
    let empty = |rows: &Rows| Box::new(InMemory::new(rows.schema(), Vec::new())) as Box<dyn Batches>;
    let schema = joined(empty(&left), empty(&right))?.schema();
    let stored = stored(&schema, &left.stored_schema(), &right.stored_schema());
    let filter = join.filter.as_ref().map(|text| Expression::condition(text, &schema)).transpose()?;
    let select = join.select.as_ref().map(|text| Projection::parse(text, &schema)).transpose()?;
    let result = select.as_ref().map_or(stored, Projection::schema);
    let sink = Sink::open(job, &result, destination)?;
    let progress = job.progress();
    progress.expect(left.table_rows().unwrap_or(0) + right.table_rows().unwrap_or(0));
    let (lefts, rights) = condition.pairs.iter().map(|pair| (key(pair.left), key(pair.right))).unzip();
    progress.begin("sorting the left table");
    let left_sorted = sorted(job, &left, lefts)?;
    progress.begin("sorting the right table");
    let right_sorted = sorted(job, &right, rights)?;
    progress.begin("joining");
    let rows = joined(Box::new(left_sorted.into_batches()), Box::new(right_sorted.into_batches()))?;
    let mut rows = Transform::new(rows, filter, select);
    let mut part = sink.part(0);
    while let Some(batch) = rows.next()? {
        part.push(batch)?;
    }
    part.finish()?;
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

/// The order of both sides.
const ASCENDING: Direction = Direction { descending: false, nulls_first: false };

fn key(column: usize) -> SortKey {
    SortKey { column, options: ASCENDING }
}

fn sorted(job: &Job, rows: &Rows, keys: Vec<SortKey>) -> Result<Sorted, Error> {
    let columns: Vec<usize> = keys.iter().map(|key| key.column).collect();
    let memory = Some(job.io().pool().budget() / SIDE_MEMORY_PARTS);
    let sample = Some(rows.sample(job, &columns, SAMPLE_ROWS)?);
    let options = SortOptions { sample, memory, ..SortOptions::default() };
    crate::sort::sort(job, rows.streams(job, job.options().threads, false)?, &keys, &options)
}

/// The columns of joined rows with the types of the files that they come from.
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
