//! A trace with the times of a real drive, with which simulations are compared and from which drives are identified.

use sakiyomi_drive::Drive;
use sakiyomi_model::{Device, Nanos, Op};
use sakiyomi_report::number::plural;
use sakiyomi_trace::{DeviceMap, Fit, Format, HitLabel, ReadOptions, Record};
use sakiyomi_validate::{
    Anchored, Label, Measured, Pace, anchored_while, delays_before, follow_on, in_order,
};

use crate::workload::{TraceSource, describe_reading};
use crate::{Error, Step};

/// Maximum requests: all are held in memory, because their distributions are compared exactly.
const REQUESTS_MAX: usize = 5_000_000;
/// Maximum time, about 292 years: the sum of a later time and that of a simulated drive may not fit 64 bits.
const TIME_MAX: Nanos = Nanos(i64::MAX as u64);
/// Gain of the spindle phase's coherence from which delays are interpreted as before their requests.
const COHERENCE_GAIN_MIN: f64 = 0.05;
/// Share of requests without a measured time up to which they are left out: those that began before the end of the
/// recording and were completed after it, or whose events were lost.
const UNTIMED_RATIO_MAX: f64 = 0.1;
/// Share of requests that were issued before the end of an earlier one from which several are taken to have been
/// outstanding. Clocks of the traces with one outstanding overlap by less.
const OVERLAP_RATIO_MIN: f64 = 0.01;
/// Records between two updates of the progress.
const PROGRESS_PERIOD_RECORDS: usize = 1 << 14;

/// A trace with measured times, and how it is read.
#[derive(Clone, Debug)]
pub struct MeasuredTrace {
    /// The trace.
    pub trace: TraceSource,
    /// How it is read.
    pub reading: ReadOptions,
    /// Whether addresses beyond the end of the drive are wrapped around to its start.
    pub wrap: bool,
}

/// The requests of a trace with their measured times, and how they are replayed.
pub(crate) struct Measurement {
    pub(crate) trace: String,
    /// In the order in which the drive received them.
    pub(crate) requests: Vec<Measured>,
    pub(crate) pace: Pace,
    /// Requests without a measured time, which were left out.
    untimed: usize,
    /// Whether a closed loop's delays were found to precede their requests.
    delays_before: bool,
}

impl Measurement {
    /// Reads the trace for a replay on `drive`.
    pub(crate) fn read(
        measured_trace: &MeasuredTrace,
        drive: &Drive,
        progress: crate::Steps<'_>,
    ) -> Result<Measurement, Error> {
        let MeasuredTrace { trace, reading, wrap } = measured_trace;
        if reading.map == DeviceMap::Concat {
            return Err(Error::Option(
                "--map concat: a measured time is that of one drive; choose one with --device N".to_owned(),
            ));
        }
        if reading.time_scale != 1.0 {
            return Err(Error::Option(format!(
                "--time-scale {}: measured times cannot be scaled; remove the option",
                reading.time_scale
            )));
        }
        let mut trace = trace.open(reading)?;
        let name = trace.name().to_owned();
        let fit = Fit { sector: drive.sector(), capacity: drive.capacity(), wrap: *wrap };
        let mut requests = Vec::new();
        let mut host_kept_a_queue = true;
        let (mut untimed, mut first_untimed) = (0, 0);
        while let Some(record) = trace.next().transpose()? {
            if record.response.is_none() {
                first_untimed = if untimed == 0 { record.line } else { first_untimed };
                untimed += 1;
                continue;
            }
            host_kept_a_queue &= record.started.is_some();
            requests.push(measured(&record, &fit, &name)?);
            if requests.len() > REQUESTS_MAX {
                return Err(Error::Input(format!(
                    "{name}: more than {REQUESTS_MAX} requests, all of which are held in memory; validate a part of the file"
                )));
            }
            let is_due = requests.len().is_multiple_of(PROGRESS_PERIOD_RECORDS);
            if is_due && !progress(Step::Reading { bytes: trace.bytes_read(), requests: requests.len() }) {
                return Err(Error::Stopped);
            }
        }
        if untimed as f64 > UNTIMED_RATIO_MAX * (requests.len() + untimed) as f64 {
            return Err(Error::Input(format!(
                "{name}:{first_untimed}: the request has no measured response time; {}",
                formats_with_times()
            )));
        }
        if requests.is_empty() {
            return Err(Error::Input(format!("{name}: the trace has no request to compare")));
        }
        let pace = if trace.is_closed_loop() {
            follow_on(&mut requests);
            Pace::Closed
        } else if host_kept_a_queue {
            in_order(&mut requests);
            if overlap_ratio(&requests) < OVERLAP_RATIO_MIN { Pace::Serial } else { Pace::Open }
        } else {
            Pace::Open
        };
        let end = requests.iter().map(|request| request.ended().saturating_add(request.think)).max();
        if end.is_some_and(|end| end > TIME_MAX) {
            return Err(Error::Input(format!(
                "{name}: its measured times exceed 292 years; check their unit"
            )));
        }
        Ok(Measurement { trace: name, requests, pace, untimed, delays_before: false })
    }

