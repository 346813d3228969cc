//! SQL expressions over Arrow batches and single rows. Pure: no file, no clock, no thread.
//!
//! ```text
//! text ─► parse ─► bind to a schema ─┬─► evaluate on batches: Arrow's kernels
//!         limits   names, types,     ├─► evaluate on rows: row
//!                  constants folded  ├─► exact 64-bit arithmetic on batches: narrow
//!                                    ├─► groups of rows that a condition excludes: prune
//!                                    └─► trees for other engines: tree
//! ```
//!
//! [`calendar`] and [`mod@format`] serve crates that read or write values as text.
//!
//! - *Names* match columns exactly, or case-insensitively if only one column matches. `"Quoted"` names match exactly.
//! - *Operators*: `+ - * / %`, `||`, comparisons, `IS [NOT] DISTINCT FROM`, three-valued `AND OR NOT`, `IS [NOT]
//!   NULL|TRUE|FALSE`, `BETWEEN`, `IN (…)`, `[NOT] [I]LIKE`, `CASE`, `CAST`, `TRY_CAST`, `::`.
//! - *Functions*: coalesce, nullif, abs, ceil, floor, lower, upper, length, substring, trim, starts_with, ends_with,
//!   contains, `extract(year FROM date)`, date_part.
//! - *Result types* are listed in `types.rs`. A constant takes the type of the other operand: `'1998-09-02'` compared
//!   with a date is a date.
//! - *Errors*: overflow, division of an integer or decimal by zero, and a failed CAST end the query with an error that
//!   names the expression, as in PostgreSQL. AND, OR, CASE and coalesce evaluate their inputs from left to right and
//!   only as needed, so that `b <> 0 AND a / b > 1` is safe.
//! - *Floats* compare as in PostgreSQL: NaN equals NaN and is greater than every number; -0 equals 0.
//! - *Casts* follow PostgreSQL: to integers, floats are rounded half to even and decimals half away from zero; decimals
//!   are rounded to fewer places; a string that is not an integer, such as `'1.5'`, is not cast to one. Timestamps lose
//!   the digits that a coarser unit does not have, where PostgreSQL rounds them.
//! - *Constants* keep their digits: `price = '1.555'` is false for each price of two decimal places, and `at =
//!   '2000-01-01 00:00:00.5'` for each time in seconds. As in PostgreSQL, strings beside times are rounded half to even
//!   to microseconds; beside nanoseconds, to these. `TIMESTAMP '…'` with more than six digits has nanoseconds if they
//!   can be had in its year, and else is rounded; `TIMESTAMP(6) '…'` is always rounded.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

pub mod calendar;
pub mod columns;
pub mod format;
pub mod narrow;
pub mod prune;
pub mod row;
pub mod tree;

mod bind;
mod bound;
mod call;
mod constant;
mod convert;
mod error;
mod evaluate;
mod literal;
mod node;
mod parse;
mod print;
mod projection;
mod types;
mod values;

#[cfg(test)]
mod tests;

pub use bound::Expression;
pub use error::Error;
pub use parse::shortened;
pub use projection::Projection;
