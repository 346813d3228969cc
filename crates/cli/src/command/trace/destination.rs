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
        let format = self.to.unwrap_or_else(|| OutFormat::of_path(&self.into));
        if self.into.as_os_str() != "-" {
            return Ok(Destination::File(Writer::create(&self.into, format)?, self.into.clone()));
        }
        ensure!(
            format != OutFormat::Parquet || !io::stdout().is_terminal(),
            "Parquet is not written to a terminal; redirect standard output, or name a file"
        );
        Ok(Destination::Stdout(Writer::new(stdout(), "standard output", format, Packing::Plain)?))
    }
}

/// A trace that is being written.
pub(super) enum Destination {
    File(Writer, PathBuf),
    Stdout(Writer<Stdout>),
}

impl Destination {
    pub(super) fn write(&mut self, record: &Record) -> Result<()> {
        match self {
            Destination::File(writer, _) => writer.write(record),
            Destination::Stdout(writer) => writer.write(record),
        }?;
        Ok(())
    }

    /// Finishes the trace and prints a summary of it; not to standard output if the trace was written there.
    pub(super) fn finish(self, common: &Common) -> Result<()> {
        match self {
            Destination::File(writer, path) => {
                let records = writer.finish()?;
                if common.json {
                    return print_result(SCHEMA, &summary(records, &path));
                }
                common.note(&format!("written: {}, {} records", path.display(), number::count(records)));
            }
            Destination::Stdout(writer) => {
                let records = writer.records();
                writer.into_inner()?.flush().context("cannot write standard output")?;
                if common.json {
                    note_pretty_json(&Envelope { schema: SCHEMA, result: summary(records, Path::new("-")) });
                }
            }
        }
        Ok(())
    }
}

fn summary(records: u64, path: &Path) -> serde_json::Value {
    json!({ "records": records, "path": path })
}
