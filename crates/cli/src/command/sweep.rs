//! `sweep`: all combinations of settings, on all cores.

mod points;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_drive::observe::Chunking;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::result::{SweepLimit, SweepPoint};
use sakiyomi_report::{Document, SweepResult};

use crate::args::WorkloadArgs;
use crate::console::Common;
use crate::output::Overwrite;
use crate::parallel;
use crate::progress::Progress;
use crate::provenance::simulation_run;
use crate::simulation::simulate;
use crate::vary;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sweep trace.csv.gz --drive deskstar-7k250 --vary cache.read_ahead.max=64KiB,256KiB,1MiB
  sakiyomi sweep trace.csv.gz --drive deskstar-7k250 --vary cache.segments.count=4,16,64 \\
      --vary cache.segments.replacement=lru,fifo --out sweep
";

/// Simulate all combinations of settings.
#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Values to try for a setting; may be repeated: all combinations are simulated
    #[arg(long, value_name = "KEY=A,B,…", required = true)]
    vary: Vec<String>,
    /// Write result.json, points.parquet, points.csv, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Sweep {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        ensure!(
            self.workload.trace.as_os_str() != "-",
            "a sweep reads its trace once for each combination, and stdin can be read only once; give a file"
        );
        let spec = self.workload.drive.spec(common)?;
        let varied = vary::parse(&self.vary, "cache.read_ahead.max=64KiB,256KiB,1MiB")?;
        let drives = vary::combinations(&spec, &varied, |drive, key, value| Ok(drive.set(key, value)?))?;
        // All, before any is simulated.
        for (values, _) in &drives {
            let keys = varied.iter().map(|(key, _)| key.as_str());
            spec.with_settings(keys.zip(values.iter().map(String::as_str)))?;
        }
        let out = self.overwrite.out(self.out.as_deref(), &["points.parquet", "points.csv"])?;

        let tried =
            parallel::each(&drives, "combinations", common, |(values, drive)| self.point(values, drive))?;
        let commands = tried.iter().map(|tried| tried.commands).sum();
        let simulated = tried.iter().map(|tried| tried.simulated).sum();
        let mut points: Vec<SweepPoint> = tried.into_iter().map(|tried| tried.point).collect();
        mark_same_drives(&mut points, &drives, &varied);
        let keys = varied.into_iter().map(|(key, _)| key).collect();
        let trace = self.workload.trace.display().to_string();
        let settings = self.workload.drive.set.clone();
        let mut result = SweepResult { trace, drive: spec.name, settings, varied: keys, points };
        result.mark_undominated();
        let document = Document::new(simulation_run(begun.elapsed(), commands, simulated), result);
        if let Some(out) = &out {
            out.write_report(&document)?;
            points::write(out, &document.result, &drives)?;
            common.note(&out.report());
        }
        common.present(&document)?;
        Ok(ExitCode::SUCCESS)
    }

    fn point(&self, values: &[String], spec: &DriveSpec) -> Result<Tried> {
        // Chunks are not asked for: one for the whole run.
        let whole = Chunking::Commands(u64::MAX);
        let mut silent = Progress::new(None, true);
        let summary = simulate(&self.workload, spec, whole, None, &mut silent)?.summary;
        let response = summary.tally.response(|_| true);
        let simulated = summary.end - summary.start;
        let point = SweepPoint {
            values: values.to_vec(),
            hit_ratio: summary.tally.counts.hit_ratio(),
            response_mean_ns: response.mean().0,
            response_p99_ns: response.quantile(0.99).0,
            response_max_ns: response.max().0,
            seeks: summary.usage.seeks.total(),
            idle_ratio: summary.usage.time.idle.0 as f64 / simulated.0.max(1) as f64,
            ..SweepPoint::default()
        };
        Ok(Tried { point, commands: summary.tally.counts.commands, simulated })
    }
}

/// Records for each point the first earlier point with the same effective drive, if any, and the varied settings whose
/// effective values differ from the written ones.
fn mark_same_drives(
    points: &mut [SweepPoint],
    drives: &[(Vec<String>, DriveSpec)],
    varied: &[(String, Vec<String>)],
) {
    let mut first_of: BTreeMap<String, u64> = BTreeMap::new();
    for (number, (point, (_, drive))) in (0..).zip(points.iter_mut().zip(drives)) {
        let first = *first_of.entry(drive.effective().to_toml()).or_insert(number);
        point.same_drive_as_point = Some(first).filter(|first| *first != number);
        let limits =
            drive.limits().into_iter().filter(|limit| varied.iter().any(|(key, _)| *key == limit.key));
        point.limits = limits
            .map(|limit| SweepLimit {
                key: limit.key,
                value: limit.value,
                acts_as: limit.acts_as,
                limited_by: limit.limited_by.into_iter().map(str::to_owned).collect(),
            })
            .collect();
    }
}

/// One combination, simulated.
struct Tried {
    point: SweepPoint,
    commands: u64,
    simulated: Nanos,
}
