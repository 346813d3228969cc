//! The plan of a command. The cost model chooses it if all its devices and operators are calibrated.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use sakiyomi_io::Access;
use sakiyomi_os::allocator;
use sakiyomi_query::Job;
use sakiyomi_query::cost::{CostError, Explanation, Limits, Node, Plan};
use sakiyomi_query::statement::{Calibrated, Destination};
use sakiyomi_query::table::{Table, cached_ratio};
use sakiyomi_report::number::{bytes, count};

use super::calibrations::Calibrations;
use super::command::{CommandArgs, SharedArgs, TableCommand};
use super::resources::JobArgs;

/// A plan that the cost model chose, or the options of the command line.
#[derive(Default)]
pub(crate) struct Planned {
    /// The plan.
    pub(crate) plan: Option<Plan>,
    /// Steps of the plan, one line each.
    pub(crate) lines: Vec<String>,
    /// Its predicted time.
    pub(crate) elapsed: Option<Duration>,
}

impl Planned {
    fn of(explanation: Explanation) -> Planned {
        let mut lines = Vec::new();
        describe(&explanation.tree, 0, &mut lines);
        let elapsed = Duration::from_nanos(explanation.choice.prediction.elapsed_ns);
        Planned { plan: Some(explanation.choice.plan), lines, elapsed: Some(elapsed) }
    }

    /// Returns how tables are opened: as the plan or the options specify.
    pub(crate) fn access(&self, args: &JobArgs) -> Access {
        self.plan.as_ref().map_or(args.access(), Plan::access)
    }
}

/// Returns the costs and limits of a job.
///
/// # Errors
/// A device without calibration.
fn calibrated<'a>(
    calibrations: &'a Calibrations,
    args: &JobArgs,
    job: &Job,
    tables: &[Vec<PathBuf>],
    destination: &Destination,
) -> Result<Calibrated<'a>> {
    let options = job.options();
    let buffers = job.io().pool().budget() as u64;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let heap = (options.memory as u64).saturating_sub(buffers);
    let limits = Limits {
        engine: args.method(),
        page_cache: args.page_cache(),
        block_bytes: args.block_bytes(),
        ..Limits::new(buffers, heap, options.threads, cores)
    };
    Ok(Calibrated {
        storage: calibrations.storage(tables, &options.spill, destination)?,
        operators: calibrations.operators(),
        cached_ratios: tables.iter().map(|files| cached_ratio(files)).collect(),
        limits,
    })
}

/// Explains a command whose tables are regular files; a pipe can be read only once, and is not opened.
///
/// # Errors
/// If a table is not a regular file, a device is not calibrated, or the statement cannot be bound.
pub(crate) fn explain(
    command: &dyn TableCommand,
    calibrations: &Calibrations,
    destination: &Destination,
) -> Result<Explanation> {
    let CommandArgs { tables, format, shared: SharedArgs { job: args, .. } } = command.args();
    let files = |paths: &&[PathBuf]| {
        let found = Table::files(paths)?;
        found.with_context(|| {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            format!("{}: only regular files are planned; write the rows to a file first", paths.join(", "))
        })
    };
    let tables: Vec<Vec<PathBuf>> = tables.iter().map(files).collect::<Result<_>>()?;
    let job = args.open()?;
    let calibrated = calibrated(calibrations, args, &job, &tables, destination)?;
    let options = format.options(args, args.access());
    let statement = command.statement(&mut |paths| Ok(Table::open(paths, &options)?))?;
    Ok(statement.explain(&job, destination, calibrated)?)
}

/// Returns the plan that the cost model chooses; `None` if calibrations are missing or planning fails. The command
/// itself reports the errors of tables and expressions.
///
/// # Errors
/// If rows would be spilled to a directory in memory beyond the memory limit: the command would fail after much work.
pub(crate) fn plan(command: &dyn TableCommand, destination: &Destination) -> Result<Planned> {
    let Some(calibrations) = Calibrations::find() else { return Ok(Planned::default()) };
    let explained = explain(command, &calibrations, destination);
    drop(calibrations);
    // Memory freed by planning would count in addition to that of the job.
    allocator::trim();
    match explained {
        Ok(chosen) => Ok(Planned::of(chosen)),
        Err(error) if is_spill_in_memory(&error) => Err(error),
        Err(_) => Ok(Planned::default()),
    }
}

fn is_spill_in_memory(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(sakiyomi_query::Error::Cost(CostError::SpillMemory { .. })))
}

/// Appends the tree of a plan as lines, the inputs of an operator indented below it.
pub(crate) fn describe(node: &Node, depth: usize, lines: &mut Vec<String>) {
    let rows = node.rows.map_or_else(String::new, |rows| format!(", {} rows", count(rows)));
    let size = if node.bytes > 0 { format!(", {}", bytes(node.bytes)) } else { String::new() };
    // Non-breaking spaces, which reports neither break nor collapse.
    lines.push(format!("{}{}{rows}{size}", "\u{a0}".repeat(2 * depth), node.operator));
    node.inputs.iter().for_each(|input| describe(input, depth + 1, lines));
}
