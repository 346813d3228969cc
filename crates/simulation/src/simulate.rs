//! The simulation in virtual time.

use std::io;

use sakiyomi_drive::observe::{Chunking, Observation, Summary};
use sakiyomi_drive::replay::{Arrival, HostSide, Replay, ReplayObserver};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_drive::{Disk, Drive};
use sakiyomi_model::{Completion, Device, Nanos};
use sakiyomi_trace::{Fit, Record, Trace, TraceError};

use crate::{Error, Workload};

/// Records between two updates of the progress.
const PROGRESS_PERIOD_RECORDS: u64 = 1 << 14;

/// The outcome of a simulation.
#[derive(Debug)]
pub struct Simulated {
    /// Counters, times and chunks.
    pub summary: Summary,
    /// The host's queue.
    pub host: HostSide,
    /// Name of the trace.
    pub trace: String,
    /// Description of the replay.
    pub replay: Vec<String>,
}

/// A receiver of all events of a simulation.
pub trait Log {
    /// Records a completed command.
    ///
    /// # Errors
    /// If it cannot be written.
    fn command(&mut self, completion: &Completion) -> io::Result<()>;

    /// Records the events in the drive, and the chunks that have been closed.
    ///
    /// # Errors
    /// If they cannot be written.
    fn drain(&mut self, drive: &mut Drive, observation: &mut Observation) -> io::Result<()>;
}

/// A function that learns of progress, the bytes read from the trace and the number of its commands, and returns whether
/// to go on.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Runs `workload` on `spec`. `log` receives the events of a single drive. `progress` is called every 16,384 commands with
/// the bytes read from the trace and the number of commands, and returns whether to go on.
///
/// # Errors
/// If the drive is impossible, the trace cannot be read or does not fit the drive, nothing of it counts, the log cannot be
/// written, or `progress` returned false ([`Error::Stopped`]).
pub fn simulate(
    workload: &Workload,
    spec: &DriveSpec,
    chunking: Chunking,
    log: Option<&mut dyn Log>,
    progress: Progress<'_>,
) -> Result<Simulated, Error> {
    let mut disk = Disk::new(spec)?;
    let trace = workload.trace.open(&workload.reading)?;
    let name = trace.name().to_owned();
    let replay = workload.replaying.replay(trace.is_closed_loop())?;
    let describe = workload.describe(&replay);
    let fit = Fit { sector: disk.sector(), capacity: disk.capacity(), wrap: workload.replaying.wrap };
    let arrivals = Arrivals { trace, fit, name: name.clone(), taken: 0, progress };
    let observation = Observation::new(chunking, workload.warm_up, disk.sector());
    let (summary, host) = match (&mut disk, log) {
        (Disk::Drive(drive), None) => observed(&mut **drive, &replay, arrivals, observation)?,
        (Disk::Drive(drive), Some(log)) => logged(drive, &replay, arrivals, observation, log)?,
        (Disk::Array(array), None) => observed(&mut **array, &replay, arrivals, observation)?,
        (Disk::Array(_), Some(_)) => return Err(Error::LogOfArray),
    };
    if summary.tally.counts.commands == 0 {
        return Err(Error::Empty { trace: name, is_warm: !workload.warm_up.is_zero() });
    }
    Ok(Simulated { summary, host, trace: name, replay: describe })
}

/// The trace's records as the host's requests.
struct Arrivals<'a> {
    trace: Trace,
    fit: Fit,
    name: String,
    taken: u64,
    progress: Progress<'a>,
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
    type Item = Result<Arrival, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.trace.next()?;
        self.taken += 1;
        if self.taken.is_multiple_of(PROGRESS_PERIOD_RECORDS) {
            let (read, taken) = (self.trace.bytes_read(), self.taken);
            if !(self.progress)(read, taken) {
                return Some(Err(Error::Stopped));
            }
        }
        Some(record.and_then(|record| self.arrival(&record)).map_err(Error::from))
    }
}

fn observed(
    device: &mut impl sakiyomi_drive::Simulated,
    replay: &Replay,
    arrivals: Arrivals<'_>,
    mut observation: Observation,
) -> Result<(Summary, HostSide), Error> {
    let host = replay.run(device, arrivals, &mut observation)?;
    Ok((observation.finish(device, host.end), host))
}

fn logged(
    drive: &mut Drive,
    replay: &Replay,
    arrivals: Arrivals<'_>,
    mut observation: Observation,
    log: &mut dyn Log,
) -> Result<(Summary, HostSide), Error> {
    drive.keep_log();
    observation.keep_chunks();
    let mut logging = Logging { observation, log, failed: None };
    let host = replay.run(drive, arrivals, &mut logging)?;
    let Logging { mut observation, log, failed } = logging;
    if let Some(error) = failed {
        return Err(Error::Log(error));
    }
    let summary = observation.finish(drive, host.end);
    log.drain(drive, &mut observation).map_err(Error::Log)?;
    Ok((summary, host))
}

/// Observes and logs. The first write error is kept: an observer cannot stop a replay.
struct Logging<'a> {
    observation: Observation,
    log: &'a mut dyn Log,
    failed: Option<io::Error>,
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
            self.log.command(completion).and_then(|()| self.log.drain(drive, &mut self.observation));
        self.failed = written.err();
    }
}
