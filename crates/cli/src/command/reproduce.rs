//! `reproduce`: the experiments of the papers, with the published figures beside.

mod live;
mod result;
mod store;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use sakiyomi_io::Claim;
use sakiyomi_model::Nanos;
use sakiyomi_report::Document;
use sakiyomi_reproduce::{Effort, LiveTask, Paper, Task, live_tasks, shuffled, tasks};

use crate::console::Common;
use crate::output::Overwrite;
use crate::parallel;
use crate::progress::Interrupted;
use crate::provenance::simulation_run;
use store::Store;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi reproduce --out reproduction
  sakiyomi reproduce cerium2014 hitachi2013
  sakiyomi reproduce hitachi2013 --simulate-only
  sakiyomi reproduce kochi2023 --full --out kochi
";

/// Seed of the order of the simulations. Those of one experiment take milliseconds, those of another half a minute: only in
/// a mixed order does the number that is done tell the time that is left.
const ORDER_SEED: u64 = 1;

/// Repeat the experiments of the papers.
#[derive(Debug, Args)]
#[command(
    after_help = "Each published figure is printed beside the one in virtual time and, if there is one, that of a live \
experiment on this machine. Live experiments use emulated drives, which are mounted with FUSE; where this machine does not \
allow that they are left out, and the report says so."
)]
pub(crate) struct Reproduce {
    /// Papers whose experiments to repeat [default: all]
    papers: Vec<PaperName>,
    /// Run few settings and seeds, and small live experiments: two to four minutes on two cores. This is the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run all settings, with as many repetitions as in the papers, and larger live experiments: an hour on two cores
    #[arg(long)]
    full: bool,
    /// Leave out the live experiments: the result is then the same on every machine
    #[arg(long)]
    simulate_only: bool,
    /// Write result.json, report.html, report.md and the charts to this directory; simulations that an interrupted run has
    /// left there are not repeated
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// A paper as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PaperName(Paper);

impl ValueEnum for PaperName {
    fn value_variants<'a>() -> &'a [PaperName] {
        &[
            PaperName(Paper::Waseda2006),
            PaperName(Paper::Waseda2013),
            PaperName(Paper::Kochi2023),
            PaperName(Paper::Cerium2014),
            PaperName(Paper::Hitachi2013),
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.id()).help(self.0.title()))
    }
}

/// Adds to an interruption what has been kept.
fn or_kept(error: anyhow::Error, directory: Option<&Path>) -> anyhow::Error {
    match directory {
        Some(directory) if error.is::<Interrupted>() => error.context(format!(
            "interrupted; {} keeps the simulations and measurements that have ended; the same command continues",
            directory.display()
        )),
        _ => error,
    }
}

/// Claims the directory of `--out`, in which two runs at the same time would mix their partial results. `None` on a file
/// system without locks.
fn claim(directory: &Path) -> Result<Option<Claim>> {
    let claim = || fs::canonicalize(directory).and_then(Claim::of_directory);
    let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
    let claimed = claim().or_else(|error| {
        if !is_busy(&error) {
            return Err(error);
        }
        // A run that was killed while it waited for its own mount keeps its claim until the mount is aborted.
        live::remove_leftovers();
        claim()
    });
    match claimed {
        Err(error) if is_busy(&error) => bail!(
            "another run of sakiyomi uses {}; wait for its end, or name another directory with --out",
            directory.display()
        ),
        claimed => Ok(claimed.ok()),
    }
}

impl Reproduce {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        let effort = if self.full { Effort::Full } else { Effort::Quick };
        let papers = self.papers();
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let all: Vec<Task> = papers.iter().flat_map(|paper| tasks(*paper, effort)).collect();
        let directory = out.as_ref().map(|out| out.path());
        let _claim = directory.map(claim).transpose()?;
        let (store, kept) = Store::open(directory, store::SIMULATIONS, all.iter().map(Task::key))?;
        let left: Vec<&Task> = all.iter().filter(|task| !kept.contains(task.key())).collect();
        let left = shuffled(left, ORDER_SEED);
        let metrics = parallel::each(&left, "simulations", common, |task| {
            let metrics = task.run()?;
            store.keep(task.key(), &metrics)?;
            Ok(metrics)
        })
        .map_err(|error| or_kept(error, directory))?;
        let mut results = kept;
        for (task, metrics) in left.iter().zip(metrics) {
            results.insert(task.key().to_owned(), metrics);
        }
        // After the simulations, which would disturb it.
        let live_tasks = self.live_tasks(&papers, effort);
        let live_directory = directory.filter(|_| !live_tasks.is_empty());
        let (live_store, mut live_results) = Store::open(
            live_directory,
            store::live_name(effort),
            live_tasks.iter().map(|(_, task)| task.key()),
        )?;
        let live_notes = live::run(&live_tasks, (&live_store, &mut live_results), common)
            .map_err(|error| or_kept(error, directory))?;
        let mut run = simulation_run(begun.elapsed(), 0, Nanos::ZERO);
        (run.commands_per_s, run.simulated_per_wall_ratio) = (None, None);
        let document =
            Document::new(run, result::result(&papers, effort, &results, (&live_results, live_notes)));
        if let Some(out) = &out {
            out.write_report(&document)?;
            store.finish()?;
            live_store.finish()?;
            common.note(&out.report());
        }
        common.present(&document)?;
        Ok(ExitCode::SUCCESS)
    }

    fn live_tasks(&self, papers: &[Paper], effort: Effort) -> Vec<(Paper, LiveTask)> {
        if self.simulate_only {
            return Vec::new();
        }
        let all = papers.iter().map(|paper| (*paper, live_tasks(*paper, effort)));
        all.flat_map(|(paper, tasks)| tasks.into_iter().map(move |task| (paper, task))).collect()
    }

    /// In the order of reports, each once.
    fn papers(&self) -> Vec<Paper> {
        let is_wanted = |paper: &Paper| self.papers.is_empty() || self.papers.contains(&PaperName(*paper));
        Paper::ALL.into_iter().filter(is_wanted).collect()
    }
}
