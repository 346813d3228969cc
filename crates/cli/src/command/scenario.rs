//! `scenario`: the whole stack in virtual time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Args, Subcommand};
use sakiyomi_report::result::ScenarioPoint;
use sakiyomi_report::{Document, Run, ScenarioResult};
use sakiyomi_scenario::Scenario;
use sakiyomi_simulation::{Experiment, ExperimentRun, NamedDrive, Varied, parse_varied, read_text};
use serde::{Deserialize, Serialize};

use crate::args::HELP;
use crate::console::Common;
use crate::output::{OutDir, Overwrite};
use crate::parallel;
use crate::provenance::{machine, nanos};
use crate::shard::{Definition, Effort, PointsArgs, Reproducible, ShardSet, run_shard};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi scenario run scenarios/waseda2006-a.toml
  sakiyomi scenario run scenarios/waseda2006-a.toml --vary prefetch.limit=off,auto \\
      --vary memory.size=256MiB,1GiB
  sakiyomi scenario run scenarios/waseda2006-b.toml --out result
  sakiyomi scenario run scenarios/cerium2014-methods.toml --vary job.wc.part=64KiB
  sakiyomi scenario run scenarios/kochi2023-accuracy.toml --vary process.target.rate=20 \\
      --repetitions 50
";

/// Run experiments in virtual time.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an experiment: programs, page cache, prefetching, regulation and a drive together
    #[command(help_template = HELP, before_help = EXAMPLES)]
    Run(RunCommand),
}

/// Run an experiment.
#[derive(Debug, Args)]
pub(crate) struct RunCommand {
    /// The experiment, a TOML file
    file: PathBuf,
    /// Values to try for a key, instead of the file's; may be repeated: all combinations are run
    #[arg(long, value_name = "KEY=A,B,…")]
    vary: Vec<String>,
    /// Seed of the random numbers, instead of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Number of runs of each point, each with the next seed, instead of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    points: PointsArgs,
}

impl Command {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        match self {
            Command::Run(run) => run.run(common),
        }
    }
}

impl RunCommand {
    fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let vary = parse_varied(&self.vary, "memory.size=256MiB,1GiB")?;
        let mut open = |name: &str| {
            let NamedDrive { spec, notes } = NamedDrive::open(name)?;
            notes.iter().for_each(|note| common.note(note));
            Ok(spec)
        };
        let experiment = Experiment::new(self.scenario()?, vary, &mut open)?;
        let result = experiment.outline();
        let compute = |range: Range<usize>| compute(&experiment, range, begun, common);
        let (reproducible, out) = (self.points.reproducible, (self.out.as_deref(), self.overwrite));
        if let Some(shard) = self.points.shard {
            let drives = experiment.drives().iter();
            let definition = ScenarioDefinition {
                experiment: experiment.base().to_toml(),
                drives: drives.map(|(name, drive)| (name.clone(), drive.to_toml())).collect(),
                varied: experiment.varied().clone(),
                result,
            };
            let points = experiment.points_count();
            return run_shard(shard, &definition, points, out, (reproducible, common), compute);
        }
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let (points, effort) = compute(0..experiment.points_count())?;
        finish(ScenarioResult { points, ..result }, reproducible.run(&effort), out.as_ref(), common)?;
        Ok(ExitCode::SUCCESS)
    }

    fn scenario(&self) -> Result<Scenario> {
        let name = self.file.display().to_string();
        let hint = "scenarios/ has examples, and docs/reference/scenario.md describes the format";
        let text = read_text(&self.file, "the experiment", hint)?;
        let mut scenario = Scenario::from_toml(&text, &name)?;
        if let Some(seed) = self.seed {
            scenario.run.seed = seed;
        }
        if let Some(repetitions) = self.repetitions {
            scenario.run.repetitions = repetitions;
        }
        Ok(scenario)
    }
}

/// All that the points of an experiment depend on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ScenarioDefinition {
    /// The experiment as TOML, with the seed and the repetitions of the command line.
    experiment: String,
    /// The hard disks of all points as TOML, by their names in the experiment.
    drives: BTreeMap<String, String>,
    varied: Varied,
    /// The result without points.
    result: ScenarioResult,
}

impl Definition for ScenarioDefinition {
    type Point = ScenarioPoint;
    const COMMAND: &'static str = "scenario run";
    const PARTS: &'static [(&'static str, &'static str)] = &[
        ("experiment", "the experiment, its seed or its repetitions"),
        ("drives", "a drive"),
        ("varied", "the varied keys"),
    ];
}

/// The result of all shards of an experiment.
pub(super) fn merge(
    shards: ShardSet,
    (out, overwrite): (Option<&Path>, Overwrite),
    reproducible: Reproducible,
    common: &Common,
) -> Result<()> {
    let out = overwrite.out(out, &[])?;
    let (definition, points, effort) = shards.read::<ScenarioDefinition>()?;
    let result = ScenarioResult { points, ..definition.result };
    finish(result, reproducible.run(&effort), out.as_ref(), common)
}

fn finish(result: ScenarioResult, run: Run, out: Option<&OutDir>, common: &Common) -> Result<()> {
    let document = Document::new(run, result);
    if let Some(out) = out {
        out.write_report(&document)?;
        common.note(&out.report());
    }
    common.present(&document)
}

/// Runs some points, as many at a time as there are cores; the first failure ends it.
fn compute(
    experiment: &Experiment,
    points: Range<usize>,
    begun: Instant,
    common: &Common,
) -> Result<(Vec<ScenarioPoint>, Effort)> {
    let runs = experiment.runs(points.clone());
    let outcomes = parallel::each(&runs, "runs", common, |run: &ExperimentRun| Ok(run.run()?))?;
    let (points, simulated) = experiment.points(points, &runs, outcomes);
    let effort = Effort { wall_ns: nanos(begun.elapsed()), commands: 0, simulated, machine: machine() };
    Ok((points, effort))
}
