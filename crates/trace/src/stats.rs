//! Statistics of a trace: counts, sizes, sequentiality, footprint and times, in constant memory.
//!
//! ```
//! use sakiyomi_model::Bytes;
//! use sakiyomi_trace::generate::{Pattern, Workload};
//! use sakiyomi_trace::stats::Collector;
//!
//! let workload = Workload { pattern: Pattern::Sequential, ..Workload::new(100, Bytes(1 << 20)) };
//! let mut collector = Collector::default();
//! for record in workload.records(1)? {
//!     collector.observe(&record);
//! }
//! assert_eq!(collector.finish().reads, 100);
//! # Ok::<(), sakiyomi_trace::TraceError>(())
//! ```

mod distribution;
mod footprint;
mod sequential;

pub use distribution::Distribution;

use std::collections::BTreeSet;

use sakiyomi_model::{Bytes, Nanos, Op};
use serde::Serialize;

use crate::record::Record;
use distribution::Gatherer;
use footprint::Footprint;
use sequential::Sequential;

/// Maximum number of device numbers counted.
pub const DEVICES_MAX: usize = 1 << 16;

/// Statistics of a trace. Keys of the serialized form end in their unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// Number of commands.
    pub records: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of discards.
    pub discards: u64,
    /// Writes with forced unit access.
    pub fua_writes: u64,
    /// Share of reads among reads and writes, from 0 to 1; absent if there are none.
    pub read_ratio: Option<f64>,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of devices, up to [`DEVICES_MAX`].
    pub devices: usize,
    /// Whether each command waits for the previous one.
    pub closed_loop: bool,
    /// Nanoseconds from the first arrival to the last. Closed loop: the sum of response and think times, absent if
    /// response times were not measured.
    pub duration_ns: Option<u64>,
    /// Commands per second over the duration.
    pub requests_per_s: Option<f64>,
    /// Bytes read and written per second over the duration.
    pub bytes_per_s: Option<f64>,
    /// Sizes of reads and writes, in bytes.
    pub size_bytes: Option<Distribution>,
    /// Share of reads and writes that begin where the last one of the same device and operation ended, from 0 to 1.
    pub sequential_ratio: Option<f64>,
    /// Share of reads and writes that begin where any of the last 32 streams of the same device and operation ended,
    /// which also detects interleaved streams.
    pub stream_sequential_ratio: Option<f64>,
    /// Distinct 4 KiB blocks read or written, in bytes: exact up to 256 MiB, beyond that an estimate with a standard
    /// error of about 0.5 %.
    pub footprint_bytes: u64,
    /// Highest end address on any device.
    pub highest_end_bytes: u64,
    /// Nanoseconds between arrivals; absent in a closed loop.
    pub inter_arrival_ns: Option<Distribution>,
    /// Think times in a closed loop, in nanoseconds.
    pub think_ns: Option<Distribution>,
    /// Measured response times, in nanoseconds.
    pub response_ns: Option<Distribution>,
    /// Mean number of outstanding commands, by Little's law, if all response times were measured.
    pub queue_depth_mean: Option<f64>,
}

impl Info {
    /// Relates rates and mean queue depth to the time of a recording, which includes the time before the first arrival
    /// and that after the last.
    #[must_use]
    pub fn over(self, elapsed: Nanos) -> Info {
        let seconds = (elapsed > Nanos::ZERO).then_some(elapsed.0 as f64 / 1e9);
        let data_bytes = self.read_bytes.saturating_add(self.written_bytes);
        let responses = self.response_ns.as_ref().filter(|times| times.count == self.records);
        Info {
            requests_per_s: seconds.map(|seconds| self.records as f64 / seconds),
            bytes_per_s: seconds.map(|seconds| data_bytes as f64 / seconds),
            queue_depth_mean: seconds
                .zip(responses)
                .map(|(seconds, times)| times.mean * times.count as f64 / 1e9 / seconds),
            ..self
        }
    }
}

/// Collects the statistics of a trace, record by record.
#[derive(Debug, Default)]
pub struct Collector {
    counts: [u64; 4],
    fua_writes: u64,
    bytes: [u64; 4],
    devices: BTreeSet<u32>,
    closed_loop: bool,
    first: Option<Nanos>,
    last: Nanos,
    highest_end: Bytes,
    sizes: Gatherer,
    inter_arrivals: Gatherer,
    thinks: Gatherer,
    responses: Gatherer,
    sequential: Sequential,
    footprint: Footprint,
}

impl Collector {
    /// Adds the next record, in order of time.
    pub fn observe(&mut self, record: &Record) {
        let op = record.op as usize;
        self.counts[op] += 1;
        self.bytes[op] = self.bytes[op].saturating_add(record.length.0);
        self.fua_writes += u64::from(record.fua && record.op == Op::Write);
        if self.devices.len() < DEVICES_MAX {
            self.devices.insert(record.device);
        }
        self.highest_end = self.highest_end.max(record.end());
        if matches!(record.op, Op::Read | Op::Write) {
            self.sizes.add(record.length.0);
            self.sequential.observe(record);
            self.footprint.touch(record);
        }
        self.observe_times(record);
    }

