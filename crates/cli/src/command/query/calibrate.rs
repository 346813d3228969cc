//! `query calibrate`: the CPU time of operators on this machine, and corrections of predictions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use sakiyomi_probe::calibration::DeviceCosts;
use sakiyomi_query::Error;
use sakiyomi_query::JobOptions;
use sakiyomi_query::calibrate::{Effort, OperatorCalibration, SCHEMA, Site, calibrate, default_path, steps};
use sakiyomi_query::cost::correction::Factor;
use sakiyomi_query::job::spill_directory;
use sakiyomi_tables::DeviceCalibrations;

use crate::console::{Common, note, print_result, print_text};
use crate::output::OutFile;
use crate::progress::{Interrupted, Progress};
use crate::tables::keep_memory;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query calibrate
  sakiyomi query calibrate --dir /mnt/fast --dir /mnt/slow
  sakiyomi query calibrate --calibration operators.json --json
";

/// Measure the CPU time of operators on this machine, and correct predictions by jobs, for `query explain`.
#[derive(Debug, Args)]
#[command(
    after_help = "The costs are medians of CPU time of one thread, on generated data, in memory and in unnamed temporary files. Then \
sorts, joins and aggregations of generated tables run, in memory and spilled, and the ratios of their measured to their predicted \
times correct later predictions, for each kind of phase. Their files need 500 MB and are removed. Predictions need the costs of the \
device: measure them first with `sakiyomi probe DIR --op read,write --method read,pread:4,uring:8 --block 64KiB,256KiB,1MiB --direct \
--buffered --cached`. Without them no jobs run, and predictions are not corrected.\n\nThe costs are saved beside the calibrations of \
`sakiyomi probe`, and `query explain` loads both. Measure on a quiet machine: a busy one gives costs that are too high."
)]
pub(crate) struct Calibrate {
    /// Save the costs to this file instead of the default location
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Run the jobs in this directory, on a device that `probe` has measured; may be repeated [default: $TMPDIR, /var/tmp or
    /// the current directory]
    #[arg(long, value_name = "DIR")]
    dir: Vec<PathBuf>,
    /// Measure briefly: for a first look, not for predictions
    #[arg(long)]
    glance: bool,
}

impl Calibrate {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let path = match &self.calibration {
            Some(path) => path.clone(),
            None => default_path().context(
                "no directory for the costs: neither XDG_STATE_HOME nor HOME is set; name a file with \
                 --calibration",
            )?,
        };
        let devices = DeviceCalibrations::saved();
        let sites = self.sites(&devices)?;
        let file = self.open(&path)?;
        let costs = self.measure(common, &sites.iter().map(Directory::site).collect::<Vec<_>>())?;
        file.write(costs.to_json().as_bytes())?;
        if common.json {
            print_result(SCHEMA, &costs)?;
        } else {
            print_text(&format!("{}\n{}", path.display(), describe(&costs)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn open(&self, path: &Path) -> Result<OutFile> {
        if self.calibration.is_none()
            && let Some(directory) = path.parent()
        {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot create the directory {}", directory.display()))?;
        }
        OutFile::create(path)
    }

    /// Returns the directories of the jobs; none, with a note, if the device of the default directory is not
    /// calibrated.
    fn sites<'a>(&self, devices: &'a DeviceCalibrations) -> Result<Vec<Directory<'a>>> {
        if self.dir.is_empty() {
            let path = spill_directory();
            return Ok(match devices.device(&path) {
                Ok(device) => vec![Directory { path, device }],
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    note(&format!(
                        "Predictions will not be corrected. {error:#}, then run `sakiyomi query calibrate` again."
                    ));
                    Vec::new()
                }
            });
        }
        let site = |path: &PathBuf| Ok(Directory { device: devices.device(path)?, path: path.clone() });
        self.dir.iter().map(site).collect()
    }

    fn measure(&self, common: &Common, sites: &[Site<'_>]) -> Result<OperatorCalibration> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let effort = if self.glance { Effort::Glance } else { Effort::Full };
        let mut progress = Progress::new(Some(steps(sites.len()).len() as u64), common.quiet);
        let mut done = 0;
        // Memory costs as much as in a job.
        keep_memory(JobOptions::default().memory as u64);
        let measured = calibrate(now.as_secs(), effort, sites, &mut |group| {
            done += 1;
            progress.set(done - 1, || group.to_owned()).is_ok()
        });
        measured.map_err(|error| match error {
            Error::Cancelled => Interrupted.into(),
            error => error.into(),
        })
    }
}

/// A directory of jobs.
struct Directory<'a> {
    path: PathBuf,
    device: &'a DeviceCosts,
}

impl Directory<'_> {
    fn site(&self) -> Site<'_> {
        Site { directory: &self.path, device: self.device }
    }
}

/// The costs that decide most plans, and the corrections.
fn describe(costs: &OperatorCalibration) -> String {
    let costs = &costs.operators;
    let mut lines = vec![
        format!("  merge of joined rows    {:.1} ns a row", costs.merge_join_ns_per_row),
        format!(
            "  group by a code         {:.1} ns a row",
            costs.code_group_ns_per_row + costs.code_group_ns_per_value
        ),
        format!("  sums of few groups      {:.1} ns a value", costs.sum_ns_per_value),
        format!("  update of a state       {:.1} ns a value", costs.update_ns_per_value),
        format!("  filter                  {:.2} ns a value", costs.filter_ns_per_value),
        format!("  copy                    {:.3} ns a byte", costs.copy_ns_per_byte),
        format!(
            "  fresh memory            {:.3} ns a byte, in the kernel",
            costs.fresh_memory_system_ns_per_byte
        ),
    ];
    let corrections = &costs.corrections;
    if corrections.jobs > 0 {
        let factor =
            |factor: Factor| format!("{:.2} \u{b1} {:.0} %", factor.ratio, 100.0 * factor.uncertainty_ratio);
        lines.push(format!("Corrections by {} runs of jobs: elapsed time, CPU time", corrections.jobs));
        for phase in &corrections.phases {
            let spilled = if phase.kind.is_spilled { ", spilled" } else { "" };
            let name = format!("{}{spilled}", phase.kind.step.name());
            let [elapsed, cpu] = [phase.correction.elapsed, phase.correction.cpu].map(factor);
            lines.push(format!("  {name:25}  {elapsed:>12}  {cpu:>12}"));
        }
        let [elapsed, cpu] = [corrections.whole.elapsed, corrections.whole.cpu].map(factor);
        lines.push(format!("  {:25}  {elapsed:>12}  {cpu:>12}", "whole jobs"));
    }
    lines.join("\n")
}