    /// Describes how the trace is read and replayed, for a result.
    pub(crate) fn describe_replay(&self, trace: &MeasuredTrace) -> Vec<String> {
        let wrapped = trace.wrap.then(|| "wrapped".to_owned());
        let pace = self.describe().map(str::to_owned);
        let untimed = (self.untimed > 0).then(|| {
            let requests = plural(self.untimed as u64, "request");
            format!("{requests} without a measured time left out")
        });
        pace.into_iter().chain(describe_reading(&trace.reading)).chain(untimed).chain(wrapped).collect()
    }

    /// Replays the trace at its measured times. A closed loop's delays are interpreted in both ways, after their
    /// requests as the format specifies and before them; the latter is chosen if it predicts the phase of the spindle
    /// clearly better.
    ///
    /// # Errors
    /// Those of `drive`, or [`Error::Stopped`] if `go_on` returned false.
    pub(crate) fn anchor(
        &mut self,
        drive: impl Fn() -> Result<Drive, Error>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Anchored, Error> {
        let after = anchored_while(drive()?, &self.requests, go_on).ok_or(Error::Stopped)?;
        if self.pace != Pace::Closed {
            return Ok(after);
        }
        let mut other_way = self.requests.clone();
        delays_before(&mut other_way);
        let before = anchored_while(drive()?, &other_way, go_on).ok_or(Error::Stopped)?;
        if before.coherence < after.coherence + COHERENCE_GAIN_MIN {
            return Ok(after);
        }
        self.requests = other_way;
        self.delays_before = true;
        Ok(before)
    }

    /// Interprets a closed loop's delays as [`Measurement::anchor`] does, by the first `count` requests alone.
    pub(crate) fn orient(
        &mut self,
        drive: impl Fn() -> Result<Drive, Error>,
        count: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        let requests = self.requests[..count].to_vec();
        let (trace, pace) = (String::new(), self.pace);
        let mut first = Measurement { trace, requests, pace, untimed: 0, delays_before: false };
        first.anchor(drive, go_on)?;
        if first.delays_before {
            delays_before(&mut self.requests);
            self.delays_before = true;
        }
        Ok(())
    }

    /// Describes the free replay, unless it is simply at the trace's own times.
    fn describe(&self) -> Option<&'static str> {
        match self.pace {
            Pace::Closed if self.delays_before => Some("closed loop, delays before their requests"),
            Pace::Closed => Some("closed loop"),
            Pace::Serial => {
                Some("one request outstanding, without the wait in the host's queue, pauses below 1 s kept")
            }
            Pace::Open => None,
        }
    }

    /// Returns the time at which the real drive completed the last request.
    pub(crate) fn end(&self) -> Nanos {
        self.requests.iter().map(Measured::ended).max().unwrap_or_default()
    }
}

/// Returns the share of the requests, in order of their issue, that were issued before an earlier one was completed.
fn overlap_ratio(requests: &[Measured]) -> f64 {
    let mut ended = Nanos::ZERO;
    let mut overlapping = 0usize;
    for request in requests {
        overlapping += usize::from(request.issued < ended);
        ended = ended.max(request.ended());
    }
    overlapping as f64 / requests.len().max(1) as f64
}

