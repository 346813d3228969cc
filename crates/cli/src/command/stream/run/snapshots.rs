//! Snapshots of a run: the options, and when they are taken.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use sakiyomi_model::Nanos;
use sakiyomi_pipeline::{Pipeline, Run, Snapshots, Standard};
use sakiyomi_report::result::StreamSnapshots;
use sakiyomi_stream::adapt::Adaptive;
use sakiyomi_stream::{Snapshot, Stream};

use crate::console::print_error;
use crate::output::OutFile;
use crate::provenance::nanos;

/// Where the state is saved, and how often.
#[derive(Debug, Args)]
pub(super) struct SnapshotArgs {
    /// Write snapshots of the state to this file, from which --resume continues after a crash or Ctrl-C
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Time between two snapshots [default: 10s]
    #[arg(long, value_name = "TIME", requires = "snapshot")]
    snapshot_interval: Option<Nanos>,
    /// Continue from the file of --snapshot, which must exist
    #[arg(long, requires = "snapshot")]
    resume: bool,
}

/// Time between two snapshots if none is given: the most work that is repeated after a crash.
const SNAPSHOT_PERIOD: Duration = Duration::from_secs(10);

impl SnapshotArgs {
    /// Refuses a file that must or must not exist, and one that cannot be written.
    pub(super) fn check(&self) -> Result<()> {
        ensure!(
            self.snapshot_interval != Some(Nanos(0)),
            "--snapshot-interval 0: give a time between two snapshots, such as 10s"
        );
        let Some(path) = &self.snapshot else { return Ok(()) };
        let shown = path.display();
        ensure!(
            path.exists() || !self.resume,
            "--resume: {shown} does not exist; omit --resume to start from the beginning"
        );
        ensure!(
            self.resume || !path.exists(),
            "--snapshot {shown}: the file exists, so an earlier run was interrupted; continue it with --resume, or remove \
             the file to start from the beginning"
        );
        OutFile::create(path).map(drop)
    }

    /// Returns the snapshot from which the pipeline continues, if it is to.
    pub(super) fn read(&self, pipeline: &Pipeline) -> Result<Option<Snapshot>> {
        let path = self.snapshot.as_deref().filter(|_| self.resume);
        Ok(path.map(|path| pipeline.read_snapshot(path)).transpose()?)
    }

    /// Opens the inputs and outputs of a pipeline, so that it can be resumed if snapshots are wanted.
    pub(super) fn build(
        &self,
        pipeline: &Pipeline,
        standard: Standard,
        from: Option<&Snapshot>,
    ) -> Result<(Stream, Run)> {
        Ok(match &self.snapshot {
            Some(_) => pipeline.build_resumable(standard, from)?,
            None => pipeline.build(standard)?,
        })
    }

    /// Returns the snapshots of a run, if they are wanted. The first one is due at once.
    pub(super) fn series(&self, pipeline: &Pipeline, run: &Run, from: Option<&Snapshot>) -> Option<Series> {
        let path = self.snapshot.clone()?;
        let period = self.snapshot_interval.map_or(SNAPSHOT_PERIOD, |time| Duration::from_nanos(time.0));
        Some(Series {
            snapshots: pipeline.snapshots(run, path.clone()),
            path,
            period,
            due: Instant::now(),
            resumed_from: from.map(|snapshot| snapshot.epoch),
            has_complained: false,
        })
    }
}

/// The snapshots of a run.
pub(super) struct Series {
    snapshots: Snapshots,
    path: PathBuf,
    period: Duration,
    /// When to begin the next one.
    due: Instant,
    /// Number of the snapshot from which the run continued.
    resumed_from: Option<u64>,
    has_complained: bool,
}

impl Series {
    /// Begins a snapshot that is due, and carries on with one that is under way. The pipeline continues if that fails.
    pub(super) fn advance(&mut self, adaptive: &Adaptive, now: Instant) {
        let polled = self.snapshots.poll();
        self.report(polled);
        if now >= self.due && self.snapshots.is_idle() {
            adaptive.with_running(|running| self.snapshots.begin(running));
            // Snapshots that took longer than the period are not made up for.
            self.due = (self.due + self.period).max(now);
        }
    }

    /// Takes the last snapshot of a pipeline that is to be resumed: its sources stay where they are.
    pub(super) fn suspend(&mut self, adaptive: &Adaptive, run: &Run) -> Result<()> {
        run.halt();
        let before = self.snapshots.complete();
        self.report(before);
        adaptive.with_running(|running| self.snapshots.begin_last(running));
        Ok(self.snapshots.complete()?)
    }

    /// Takes the last snapshot of a pipeline that has ended, for a crash before its files have appeared.
    pub(super) fn end(&mut self, adaptive: &Adaptive) {
        let before = self.snapshots.complete();
        self.report(before);
        adaptive.with_running(|running| self.snapshots.begin(running));
        let last = self.snapshots.complete();
        self.report(last);
    }

    /// Removes the file of a pipeline that has ended.
    pub(super) fn remove(self) -> Result<()> {
        Ok(self.snapshots.remove()?)
    }

    pub(super) fn result(&self, is_left: bool) -> StreamSnapshots {
        let figures = self.snapshots.figures();
        StreamSnapshots {
            file: self.path.display().to_string(),
            is_left,
            resumed_from: self.resumed_from,
            taken: figures.taken,
            failed: figures.failed,
            last: figures.epoch,
            last_bytes: figures.bytes,
            max_bytes: figures.bytes_max,
            alignment_ns: nanos(figures.alignment),
            alignment_max_ns: nanos(figures.alignment_max),
            write_ns: nanos(figures.write),
            write_max_ns: nanos(figures.write_max),
        }
    }

    /// Tells the first failure on stderr. The file has the snapshot before.
    fn report(&mut self, result: Result<(), sakiyomi_pipeline::Error>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.has_complained, true)
        {
            print_error(&format!("{:#}", anyhow::Error::from(error)));
        }
    }
}
