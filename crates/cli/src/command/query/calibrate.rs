//! `query calibrate`: the CPU time of operators on this machine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use sakiyomi_query::Error;
use sakiyomi_query::calibrate::{Effort, GROUPS, OperatorCalibration, SCHEMA, calibrate, default_path};

use crate::console::{Common, say, say_result};
use crate::output::OutFile;
use crate::progress::{Interrupted, Progress};
use crate::tables::keep_memory;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query calibrate
  sakiyomi query calibrate --calibration operators.json --json
";

/// Measure the CPU time of operators on this machine, for predictions.
#[derive(Debug, Args)]
#[command(
    after_help = "The costs are medians of CPU time of one thread, on data that is generated, in memory and in unnamed temporary files. They are saved \
beside the calibrations of `sakiyomi probe`, which measures the storage, and `query explain` loads both. Measure on a quiet \
machine: a busy one gives costs that are too high."
)]
pub(crate) struct Calibrate {
    /// Save the costs to this file instead of the default location
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
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
        let file = self.open(&path)?;
        let costs = self.measure(common)?;
        file.write(costs.to_json().as_bytes())?;
        if common.json {
            say_result(SCHEMA, &costs)?;
        } else {
            say(&format!("{}\n{}", path.display(), describe(&costs)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn open(&self, path: &Path) -> Result<OutFile> {
        if self.calibration.is_none()
            && let Some(directory) = path.parent()
        {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        }
        OutFile::create(path)
    }

    fn measure(&self, common: &Common) -> Result<OperatorCalibration> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let effort = if self.glance { Effort::Glance } else { Effort::Full };
        let mut progress = Progress::new(Some(GROUPS.len() as u64), common.quiet);
        let mut done = 0;
        // Memory costs as much as in a job.
        keep_memory();
        let measured = calibrate(now.as_secs(), effort, &mut |group| {
            done += 1;
            progress.set(done - 1, || group.to_owned()).is_ok()
        });
        measured.map_err(|error| match error {
            Error::Cancelled => Interrupted.into(),
            error => error.into(),
        })
    }
}

/// The costs that decide most plans.
fn describe(costs: &OperatorCalibration) -> String {
    let costs = &costs.operators;
    let lines = [
        format!("  merge of joined rows    {:.1} ns a row", costs.merge_join_ns_per_row),
        format!("  update of an aggregate  {:.1} ns a value", costs.update_ns_per_value),
        format!("  filter                  {:.2} ns a value", costs.filter_ns_per_value),
        format!("  copy                    {:.3} ns a byte", costs.copy_ns_per_byte),
        format!(
            "  fresh memory            {:.3} ns a byte, in the kernel",
            costs.fresh_memory_system_ns_per_byte
        ),
    ];
    lines.join("\n")
}
