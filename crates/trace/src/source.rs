//! Validated records of a file, in the file's own order.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::TraceError;
use crate::format::{Format, Parser, parquet, sniff};
use crate::input::{Compression, Input, is_stdin};
use crate::lines::Lines;
use crate::options::ReadOptions;
use crate::record::{Record, check};

/// A source of records. `batch` holds parsed records, those from `taken` on not yet returned.
pub(crate) struct Source {
    path: String,
    format: Format,
    reader: Reader,
    batch: Vec<Record>,
    taken: usize,
    total_bytes: Option<u64>,
}

enum Reader {
    Text(Text),
    /// Records in memory, the first `taken` of which were read.
    Memory {
        records: Arc<[Record]>,
        taken: usize,
    },
    Parquet(parquet::Reader),
}

struct Text {
    lines: Lines<Box<dyn io::Read + Send>>,
    parser: Box<dyn Parser>,
    compression: Compression,
    consumed: Arc<AtomicU64>,
    records: u64,
    /// Whether the parser has been told of the end.
    ended: bool,
}

impl Source {
    pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Source, TraceError> {
        let input = Input::open(path)?;
        let total = input.total;
        let name = display(path);
        let (format, lines) = recognize(&name, input.bytes, options)?;
        if format != Format::Parquet {
            return Source::text(name, format, lines, input.compression, input.consumed, total, options);
        }
        if is_stdin(path) || total.is_none() {
            return Err(TraceError::NeedsFile { path: name, what: "Parquet" });
        }
        if input.compression != Compression::None {
            return Err(TraceError::Unrecognized {
                path: name,
                problem: format!("it is Parquet inside {}; unpack it first", input.compression.name()),
            });
        }
        let reader = Reader::Parquet(parquet::Reader::open(path)?);
        Ok(Source { path: name, format, reader, batch: Vec::new(), taken: 0, total_bytes: total })
    }

    pub(crate) fn from_reader(
        reader: impl io::Read + Send + 'static,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Source, TraceError> {
        let input = Input::from_reader(reader, None)
            .map_err(|source| TraceError::Open { path: name.to_owned(), source })?;
        let (format, lines) = recognize(name, input.bytes, options)?;
        Source::text(name.to_owned(), format, lines, input.compression, input.consumed, None, options)
    }

    /// A source of records in memory, which count as sakiyomi's own format.
    pub(crate) fn of_records(records: Arc<[Record]>, name: &str) -> Source {
        let reader = Reader::Memory { records, taken: 0 };
        let (path, format) = (name.to_owned(), Format::Sakiyomi);
        Source { path, format, reader, batch: Vec::new(), taken: 0, total_bytes: None }
    }

    fn text(
        path: String,
        format: Format,
        lines: Lines<Box<dyn io::Read + Send>>,
        compression: Compression,
        consumed: Arc<AtomicU64>,
        total_bytes: Option<u64>,
        options: &ReadOptions,
    ) -> Result<Source, TraceError> {
        let Some(parser) = format.parser(options) else {
            return Err(TraceError::NeedsFile { path, what: "Parquet" });
        };
        let text = Text { lines, parser, compression, consumed, records: 0, ended: false };
        Ok(Source { path, format, reader: Reader::Text(text), batch: Vec::new(), taken: 0, total_bytes })
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns the bytes consumed of the stored file.
    pub(crate) fn bytes_read(&self) -> u64 {
        match &self.reader {
            Reader::Text(text) => text.consumed.load(Ordering::Relaxed),
            Reader::Memory { taken, .. } => (taken * size_of::<Record>()) as u64,
            Reader::Parquet(reader) => reader.bytes_read(),
        }
    }

    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }

    /// Returns the next record of the file; `None` at its end.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, TraceError> {
        while self.taken == self.batch.len() {
            self.batch.clear();
            self.taken = 0;
            let more = match &mut self.reader {
                Reader::Text(text) => text.read_line(&self.path, &mut self.batch)?,
                Reader::Memory { records, taken } => {
                    let next = records.get(*taken);
                    *taken += usize::from(next.is_some());
                    self.batch.extend(next);
                    next.is_some()
                }
                Reader::Parquet(reader) => {
                    reader.read_batch(&mut self.batch)?;
                    !self.batch.is_empty()
                }
            };
            if !more {
                return Ok(None);
            }
        }
        let record = self.batch[self.taken];
        self.taken += 1;
        check(&record).map_err(|problem| self.line_error(record.line, problem))?;
        Ok(Some(record))
    }

    /// Returns a device as the trace spells it.
    pub(crate) fn device_name(&self, device: u32) -> String {
        let name = match &self.reader {
            Reader::Text(text) => text.parser.device_name(device),
            Reader::Memory { .. } | Reader::Parquet(_) => None,
        };
        name.unwrap_or_else(|| device.to_string())
    }

    pub(crate) fn line_error(&self, line: u64, problem: String) -> TraceError {
        TraceError::Line { path: self.path.clone(), line, problem }
    }
}

impl Text {
    /// Parses the next line, blank or not; returns `false` at the end.
    fn read_line(&mut self, path: &str, batch: &mut Vec<Record>) -> Result<bool, TraceError> {
        let number = self.lines.number() + 1;
        let (line, is_terminated) = match self.lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => {
                let is_last = !self.ended;
                self.ended = true;
                if is_last {
                    self.parser.finish(batch);
                }
                self.records += batch.len() as u64;
                return Ok(is_last);
            }
            Err(source) => return Err(self.failed(path, source)),
        };
        if line.trim_ascii().is_empty() || !is_terminated && !self.parser.is_whole(line) {
            return Ok(true);
        }
        self.parser.at(number);
        self.parser.line(line, batch).map_err(|problem| TraceError::Line {
            path: path.to_owned(),
            line: number,
            problem,
        })?;
        for record in batch.iter_mut().filter(|record| record.line == 0) {
            record.line = number;
        }
        self.records += batch.len() as u64;
        Ok(true)
    }

    fn failed(&self, path: &str, source: io::Error) -> TraceError {
        let (path, line, records) = (path.to_owned(), self.lines.number(), self.records);
        let compression = self.compression.name();
        let damage = matches!(
            source.kind(),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::Other
        );
        match self.compression {
            Compression::None => TraceError::Read { path, line, source },
            _ if source.kind() == io::ErrorKind::UnexpectedEof => {
                TraceError::Truncated { path, compression, line, records }
            }
            _ if damage => TraceError::Damaged { path, compression, line, records, source },
            _ => TraceError::Read { path, line, source },
        }
    }
}

type TextLines = Lines<Box<dyn io::Read + Send>>;

fn recognize(
    name: &str,
    bytes: Box<dyn io::Read + Send>,
    options: &ReadOptions,
) -> Result<(Format, TextLines), TraceError> {
    let mut lines = Lines::new(bytes);
    let format = match options.format {
        Some(format) => format,
        None => {
            let (sample, complete) = lines.peek();
            sniff::sniff(name, sample, complete)?
        }
    };
    Ok((format, lines))
}

fn display(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}
