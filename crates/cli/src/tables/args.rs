//! Options of commands on tables.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use sakiyomi_os::stdio;
use sakiyomi_query::output::{Compression, OutputOptions, Target};
use sakiyomi_query::statement::Destination;
use sakiyomi_query::table::Format;
use sakiyomi_tables::{GROUP_ROWS_DEFAULT, GROUP_ROWS_MAX, Outputs, RowOptions};

use crate::output::{OutDir, Overwrite};

/// Heading in a command's help.
const RESULT: &str = "Result";

/// Tables to read.
#[derive(Clone, Debug, Args)]
pub(crate) struct InputArgs {
    /// Files of one table, or a directory of them; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    format: InputFormatArgs,
}

/// Input format options.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct InputFormatArgs {
    /// Read the input in this format [default: recognized by the first bytes]
    #[arg(long, value_enum, value_name = "NAME")]
    input_format: Option<InputFormat>,
}

/// Values of `--input-format` and `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InputFormat {
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, a file with a footer.
    Arrow,
    /// Arrow IPC, a stream.
    ArrowStream,
    /// Comma-separated values with a header.
    Csv,
}

impl InputFormat {
    fn format(self) -> Format {
        match self {
            InputFormat::Parquet => Format::Parquet,
            InputFormat::Arrow => Format::ArrowFile,
            InputFormat::ArrowStream => Format::ArrowStream,
            InputFormat::Csv => Format::Csv,
        }
    }
}

impl InputArgs {
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub(crate) fn format(&self) -> InputFormatArgs {
        self.format
    }
}

impl InputFormatArgs {
    /// Returns the format of all files, if it is given.
    pub(crate) fn format(self) -> Option<Format> {
        self.input_format.map(InputFormat::format)
    }
}

/// Row and column selection of a command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RowsArgs {
    /// Use only rows for which this SQL expression is true
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,
    /// Replace the columns by these SQL expressions, such as "a, b * 2 as c, *"
    #[arg(long, value_name = "EXPRESSIONS")]
    pub(crate) select: Option<String>,
}

impl RowsArgs {
    pub(crate) fn options(&self) -> RowOptions {
        RowOptions { filter: self.filter.clone(), select: self.select.clone() }
    }
}

/// The file of a result.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write the result to this file; `-` is standard output
    #[arg(short, long, value_name = "FILE", help_heading = RESULT)]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: OutputFormat,
}

/// Output format options.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputFormat {
    /// Format of the result [default: from the file extension; CSV on standard output]
    #[arg(long, value_enum, value_name = "NAME", help_heading = RESULT)]
    format: Option<InputFormat>,
    /// Compression of Parquet pages and Arrow buffers [default: snappy for Parquet, none for Arrow]
    #[arg(long, value_enum, value_name = "NAME", help_heading = RESULT)]
    compression: Option<Compressed>,
    /// Maximum number of rows of a row group or record batch
    #[arg(
        long, value_name = "N", default_value_t = GROUP_ROWS_DEFAULT, help_heading = RESULT,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(GROUP_ROWS_MAX))
    )]
    row_group: u32,
}

/// Values of `--compression`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compressed {
    /// None.
    None,
    /// Snappy (Parquet only).
    Snappy,
    /// LZ4.
    Lz4,
    /// Zstandard, level 1.
    Zstd,
}

/// Maximum rows of a preview.
pub(crate) const SHOWN_ROWS_MAX: u64 = 1000;

impl OutputArgs {
    /// Returns the destination of the result: a preview without `--output`.
    pub(crate) fn file_or_preview(&self) -> Result<Destination> {
        Ok(self.destination()?.unwrap_or(Destination::Preview { rows_max: SHOWN_ROWS_MAX as usize }))
    }

    /// Returns the destination of the result; `None` without `--output`.
    pub(crate) fn destination(&self) -> Result<Option<Destination>> {
        let Some(path) = self.output.as_deref() else { return Ok(None) };
        let options = self.format.options(path)?;
        if path != Path::new("-") {
            return Ok(Some(Destination::File { target: Target::File(path.to_owned()), options }));
        }
        stdio::was_open(std::io::stdout().as_fd()).context("cannot write the result to standard output")?;
        Ok(Some(Destination::File { target: Target::Stdout, options }))
    }
}

impl OutputFormat {
    /// Returns the output options for a path, with the format of `--format` or of the file extension.
    pub(crate) fn options(self, path: &Path) -> Result<OutputOptions> {
        Ok(self.outputs().options(path)?)
    }

    /// Returns the output options, with this format unless `--format` names one.
    pub(crate) fn options_or(self, format: Format) -> Result<OutputOptions> {
        Ok(self.outputs().options_or(format)?)
    }

    fn outputs(self) -> Outputs {
        Outputs {
            format: self.format.map(InputFormat::format),
            compression: self.compression.map(Compressed::compression),
            row_group: self.row_group,
        }
    }
}

impl Compressed {
    fn compression(self) -> Compression {
        match self {
            Compressed::None => Compression::None,
            Compressed::Snappy => Compression::Snappy,
            Compressed::Lz4 => Compression::Lz4,
            Compressed::Zstd => Compression::Zstd,
        }
    }
}

/// Options of the report.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArgs {
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl ReportArgs {
    pub(crate) fn directory(&self) -> Result<Option<OutDir>> {
        self.overwrite.out(self.out.as_deref(), &[])
    }
}
