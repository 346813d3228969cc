//! The plan of a job. The cost model chooses it if all its devices and operators are calibrated.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use sakiyomi_query::Job;
use sakiyomi_query::cost::plan::PageCache;
use sakiyomi_query::cost::{Explanation, Limits, Node};
use sakiyomi_query::statement::{Calibrated, Destination};
use sakiyomi_report::number::{bytes, count};

use super::args::JobArgs;
use super::calibrations::{Calibrations, cached_ratio};

/// A plan that the cost model chose, or the options of the command line.
pub(crate) struct Planned {
    /// The job's options.
    pub(crate) job: JobArgs,
    /// Steps of the plan, one line each.
    pub(crate) lines: Vec<String>,
    /// Its predicted time.
    pub(crate) elapsed: Option<Duration>,
}

impl Planned {
    /// The options of the command line, without a plan.
    pub(crate) fn asked(args: &JobArgs) -> Planned {
        Planned { job: args.clone(), lines: Vec::new(), elapsed: None }
    }
}

/// Costs and limits of a job.
///
/// # Errors
/// A device without calibration.
pub(crate) fn calibrated<'a>(
    calibrations: &'a Calibrations,
    args: &JobArgs,
    job: &Job,
    inputs: &[&PathBuf],
    destination: &Destination,
) -> Result<Calibrated<'a>> {
    let options = job.options();
    let buffers = job.io().pool().budget() as u64;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let heap = (options.memory as u64).saturating_sub(buffers);
    let limits = Limits {
        engine: args.method(),
        page_cache: args.page_cache(),
        ..Limits::new(buffers, heap, options.threads, cores)
    };
    Ok(Calibrated {
        storage: calibrations.storage(inputs, &options.spill, destination)?,
        operators: calibrations.operators(),
        cached_ratios: inputs.iter().map(|path| cached_ratio(path)).collect(),
        limits,
    })
}

/// Returns the plan that the cost model chooses, or the options of the command line if calibrations are missing or
/// planning fails. The command itself reports the errors of tables and expressions.
pub(crate) fn plan(
    args: &JobArgs,
    inputs: &[&PathBuf],
    destination: &Destination,
    explain: impl FnOnce(&Job, Calibrated<'_>) -> Result<Explanation>,
) -> Planned {
    let asked = || Planned::asked(args);
    // The standard input can be read only once.
    if inputs.iter().any(|path| !path.exists()) {
        return asked();
    }
    let chosen = Calibrations::find().and_then(|calibrations| {
        let job = args.open().ok()?;
        let calibrated = calibrated(&calibrations, args, &job, inputs, destination).ok()?;
        explain(&job, calibrated).ok()
    });
    let Some(explanation) = chosen else { return asked() };
    let plan = &explanation.choice.plan;
    let direct = plan.input.page_cache == PageCache::Bypassed;
    let mut lines = Vec::new();
    describe(&explanation.tree, 0, &mut lines);
    Planned {
        job: args.planned(plan.engine, direct),
        lines,
        elapsed: Some(Duration::from_nanos(explanation.choice.prediction.elapsed_ns)),
    }
}

/// Appends the tree of a plan as lines, the inputs of an operator indented below it.
pub(crate) fn describe(node: &Node, depth: usize, lines: &mut Vec<String>) {
    let rows = node.rows.map_or_else(String::new, |rows| format!(", {} rows", count(rows)));
    let size = if node.bytes > 0 { format!(", {}", bytes(node.bytes)) } else { String::new() };
    // Non-breaking spaces, which reports neither break nor collapse.
    lines.push(format!("{}{}{rows}{size}", "\u{a0}".repeat(2 * depth), node.operator));
    node.inputs.iter().for_each(|input| describe(input, depth + 1, lines));
}
