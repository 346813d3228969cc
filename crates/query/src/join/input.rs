//! The sides of a join.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef, SortOptions as Direction};

use crate::batches::InMemory;
use crate::order::SortKey;
use crate::sort::SortOptions;
use crate::{Batches, Error, Job};

/// Sort direction of both sides.
pub(super) const KEY_DIRECTION: Direction = Direction { descending: false, nulls_first: false };

/// Names of the sides in phases.
pub(super) const SIDE_NAMES: [&str; 2] = ["left", "right"];

/// Starts the streams of a side.
pub type OpenStreams<'a> = Box<dyn FnOnce(&Job) -> Result<Vec<Box<dyn Batches>>, Error> + 'a>;

/// A side of a join.
pub struct JoinInput<'a> {
    /// Names and types of its columns.
    pub schema: SchemaRef,
    /// Starts streams of its rows, at least one, which are read concurrently. Called when the join begins to read the
    /// side, with the job that its phases belong to.
    pub open: OpenStreams<'a>,
    /// Whether there is a single stream, whose rows ascend by the key columns in the order of the condition.
    pub is_sorted: bool,
    /// Options of its sort, if it needs one. The sample has the key columns in the order of the condition.
    pub sort: SortOptions,
}

impl JoinInput<'static> {
    /// Creates an input of streams; there is at least one.
    #[must_use]
    pub fn of_streams(
        streams: Vec<Box<dyn Batches>>,
        is_sorted: bool,
        sort: SortOptions,
    ) -> JoinInput<'static> {
        let schema = streams.first().map_or_else(|| Arc::new(Schema::empty()), |stream| stream.schema());
        JoinInput { schema, open: Box::new(|_| Ok(streams)), is_sorted, sort }
    }

    /// Creates an input without rows.
    #[must_use]
    pub fn empty(schema: SchemaRef) -> JoinInput<'static> {
        let stream: Box<dyn Batches> = Box::new(InMemory::new(schema, Vec::new()));
        JoinInput::of_streams(vec![stream], true, SortOptions::default())
    }
}

/// Returns sort keys of columns.
pub(super) fn sort_keys(places: &[usize]) -> Vec<SortKey> {
    places.iter().map(|&column| SortKey { column, options: KEY_DIRECTION }).collect()
}
