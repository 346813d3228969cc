//! `join`: rows of two tables with equal keys.

use std::collections::BTreeSet;

use arrow_schema::SchemaRef;

use crate::cost::Plan;
use crate::join::{
    Condition, JoinInput, JoinKind, JoinMethod, Joined, OpenStreams, schema_with_types, sources,
};
use crate::sort::SortOptions;
use crate::table::Table;
use crate::transform::{Transform, needed};
use crate::{Batches, Error, Job};
use sakiyomi_expression::{Expression, Projection};

use super::Outcome;
use super::rows::{Input, Rows};
use super::sink::{Destination, Sink};
use super::spread::spread;
use crate::workers;

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
    /// The method; by default a hash join if the smaller table takes little memory ([`JoinMethod::choose`]).
    pub method: Option<JoinMethod>,
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
    let Bound { mut left, mut right, condition, filter, select, result } = bound(left, right, join)?;
    // Rows of consecutive pairs are slices of what was read.
    let sink = Sink::open(job, &result, destination)?.shared();
    let progress = job.progress();
    progress.begin("reading");
    for side in [&mut left, &mut right].into_iter().filter(|side| side.is_stream()) {
        side.spool(job)?;
    }
    progress.expect(left.scanned_rows().unwrap_or(0).saturating_add(right.scanned_rows().unwrap_or(0)));
    let (method, [left_input, right_input]) = inputs(job, [&left, &right], &condition, (join, plan))?;
    let joined = crate::join::join(job, left_input, right_input, &condition, join.kind, method)?;
    give_out(job, joined, (filter, select), &sink)?;
    Ok(Outcome::of(job, &[&left, &right], sink.finish()?))
}

/// Both sides of a join, and its expressions.
pub(super) struct Bound {
    pub(super) left: Rows,
    pub(super) right: Rows,
    pub(super) condition: Condition,
    filter: Option<Expression>,
    select: Option<Projection>,
    /// Names and types of the result as stored in files.
    result: SchemaRef,
}

/// Binds a join to its tables. Columns that neither its pairs nor its result need are not read.
pub(super) fn bound(left: Table, right: Table, join: &Join) -> Result<Bound, Error> {
    let (mut left, mut right) = (Rows::bind(Input::all(left), true)?, Rows::bind(Input::all(right), true)?);
    let condition = Condition::parse(&join.on, &left.schema(), &right.schema())?;
    let schema = crate::join::schema(&left.schema(), &right.schema(), &condition, join.kind);
    let (sides, stored) =
        ([&*left.schema(), &right.schema()], [&*left.stored_schema(), &right.stored_schema()]);
    let stored = schema_with_types(sides, &condition, join.kind, stored);
    let filter = join.filter.as_ref().map(|text| Expression::condition(text, &schema)).transpose()?;
    let select = join.select.as_ref().map(|text| Projection::parse(text, &schema)).transpose()?;
    let result = select.as_ref().map_or(stored, Projection::schema);

    let sources = sources(sides, &condition, join.kind);
    let mut kept = [BTreeSet::from_iter(condition.left()), BTreeSet::from_iter(condition.right())];
    for column in needed(filter.as_ref(), select.as_ref(), sources.len()) {
        kept.iter_mut().zip(sources[column]).for_each(|(kept, source)| kept.extend(source));
    }
    let is_kept = |column: &usize| {
        let mut of_sides = sources[*column].iter().zip(&kept);
        of_sides.all(|(source, kept)| source.is_none_or(|source| kept.contains(&source)))
    };
    let joined: Vec<usize> = (0..sources.len()).filter(is_kept).collect();
    let [left_kept, right_kept] = kept.map(Vec::from_iter);
    left.keep(&left_kept);
    right.keep(&right_kept);
    // The names of a side stay, so that the pairs are the same at other places.
    let condition = Condition::parse(&join.on, &left.schema(), &right.schema())?;
    let filter = filter.map(|filter| filter.onto(&joined));
    let select = select.map(|select| select.onto(&joined));
    Ok(Bound { left, right, condition, filter, select, result })
}

/// Both inputs, and the method: that of the caller, of a plan, or of a rule.
fn inputs<'a>(
    job: &Job,
    [left, right]: [&'a Rows; 2],
    condition: &Condition,
    (join, plan): (&Join, Option<&Plan>),
) -> Result<(JoinMethod, [JoinInput<'a>; 2]), Error> {
    let size = |rows: &Rows| rows.expected_bytes().zip(rows.scanned_rows());
    let planned =
        plan.map(Plan::join_options).filter(|(method, _)| join.method.is_none_or(|asked| asked == *method));
    let is_planned = planned.is_some();
    let (method, [left_sort, right_sort]) = planned.unwrap_or_else(|| {
        let method = join.method.unwrap_or_else(|| JoinMethod::choose(job, size(left), size(right)));
        (method, Default::default())
    });
    let samples = match plan.filter(|_| is_planned) {
        Some(plan) => plan.samples_sides(),
        None => [method == JoinMethod::Merge; 2],
    };
    let left = input(&job.side("left"), left, &condition.left(), left_sort, samples[0])?;
    let right = input(&job.side("right"), right, &condition.right(), right_sort, samples[1])?;
    Ok((method, [left, right]))
}

/// Returns an input to be divided, sorted or hashed.
fn input<'a>(
    job: &Job,
    rows: &'a Rows,
    keys: &[usize],
    sort: SortOptions,
    is_sampled: bool,
) -> Result<JoinInput<'a>, Error> {
    let sort = SortOptions {
        sample: is_sampled.then(|| rows.splitter_sample(job, keys)).transpose()?,
        expected_bytes: sort.expected_bytes.or_else(|| rows.expected_bytes()),
        expected_rows: sort.expected_rows.or_else(|| rows.scanned_rows()),
        ..sort
    };
    let open: OpenStreams<'a> = Box::new(|job| rows.streams(job, job.options().threads, false));
    Ok(JoinInput { schema: rows.schema(), open, is_sorted: false, sort })
}

/// Writes joined rows to a sink, on all threads.
fn give_out(
    job: &Job,
    joined: Joined,
    (filter, select): (Option<Expression>, Option<Projection>),
    sink: &Sink,
) -> Result<(), Error> {
    if !joined.is_parallel() {
        return spread(job, &mut Transform::new(joined.into_batches(), filter, select), sink);
    }
    let handles = vec![joined; job.options().threads.max(1)];
    workers::each(job, handles, |_, joined| {
        while let Some((number, rows)) = joined.next_part()? {
            let mut rows = Transform::new(rows, filter.clone(), select.clone());
            let mut part = if joined.is_ordered() { sink.part(number) } else { sink.unordered() };
            while let Some(batch) = rows.next()? {
                part.push(batch)?;
            }
            // Frees the memory of the part before the next one is taken.
            drop(rows);
            part.finish()?;
        }
        Ok(())
    })?;
    Ok(())
}
