//! `scenario`: the whole stack in virtual time.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::schema::ScenarioPoint;
use sakiyomi_report::{Document, ScenarioResult, chart, html, text};
use sakiyomi_scenario::spec::Distance;
use sakiyomi_scenario::{Outcome, Regulation, Scenario, run};

use crate::args::{Common, HELP};
use crate::console::{note, say, say_json};
use crate::drive_file::drive_spec;
use crate::outcome::regulation;
use crate::outcome::scenario::point;
use crate::outcome::simulation_run;
use crate::output::OutDir;
use crate::progress::Progress;
use crate::vary;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi scenario run scenarios/waseda2006-a.toml
  sakiyomi scenario run scenarios/waseda2006-a.toml --vary prefetch.limit=off,auto --vary memory.size=256MiB,1GiB
  sakiyomi scenario run scenarios/waseda2006-b.toml --out result
  sakiyomi scenario run scenarios/cerium2014-methods.toml --vary job.wc.part=64KiB
  sakiyomi scenario run scenarios/kochi2023-accuracy.toml --vary process.target.rate=20 --repetitions 50
";

/// Experiments in virtual time.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an experiment: programs, page cache, prefetching and a drive together
    #[command(help_template = HELP, before_help = EXAMPLES)]
    Run(RunCommand),
}

/// Run an experiment.
#[derive(Debug, Args)]
pub(crate) struct RunCommand {
    /// The experiment, as TOML
    file: PathBuf,
    /// A key with the values to try, in place of those of the file; may be repeated: all combinations are tried
    #[arg(long, value_name = "KEY=A,B,…")]
    vary: Vec<String>,
    /// Decides all that is random, in place of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How often each point is run, each time with the next seed, in place of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Write result.json, report.html and the pictures into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
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

/// What one run is made of, as TOML: two points without prefetching that are alike are run once.
type Key = String;

impl RunCommand {
    fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let base = self.scenario()?;
        let varied = self.varied(&base)?;
        let combinations = combinations(&base, &varied)?;
        let out = self.out.as_deref().map(OutDir::new).transpose()?;
        let outcomes = explore(&combinations, common)?;

        let simulated: Nanos = outcomes.values().flatten().map(|outcome| outcome.elapsed).sum();
        let points = combinations.iter().map(|Combination { values, scenario }| {
            let runs = &outcomes[&scenario.to_toml()];
            let regulations: Vec<&Regulation> =
                runs.iter().filter_map(|outcome| outcome.regulation.as_ref()).collect();
            let (run, plain) = (shortest(runs), shortest(&outcomes[&plain(scenario).to_toml()]));
            ScenarioPoint {
                regulation: regulation::point(scenario, &varied, values, &regulations),
                ..point(values, &varied, scenario, run, plain)
            }
        });
        let result = ScenarioResult {
            name: base.name.clone(),
            drive: drive_names(&combinations, common)?,
            repetitions: base.run.repetitions,
            varied: varied.iter().map(|(key, _)| key.clone()).collect(),
            points: points.collect(),
        };
        let mut run = simulation_run(begun.elapsed(), 0, simulated);
        run.commands_per_s = None;
        self.tell(&Document::scenario(run, result), out.as_ref(), common)?;
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&self, document: &Document<ScenarioResult>, out: Option<&OutDir>, common: &Common) -> Result<()> {
        if let Some(out) = out {
            out.write_json("result.json", document)?;
            out.write("report.html", html::scenario(document).as_bytes())?;
            out.write_charts(&chart::scenario(&document.result))?;
            if !common.quiet {
                note(&format!("report: {}", out.path().join("report.html").display()));
            }
        }
        if common.json { say_json(document) } else { say(&text::scenario(document, common.color.style())) }
    }

    fn scenario(&self) -> Result<Scenario> {
        let name = self.file.display().to_string();
        let text = fs::read_to_string(&self.file).with_context(|| {
            format!("cannot read the experiment {name}; scenarios/ has some, and docs/scenario.md says what is in one")
        })?;
        let mut scenario = Scenario::from_toml(&text, &name)?;
        if let Some(seed) = self.seed {
            scenario.run.seed = seed;
        }
        if let Some(repetitions) = self.repetitions {
            scenario.run.repetitions = repetitions;
        }
        Ok(scenario)
    }

    /// What is varied: the file's keys, with the values of the command line where that has some, and then its others.
    fn varied(&self, base: &Scenario) -> Result<Vec<(String, Vec<String>)>> {
        let mut varied: Vec<(String, Vec<String>)> = base.vary.clone().into_iter().collect();
        for (key, values) in vary::parse(&self.vary)? {
            match varied.iter_mut().find(|(of_file, _)| *of_file == key) {
                Some((_, of_file)) => *of_file = values,
                None => varied.push((key, values)),
            }
        }
        varied.sort_by_key(|(key, _)| depth(key));
        Ok(varied)
    }
}