    fn observe_times(&mut self, record: &Record) {
        match self.first {
            None => {
                self.first = Some(record.time);
                self.closed_loop = record.think.is_some();
            }
            Some(_) => self.inter_arrivals.add(record.time.saturating_sub(self.last).0),
        }
        self.last = record.time;
        if let Some(think) = record.think {
            self.thinks.add(think.0);
        }
        if let Some(response) = record.response {
            self.responses.add(response.0);
        }
    }

    /// Returns the statistics.
    #[must_use]
    pub fn finish(self) -> Info {
        let [reads, writes, flushes, discards] = self.counts;
        let records = reads + writes + flushes + discards;
        let data_bytes = self.bytes[Op::Read as usize].saturating_add(self.bytes[Op::Write as usize]);
        let duration_ns = self.duration_ns(records);
        let seconds = duration_ns.filter(|&duration| duration > 0).map(|duration| duration as f64 / 1e9);
        let all_measured = records > 0 && self.responses.count() == records;
        Info {
            records,
            reads,
            writes,
            flushes,
            discards,
            fua_writes: self.fua_writes,
            read_ratio: ratio(reads, reads + writes),
            read_bytes: self.bytes[Op::Read as usize],
            written_bytes: self.bytes[Op::Write as usize],
            devices: self.devices.len(),
            closed_loop: self.closed_loop,
            duration_ns,
            requests_per_s: seconds.map(|seconds| records as f64 / seconds),
            bytes_per_s: seconds.map(|seconds| data_bytes as f64 / seconds),
            size_bytes: self.sizes.finish(),
            sequential_ratio: ratio(self.sequential.last_hits(), reads + writes),
            stream_sequential_ratio: ratio(self.sequential.stream_hits(), reads + writes),
            footprint_bytes: self.footprint.bytes(),
            highest_end_bytes: self.highest_end.0,
            queue_depth_mean: seconds
                .filter(|_| all_measured)
                .map(|seconds| self.responses.sum() / 1e9 / seconds),
            inter_arrival_ns: if self.closed_loop { None } else { self.inter_arrivals.finish() },
            think_ns: self.thinks.finish(),
            response_ns: self.responses.finish(),
        }
    }

    fn duration_ns(&self, records: u64) -> Option<u64> {
        if !self.closed_loop {
            return self.first.map(|first| self.last.saturating_sub(first).0);
        }
        // A float-to-integer `as` saturates.
        (self.responses.count() == records).then(|| (self.responses.sum() + self.thinks.sum()) as u64)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(records: &[Record]) -> Info {
        let mut collector = Collector::default();
        records.iter().for_each(|record| collector.observe(record));
        collector.finish()
    }

    fn record(time_ms: u64, op: Op, offset: u64, length: u64) -> Record {
        Record::new(Nanos::MILLISECOND * time_ms, op, Bytes(offset), Bytes(length))
    }

    #[test]
    fn an_open_trace_is_summed_up() {
        let info = info(&[
            record(0, Op::Read, 0, 4096),
            record(250, Op::Read, 4096, 4096),
            Record { fua: true, ..record(500, Op::Write, 1 << 20, 8192) },
            record(1000, Op::Flush, 0, 0),
        ]);
        insta::assert_snapshot!(serde_json::to_string_pretty(&info).unwrap());
    }

    #[test]
    fn a_closed_loop_lasts_as_long_as_its_responses_and_thinks() {
        let (think, response) = (Some(Nanos::MILLISECOND * 3), Some(Nanos::MILLISECOND));
        let info = info(&[Record { think, response, ..record(0, Op::Read, 0, 512) }; 5]);
        assert_eq!(info.duration_ns, Some(20_000_000));
        assert_eq!(info.queue_depth_mean, Some(0.25));
        assert!(info.closed_loop && info.inter_arrival_ns.is_none());
    }

    #[test]
    fn rates_and_depth_of_a_recording_are_those_of_one_time() {
        let timed = |time, response: Option<u64>| Record {
            response: response.map(|ms| Nanos::MILLISECOND * ms),
            ..record(time, Op::Read, 0, 4096)
        };
        let of_recording = info(&[timed(100, Some(500)), timed(150, Some(1500))]).over(Nanos::SECOND * 4);
        assert_eq!(of_recording.requests_per_s, Some(0.5));
        assert_eq!(of_recording.bytes_per_s, Some(2048.0));
        assert_eq!(of_recording.queue_depth_mean, Some(0.5));
        assert_eq!(of_recording.duration_ns, Some(50_000_000));
        let one = info(&[timed(100, Some(500))]).over(Nanos::SECOND);
        assert_eq!(one.queue_depth_mean, Some(0.5), "a single request has a depth");
        let untimed = info(&[timed(100, Some(500)), timed(150, None)]).over(Nanos::SECOND);
        assert_eq!((untimed.queue_depth_mean, untimed.requests_per_s), (None, Some(2.0)));
        assert_eq!(info(&[timed(0, Some(1))]).over(Nanos::ZERO).requests_per_s, None);
    }

    #[test]
    fn an_empty_trace_has_no_ratios() {
        let info = info(&[]);
        assert_eq!((info.records, info.read_ratio, info.duration_ns), (0, None, None));
    }
}
