//! A query on tables: rows and bytes in and out, phases with their CPU time, and memory use.

mod chart;
mod verdict;

use serde::{Deserialize, Serialize};

use crate::chart::Chart;
use crate::document::Machine;
use crate::glossary;
use crate::number::{bytes, count, percent, plural, ratio};
use crate::rows::Rows;
use crate::section::{Cell, Column, Fact, Finding, Glossary, Notes, Present, Row, Section, Table, Tone};
use crate::value::Value;

/// Memory of a process beside the limit: its code, stacks and libraries, at most.
const PROGRAM_MEMORY_MAX_BYTES: u64 = 32 << 20;

/// A query that was executed: a sort, a join, an aggregation, TPC-H query 1, or the generation of tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryResult {
    /// The operation: `sort`, `join`, `aggregate`, `q1` or `gen`.
    pub operation: String,
    /// Its parameters: `by l_partkey, l_suppkey desc`.
    pub description: String,
    /// Files that were read.
    pub inputs: Vec<QueryFile>,
    /// Files that were written; empty if the result was only shown.
    pub outputs: Vec<QueryFile>,
    /// Rows of the input.
    pub input_rows: u64,
    /// Rows of the result.
    pub output_rows: u64,
    /// Bytes of input that were transferred.
    pub read_bytes: u64,
    /// Bytes of the result's files.
    pub written_bytes: u64,
    /// Bytes written to spill files because they did not fit into memory.
    pub spilled_bytes: u64,
    /// The spilled bytes of each compression level in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spill_compression: Vec<SpillLevel>,
    /// Time in nanoseconds from opening the first file to the last row.
    pub elapsed_ns: u64,
    /// User CPU time of the process in nanoseconds.
    pub user_ns: u64,
    /// System CPU time of the process in nanoseconds.
    pub system_ns: u64,
    /// Memory limit in bytes.
    pub memory_limit_bytes: u64,
    /// Peak resident memory of the process (VmHWM) in bytes; `None` if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// Compute threads.
    pub threads: u64,
    /// I/O engine and its depth: `pread:4`.
    pub method: String,
    /// Whether data files bypassed the page cache.
    pub direct: bool,
    /// Steps of the plan, one line each.
    pub plan: Vec<String>,
    /// Elapsed time in nanoseconds that the cost model predicted before the query began; `None` without a
    /// calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_ns: Option<u64>,
    /// Phases in the order in which they began. Those of different threads may overlap.
    pub phases: Vec<QueryPhase>,
    /// The first rows of a result that was not written to a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<QueryRows>,
    /// Circumstances that a reader must know, as sentences.
    pub notes: Vec<String>,
}

/// A file of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryFile {
    /// Its path; `-` is a standard stream.
    pub path: String,
    /// Its format: `parquet`, `arrow`, `arrow-stream` or `csv`.
    pub format: String,
    /// Its number of rows; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Its size in bytes; `None` for a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// Bytes spilled with one compression level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpillLevel {
    /// The level: `none`, `lz4`, `zstd` or `zstd3`.
    pub level: String,
    /// Bytes before compression.
    pub raw_bytes: u64,
    /// Bytes on disk.
    pub stored_bytes: u64,
}

/// A phase of a query, summed over its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryPhase {
    /// Its name: `read`, `write runs`.
    pub name: String,
    /// Bytes that its I/O transferred; for spilled data before compression.
    pub bytes: u64,
    /// Bytes of spilled data on disk, after compression.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stored_bytes: u64,
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: u64,
    /// User CPU time in nanoseconds, including that of the I/O engine's threads.
    pub user_ns: u64,
    /// System CPU time in nanoseconds, including that of the I/O engine's threads.
    pub system_ns: u64,
    /// Time in nanoseconds for which its compute threads waited for I/O, summed.
    pub io_wait_ns: u64,
    /// The resource that limits it.
    pub bound: QueryBound,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// The resource that limits a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryBound {
    /// Its threads compute for longer than they wait.
    #[default]
    Cpu,
    /// Its threads wait for I/O for longer than they compute.
    Io,
}

