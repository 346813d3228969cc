//! `[sink.NAME]`.

use sakiyomi_model::Nanos;

use super::origin::Target;
use super::source::single_byte;
use crate::Error;
use crate::document::{At, Table};

/// The names of formats.
const FORMATS: [&str; 4] = ["lines", "json", "csv", "arrow"];

/// A sink.
#[derive(Debug)]
pub(crate) struct SinkSpec {
    pub(crate) name: String,
    pub(crate) place: At<()>,
    pub(crate) input: Option<At<String>>,
    pub(crate) target: At<Target>,
    pub(crate) format: OutputFormat,
    /// Mean CPU time of a row for the planner, in nanoseconds.
    pub(crate) cost_ns: Option<f64>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// Values with a separator between.
    Lines {
        separator: u8,
    },
    /// An object a line.
    Json,
    Csv {
        separator: u8,
        header: bool,
    },
    /// A stream of Arrow IPC.
    Arrow,
}

impl OutputFormat {
    /// Reads `format` and the keys that belong to it.
    ///
    /// # Errors
    /// If it is unknown, or a key does not fit.
    pub(super) fn read(table: &Table<'_>) -> Result<OutputFormat, Error> {
        let format = table.word("format", &FORMATS)?;
        let separator = |usual| match table.text("separator")? {
            Some(text) => single_byte(&text, &text.value),
            None => Ok(usual),
        };
        Ok(match format.map_or("lines", |format| FORMATS[format.value]) {
            "lines" => OutputFormat::Lines { separator: separator(b'\t')? },
            "json" => OutputFormat::Json,
            "csv" => OutputFormat::Csv {
                separator: separator(b',')?,
                header: table.flag("header")?.unwrap_or(true),
            },
            _ => OutputFormat::Arrow,
        })
    }
}

impl SinkSpec {
    pub(super) fn read(name: &str, table: &Table<'_>) -> Result<SinkSpec, Error> {
        let sink = SinkSpec {
            name: name.to_owned(),
            place: At { value: (), place: table.place() },
            input: table.text("input")?,
            target: Target::read(table)?,
            format: OutputFormat::read(table)?,
            cost_ns: table.parsed::<Nanos>("cost")?.map(|cost| cost.value.0 as f64),
        };
        table.finish()?;
        let appends = matches!(sink.target.value, Target::File { append: true, .. });
        if appends && sink.format == OutputFormat::Arrow {
            return Err(sink.target.error("rows in Arrow IPC cannot be appended to a file; remove `append`"));
        }
        Ok(sink)
    }
}
