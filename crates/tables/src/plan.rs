//! The plan of a statement. The cost model chooses it if all its devices and operators are calibrated.

use std::path::PathBuf;
use std::time::Duration;

use sakiyomi_io::Access;
use sakiyomi_os::allocator;
use sakiyomi_query::Job;
use sakiyomi_query::cost::{CostError, Explanation, Limits, Node, Plan};
use sakiyomi_query::statement::{Calibrated, Destination};
use sakiyomi_query::table::{Format, OpenOptions, Table, cached_ratio};
use sakiyomi_report::number::{bytes, count};

use crate::{Calibrations, Error, Operation, Resources};

/// A statement as its user states it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The files of each table; none for a table that is not made of files, with which a statement is not planned.
    pub tables: Vec<Vec<PathBuf>>,
    /// Format of all files; by default it is recognized.
    pub format: Option<Format>,
    /// Resources of the job.
    pub resources: Resources,
}

impl Request {
    /// Returns how tables are opened: as the plan or the resources say.
    #[must_use]
    pub fn open_options(&self, planned: &Planned) -> OpenOptions {
        self.opened_by(planned.access(&self.resources))
    }

    fn opened_by(&self, access: Access) -> OpenOptions {
        OpenOptions { format: self.format, access, spool: self.resources.spill.first().cloned() }
    }

    /// Returns the costs and limits of the statement.
    fn calibrated<'a>(
        &self,
        calibrations: &'a Calibrations,
        job: &Job,
        tables: &[Vec<PathBuf>],
        destination: &Destination,
    ) -> Result<Calibrated<'a>, Error> {
        let options = job.options();
        let buffers = job.io().pool().budget() as u64;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let heap = (options.memory as u64).saturating_sub(buffers);
        let limits = Limits {
            engine: self.resources.engine,
            page_cache: self.resources.page_cache(),
            block_bytes: self.resources.block.map(|block| block.0),
            ..Limits::new(buffers, heap, options.threads, cores)
        };
        Ok(Calibrated {
            storage: calibrations.storage(tables, &options.spill, destination)?,
            operators: calibrations.operators(),
            cached_ratios: tables.iter().map(|files| cached_ratio(files)).collect(),
            limits,
        })
    }
}

/// A plan that the cost model chose, or none: resources and sizes then decide.
#[derive(Clone, Debug, Default)]
pub struct Planned {
    /// The plan.
    pub plan: Option<Plan>,
    /// Steps of the plan, one line each.
    pub lines: Vec<String>,
    /// Its predicted time.
    pub elapsed: Option<Duration>,
}

impl Planned {
    fn of(explanation: Explanation) -> Planned {
        let mut lines = Vec::new();
        describe(&explanation.tree, 0, &mut lines);
        let elapsed = Duration::from_nanos(explanation.choice.prediction.elapsed_ns);
        Planned { plan: Some(explanation.choice.plan), lines, elapsed: Some(elapsed) }
    }

    /// Returns how tables are opened: as the plan or the resources say.
    #[must_use]
    pub fn access(&self, resources: &Resources) -> Access {
        self.plan.as_ref().map_or(resources.access(), Plan::access)
    }
}

/// Explains a statement whose tables are regular files; a pipe can be read only once, and is not opened.
///
/// # Errors
/// If a table is not a regular file, a device is not calibrated, or the statement cannot be bound.
pub fn explain(
    request: &Request,
    calibrations: &Calibrations,
    destination: &Destination,
) -> Result<Explanation, Error> {
    let files = |paths: &Vec<PathBuf>| {
        Table::files(paths)?.ok_or_else(|| {
            let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let names = paths.join(", ");
            Error::Unplannable(format!(
                "{names}: only regular files are planned; write the rows to a file first"
            ))
        })
    };
    let tables: Vec<Vec<PathBuf>> = request.tables.iter().map(files).collect::<Result<_, Error>>()?;
    let job = request.resources.job(None)?;
    let calibrated = request.calibrated(calibrations, &job, &tables, destination)?;
    let options = request.opened_by(request.resources.access());
    let opened = request.tables.iter().map(|paths| Table::open(paths, &options)).collect::<Result<_, _>>()?;
    Ok(request.operation.clone().statement(opened).explain(&job, destination, calibrated)?)
}

/// Returns the plan that the cost model chooses; none if calibrations are missing or planning fails. The run of the
/// statement reports the errors of tables and expressions.
///
/// # Errors
/// If rows would be spilled to a directory in memory beyond the memory limit: the run would fail after much work.
pub fn plan(request: &Request, destination: &Destination) -> Result<Planned, Error> {
    let Some(calibrations) = Calibrations::find() else { return Ok(Planned::default()) };
    let explained = explain(request, &calibrations, destination);
    drop(calibrations);
    // Memory freed by planning would count in addition to that of the job.
    allocator::trim();
    match explained {
        Ok(chosen) => Ok(Planned::of(chosen)),
        Err(error) if is_spill_in_memory(&error) => Err(error),
        Err(_) => Ok(Planned::default()),
    }
}

fn is_spill_in_memory(error: &Error) -> bool {
    matches!(error, Error::Query(sakiyomi_query::Error::Cost(CostError::SpillMemory { .. })))
}

/// Appends the tree of a plan as lines, the inputs of an operator indented below it.
pub fn describe(node: &Node, depth: usize, lines: &mut Vec<String>) {
    let rows = node.rows.map_or_else(String::new, |rows| format!(", {} rows", count(rows)));
    let size = if node.bytes > 0 { format!(", {}", bytes(node.bytes)) } else { String::new() };
    // Non-breaking spaces, which reports neither break nor collapse.
    lines.push(format!("{}{}{rows}{size}", "\u{a0}".repeat(2 * depth), node.operator));
    node.inputs.iter().for_each(|input| describe(input, depth + 1, lines));
}
