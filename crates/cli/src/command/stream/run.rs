//! `stream run`: a pipeline from a file, until its sources end.

mod result;
mod snapshots;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_model::Nanos;
use sakiyomi_pipeline::{Pipeline, Run as Open, Standard};
use sakiyomi_report::number::duration;
use sakiyomi_report::{Document, Present, Reported, StreamRunResult, prometheus, text};
use sakiyomi_stream::adapt::{AdaptSettings, Adaptive, Finished};

use self::snapshots::{Series, SnapshotArgs};
use super::cores::here;
use crate::console::{Common, note, print_error, print_result_line, stdout};
use crate::output::{OutDir, OutFile, Overwrite};
use crate::progress::{INTERRUPTED_EXIT_CODE, Progress, end_at_second_ctrl_c, go_on};
use crate::provenance;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi stream run alerts.toml
  tail -F access.log | sakiyomi stream run top-paths.toml
  sakiyomi stream run alerts.toml --for 60s --out result
  sakiyomi stream run alerts.toml --metrics /var/lib/node_exporter/alerts.prom
  sakiyomi stream run alerts.toml --snapshot alerts.snapshot
  sakiyomi stream run alerts.toml --snapshot alerts.snapshot --resume
";

/// Time after which the end of the stream or Ctrl-C is noticed at the latest.
const POLL_PERIOD: Duration = Duration::from_millis(50);

/// Run a pipeline from a file, moving its operators between cores as the rate changes.
#[derive(Debug, Args)]
#[command(
    after_help = "The pipeline begins on one core, is measured, and from then on uses the fewest cores that hold its \
        rate with nearly the lowest latency. Operators move between cores without stopping the stream. It \
        runs until its sources end, or until Ctrl-C, after which the rows that sources have passed on are \
        still processed (exit code 130); a second Ctrl-C does not wait for outputs. With --snapshot, Ctrl-C \
        and --for write a last snapshot instead and end no window, so that --resume continues as if there \
        had been no interruption; when the sources have ended, the file is removed. The result goes to \
        standard output, or to standard error if a sink of the pipeline writes to standard output."
)]
pub(crate) struct Run {
    /// The pipeline, as TOML
    file: PathBuf,
    /// Maximum number of cores to use
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cores_max: Option<u16>,
    /// Leave threads to the scheduler instead of pinning each to a core
    #[arg(long)]
    unpinned: bool,
    /// End the sources after this time
    #[arg(long, value_name = "TIME")]
    r#for: Option<Nanos>,
    /// Time between two updates of --metrics [default: 1s]; with --json, also print one object at each update
    #[arg(long, value_name = "TIME")]
    interval: Option<Nanos>,
    /// Write the figures in the text format of Prometheus to this file at each update
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    snapshots: SnapshotArgs,
}

/// How a run ended.
#[derive(Clone, Copy, Default)]
struct Ending {
    /// By Ctrl-C.
    is_interrupted: bool,
    /// It is to be resumed.
    is_suspended: bool,
}

/// Time between two updates if none is given.
const UPDATE_PERIOD: Duration = Duration::from_secs(1);

