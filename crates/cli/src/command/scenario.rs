//! `scenario`: the whole stack in virtual time.

mod job;
mod regulation;
mod result;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_report::result::ScenarioPoint;
use sakiyomi_report::{Document, Run, ScenarioResult};
use sakiyomi_scenario::spec::Distance;
use sakiyomi_scenario::{Outcome, Regulation, Scenario, run};
use sakiyomi_simulation::read_text;
use serde::{Deserialize, Serialize};

use crate::args::HELP;
use crate::console::Common;
use crate::drive_file::drive_spec;
use crate::output::{OutDir, Overwrite};
use crate::parallel;
use crate::provenance::{machine, nanos};
use crate::shard::{Definition, Effort, PointsArgs, Reproducible, ShardSet, run_shard};
use crate::vary;
use result::point;

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

/// One combination of values.
struct Combination {
    values: Vec<String>,
    scenario: Scenario,
}

/// The settings of one run, as TOML. Equal points without prefetching are run once.
type Key = String;

impl RunCommand {
    fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let base = self.scenario()?;
        let varied = self.varied(&base)?;
        let combinations = combinations(&base, &varied)?;
        let drives = drives(&combinations, common)?;
        let result = ScenarioResult {
            name: base.name.clone(),
            drive: drive_names(&combinations, &drives),
            repetitions: base.run.repetitions,
            varied: varied.iter().map(|(key, _)| key.clone()).collect(),
            points: Vec::new(),
        };
        let compute = |range: Range<usize>| compute(&combinations[range], &varied, &drives, begun, common);
        let (reproducible, out) = (self.points.reproducible, (self.out.as_deref(), self.overwrite));
        if let Some(shard) = self.points.shard {
            let drives = drives.iter().map(|(name, drive)| (name.clone(), drive.to_toml())).collect();
            let experiment = Scenario { vary: BTreeMap::new(), ..base }.to_toml();
            let definition = ScenarioDefinition { experiment, drives, varied: varied.clone(), result };
            return run_shard(shard, &definition, combinations.len(), out, (reproducible, common), compute);
        }
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let (points, effort) = compute(0..combinations.len())?;
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

    /// Returns the varied keys: those of the file, with values from the command line if it has any, then
    /// those of the command line alone.
    fn varied(&self, base: &Scenario) -> Result<Vec<(String, Vec<String>)>> {
        let mut varied: Vec<(String, Vec<String>)> = base.vary.clone().into_iter().collect();
        for (key, values) in vary::parse(&self.vary, "memory.size=256MiB,1GiB")? {
            match varied.iter_mut().find(|(of_file, _)| *of_file == key) {
                Some((_, of_file)) => *of_file = values,
                None => varied.push((key, values)),
            }
        }
        varied.sort_by_key(|(key, _)| depth(key));
        Ok(varied)
    }
}

/// Returns how deep a key lies in the table: what varies fastest is side by side there.
fn depth(key: &str) -> u32 {
    match key {
        "prefetch.limit" => 2,
        key if key.starts_with("regulate.") => 1,
        _ => 0,
    }
}

/// All that the points of an experiment depend on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ScenarioDefinition {
    /// The experiment as TOML, with the seed and the repetitions of the command line.
    experiment: String,
    /// The hard disks of all points as TOML, by their names in the experiment.
    drives: BTreeMap<String, String>,
    varied: Vec<(String, Vec<String>)>,
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

/// Runs some combinations; a point depends on no other one.
fn compute(
    combinations: &[Combination],
    varied: &[(String, Vec<String>)],
    drives: &Drives,
    begun: Instant,
    common: &Common,
) -> Result<(Vec<ScenarioPoint>, Effort)> {
    let outcomes = explore(combinations, drives, common)?;
    let points = combinations.iter().map(|Combination { values, scenario }| {
        let runs = &outcomes[&scenario.to_toml()];
        let regulations: Vec<&Regulation> =
            runs.iter().filter_map(|outcome| outcome.regulation.as_ref()).collect();
        let (run, plain) = (shortest(runs), shortest(&outcomes[&plain(scenario).to_toml()]));
        ScenarioPoint {
            regulation: regulation::point(scenario, varied, values, &regulations),
            ..point(values, varied, scenario, run, plain)
        }
    });
    let points = points.collect();
    let effort = Effort {
        wall_ns: nanos(begun.elapsed()),
        commands: 0,
        simulated: outcomes.values().flatten().map(|outcome| outcome.elapsed).sum(),
        machine: machine(),
    };
    Ok((points, effort))
}

