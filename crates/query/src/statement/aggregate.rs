//! `aggregate` and `q1`: groups of rows.

use arrow_schema::Schema;

use crate::aggregate::{self, Aggregation, Function};
use crate::table::Table;
use crate::{Batches, Error, Job};
use sakiyomi_expression::Expression;

use super::Outcome;
use super::rows::{Input, Rows};
use super::sink::{Destination, Sink};
use crate::workers;

/// A grouping and its aggregate functions.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Group-by expressions; without them all rows are one group.
    pub by: Option<String>,
    /// Functions with their arguments, comma-separated expressions.
    pub functions: Vec<(Function, String)>,
    /// Whether rows are counted.
    pub count: bool,
}

/// Aggregates a table into a file. A small number of groups is written in key order: see [`crate::aggregate`].
///
/// # Errors
/// [`Error::Query`] if a column or expression does not fit; errors of reading, spilling and writing.
pub fn aggregate(
    job: &Job,
    input: Input,
    aggregate: &Aggregate,
    destination: &Destination,
) -> Result<Outcome, Error> {
    let (rows, aggregation) = bound(input, aggregate)?;
    run(job, &rows, aggregation, destination)
}

/// Binds an aggregation: its input rows, reduced to the columns that it uses, and the aggregation over them.
pub(super) fn bound(input: Input, aggregate: &Aggregate) -> Result<(Rows, Aggregation), Error> {
    // A condition on unprojected rows is evaluated together with the aggregates.
    let (input, condition) = match &input.select {
        None => (Input { filter: None, ..input }, input.filter),
        Some(_) => (input, None),
    };
    let is_projected = input.select.is_some();
    let mut rows = Rows::bind(input, true)?;
    let schema = rows.schema();
    let condition = condition.map(|text| Expression::condition(&text, &schema)).transpose()?;
    let mut aggregation = bind(aggregate, condition, &schema)?;
    if !is_projected {
        let columns = aggregation.columns();
        rows.keep(&columns);
        aggregation = aggregation.onto(&columns);
        rows.skip_by(aggregation.condition());
    }
    Ok((rows, aggregation))
}

/// Runs TPC-H query 1 on LINEITEM.
///
/// # Errors
/// Returns the errors of [`aggregate()`].
pub fn q1(job: &Job, table: Table, destination: &Destination) -> Result<Outcome, Error> {
    let (rows, aggregation) = bound_q1(table)?;
    run(job, &rows, aggregation, destination)
}

/// Like [`bound`], for query 1.
pub(super) fn bound_q1(table: Table) -> Result<(Rows, Aggregation), Error> {
    let mut rows = Rows::bind(Input::all(table), true)?;
    let aggregation = aggregate::q1::aggregation(&rows.schema())?;
    let columns = aggregation.columns();
    rows.keep(&columns);
    let aggregation = aggregation.onto(&columns);
    rows.skip_by(aggregation.condition());
    Ok((rows, aggregation))
}

fn bind(aggregate: &Aggregate, condition: Option<Expression>, schema: &Schema) -> Result<Aggregation, Error> {
    let keys = Aggregation::parse_keys(aggregate.by.as_deref().unwrap_or_default(), schema)?;
    let mut aggregates = Vec::new();
    for (function, list) in &aggregate.functions {
        for expression in separate(list) {
            aggregates.push(aggregate::Aggregate::parse(*function, expression, schema)?);
        }
    }
    aggregates.extend(aggregate.count.then(aggregate::Aggregate::rows));
    Aggregation::new(keys, aggregates, condition, schema)
}

/// Splits a list at commas outside of brackets and quotes.
fn separate(list: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0u32, None);
    for (at, c) in list.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            (None, _) => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

fn run(
    job: &Job,
    rows: &Rows,
    aggregation: Aggregation,
    destination: &Destination,
) -> Result<Outcome, Error> {
    let sink = Sink::open(job, &aggregation.schema(), destination)?;
    let progress = job.progress();
    progress.begin("grouping");
    progress.expect(rows.scanned_rows().unwrap_or(0));
    let plan = vec![aggregation.to_string()];
    let threads = job.options().threads;
    let aggregated = aggregate::aggregate(job, aggregation, rows.streams(job, threads, false)?)?;
    progress.begin("writing");
    let give_out = |index: usize, mut stream: Box<dyn Batches>, is_sorted: bool| {
        let mut part = if is_sorted { sink.part(index) } else { sink.unordered() };
        while let Some(batch) = stream.next()? {
            part.push(batch)?;
        }
        part.finish()
    };
    let is_sorted = aggregated.is_sorted();
    let streams = if is_sorted { vec![aggregated.into_stream()] } else { aggregated.into_streams(threads) };
    workers::each(job, streams, |index, stream| give_out(index, stream, is_sorted))?;
    Ok(Outcome { plan, ..Outcome::of(job, &[rows], sink.finish()?) })
}

#[cfg(test)]
mod tests {
    use super::separate;

    #[test]
    fn commas_in_brackets_and_quotes_separate_nothing() {
        assert_eq!(separate("a"), ["a"]);
        assert_eq!(separate("a, coalesce(b, 0),\"c,d\""), ["a", " coalesce(b, 0)", "\"c,d\""]);
        assert_eq!(separate("'it''s, so', x)"), ["'it''s, so'", " x)"]);
        assert_eq!(separate(""), [""]);
    }
}