impl QueryPhase {
    /// Returns the resource that limits a phase: I/O if its threads wait for longer than they compute.
    #[must_use]
    pub fn bound_of(user_ns: u64, system_ns: u64, io_wait_ns: u64) -> QueryBound {
        if io_wait_ns > user_ns.saturating_add(system_ns) { QueryBound::Io } else { QueryBound::Cpu }
    }

    fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// Returns the throughput in bytes per second; `None` without I/O.
    fn throughput(&self) -> Option<f64> {
        (self.bytes > 0 && self.elapsed_ns > 0).then(|| self.bytes as f64 / (self.elapsed_ns as f64 / 1e9))
    }
}

/// Rows of a result, for display.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryRows {
    /// Columns of the result.
    pub columns: Vec<QueryColumn>,
    /// The first rows, with one cell per column.
    pub rows: Vec<Vec<QueryCell>>,
}

/// A column of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryColumn {
    /// Its name.
    pub name: String,
    /// Its Arrow type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether its values are numbers.
    pub is_numeric: bool,
}

/// A value of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum QueryCell {
    /// Null.
    #[default]
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Any other value as text. Decimals are text to keep all their digits, and so are the floating-point numbers
    /// `Infinity`, `-Infinity` and `NaN`, which JSON lacks.
    Text(String),
}

impl QueryCell {
    fn text(&self) -> String {
        match self {
            QueryCell::Null => String::new(),
            QueryCell::Boolean(value) => value.to_string(),
            QueryCell::Integer(value) => value.to_string(),
            QueryCell::Real(value) => value.to_string(),
            QueryCell::Text(text) => text.clone(),
        }
    }
}

impl QueryResult {
    /// Returns the CPU time of the process in nanoseconds.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    fn phases(&self) -> Section {
        let bound = |phase: &&QueryPhase| match phase.bound {
            QueryBound::Cpu => Cell::from("CPU").tone(Tone::CpuBound),
            QueryBound::Io => Cell::from("I/O").tone(Tone::StorageBound),
        };
        Rows::new("phases", "Phases", &self.phases)
            .text("phase", |phase| phase.name.clone())
            .text("bound by", bound)
            .figure("bytes", |phase| Value::Size(phase.bytes))
            .figure("time", |phase| Value::Time(phase.elapsed_ns))
            .figure("throughput", |phase| Value::known(phase.throughput(), Value::Rate))
            .figure("user", |phase| Value::Time(phase.user_ns))
            .figure("system", |phase| Value::Time(phase.system_ns))
            .figure("waiting", |phase| Value::Time(phase.io_wait_ns))
            .legend("user and system: CPU time; waiting: for I/O; each summed over the threads of the phase")
            .section()
    }

    fn files(&self) -> Section {
        let role = |role: &'static str| move |file| (role, file);
        let inputs = self.inputs.iter().map(role("input"));
        Rows::new("files", "Files", inputs.chain(self.outputs.iter().map(role("output"))))
            .text("", |(role, _)| *role)
            .text("file", |(_, file)| file.path.clone())
            .text("format", |(_, file)| file.format.clone())
            .figure("rows", |(_, file)| Value::known(file.rows, Value::Count))
            .figure("size", |(_, file)| Value::known(file.size_bytes, Value::Size))
            .section()
    }

    /// Returns the section of the preview rows, which precedes the others.
    fn rows(&self) -> Option<Section> {
        let rows = self.rows.as_ref()?;
        let column = |column: &QueryColumn| Column {
            name: column.name.clone(),
            is_text: !column.is_numeric,
            ..Column::default()
        };
        // Every report table puts text columns before numeric ones.
        let mut order: Vec<usize> = (0..rows.columns.len()).collect();
        order.sort_by_key(|&index| rows.columns[index].is_numeric);
        let cell = |row: &[QueryCell], index: usize| {
            Cell::from(row.get(index).map(QueryCell::text).unwrap_or_default())
        };
        let cells = |row: &[QueryCell]| order.iter().map(|&index| cell(row, index)).collect();
        let hidden = self.output_rows.saturating_sub(rows.rows.len() as u64);
        let legend = match hidden {
            0 => String::new(),
            hidden => format!("and {}; -o FILE writes all rows", plural(hidden, "more row")),
        };
        Some(Section::Table(Table {
            name: "rows".to_owned(),
            heading: "Rows",
            columns: order.iter().map(|&index| column(&rows.columns[index])).collect(),
            rows: rows.rows.iter().map(|row| Row { cells: cells(row), ..Row::default() }).collect(),
            legend,
            is_data: true,
            ..Table::default()
        }))
    }

    /// Returns the peak resident memory and its limit.
    fn memory(&self) -> Fact {
        let limit = bytes(self.memory_limit_bytes);
        let value = match self.memory_peak_bytes {
            Some(peak) => {
                let program = bytes(PROGRAM_MEMORY_MAX_BYTES);
                format!(
                    "{} at most; limit {limit}, and {program} for code, stacks and libraries",
                    bytes(peak)
                )
            }
            None => format!("limit {limit}"),
        };
        Fact::new("memory", value)
    }
}