/// Returns a hint for a trace without measured times.
fn formats_with_times() -> String {
    let names: Vec<&str> =
        Format::ALL.iter().filter(|format| format.has_times()).map(|format| format.name()).collect();
    format!(
        "{} traces have one; sakiyomi's own CSV and Parquet may have it as the column response_ns",
        names.join(", ")
    )
}

fn measured(record: &Record, fit: &Fit, trace: &str) -> Result<Measured, Error> {
    let line = record.line;
    let response = record.response.unwrap_or_default();
    // The wait in the host's queue is not part of the drive's work.
    let wait = record.started.map_or(Nanos::ZERO, |started| started.saturating_sub(record.time));
    if wait > response {
        return Err(Error::Input(format!(
            "{trace}:{line}: the request completed {response} after its arrival, before it was issued to the drive \
             ({wait} after its arrival); check response_ns and started_ns"
        )));
    }
    let label = match record.label {
        Some(HitLabel::Hit) => Some(Label::Hit),
        Some(HitLabel::Miss) => Some(Label::Miss),
        Some(HitLabel::Doub | HitLabel::Trip) | None => None,
    };
    Ok(Measured {
        op: record.op,
        fua: record.fua,
        extent: fit.extent(record, trace)?,
        issued: record.time.saturating_add(wait),
        response: response - wait,
        think: record.think.unwrap_or_default(),
        label: label.filter(|_| record.op == Op::Read),
    })
}

#[cfg(test)]
mod tests {
    use sakiyomi_model::Bytes;

    use super::*;
    use crate::NamedDrive;

    /// Requests that were issued a millisecond apart after a wait of the host, and took so long on the drive.
    fn records(count: u64, service: Nanos) -> Vec<Record> {
        let record = |number: u64| {
            let time = Nanos(number * 1_000_000);
            let started = Some(time + Nanos(1000));
            let response = Some(service + Nanos(1000));
            Record { started, response, ..Record::new(time, Op::Read, Bytes(number * 4096), Bytes(4096)) }
        };
        (0..count).map(record).collect()
    }

    fn read(records: Vec<Record>) -> Result<(Measurement, Vec<String>), Error> {
        let spec = NamedDrive::open("deskstar-7k250").unwrap().spec;
        let trace = TraceSource::Memory { name: "t".to_owned(), records: records.into() };
        let trace = MeasuredTrace { trace, reading: ReadOptions::default(), wrap: false };
        let read = Measurement::read(&trace, &Drive::new(&spec).unwrap(), &mut |_| true)?;
        let said = read.describe_replay(&trace);
        Ok((read, said))
    }

    #[test]
    fn one_outstanding_request_is_serial_and_several_are_not() {
        let (serial, _) = read(records(100, Nanos(900_000))).unwrap();
        assert_eq!((serial.pace, serial.requests[1].issued), (Pace::Serial, Nanos(1_001_000)));
        let (open, _) = read(records(100, Nanos(5_000_000))).unwrap();
        assert_eq!((open.pace, open.requests[1].issued), (Pace::Open, Nanos(1_001_000)));
        let mut clocks = records(1000, Nanos(900_000));
        clocks[500].response = Some(Nanos(1_002_000));
        assert_eq!(read(clocks).unwrap().0.pace, Pace::Serial, "an overlap by the clock");
    }

    #[test]
    fn a_few_requests_without_a_time_are_left_out_and_told() {
        let mut records = records(100, Nanos(900_000));
        records[0].response = None;
        records[99].response = None;
        let (measurement, said) = read(records.clone()).unwrap();
        assert_eq!(measurement.requests.len(), 98);
        assert!(said.contains(&"2 requests without a measured time left out".to_owned()), "{said:?}");
        records.iter_mut().take(20).for_each(|record| record.response = None);
        let refused = read(records).err().unwrap().to_string();
        assert!(
            refused.contains("the request has no measured response time; disksim-validation"),
            "{refused}"
        );
    }
}
