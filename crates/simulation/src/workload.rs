//! A trace, how it is read and how it is replayed.

use std::path::PathBuf;
use std::sync::Arc;

use sakiyomi_drive::replay::{Pace, Replay};
use sakiyomi_model::Nanos;
use sakiyomi_trace::{DeviceMap, ReadOptions, Record, Trace, TraceError};

use crate::Error;

/// Default bound of the host's queue, in requests.
pub const HOST_QUEUE_DEFAULT: u32 = 1 << 20;

/// The origin of a trace.
#[derive(Clone, Debug)]
pub enum TraceSource {
    /// A file in any supported format, plain or compressed; `-` is standard input.
    File(PathBuf),
    /// Records in memory.
    Memory {
        /// The name of the trace in results and messages.
        name: String,
        /// Its records, in the order of a file.
        records: Arc<[Record]>,
    },
}

impl TraceSource {
    /// Opens the trace, and reads its first record.
    pub(crate) fn open(&self, reading: &ReadOptions) -> Result<Trace, TraceError> {
        match self {
            TraceSource::File(path) => Trace::open(path, reading),
            TraceSource::Memory { name, records } => Trace::from_records(Arc::clone(records), name, reading),
        }
    }

    /// Returns the name of the trace in results: that of the file.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            TraceSource::File(path) => path.display().to_string(),
            TraceSource::Memory { name, .. } => name.clone(),
        }
    }
}

impl<P: Into<PathBuf>> From<P> for TraceSource {
    fn from(path: P) -> TraceSource {
        TraceSource::File(path.into())
    }
}

/// A trace and its processing.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The trace.
    pub trace: TraceSource,
    /// How it is read.
    pub reading: ReadOptions,
    /// How it is replayed.
    pub replaying: Replaying,
    /// Time from the beginning that is excluded from the results.
    pub warm_up: Nanos,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Replaying {
    /// Issue each request when an earlier one completes (true), or at its recorded time (false); by default as the trace
    /// was recorded.
    pub is_closed: Option<bool>,
    /// Number of outstanding requests of a closed loop; 1 by default.
    pub outstanding: Option<u32>,
    /// Maximum requests queued in the host while the drive's queue is full.
    pub host_queue: u32,
    /// Whether addresses beyond the end of the drive are wrapped around to its start.
    pub wrap: bool,
}

impl Default for Replaying {
    fn default() -> Replaying {
        Replaying { is_closed: None, outstanding: None, host_queue: HOST_QUEUE_DEFAULT, wrap: false }
    }
}

impl Replaying {
    /// Returns the replay of a trace, which may record a closed loop.
    pub(crate) fn replay(&self, trace_is_closed: bool) -> Result<Replay, Error> {
        let pace = match self.outstanding {
            outstanding if self.is_closed.unwrap_or(trace_is_closed) => {
                Pace::Closed { outstanding: outstanding.unwrap_or(1) as usize }
            }
            None => Pace::Open,
            Some(outstanding) => return Err(Error::Outstanding(outstanding)),
        };
        Ok(Replay { pace, host_queue: self.host_queue as usize })
    }
}

impl Workload {
    /// A trace with the options that a command has by default.
    pub fn new(trace: impl Into<TraceSource>) -> Workload {
        let (reading, replaying) = (ReadOptions::default(), Replaying::default());
        Workload { trace: trace.into(), reading, replaying, warm_up: Nanos::ZERO }
    }

    /// Describes how the trace is replayed for a result, unless simply at its own times.
    pub(crate) fn describe(&self, replay: &Replay) -> Vec<String> {
        let mut words = Vec::new();
        if let Pace::Closed { outstanding } = replay.pace {
            words.push(format!("closed loop, {outstanding} outstanding"));
        }
        words.extend(describe_reading(&self.reading));
        words.extend(self.replaying.wrap.then(|| "wrapped".to_owned()));
        let bounded = replay.host_queue != HOST_QUEUE_DEFAULT as usize;
        words.extend(bounded.then(|| format!("host queue of {}", replay.host_queue)));
        words
    }
}

/// Describes how a trace is read, where options change its content.
pub fn describe_reading(reading: &ReadOptions) -> impl Iterator<Item = String> + use<> {
    let device = reading.device.as_ref().map(|device| format!("device {device}"));
    let map = matches!(reading.map, DeviceMap::Concat).then(|| "devices concatenated".to_owned());
    let scale = (reading.time_scale != 1.0).then(|| format!("times x {}", reading.time_scale));
    [device, map, scale].into_iter().flatten()
}
