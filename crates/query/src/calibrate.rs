//! `query calibrate`: the CPU costs of operators on this machine, measured in memory and in unnamed files, and corrections
//! of predictions, fitted to jobs; in a minute and a half, and longer on slow devices.
//!
//! The data is generated from separate seeds and schemas and never taken from a tested table, because a prediction is
//! only valid if its constants are independent. Each cost is the median CPU time of repeated runs on one thread, which
//! limits the effect of other programs. Costs that depend on a working set are measured inside and outside of the
//! caches.
//!
//! | file | subject |
//! |---|---|
//! | `measure` | medians of CPU time |
//! | `data` | generated columns |
//! | `formats` | decoding, encoding, compression |
//! | `rows` | scattering, sorting, gathering, merging packed rows: by [`crate::sort`] |
//! | `tables` | groups and joins: by [`crate::aggregate`], [`crate::join`]; expressions, filters |
//! | `memory` | page faults; slowdown of parallel threads |
//! | `jobs` | jobs of varied kinds on calibrated devices, and corrections fitted to them |
//! | `file` | the result as JSON |

mod data;
mod file;
mod formats;
mod jobs;
mod measure;
mod memory;
mod rows;
mod tables;

use sakiyomi_probe::calibration::Machine;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::cost::correction::Corrections;
use crate::cost::operators::OperatorCosts;

pub use file::default_path;
pub use jobs::Site;
pub use measure::Effort;
pub use sakiyomi_probe::calibration::LoadError;

/// The name and version of the file's contents.
pub const SCHEMA: &str = "sakiyomi.operator-costs/7";

/// CPU costs of operators, with the machine on which they were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperatorCalibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// Time of the measurement, in seconds since 1970.
    pub measured_unix_s: u64,
    /// The measured machine.
    pub machine: Machine,
    /// The costs.
    pub operators: OperatorCosts,
}

/// Names of the groups of costs in the order of measurement.
const GROUPS: [&str; 4] = ["formats", "rows", "tables", "memory"];

/// Returns the names of the steps in the order of measurement, for a progress display: groups of costs, then jobs, if
/// there are sites for them.
#[must_use]
pub fn steps(sites: usize) -> Vec<&'static str> {
    GROUPS.into_iter().chain(jobs::steps(sites)).collect()
}

/// Measures the costs of operators on this machine. Jobs in the directories of `sites` run in turns, and corrections are
/// fitted to them; without sites, predictions are not corrected. Calls `begins` with each of [`steps`] before it, and stops
/// if it returns false.
///
/// # Errors
/// [`Error::Cancelled`] if `begins` returned false; other errors if memory is insufficient (256 MiB), or a file cannot be
/// written.
pub fn calibrate(
    measured_unix_s: u64,
    effort: Effort,
    sites: &[Site<'_>],
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
    let mut operators = OperatorCosts {
        decode: formats.decode,
        encode: formats.encode,
        codecs: formats.codecs,
        scatter: rows.scatter,
        partition: tables.partition,
        radix_sort_ns_per_row: rows.radix_sort,
        text_key_ns: rows.text_key_ns,
        comparison_ns: rows.comparison_ns,
        gather: rows.gather,
        merge_ns_per_row: rows.merge,
        merge_join_ns_per_row: tables.merge_join_ns_per_row,
        hash_build_ns_per_row: tables.build,
        hash_probe_ns_per_row: tables.probe,
        group_ns_per_row: tables.grouped.find,
        insert_ns_per_group: tables.grouped.insert,
        group_text_ns_per_value: tables.group_text,
        code_group_ns_per_row: tables.code_group.0,
        code_group_ns_per_value: tables.code_group.1,
        merge_ns_per_group: tables.grouped.merge,
        merge_insert_ns_per_group: tables.grouped.merge_insert,
        merge_ns_per_value: tables.merge_ns_per_value,
        update_ns_per_value: tables.update_ns_per_value,
        sums_ns_per_row: tables.sums.0,
        sum_ns_per_value: tables.sums.1,
        expression_ns_per_value: tables.expression_ns_per_value,
        filter_ns_per_value: tables.filter_ns_per_value,
        copy_ns_per_byte: rows.copy_ns_per_byte,
        fresh_memory_system_ns_per_byte: memory.fresh_ns_per_byte,
        fresh_heap_system_ns_per_byte: memory.fresh_heap_ns_per_byte,
        start_ns_per_thread: memory.start_ns_per_thread,
        parallel_slowdown: memory.slowdown,
        cores: memory.cores,
        corrections: Corrections::default(),
        device_corrections: Vec::new(),
    };
    jobs::measure(effort, &mut operators, sites, &mut begin)?;
    let (schema, machine) = (SCHEMA.to_owned(), Machine::current());
    Ok(OperatorCalibration { schema, measured_unix_s, machine, operators })
}

#[cfg(test)]
mod tests;
