//! A trace as it is used: the wanted devices' records, in order of time, from time zero.

use std::io;
use std::path::Path;

use sakiyomi_model::Nanos;

use crate::devices::Devices;
use crate::error::TraceError;
use crate::format::Format;
use crate::input::is_stdin;
use crate::options::{DeviceMap, ReadOptions};
use crate::order::{HELD_RECORDS_MAX, Late, Reorder};
use crate::record::Record;
use crate::source::Source;

/// Longest time line, about 292 years: sums of times stay within 64 bits.
const TIME_MAX: Nanos = Nanos(i64::MAX as u64);

/// An open trace: an iterator over its records that holds a bounded part of the file in memory.
///
/// Records come in order of time, those of the same time in the file's order, and the first is at zero. In a
/// [closed loop](Trace::is_closed_loop) they come in the file's order, and all are at zero. After an error there is
/// nothing more.
pub struct Trace {
    source: Source,
    devices: Devices,
    order: Reorder,
    window: Nanos,
    time_scale: f64,
    closed_loop: bool,
    /// The first record's time in the file.
    base: Option<Nanos>,
    /// The first record, read when the trace was opened.
    first: Option<Record>,
    source_ended: bool,
    failed: bool,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace")
            .field("name", &self.name())
            .field("format", &self.format())
            .finish_non_exhaustive()
    }
}

impl Trace {
    /// Opens the trace at `path`, or standard input for `-`: plain, or packed with gzip or zstd, which is recognised
    /// by content. The first record is read at once.
    ///
    /// # Errors
    /// [`TraceError`], for a file that cannot be opened or recognised, and for a bad first record.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Trace, TraceError> {
        let path = path.as_ref();
        options.check()?;
        let source = Source::open(path, options)?;
        if !wants_concat(options) {
            return Trace::new(source, Devices::new(options), options);
        }
        if is_stdin(path) || source.total_bytes().is_none() {
            return Err(TraceError::NeedsFile { path: source.path().to_owned(), what: "--map concat" });
        }
        let devices = Devices::concat(source)?;
        Trace::new(Source::open(path, options)?, devices, options)
    }

    /// Reads a trace from `reader`; `name` stands for it in messages. As for standard input, Parquet and
    /// [`DeviceMap::Concat`] are refused.
    ///
    /// # Errors
    /// As for [`open`](Trace::open).
    pub fn from_reader(
        reader: impl io::Read + Send + 'static,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Trace, TraceError> {
        options.check()?;
        if wants_concat(options) {
            return Err(TraceError::NeedsFile { path: name.to_owned(), what: "--map concat" });
        }
        Trace::new(Source::from_reader(reader, name, options)?, Devices::new(options), options)
    }

    fn new(source: Source, devices: Devices, options: &ReadOptions) -> Result<Trace, TraceError> {
        let mut trace = Trace {
            source,
            devices,
            order: Reorder::new(options.sort_window),
            window: options.sort_window,
            time_scale: options.time_scale,
            closed_loop: false,
            base: None,
            first: None,
            source_ended: false,
            failed: false,
        };
        trace.first = trace.next_wanted()?;
        trace.closed_loop = trace.source.format() == Format::DisksimValidation
            || trace.first.is_some_and(|record| record.think.is_some());
        Ok(trace)
    }

    /// The format it is read in.
    #[must_use]
    pub fn format(&self) -> Format {
        self.source.format()
    }

    /// Whether each command is to be issued a think time after the one before has ended, rather than at its `time`.
    #[must_use]
    pub fn is_closed_loop(&self) -> bool {
        self.closed_loop
    }

    /// The path or name it was opened under.
    #[must_use]
    pub fn name(&self) -> &str {
        self.source.path()
    }

    /// Bytes read of the file as it is stored, packed or not.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// The size of the file as it is stored; `None` for a stream.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        self.source.total_bytes()
    }

    fn next_record(&mut self) -> Result<Option<Record>, TraceError> {
        if self.closed_loop {
            let record = self.next_wanted()?;
            return Ok(
                record.map(|record| self.scaled(Record { time: Nanos::ZERO, started: None, ..record }))
            );
        }
        loop {
            if let Some(record) = self.order.pop_ready() {
                return self.placed(record).map(Some);
            }
            if self.source_ended {
                return self.order.pop().map(|record| self.placed(record)).transpose();
            }
            match self.next_wanted()? {
                Some(record) => self.order.push(record).map_err(|late| self.late(late, record.line))?,
                None => self.source_ended = true,
            }
        }
    }

    /// The next record of a wanted device, in the file's order.
    fn next_wanted(&mut self) -> Result<Option<Record>, TraceError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while let Some(record) = self.source.next()? {
            if let Some(record) = self.devices.apply(record, self.source.path())? {
                return Ok(Some(record));
            }
        }
        self.devices.finish(self.source.path())?;
        Ok(None)
    }

    /// The record on the trace's own time line.
    fn placed(&mut self, record: Record) -> Result<Record, TraceError> {
        let base = *self.base.get_or_insert(record.time);
        let time = record.time - base;
        let placed = self.scaled(Record { time, ..record });
        if placed.time > TIME_MAX {
            let problem = "the record lies more than 292 years after the first; check the unit of its time";
            return Err(self.source.line_error(record.line, problem.to_owned()));
        }
        // The wait in the host's queue was measured: it is moved along, not scaled.
        let wait = |started: Nanos| started.saturating_sub(record.time);
        let started = record.started.map(|started| placed.time.saturating_add(wait(started)));
        Ok(Record { started, ..placed })
    }

    fn scaled(&self, record: Record) -> Record {
        if self.time_scale == 1.0 {
            return record;
        }
        let think = record.think.map(|think| self.scale(think));
        Record { time: self.scale(record.time), think, ..record }
    }

    fn scale(&self, time: Nanos) -> Nanos {
        // A float-to-integer `as` saturates.
        Nanos((time.0 as f64 * self.time_scale).round() as u64)
    }

    fn late(&self, late: Late, line: u64) -> TraceError {
        let path = self.source.path().to_owned();
        match late {
            Late::Window(back) => TraceError::OutOfOrder { path, line, back, window: self.window },
            Late::Full => TraceError::OrderFull { path, line, records: HELD_RECORDS_MAX },
        }
    }
}

impl Iterator for Trace {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Result<Record, TraceError>> {
        if self.failed {
            return None;
        }
        let next = self.next_record().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

impl std::iter::FusedIterator for Trace {}

fn wants_concat(options: &ReadOptions) -> bool {
    options.device.is_none() && options.map == DeviceMap::Concat
}