impl QueryResult {
    /// Returns the compression of spilled data, if any was spilled: `lz4 700 MB to 320 MB, none 20 MB`.
    fn spill_compression(&self) -> Option<Fact> {
        let level = |level: &SpillLevel| match level.level.as_str() {
            "none" => format!("none {}", bytes(level.raw_bytes)),
            name => format!("{name} {} to {}", bytes(level.raw_bytes), bytes(level.stored_bytes)),
        };
        let levels: Vec<String> = self.spill_compression.iter().map(level).collect();
        (!levels.is_empty()).then(|| Fact::new("spill compression", levels.join(", ")))
    }
}

impl Present for QueryResult {
    const SCHEMA: &'static str = "sakiyomi.query/1";

    fn title(&self) -> String {
        let parts = [self.operation.as_str(), self.description.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    }

    fn verdict(&self) -> Vec<Finding> {
        Finding::whole(verdict::sentences(self))
    }

    fn settings(&self) -> Vec<Fact> {
        let system = percent(ratio(self.system_ns, self.cpu_ns()));
        let access = if self.direct { "direct" } else { "through the page cache" };
        let rows = format!("{} in, {} out", count(self.input_rows), count(self.output_rows));
        let moved = format!("{} read, {} written", bytes(self.read_bytes), bytes(self.written_bytes));
        let cpu = format!("{} ({system} of it in the kernel)", crate::number::duration(self.cpu_ns()));
        let mut facts = vec![
            Fact::new("rows", rows),
            Fact::new("data", moved),
            Fact::size("spilled", self.spilled_bytes),
            Fact::time("elapsed", self.elapsed_ns),
            Fact::new("CPU time", cpu),
            self.memory(),
            Fact::new("I/O", format!("{}, {access}", self.method)),
            Fact::count("threads", self.threads),
        ];
        facts.extend(self.spill_compression());
        facts.extend(self.predicted_ns.map(|ns| Fact::time("predicted", ns)));
        facts
    }

    fn sections(&self) -> Vec<Section> {
        let plan = Notes::plain("Plan", self.plan.iter().cloned());
        let rest = [self.phases(), self.files(), plan, Notes::plain("Notes", self.notes.iter().cloned())];
        self.rows().into_iter().chain(rest).collect()
    }

    fn charts(&self, _: &Machine) -> Vec<Chart> {
        chart::charts(&self.phases)
    }

    fn glossary(&self) -> Glossary {
        glossary::QUERY
    }
}
