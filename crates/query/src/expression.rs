//! `--where` and `--select`: SQL expressions over batches. Pure: no file, no clock, no thread.
//!
//! ```text
//! text ─► parse ─► bind to a schema ─► evaluate on batches
//!         limits   names, types,       Arrow's kernels
//!                  constants folded
//! ```
//!
//! - *Names* are those of the columns: exactly, or but for capital letters if only one column is meant; in `"quotes"`
//!   exactly.
//! - *Operators*: `+ - * / %`, `||`, comparisons, `IS [NOT] DISTINCT FROM`, `AND OR NOT` with three values, `IS [NOT]
//!   NULL|TRUE|FALSE`, `BETWEEN`, `IN (…)`, `[NOT] [I]LIKE`, `CASE`, `CAST`, `TRY_CAST`, `::`.
//! - *Functions*: coalesce, nullif, abs, ceil, floor, lower, upper, length, substring, trim, starts_with, ends_with,
//!   contains, `extract(year FROM date)`, date_part.
//! - *Types of results* are in the table of `types.rs`. A constant takes the type of what stands beside it: `'1998-09-02'`
//!   beside a date is a date.
//! - *Errors*: a result that overflows, an integer or decimal that is divided by zero, and a value that CAST cannot
//!   convert end the query with an error that names the expression, as in PostgreSQL. AND, OR, CASE and coalesce
//!   compute only what they need, from left to right, so that `b <> 0 AND a / b > 1` is safe.
//! - *Floats* compare as in PostgreSQL: NaN equals NaN and is greater than every number; -0 equals 0.
//! - *Casts* of floats and decimals to integers cut off the fraction (floats) or round half away from zero (decimals),
//!   as Arrow does.

mod bind;
mod bound;
mod call;
mod constant;
mod convert;
mod evaluate;
mod literal;
pub(crate) mod narrow;
mod node;
mod parse;
mod print;
mod projection;
mod transform;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use bound::Expression;
pub use projection::Projection;
pub use transform::{Transform, needed};
