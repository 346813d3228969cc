//! The order of rows: columns, directions, and where nulls go.

use arrow_schema::{Schema, SortOptions};

use crate::Error;

/// A column that rows are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Its place in the schema.
    pub column: usize,
    /// The direction, and whether nulls come first.
    pub options: SortOptions,
}

/// Reads `NAME[:asc|:desc][:nulls-first|:nulls-last],…` against a schema. Nulls come last unless it says otherwise, and
/// NaN after all numbers; `desc` turns the order of values round, and leaves nulls where they are.
///
/// # Errors
/// [`Error::Query`] if a column is not in the schema or its type has no order.
pub fn parse(text: &str, schema: &Schema) -> Result<Vec<SortKey>, Error> {
    let _ = (text, schema);
    unimplemented!("order")
}
