//! The shape of a row between operators, by which the cost of moving it is known.

use serde::Serialize;

/// The values of a row between operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RowShape {
    /// Number of values of fixed width.
    pub values: f64,
    /// Number of texts.
    pub texts: f64,
    /// Bytes of the texts.
    pub text_bytes: f64,
    /// Bytes of the packed row.
    pub bytes: f64,
}
