//! NEXMark on `sakiyomi-stream` and on timely dataflow: the same queries over the same events at the same times.
//!
//! ```text
//! Pool ─► Feed ─┬─► operators: stream on workers ─┬─► rows, latencies, CPU time ─► compare ─► table
//!  events times └─► dataflow: timely's workers ───┘
//! ```
//!
//! | file | what |
//! |---|---|
//! | `event.rs` | events, generated once and repeated; their times |
//! | `query.rs` | statements, conditions and rows of the queries |
//! | `operators.rs`, `dataflow.rs`, `dataflow/` | the queries on both engines |
//! | `reference.rs` | the same by plain loops |
//! | `load.rs` | a run: load, pace, measurements |
//! | `compare.rs`, `records.rs` | interleaved runs and their medians; TOML against Rust |
//! | `table.rs` | the result as text |

pub mod compare;
pub mod dataflow;
pub mod event;
pub mod load;
pub mod operators;
pub mod query;
pub mod records;
pub mod reference;
pub mod table;
