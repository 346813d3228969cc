//! An open trace: records of the selected devices, in order of time, starting at time zero.

use std::io;
use std::path::Path;
use std::sync::Arc;

use sakiyomi_model::Nanos;

use crate::devices::Devices;
use crate::error::TraceError;
use crate::format::Format;
use crate::input::is_stdin;
use crate::options::{DeviceMap, ReadOptions};
use crate::order::{HELD_RECORDS_MAX, Late, Reorder};
use crate::record::Record;
use crate::source::Source;

/// Maximum time, about 292 years, so that sums of times fit 64 bits.
const TIME_MAX: Nanos = Nanos(i64::MAX as u64);

/// An open trace: an iterator over its records that keeps a bounded part of the file in memory.
///
/// Records are in order of time, those with equal times in the file's order, and the first is at zero. In a [closed
/// loop](Trace::is_closed_loop) they are in the file's order, and all are at zero. The iterator ends after an error.
pub struct Trace {
    source: Source,
    devices: Devices,
    order: Reorder,
    window: Nanos,
    time_scale: f64,
    closed_loop: bool,
    /// Time of the first record in the file.
    base: Option<Nanos>,
    /// First record, read when the trace was opened.
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
    /// Opens the trace at `path`, or standard input for `-`: plain, or compressed with gzip or zstd, which is detected
    /// by content. Reads the first record.
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be opened, its format cannot be detected, or the first record is invalid.
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

    /// Reads a trace from `reader`; `name` identifies it in messages. As for standard input, Parquet and
    /// [`DeviceMap::Concat`] are errors.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Trace::open).
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

    /// Reads records in memory, such as those of [`records_of_columns`](crate::records_of_columns), as a file with the same
    /// records would be; `name` identifies them in messages.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Trace::open) that concern records.
    pub fn from_records(
        records: Arc<[Record]>,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Trace, TraceError> {
        options.check()?;
        let source = || Source::of_records(Arc::clone(&records), name);
        let devices = if wants_concat(options) { Devices::concat(source())? } else { Devices::new(options) };
        Trace::new(source(), devices, options)
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

    /// Returns the format in which it is read.
    #[must_use]
    pub fn format(&self) -> Format {
        self.source.format()
    }

    /// Returns whether each command is issued a think time after the end of the previous one, instead of at its `time`.
    #[must_use]
    pub fn is_closed_loop(&self) -> bool {
        self.closed_loop
    }

    /// Returns the path or name under which it was opened.
    #[must_use]
    pub fn name(&self) -> &str {
        self.source.path()
    }

    /// Returns the bytes read of the stored file, compressed or not.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.source.bytes_read()
    }

    /// Returns the size of the stored file; `None` for a stream.
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

    /// Returns the next record of a selected device, in the file's order.
    fn next_wanted(&mut self) -> Result<Option<Record>, TraceError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        while let Some(record) = self.source.next()? {
            if let Some(record) = self.devices.apply(record, &self.source)? {
                return Ok(Some(record));
            }
        }
        self.devices.finish(&self.source)?;
        Ok(None)
    }

    /// Converts the record to the trace's own time line.
    fn placed(&mut self, record: Record) -> Result<Record, TraceError> {
        let base = *self.base.get_or_insert(record.time);
        let time = record.time - base;
        let placed = self.scaled(Record { time, ..record });
        if placed.time > TIME_MAX {
            let problem = "the record lies more than 292 years after the first; check the unit of its time";
            return Err(self.source.line_error(record.line, problem.to_owned()));
        }
        // The wait in the host's queue was measured: it is shifted, not scaled.
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