impl Run {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        ensure!(self.interval != Some(Nanos(0)), "--interval 0: give a time between two updates, such as 1s");
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        // Errors of its path are reported before anything is read.
        self.metrics.as_deref().map(OutFile::create).transpose()?;
        self.snapshots.check()?;
        end_at_second_ctrl_c();
        let pipeline = Pipeline::read(&self.file)?;
        let has_stdout = pipeline.writes_to_stdout();
        ensure!(
            !(common.json && has_stdout),
            "--json: a sink of {} writes to standard output, too; give the sink a file, or use --out",
            self.file.display()
        );
        let from = self.snapshots.read(&pipeline)?;
        let topology = here(self.cores_max.map(usize::from))?;
        let standard = Standard { input: Some(Box::new(std::io::stdin())), output: Some(Box::new(stdout())) };
        let (stream, open) = self.snapshots.build(&pipeline, standard, from.as_ref())?;
        let mut series = self.snapshots.series(&pipeline, &open, from.as_ref());
        let losses: Vec<String> = series.iter().flat_map(|_| pipeline.losses()).collect();
        let settings = AdaptSettings { is_pinned: !self.unpinned, ..AdaptSettings::default() };
        let namer = result::Namer {
            pipeline: self.file.display().to_string(),
            operators: pipeline.operators().map(str::to_owned).collect(),
            topology: topology.clone(),
            is_pinned: settings.is_pinned,
            begun: Instant::now(),
            losses,
        };
        let adaptive = match &from {
            Some(snapshot) => stream.start_adaptive_from(topology, settings, snapshot)?,
            None => stream.start_adaptive(topology, settings)?,
        };
        drop(from);
        namer.losses.iter().for_each(|loss| common.note(loss));
        let watched = self.watch(&adaptive, &open, &namer, &mut series, common);
        // A run whose updates cannot be written is to be resumed, too.
        let is_suspended = series.is_some() && watched.as_ref().map_or(true, |ending| ending.is_suspended);
        if watched.is_err() && !is_suspended {
            open.stop();
        }
        let (finished, last) = finish(adaptive, &open, series.as_mut(), is_suspended)?;
        let is_left = series.is_some() && (is_suspended || !finished.report.failures.is_empty());
        let elapsed = namer.begun.elapsed();
        let mut result = namer.result(&finished.report, &finished.status, &finished.events, &open);
        let outcome = if is_left { open.suspend()? } else { open.finish()? };
        last?;
        let is_interrupted = watched?.is_interrupted;
        namer.add_outcome(&mut result, &outcome);
        if let Some(series) = series {
            result.snapshots = Some(series.result(is_left));
            if !is_left {
                series.remove()?;
            }
        }
        let document = Document::new(provenance::run(elapsed), result);
        emit(&document, out, has_stdout, common)?;
        self.write_metrics(&document.result)?;
        let code = if is_interrupted { ExitCode::from(INTERRUPTED_EXIT_CODE) } else { ExitCode::SUCCESS };
        Ok(if document.result.failures.is_empty() { code } else { ExitCode::FAILURE })
    }

    /// Waits until the sinks have ended, or a run with snapshots is to be suspended.
    fn watch(
        &self,
        adaptive: &Adaptive,
        open: &Open,
        namer: &result::Namer,
        series: &mut Option<Series>,
        common: &Common,
    ) -> Result<Ending> {
        let limit = self.r#for.map(|time| namer.begun + Duration::from_nanos(time.0));
        let period = self.interval.map_or(UPDATE_PERIOD, |time| Duration::from_nanos(time.0));
        let mut progress = Progress::new(None, common.quiet);
        let (mut update_at, mut is_interrupted, mut has_complained) = (namer.begun + period, false, false);
        // End of the last written window of each sink.
        let mut told_ns: BTreeMap<String, u64> = BTreeMap::new();
        // The first snapshot, before the stream is waited for.
        series.iter_mut().for_each(|series| series.advance(adaptive, Instant::now()));
        while !adaptive.wait_for_end(POLL_PERIOD) {
            let now = Instant::now();
            let is_over = limit.is_some_and(|limit| now >= limit);
            let is_pressed = go_on().is_err() && !is_interrupted;
            is_interrupted |= is_pressed;
            if is_over || is_pressed {
                if series.is_some() {
                    return Ok(Ending { is_interrupted, is_suspended: true });
                }
                open.stop();
            }
            if let Some(series) = series {
                series.advance(adaptive, now);
            }
            if now < update_at {
                continue;
            }
            // Updates that were slept through are not made up for.
            update_at = (update_at + period).max(now);
            let events = adaptive.events_since(0);
            let mut result = namer.result(&adaptive.report(), &adaptive.status(), &events, open);
            result.snapshots = series.as_ref().map(|series| series.result(true));
            // Ctrl-C is seen above.
            let _ = progress.set(0, || in_a_line(&result, adaptive.status().rate_per_s));
            // The pipeline continues without them.
            if let Err(error) = self.write_metrics(&result)
                && !std::mem::replace(&mut has_complained, true)
            {
                print_error(&format!("{error:#}"));
            }
            if common.json && self.interval.is_some() {
                leave_out_told(&mut result, &mut told_ns);
                print_result_line(StreamRunResult::SCHEMA, &result)?;
            }
        }
        // A program before it in a pipe may have been ended by the same Ctrl-C, and with it the input.
        Ok(Ending { is_interrupted: is_interrupted || go_on().is_err(), is_suspended: false })
    }

    fn write_metrics(&self, result: &StreamRunResult) -> Result<()> {
        let Some(path) = &self.metrics else { return Ok(()) };
        OutFile::create(path)?.write(prometheus::stream(result).as_bytes())
    }
}

/// Waits for the end of a stream, or suspends it; with a last snapshot, whose error comes beside the figures.
fn finish(
    adaptive: Adaptive,
    open: &Open,
    series: Option<&mut Series>,
    is_suspended: bool,
) -> Result<(Finished, Result<()>)> {
    match series {
        Some(series) if is_suspended => {
            let last = series.suspend(&adaptive, open);
            let (report, status) = (adaptive.report(), adaptive.status());
            Ok((Finished { report, status, events: adaptive.events_since(0) }, last))
        }
        series => {
            series.into_iter().for_each(|series| series.end(&adaptive));
            Ok((adaptive.finish()?, Ok(())))
        }
    }
}

/// Removes the windows that an earlier line had.
fn leave_out_told(result: &mut StreamRunResult, told_ns: &mut BTreeMap<String, u64>) {
    for sink in &mut result.sinks {
        let told = told_ns.entry(sink.name.clone()).or_default();
        sink.windows.retain(|window| window.end_ns > *told);
        *told = sink.windows.last().map_or(*told, |window| window.end_ns);
    }
}

/// Returns the state of a run for its progress.
fn in_a_line(result: &StreamRunResult, rate_per_s: Option<f64>) -> String {
    let records: u64 = result.sources.iter().map(|source| source.records).sum();
    let rate = rate_per_s.map(|rate| format!(", {rate:.0} a second")).unwrap_or_default();
    let latency =
        result.sinks.iter().filter_map(|sink| sink.windows.last()).map(|window| window.p99_ns).max();
    let latency = latency.map(|ns| format!(", p99 {}", duration(ns))).unwrap_or_default();
    format!("{records} records{rate}{latency}")
}

/// Writes the result to where no sink writes.
fn emit(
    document: &Document<StreamRunResult>,
    out: Option<OutDir>,
    has_stdout: bool,
    common: &Common,
) -> Result<()> {
    if let Some(out) = out {
        out.write_report(document)?;
        common.note(&out.report());
    }
    if !has_stdout {
        return common.present(document);
    }
    if !common.quiet {
        note(&text::render(&document.report(), common.color.style_of_notes()));
    }
    Ok(())
}