fn combinations(base: &Scenario, varied: &[(String, Vec<String>)]) -> Result<Vec<Combination>> {
    if let Some((key, _)) = varied.iter().find(|(_, values)| values.is_empty()) {
        bail!("[vary] {key}: there are no values; name one or more");
    }
    // A single run has neither published figures nor varied keys.
    let alone = Scenario { vary: BTreeMap::new(), ..base.clone() };
    let all = vary::combinations(&alone, varied, |scenario, key, value| Ok(scenario.set(key, value)?))?;
    all.iter().try_for_each(|(_, scenario)| scenario.check())?;
    Ok(all.into_iter().map(|(values, scenario)| Combination { values, scenario }).collect())
}

/// Returns the scenario without prefetching, with the default settings of the prefetcher.
fn plain(scenario: &Scenario) -> Scenario {
    let mut plain = scenario.clone();
    plain.prefetch =
        sakiyomi_scenario::spec::PrefetchSpec { limit: Distance::Off, ..scenario.prefetch.clone() };
    plain
}

/// Runs every combination and what it is compared with, with every seed, as many at a time as there are cores; the first
/// failure ends it. The outcomes of a combination are in the order of the seeds.
fn explore(
    combinations: &[Combination],
    drives: &Drives,
    common: &Common,
) -> Result<BTreeMap<Key, Vec<Outcome>>> {
    let all = combinations.iter().flat_map(|combination| {
        let plain = plain(&combination.scenario);
        [combination.scenario.clone(), plain].map(|scenario| (scenario.to_toml(), scenario))
    });
    let scenarios: BTreeMap<Key, Scenario> = all.collect();
    let jobs: Vec<(&Key, &Scenario, u32)> = (scenarios.iter())
        .flat_map(|(key, scenario)| (0..scenario.run.repetitions).map(move |seed| (key, scenario, seed)))
        .collect();
    let outcomes = parallel::each(&jobs, "runs", common, |&(_, scenario, repetition)| {
        Ok(run(scenario, drive(scenario, drives), repetition)?)
    })?;
    let mut by_key: BTreeMap<Key, Vec<Outcome>> = BTreeMap::new();
    for (&(key, ..), outcome) in jobs.iter().zip(outcomes) {
        by_key.entry(key.clone()).or_default().push(outcome);
    }
    Ok(by_key)
}

/// Returns the repetition that took the shortest time, as in table 3 of the paper.
fn shortest(runs: &[Outcome]) -> &Outcome {
    runs.iter().min_by_key(|outcome| outcome.elapsed).expect("there is at least one repetition")
}

/// The hard disks of all combinations, by the names under which they are looked up.
type Drives = BTreeMap<String, DriveSpec>;

fn drives(combinations: &[Combination], common: &Common) -> Result<Drives> {
    let mut drives = Drives::new();
    for name in combinations.iter().filter_map(|combination| combination.scenario.drive.model.as_ref()) {
        if !drives.contains_key(name) {
            drives.insert(name.clone(), drive_spec(name, common)?);
        }
    }
    // All figures that are changed, before any is run.
    for Combination { scenario, .. } in combinations {
        if let Some(drive) = drive(scenario, &drives) {
            let settings = scenario.drive.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            drive.with_settings(settings).context("drive.set")?;
        }
    }
    Ok(drives)
}

fn drive<'a>(scenario: &Scenario, drives: &'a Drives) -> Option<&'a DriveSpec> {
    scenario.drive.model.as_ref().map(|name| &drives[name])
}

/// Returns the names of the drives of all combinations.
fn drive_names(combinations: &[Combination], drives: &Drives) -> String {
    let mut names: Vec<String> = Vec::new();
    for Combination { scenario, .. } in combinations {
        let fixed = || scenario.drive.fixed.as_ref().map(|fixed| format!("a fixed device, {fixed}"));
        let name = drive(scenario, drives).map(|drive| drive.name.clone()).or_else(fixed).unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join("; ")
}
