//! `query calibrate`: the CPU costs of operators on this machine, measured in some ten seconds without a file.
//!
//! The data is generated here, from seeds and schemas of its own, and no tested table is ever looked at: a prediction
//! is worth something only if its constants come from elsewhere. Each cost is the median of repeated runs on one
//! thread, as CPU time, so that other programs disturb it less; costs that depend on a working set are measured with
//! sizes inside and outside of the caches.
//!
//! | file | subject |
//! |---|---|
//! | `measure` | medians of CPU time |
//! | `data` | generated columns |
//! | `formats` | decoding, encoding, compression |
//! | `rows` | scattering, sorting, gathering, merging packed rows: by [`crate::sort`] |
//! | `tables` | groups and joins: by [`crate::aggregate`], [`crate::join`]; expressions, filters |
//! | `memory` | fresh memory; threads that slow each other down |
//! | `file` | the result as JSON |

mod data;
mod file;
mod formats;
mod measure;
mod memory;
mod rows;
mod tables;

use sakiyomi_probe::calibration::Machine;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::cost::operators::OperatorCosts;

pub use file::{LoadError, default_path};
pub use measure::Effort;

/// The name and version of the file's contents.
pub const SCHEMA: &str = "sakiyomi.operator-costs/1";

/// CPU costs of operators, and the machine that they hold for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorCalibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// When it was measured, in seconds since 1970.
    pub measured_unix_s: u64,
    /// The machine that it was measured on.
    pub machine: Machine,
    /// The costs.
    pub operators: OperatorCosts,
}

/// The groups of costs, in the order in which they are measured, for a display of progress.
pub const GROUPS: [&str; 4] = ["formats", "rows", "tables", "memory"];

/// Measures the costs of operators on this machine. `begins` is called with each of [`GROUPS`] before it is measured,
/// and ends the measurement if it returns false.
///
/// # Errors
/// [`Error::Cancelled`], or if there is not enough memory (256 MiB).
pub fn calibrate(
    measured_unix_s: u64,
    effort: Effort,
    begins: &mut dyn FnMut(&'static str) -> bool,
) -> Result<OperatorCalibration, Error> {
    let mut begin = |group| if begins(group) { Ok(()) } else { Err(Error::Cancelled) };
    begin(GROUPS[0])?;
    let formats = formats::measure(effort)?;
    begin(GROUPS[1])?;
    let rows = rows::measure(effort)?;
    begin(GROUPS[2])?;
    let tables = tables::measure(effort)?;
    begin(GROUPS[3])?;
    let memory = memory::measure(effort)?;
    let operators = OperatorCosts {
        decode: formats.decode,
        encode: formats.encode,
        codecs: formats.codecs,
        scatter: rows.scatter,
        radix_sort_ns_per_row: rows.radix_sort,
        comparison_ns: rows.comparison_ns,
        gather: rows.gather,
        merge_ns_per_row: rows.merge,
        merge_join_ns_per_row: tables.merge_join_ns_per_row,
        hash_build_ns_per_row: tables.build,
        hash_probe_ns_per_row: tables.probe,
        group_ns_per_row: tables.group,
        update_ns_per_value: tables.update_ns_per_value,
        expression_ns_per_value: tables.expression_ns_per_value,
        filter_ns_per_value: tables.filter_ns_per_value,
        copy_ns_per_byte: rows.copy_ns_per_byte,
        fresh_memory_system_ns_per_byte: memory.fresh_ns_per_byte,
        parallel_slowdown: memory.slowdown,
        cores: memory.cores,
    };
    let (schema, machine) = (SCHEMA.to_owned(), Machine::current());
    Ok(OperatorCalibration { schema, measured_unix_s, machine, operators })
}

#[cfg(test)]
mod tests;