/// How deep a key lies in the table: what varies fastest is side by side there.
fn depth(key: &str) -> u32 {
    match key {
        "prefetch.limit" => 2,
        key if key.starts_with("regulate.") => 1,
        _ => 0,
    }
}

fn combinations(base: &Scenario, varied: &[(String, Vec<String>)]) -> Result<Vec<Combination>> {
    vary::check_count(varied)?;
    // What was published and what is varied is no part of a single run.
    let alone = Scenario { vary: BTreeMap::new(), ..base.clone() };
    let mut combinations = vec![Combination { values: Vec::new(), scenario: alone }];
    for (key, values) in varied {
        ensure!(!values.is_empty(), "[vary] {key}: there are no values; name one or more");
        let mut wider = Vec::with_capacity(combinations.len() * values.len());
        for Combination { values: chosen, scenario } in &combinations {
            for value in values {
                let mut scenario = scenario.clone();
                scenario.set(key, value)?;
                wider.push(Combination {
                    values: [chosen.as_slice(), std::slice::from_ref(value)].concat(),
                    scenario,
                });
            }
        }
        combinations = wider;
    }
    combinations.iter().try_for_each(|combination| combination.scenario.check())?;
    Ok(combinations)
}

/// The same without prefetching. How it would have been done does not matter then.
fn plain(scenario: &Scenario) -> Scenario {
    let mut plain = scenario.clone();
    plain.prefetch =
        sakiyomi_scenario::spec::PrefetchSpec { limit: Distance::Off, ..scenario.prefetch.clone() };
    plain
}

/// Runs every combination and what it is compared with, with every seed, as many at a time as there are cores; the first
/// failure ends it. The outcomes of a combination are in the order of the seeds.
fn explore(combinations: &[Combination], common: &Common) -> Result<BTreeMap<Key, Vec<Outcome>>> {
    let all = combinations.iter().flat_map(|combination| {
        let plain = plain(&combination.scenario);
        [combination.scenario.clone(), plain].map(|scenario| (scenario.to_toml(), scenario))
    });
    let scenarios: BTreeMap<Key, Scenario> = all.collect();
    let jobs: Vec<(&Key, &Scenario, u32)> = (scenarios.iter())
        .flat_map(|(key, scenario)| (0..scenario.run.repetitions).map(move |seed| (key, scenario, seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Result<(usize, Outcome)>>> = Mutex::new(Vec::with_capacity(jobs.len()));
    let progress = Mutex::new(Progress::new(Some(jobs.len() as u64), common.quiet));
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(_, scenario, repetition)) = jobs.get(job) else { return };
            let mut outcome = one(scenario, repetition, common).map(|outcome| (job, outcome));
            let mut outcomes = outcomes.lock().expect("no worker panics while it holds the outcomes");
            let done = outcomes.len() as u64 + 1;
            let message = || format!("{done} of {} runs", jobs.len());
            let seen = progress.lock().expect("no worker panics while it holds the bar").set(done, message);
            if let Err(interrupted) = seen {
                outcome = Err(interrupted.into());
            }
            if outcome.is_err() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
            outcomes.push(outcome);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let ordered: BTreeMap<usize, Outcome> =
        outcomes.into_inner().expect("the workers have ended").into_iter().collect::<Result<_>>()?;
    let mut by_key: BTreeMap<Key, Vec<Outcome>> = BTreeMap::new();
    for (job, outcome) in ordered {
        by_key.entry(jobs[job].0.clone()).or_default().push(outcome);
    }
    Ok(by_key)
}

fn one(scenario: &Scenario, repetition: u32, common: &Common) -> Result<Outcome> {
    crate::progress::go_on()?;
    let drive = drive(scenario, common)?;
    Ok(run(scenario, drive.as_ref(), repetition)?)
}

/// The repetition that took the shortest time, as in table 3 of the paper.
fn shortest(runs: &[Outcome]) -> &Outcome {
    runs.iter().min_by_key(|outcome| outcome.elapsed).expect("there is at least one repetition")
}

fn drive(scenario: &Scenario, common: &Common) -> Result<Option<DriveSpec>> {
    scenario.drive.model.as_ref().map(|name| drive_spec(name, common)).transpose()
}

/// What the files lie on, in any of the combinations.
fn drive_names(combinations: &[Combination], common: &Common) -> Result<String> {
    let mut names: Vec<String> = Vec::new();
    for combination in combinations {
        let name = drive_name(&combination.scenario, common)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names.join("; "))
}

fn drive_name(scenario: &Scenario, common: &Common) -> Result<String> {
    let named = drive(scenario, common)?.map(|drive| drive.name);
    let fixed = scenario.drive.fixed.as_ref().map(|fixed| format!("a fixed device, {fixed}"));
    Ok(named.or(fixed).unwrap_or_default())
}
