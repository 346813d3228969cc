//! `sweep`: all combinations of settings, on all cores.

mod points;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_drive::observe::Chunking;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::result::{SweepLimit, SweepPoint};
use sakiyomi_report::{Document, Run, SweepResult};
use serde::{Deserialize, Serialize};

use crate::args::WorkloadArgs;
use crate::console::Common;
use crate::output::{OutDir, Overwrite};
use crate::parallel;
use crate::progress::Progress;
use crate::provenance::{machine, nanos};
use crate::shard::{Content, Definition, Effort, PointsArgs, Reproducible, ShardSet, run_shard};
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
    #[command(flatten)]
    points: PointsArgs,
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
        let drives = drives(&spec, &varied)?;
        // All, before any is simulated.
        for (values, _) in &drives {
            let keys = varied.iter().map(|(key, _)| key.as_str());
            spec.with_settings(keys.zip(values.iter().map(String::as_str)))?;
        }
        let mut definition = SweepDefinition {
            trace: self.workload.trace.display().to_string(),
            content: None,
            workload: self.workload.definition(),
            drive: spec.to_toml(),
            settings: self.workload.drive.set.clone(),
            varied,
        };
        let (reproducible, out) = (self.points.reproducible, (self.out.as_deref(), self.overwrite));
        if let Some(shard) = self.points.shard {
            definition.content = Some(Content::of(&self.workload.trace, common)?);
            let compute = |range: Range<usize>| self.compute(&drives[range], begun, common);
            return run_shard(shard, &definition, drives.len(), out, (reproducible, common), compute);
        }
        let out = out_dir(out)?;
        let (points, effort) = self.compute(&drives, begun, common)?;
        finish(definition, &drives, points, reproducible.run(&effort), out.as_ref(), common)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the points of some combinations, each by itself.
    fn compute(
        &self,
        drives: &[(Vec<String>, DriveSpec)],
        begun: Instant,
        common: &Common,
    ) -> Result<(Vec<SweepPoint>, Effort)> {
        let tried =
            parallel::each(drives, "combinations", common, |(values, drive)| self.point(values, drive))?;
        let effort = Effort {
            wall_ns: nanos(begun.elapsed()),
            commands: tried.iter().map(|tried| tried.commands).sum(),
            simulated: tried.iter().map(|tried| tried.simulated).sum(),
            machine: machine(),
        };
        Ok((tried.into_iter().map(|tried| tried.point).collect(), effort))
    }

    fn point(&self, values: &[String], spec: &DriveSpec) -> Result<SimulatedPoint> {
        // Chunks are not shown: one covers the whole run.
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
        Ok(SimulatedPoint { point, commands: summary.tally.counts.commands, simulated })
    }
}

/// All that the points of a sweep depend on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SweepDefinition {
    trace: String,
    /// Content of the trace; `None` if the run is not divided into shards.
    content: Option<Content>,
    /// How the trace is read and replayed.
    workload: String,
    /// The drive that is varied, as TOML.
    drive: String,
    settings: Vec<String>,
    varied: Vec<(String, Vec<String>)>,
}

impl Definition for SweepDefinition {
    type Point = SweepPoint;
    const COMMAND: &'static str = "sweep";
    const PARTS: &'static [(&'static str, &'static str)] = &[
        ("trace", "the path of the trace"),
        ("content", "the content of the trace"),
        ("workload", "how the trace is read and replayed"),
        ("settings", "the settings of the drive"),
        ("drive", "the drive"),
        ("varied", "the varied keys"),
    ];
}

/// The result of all shards of a sweep.
pub(super) fn merge(
    shards: ShardSet,
    out: (Option<&Path>, Overwrite),
    reproducible: Reproducible,
    common: &Common,
) -> Result<()> {
    let out = out_dir(out)?;
    let (definition, points, effort) = shards.read::<SweepDefinition>()?;
    let spec = DriveSpec::from_toml(&definition.drive, "the drive of the shards")?;
    let drives = drives(&spec, &definition.varied)?;
    finish(definition, &drives, points, reproducible.run(&effort), out.as_ref(), common)
}

fn out_dir((path, overwrite): (Option<&Path>, Overwrite)) -> Result<Option<OutDir>> {
    overwrite.out(path, &["points.parquet", "points.csv"])
}

/// Returns the varied values of each point, and its drive.
fn drives(spec: &DriveSpec, varied: &[(String, Vec<String>)]) -> Result<Vec<(Vec<String>, DriveSpec)>> {
    vary::combinations(spec, varied, |drive, key, value| Ok(drive.set(key, value)?))
}

/// Compares all points with each other, and writes the result.
fn finish(
    definition: SweepDefinition,
    drives: &[(Vec<String>, DriveSpec)],
    mut points: Vec<SweepPoint>,
    run: Run,
    out: Option<&OutDir>,
    common: &Common,
) -> Result<()> {
    let SweepDefinition { trace, settings, varied, .. } = definition;
    mark_same_drives(&mut points, drives, &varied);
    let drive = drives.first().map(|(_, drive)| drive.name.clone()).unwrap_or_default();
    let keys = varied.into_iter().map(|(key, _)| key).collect();
    let mut result = SweepResult { trace, drive, settings, varied: keys, points };
    result.mark_undominated();
    let document = Document::new(run, result);
    if let Some(out) = out {
        out.write_report(&document)?;
        points::write(out, &document.result, drives)?;
        common.note(&out.report());
    }
    common.present(&document)
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
struct SimulatedPoint {
    point: SweepPoint,
    commands: u64,
    simulated: Nanos,
}
