//! A pipeline and its snapshot for an interpreter in another engine. Pure.
//!
//! ```text
//! Plan ─────► job    the operators in their order: cells with types, expressions as trees, windows, keys, files, offsets
//! Snapshot ─► state  a line for each window, session and row of a join that is kept
//! ```
//!
//! Cells, units and defaults are resolved, so that the interpreter needs no rule of the description. An operator without
//! counterpart is refused by its name: the other engine would give other results.

mod job;
mod state;

use std::path::Path;

use sakiyomi_stream::Snapshot;

use crate::Error;
use crate::plan::Plan;

/// Version of both texts.
const EXPORT_VERSION: u32 = 1;

/// A pipeline and its state as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The operators, as an object of JSON.
    pub job: String,
    /// The state, an object of JSON a line; empty without a snapshot.
    pub state: String,
}

/// Exports a plan; relative paths are those below `base`.
///
/// # Errors
/// [`Error::Export`] names the first operator without counterpart, or one whose state is damaged.
pub(crate) fn export(plan: &Plan, snapshot: Option<&Snapshot>, base: &Path) -> Result<Export, Error> {
    let job = job::job(plan, snapshot, base)?;
    let mut job =
        serde_json::to_string_pretty(&job).map_err(|error| refused("the pipeline", &error.to_string()))?;
    job.push('\n');
    let state = snapshot.map(|snapshot| state::lines(plan, snapshot)).transpose()?.unwrap_or_default();
    Ok(Export { job, state })
}

fn refused(name: &str, reason: &str) -> Error {
    Error::Export { name: name.to_owned(), reason: reason.to_owned() }
}

/// Returns the saved state of an operator.
fn saved<'s>(snapshot: &'s Snapshot, name: &str) -> Option<&'s [u8]> {
    let operator = snapshot.operators.iter().find(|operator| operator.name == name)?;
    operator.state.as_deref()
}
