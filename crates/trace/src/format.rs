//! Trace formats, one per file.
//!
//! A text format is a [`Parser`], which receives lines and appends their records. It is independent of files, ordering,
//! and device selection.

mod biosnoop;
mod blkparse;
mod cloudphysics;
mod disksim;
mod disksim_validation;
mod events;
mod fio;
mod ftrace;
mod hadoop;
mod hplajw;
pub(crate) mod kind;
mod mqsim;
mod msr;
pub(crate) mod parquet;
pub(crate) mod sakiyomi;
pub(crate) mod sniff;
mod spc;
mod systor17;

pub(crate) use disksim::write as write_disksim;
pub(crate) use fio::{HEADER_V3 as FIO_HEADER, write as write_fio};
pub use kind::Format;

pub(crate) use mqsim::write as write_mqsim;

use std::str::FromStr;

use sakiyomi_model::suggest::{did_you_mean, similar};

use crate::error::TraceError;
use crate::field::Problem;
use crate::options::ReadOptions;
use crate::record::Record;

/// Sector size of the formats that count in sectors, in bytes.
pub(crate) const SECTOR_BYTES: u64 = 512;

impl Format {
    /// Returns the parser of the format's lines; `None` for Parquet.
    pub(crate) fn parser(self, options: &ReadOptions) -> Option<Box<dyn Parser>> {
        Some(match self {
            Format::Parquet => return None,
            Format::Sakiyomi => Box::new(sakiyomi::Reader::default()),
            Format::Disksim => Box::new(disksim::Reader),
            Format::DisksimValidation => Box::new(disksim_validation::Reader),
            Format::Mqsim => Box::new(mqsim::Reader),
            Format::Msr => Box::new(msr::Reader::default()),
            Format::Spc => Box::new(spc::Reader),
            Format::Systor17 => Box::new(systor17::Reader),
            Format::Blkparse => Box::new(blkparse::Reader::new(options)),
            Format::Ftrace => Box::new(ftrace::Reader::new(options)),
            Format::Biosnoop => Box::new(biosnoop::Reader::default()),
            Format::Fio => Box::new(fio::Reader::default()),
            Format::Cloudphysics => Box::new(cloudphysics::Reader::default()),
            Format::Hadoop => Box::new(hadoop::Reader::default()),
            Format::Hplajw => Box::new(hplajw::Reader::default()),
        })
    }
}

impl FromStr for Format {
    type Err = TraceError;

    /// Finds a format by its [`name`](Format::name).
    fn from_str(text: &str) -> Result<Format, TraceError> {
        Format::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| TraceError::Parameter {
            name: "the format",
            value: format!("`{text}`"),
            wanted: one_of(text, &Format::ALL.map(Format::name)),
        })
    }
}

/// Returns a list of the accepted names, with suggestions for `typed`.
pub(crate) fn one_of(typed: &str, names: &[&str]) -> String {
    let near = similar(typed, names.iter().copied());
    format!("one of {}{}", names.join(", "), did_you_mean(&near))
}

/// Parser of a trace's lines.
pub(crate) trait Parser: Send {
    /// Appends the records of `line`, which is not blank, to `out`. The caller sets their `line`.
    fn line(&mut self, line: &[u8], out: &mut Vec<Record>) -> Result<(), Problem>;

    /// Gets the number of the next line, for parsers whose records do not all come from the line they were appended at.
    fn at(&mut self, _line: u64) {}

    /// Appends the records that were held back, at the end of the file.
    fn finish(&mut self, _out: &mut Vec<Record>) {}

    /// Returns whether the last line of a file, which no newline ends, is whole. One that is not is ignored: tools that
    /// are ended by a signal leave it.
    fn is_whole(&self, _line: &[u8]) -> bool {
        true
    }

    /// Returns the name of a device as the format spells it, if not as the number.
    fn device_name(&self, _device: u32) -> Option<String> {
        None
    }
}

/// The header line of a CSV format, required as the first line.
#[derive(Debug, Default)]
pub(crate) struct Header {
    seen: bool,
}

impl Header {
    /// Returns whether `line` is the header.
    pub(crate) fn take(&mut self, line: &[u8], wanted: &str) -> Result<bool, Problem> {
        if self.seen {
            return Ok(false);
        }
        if line.trim_ascii() != wanted.as_bytes() {
            return Err(format!("the header line is missing; the file must begin with `{wanted}`"));
        }
        self.seen = true;
        Ok(true)
    }
}

/// Parses `text` line by line, for the tests of the formats.
#[cfg(test)]
pub(crate) fn parse_text(format: Format, text: &str) -> Result<Vec<Record>, Problem> {
    let mut parser = format.parser(&ReadOptions::default()).expect("a text format");
    let mut records = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        parser.line(line.as_bytes(), &mut records)?;
    }
    parser.finish(&mut records);
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_format() {
        for format in Format::ALL {
            assert_eq!(format.name().parse::<Format>().unwrap(), format);
        }
        let error = "cvs".parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with("the format is `cvs`, but must be one of sakiyomi, parquet"), "{error}");
        let error = "disk-sim".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("; did you mean disksim"), "{error}");
        let error = "parqet".parse::<crate::OutFormat>().unwrap_err().to_string();
        assert!(error.ends_with("; did you mean parquet?"), "{error}");
    }
}
