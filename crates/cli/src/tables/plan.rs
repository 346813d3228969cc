//! The plan of a job, chosen by the cost model where the calibrations of all its devices and operators are at hand.

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

/// A chosen plan, or what the command line says.
pub(crate) struct Planned {
    /// The job's options.
    pub(crate) job: JobArgs,
    /// Steps of the plan, a line each.
    pub(crate) lines: Vec<String>,
    /// Its predicted time.
    pub(crate) elapsed: Option<Duration>,
}

impl Planned {
    /// As the command line says.
    pub(crate) fn asked(args: &JobArgs) -> Planned {
        Planned { job: args.clone(), lines: Vec::new(), elapsed: None }
    }
}

/// Costs of what a job uses.
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

/// The plan that the cost model chooses, if calibrations are at hand and nothing stands in its way: a fault of a table or
/// an expression is told by the command itself.
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

/// The tree of a plan, the inputs of an operator below it.
pub(crate) fn describe(node: &Node, depth: usize, lines: &mut Vec<String>) {
    let rows = node.rows.map_or_else(String::new, |rows| format!(", {} rows", count(rows)));
    let size = if node.bytes > 0 { format!(", {}", bytes(node.bytes)) } else { String::new() };
    // Spaces at which no line is broken, and that are not taken for those between words.
    lines.push(format!("{}{}{rows}{size}", "\u{a0}".repeat(2 * depth), node.operator));
    node.inputs.iter().for_each(|input| describe(input, depth + 1, lines));
}
