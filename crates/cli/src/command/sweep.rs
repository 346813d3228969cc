//! `sweep`: all combinations of settings, on all cores.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_drive::observe::Chunking;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::schema::SweepPoint;
use sakiyomi_report::{Document, SweepResult, chart, html, text};
use sakiyomi_trace::table::{Column, Kind, TableFile, Value};

use crate::args::{Common, WorkloadArgs};
use crate::console::{note, say, say_json};
use crate::outcome::simulation_run;
use crate::output::OutDir;
use crate::progress::Progress;
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
    /// A setting with the values to try; may be repeated: all combinations are tried
    #[arg(long, value_name = "KEY=A,B,…", required = true)]
    vary: Vec<String>,
    /// Write result.json, points.parquet, report.html and the pictures into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Sweep {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let begun = Instant::now();
        ensure!(
            self.workload.trace.as_os_str() != "-",
            "a sweep reads its trace once for each combination, and stdin can be read only once; give a file"
        );
        let spec = self.workload.drive.spec(common)?;
        let varied = vary::parse(&self.vary)?;
        let drives = combinations(&spec, &varied)?;
        let out = self.out.as_deref().map(OutDir::new).transpose()?;

        let tried = self.explore(&drives, common)?;
        let commands = tried.iter().map(|tried| tried.commands).sum();
        let simulated = tried.iter().map(|tried| tried.simulated).sum();
        let points = tried.into_iter().map(|tried| tried.point).collect();
        let keys = varied.into_iter().map(|(key, _)| key).collect();
        let trace = self.workload.trace.display().to_string();
        let settings = self.workload.drive.set.clone();
        let mut result = SweepResult { trace, drive: spec.name, settings, varied: keys, points };
        result.mark_undominated();
        let document = Document::sweep(simulation_run(begun.elapsed(), commands, simulated), result);
        if let Some(out) = &out {
            out.write_json("result.json", &document)?;
            write_table(out, &document.result)?;
            out.write("report.html", html::sweep(&document).as_bytes())?;
            out.write_charts(&chart::sweep(&document.result))?;
            if !common.quiet {
                note(&format!("report: {}", out.path().join("report.html").display()));
            }
        }
        if common.json {
            say_json(&document)?;
        } else {
            say(&text::sweep(&document, common.color.style()))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Simulates every combination, as many at a time as there are cores; the first failure ends it.
    fn explore(&self, drives: &[(Vec<String>, DriveSpec)], common: &Common) -> Result<Vec<Tried>> {
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<(usize, Result<Tried>)>> = Mutex::new(Vec::with_capacity(drives.len()));
        let progress = Mutex::new(Progress::new(Some(drives.len() as u64), common.quiet));
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(drives.len());
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some((values, spec)) = drives.get(index) else { return };
                let mut outcome = self.point(values, spec);
                let mut outcomes = outcomes.lock().expect("no worker panics while it holds the outcomes");
                let done = outcomes.len() as u64 + 1;
                let message = || format!("{done} of {} combinations", drives.len());
                let seen =
                    progress.lock().expect("no worker panics while it holds the bar").set(done, message);
                if let Err(interrupted) = seen {
                    outcome = Err(interrupted.into());
                }
                if outcome.is_err() {
                    next.store(drives.len(), Ordering::Relaxed);
                }
                outcomes.push((index, outcome));
            }
        };
        std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
        let mut outcomes = outcomes.into_inner().expect("the workers have ended");
        outcomes.sort_by_key(|(index, _)| *index);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
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
            undominated: false,
        };
        Ok(Tried { point, commands: summary.tally.counts.commands, simulated })
    }
}

/// One combination, simulated.
struct Tried {
    point: SweepPoint,
    commands: u64,
    simulated: Nanos,
}

/// Every combination of values with the drive that has them, the last key varying fastest. All are checked before any
/// is simulated.
fn combinations(spec: &DriveSpec, varied: &[(String, Vec<String>)]) -> Result<Vec<(Vec<String>, DriveSpec)>> {
    vary::check_count(varied)?;
    let mut drives = vec![(Vec::new(), spec.clone())];
    for (key, values) in varied {
        let mut wider = Vec::with_capacity(drives.len() * values.len());
        for (chosen, drive) in &drives {
            for value in values {
                let mut drive = drive.clone();
                drive.set(key, value)?;
                wider.push(([chosen.as_slice(), std::slice::from_ref(value)].concat(), drive));
            }
        }
        drives = wider;
    }
    drives.iter().try_for_each(|(_, drive)| drive.check())?;
    Ok(drives)
}

fn write_table(out: &OutDir, result: &SweepResult) -> Result<()> {
    let path = out.path().join("points.parquet");
    let mut columns: Vec<Column> = result.varied.iter().map(|key| Column::new(key, Kind::Text)).collect();
    columns.push(Column::new("hit_ratio", Kind::F64));
    columns.extend(
        ["response_mean_ns", "response_p99_ns", "response_max_ns", "seeks"]
            .map(|name| Column::new(name, Kind::U64)),
    );
    columns.extend([Column::new("idle_ratio", Kind::F64), Column::new("undominated", Kind::Bool)]);
    let write = || {
        let mut table = TableFile::create(&path, columns)?;
        for point in &result.points {
            let mut row: Vec<Value<'_>> = point.values.iter().map(|value| Value::Text(value)).collect();
            row.push(Value::F64(point.hit_ratio));
            row.extend(
                [point.response_mean_ns, point.response_p99_ns, point.response_max_ns, point.seeks]
                    .map(Value::U64),
            );
            row.extend([Value::F64(point.idle_ratio), Value::Bool(point.undominated)]);
            table.row(&row)?;
        }
        table.finish()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
