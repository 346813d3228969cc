//! Errors of this crate: the fault, its place, and a remedy.

use arrow_schema::ArrowError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An expression or a name does not fit the schema, or a value cannot be computed.
    #[error("{0}")]
    Expression(String),
    /// A kernel of Arrow failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}
