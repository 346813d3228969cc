//! `sweep`: all combinations of settings, on all cores.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_report::result::SweepPoint;
use sakiyomi_report::{Document, Run, SweepResult};
use sakiyomi_simulation::{self as simulation, PointsTable, SimulatedPoint, Varied, parse_varied};
use sakiyomi_trace::table::TableFile;
use serde::{Deserialize, Serialize};

use crate::args::WorkloadArgs;
use crate::console::Common;
use crate::output::{OutDir, Overwrite, cannot_write};
use crate::parallel;
use crate::progress::go_on;
use crate::provenance::{machine, nanos};
use crate::shard::{Content, Definition, Effort, PointsArgs, Reproducible, ShardSet, run_shard};
use crate::simulation::of_simulation;

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
        let varied = parse_varied(&self.vary, "cache.read_ahead.max=64KiB,256KiB,1MiB")?;
        let sweep = simulation::Sweep::new(&spec, varied)?;
        let drives = sweep.points();
        let mut definition = SweepDefinition {
            trace: self.workload.trace.display().to_string(),
            content: None,
            workload: self.workload.definition(),
            drive: spec.to_toml(),
            settings: self.workload.drive.set.clone(),
            varied: sweep.varied().clone(),
        };
        let (reproducible, out) = (self.points.reproducible, (self.out.as_deref(), self.overwrite));
        if let Some(shard) = self.points.shard {
            definition.content = Some(Content::of(&self.workload.trace, common)?);
            let compute = |range: Range<usize>| self.compute(&drives[range], begun, common);
            return run_shard(shard, &definition, drives.len(), out, (reproducible, common), compute);
        }
        let out = out_dir(out)?;
        let (points, effort) = self.compute(drives, begun, common)?;
        finish(definition, &sweep, points, reproducible.run(&effort), out.as_ref(), common)?;
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
        let workload = self.workload.workload()?;
        let point = simulation::sweep_point(&workload, values, spec, &mut |_, _| go_on().is_ok());
        point.map_err(of_simulation)
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
    varied: Varied,
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
    let sweep = simulation::Sweep::unchecked(&spec, definition.varied.clone())?;
    finish(definition, &sweep, points, reproducible.run(&effort), out.as_ref(), common)
}

fn out_dir((path, overwrite): (Option<&Path>, Overwrite)) -> Result<Option<OutDir>> {
    overwrite.out(path, &["points.parquet", "points.csv"])
}

/// Compares all points with each other, and writes the result.
fn finish(
    SweepDefinition { trace, settings, .. }: SweepDefinition,
    sweep: &simulation::Sweep,
    points: Vec<SweepPoint>,
    run: Run,
    out: Option<&OutDir>,
    common: &Common,
) -> Result<()> {
    let document: Document<SweepResult> = Document::new(run, sweep.result(&trace, &settings, points));
    if let Some(out) = out {
        out.write_report(&document)?;
        let table = sweep.table(&document.result);
        for name in ["points.parquet", "points.csv"] {
            let path = out.path().join(name);
            write_table(&path, &table).with_context(|| cannot_write(&path))?;
        }
        common.note(&out.report());
    }
    common.present(&document)
}

fn write_table(path: &Path, points: &PointsTable<'_>) -> io::Result<()> {
    let mut table = TableFile::create(path, points.columns())?;
    points.rows().try_for_each(|row| table.row(&row))?;
    table.finish()
}
