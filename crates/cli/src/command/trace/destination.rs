//! The destination of a trace: a file, which appears when it is complete, or standard output as a stream.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_report::number;
use sakiyomi_trace::{OutFormat, Packing, Record, Writer};
use serde_json::json;

use crate::console::{Common, Envelope, Stdout, note_pretty_json, print_result, stdout};

const SCHEMA: &str = "sakiyomi.trace-written/2";

/// The name of a destination, and its format.
#[derive(Debug, Args)]
pub(super) struct DestinationArgs {
    /// The file to write: Parquet if its name ends in .parquet, else CSV; compressed if it ends in .gz or .zst. `-` is standard output, as CSV
    into: PathBuf,
    /// Format to write: sakiyomi, parquet, disksim, mqsim or fio [default: from the file name]
    #[arg(long, value_name = "NAME")]
    to: Option<OutFormat>,
}

impl DestinationArgs {
    /// Creates the destination.
    ///
    /// # Errors
    /// If it cannot be written, or is Parquet for a terminal.
    pub(super) fn open(&self) -> Result<Destination> {
        Destination::open(&self.into, self.to)
    }
}

/// Returns why a trace cannot be written to standard output while a command runs.
pub(super) fn cannot_record_to_stdout() -> &'static str {
    "standard output belongs to the command; name a file with --output"
}

/// A trace that is being written.
pub(super) enum Destination {
    File(Writer, PathBuf),
    Stdout(Writer<Stdout>),
}

impl Destination {
    /// Creates a destination in this format, or that of the file name.
    ///
    /// # Errors
    /// If it cannot be written, or is Parquet for a terminal.
    pub(super) fn open(into: &Path, to: Option<OutFormat>) -> Result<Destination> {
        let format = to.unwrap_or_else(|| OutFormat::of_path(into));
        if into.as_os_str() != "-" {
            return Ok(Destination::File(Writer::create(into, format)?, into.to_owned()));
        }
        ensure!(
            format != OutFormat::Parquet || !io::stdout().is_terminal(),
            "Parquet is not written to a terminal; redirect standard output, or name a file"
        );
        Ok(Destination::Stdout(Writer::new(stdout(), "standard output", format, Packing::Plain)?))
    }

    pub(super) fn write(&mut self, record: &Record) -> Result<()> {
        match self {
            Destination::File(writer, _) => writer.write(record),
            Destination::Stdout(writer) => writer.write(record),
        }?;
        Ok(())
    }

    /// Finishes the trace; returns its number of records.
    pub(super) fn close(self) -> Result<u64> {
        Ok(match self {
            Destination::File(writer, _) => writer.finish()?,
            Destination::Stdout(writer) => {
                let records = writer.records();
                writer.into_inner()?.flush().context("cannot write standard output")?;
                records
            }
        })
    }

    /// Finishes the trace and prints a summary of it; not to standard output if the trace was written there.
    pub(super) fn finish(self, common: &Common) -> Result<()> {
        let path = match &self {
            Destination::File(_, path) => Some(path.clone()),
            Destination::Stdout(_) => None,
        };
        let records = self.close()?;
        match path {
            Some(path) if common.json => return print_result(SCHEMA, &summary(records, &path)),
            Some(path) => {
                common.note(&format!("written: {}, {} records", path.display(), number::count(records)))
            }
            None if common.json => {
                note_pretty_json(&Envelope { schema: SCHEMA, result: summary(records, Path::new("-")) })
            }
            None => {}
        }
        Ok(())
    }
}

fn summary(records: u64, path: &Path) -> serde_json::Value {
    json!({ "records": records, "path": path })
}
