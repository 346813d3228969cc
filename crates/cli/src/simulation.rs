//! Simulation of a trace on a drive, in virtual time: used by `sim` and `sweep`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use sakiyomi_drive::observe::{Chunking, Observation, Summary};
use sakiyomi_drive::replay::{Arrival, HostSide, Replay, ReplayObserver};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_drive::{Disk, Drive};
use sakiyomi_model::{Completion, Device, Nanos};
use sakiyomi_trace::{Fit, Record, Trace, TraceError};

use crate::args::WorkloadArgs;
use crate::log::Logs;
use crate::progress::Progress;

/// Records between two updates of the progress.
const PROGRESS_PERIOD_RECORDS: u64 = 1 << 14;

/// The outcome of a simulation.
pub(crate) struct Simulated {
    pub(crate) summary: Summary,
    pub(crate) host: HostSide,
    pub(crate) trace: String,
    /// Description of the replay.
    pub(crate) replay: Vec<String>,
}

/// Runs `workload` on `spec`. `logs` receives the events; `progress` is advanced.
pub(crate) fn simulate(
    workload: &WorkloadArgs,
    spec: &DriveSpec,
    chunking: Chunking,
    logs: Option<&mut Logs>,
    progress: &mut Progress,
) -> Result<Simulated> {
    let mut disk = Disk::new(spec)?;
    let trace = Trace::open(&workload.trace, &workload.reading.options()?)?;
    let name = trace.name().to_owned();
    let replay = workload.replaying.replay(trace.is_closed_loop())?;
    let describe = workload.describe(&replay);
    let fit = Fit { sector: disk.sector(), capacity: disk.capacity(), wrap: workload.replaying.wrap };
    let arrivals = Arrivals { trace, fit, name: name.clone(), taken: 0, progress };
    let observation = Observation::new(chunking, workload.warm_up, disk.sector());
    let (summary, host) = match (&mut disk, logs) {
        (Disk::Drive(drive), None) => observed(&mut **drive, &replay, arrivals, observation)?,
        (Disk::Drive(drive), Some(logs)) => logged(drive, &replay, arrivals, observation, logs)?,
        (Disk::Array(array), None) => observed(&mut **array, &replay, arrivals, observation)?,
        (Disk::Array(_), Some(_)) => bail!("--log is for a single drive: leave it out, or the array"),
    };
    if summary.tally.counts.commands == 0 {
        let after = if workload.warm_up.is_zero() { "" } else { " after the warm-up" };
        bail!("{name}: no command completed{after}, so there is nothing to report");
    }
    Ok(Simulated { summary, host, trace: name, replay: describe })
}

/// Returns the size of the trace's file, for a progress bar.
pub(crate) fn trace_size(trace: &Path) -> Option<u64> {
    std::fs::metadata(trace).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
}

/// The trace's records as the host's requests.
struct Arrivals<'a> {
    trace: Trace,
    fit: Fit,
    name: String,
    taken: u64,
    progress: &'a mut Progress,
}

impl Arrivals<'_> {
    fn arrival(&self, record: &Record) -> Result<Arrival, TraceError> {
        Ok(Arrival {
            at: record.time,
            think: record.think.unwrap_or(Nanos::ZERO),
            stream: record.stream,
            op: record.op,
            fua: record.fua,
            extent: self.fit.extent(record, &self.name)?,
        })
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Result<Arrival>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.trace.next()?;
        self.taken += 1;
        if self.taken.is_multiple_of(PROGRESS_PERIOD_RECORDS) {
            let (read, taken) = (self.trace.bytes_read(), self.taken);
            if let Err(interrupted) = self.progress.set(read, || format!("{taken} commands")) {
                return Some(Err(interrupted.into()));
            }
        }
        Some(record.and_then(|record| self.arrival(&record)).map_err(anyhow::Error::from))
    }
}

fn observed(
    device: &mut impl sakiyomi_drive::Simulated,
    replay: &Replay,
    arrivals: Arrivals<'_>,
    mut observation: Observation,
) -> Result<(Summary, HostSide)> {
    let host = replay.run(device, arrivals, &mut observation)?;
    Ok((observation.finish(device, host.end), host))
}

fn logged(
    drive: &mut Drive,
    replay: &Replay,
    arrivals: Arrivals<'_>,
    mut observation: Observation,
    logs: &mut Logs,
) -> Result<(Summary, HostSide)> {
    drive.keep_log();
    observation.keep_chunks();
    let mut logging = Logging { observation, logs, failed: None };
    let host = replay.run(drive, arrivals, &mut logging)?;
    let Logging { mut observation, logs, failed } = logging;
    if let Some(error) = failed {
        return Err(error).context("cannot write the logs");
    }
    let summary = observation.finish(drive, host.end);
    logs.drain(drive, &mut observation).context("cannot write the logs")?;
    Ok((summary, host))
}

/// Observes and logs. The first write error is kept: an observer cannot stop a replay.
struct Logging<'a> {
    observation: Observation,
    logs: &'a mut Logs,
    failed: Option<std::io::Error>,
}

impl ReplayObserver for Logging<'_> {
    fn before(&mut self, drive: &Drive, now: Nanos) {
        self.observation.before(drive, now);
    }

    fn completed(&mut self, drive: &mut Drive, completion: &Completion, backlog: usize) {
        self.observation.completed(drive, completion, backlog);
        if self.failed.is_some() {
            return;
        }
        let written =
            self.logs.command(completion).and_then(|()| self.logs.drain(drive, &mut self.observation));
        self.failed = written.err();
    }
}
