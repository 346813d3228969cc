//! `[[step]]`.

use std::path::PathBuf;

use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_model::Nanos;

use super::sink::OutputFormat;
use super::window::Window;
use super::{BAD_WORDS, OnBad};
use crate::Error;
use crate::document::{At, Table};

/// The names of operators.
const OPERATORS: [&str; 8] = ["filter", "select", "aggregate", "top", "distinct", "join", "lookup", "append"];

/// Operators that may have a key.
const KEYED_OPERATORS: [&str; 4] = ["aggregate", "top", "distinct", "join"];

/// A step.
#[derive(Debug)]
pub(crate) struct StepSpec {
    pub(crate) name: At<String>,
    pub(crate) input: Option<At<String>>,
    pub(crate) op: Op,
    pub(crate) bad: OnBad,
    /// Mean CPU time of a row for the planner, in nanoseconds.
    pub(crate) cost_ns: Option<f64>,
    /// Mean number of rows for each one that comes in, for the planner.
    pub(crate) selectivity: Option<f64>,
    /// Largest number of replicas; none of a step that runs as one.
    pub(crate) replicas: Option<At<u64>>,
}

/// The task of a step.
#[derive(Debug)]
pub(crate) enum Op {
    /// Rows for which a condition is true.
    Filter { condition: At<String> },
    /// Columns computed from columns.
    Select { columns: At<String> },
    /// Values over the rows of a key and window; without a window, over all rows.
    Aggregate { by: Option<At<String>>, window: Option<At<Window>>, compute: At<String> },
    /// The rows with the largest values of each window.
    Top { k: u64, by: At<String>, per: Option<At<String>>, window: Option<At<Window>> },
    /// Rows whose columns have not occurred before in their window.
    Distinct { by: Option<At<String>>, window: Option<At<Window>>, keys_max: u64 },
    /// Pairs of rows of two inputs with equal keys, whose event times are near each other.
    Join { with: At<String>, on: At<String>, within_ns: u64 },
    /// The columns of a table for a key.
    Lookup { table: LookupTable, on: At<String>, required: bool },
    /// Rows are written to a file, and pass.
    Append { path: PathBuf, format: OutputFormat, passes: Passes },
}

/// The table of a look-up.
#[derive(Clone, Debug)]
pub(crate) struct LookupTable {
    pub(crate) path: At<PathBuf>,
    /// Types of columns of CSV; all others are texts.
    pub(crate) columns: Vec<(String, At<String>)>,
    /// How its file is read for each row; none of a table that is held in memory.
    pub(crate) access: Option<TableAccess>,
}

/// How the rows of a table are read from its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableAccess {
    /// Around the page cache.
    pub(crate) is_direct: bool,
    pub(crate) method: EngineSpec,
    /// Rows whose look-ups are in flight, at most.
    pub(crate) in_flight: usize,
}

/// When rows that are appended to a file pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passes {
    AtOnce,
    /// When they have been given to the system.
    Written {
        /// Rows that wait for that, at most.
        in_flight: usize,
    },
}

/// Look-ups in flight unless the description says otherwise: twice the depth at which disks reach most of their rate.
const LOOKUPS_IN_FLIGHT: usize = 64;

/// Rows that wait to be written unless the description says otherwise: a write gathers rows for a millisecond.
const ROWS_IN_FLIGHT: usize = 4096;

/// Rows in flight at most: all are in the memory of the step and in its snapshots.
const ROWS_IN_FLIGHT_MAX: u64 = 1 << 20;

/// Reads `in_flight`.
fn in_flight(table: &Table<'_>, usual: usize) -> Result<usize, Error> {
    let Some(count) = table.count("in_flight", 1)? else { return Ok(usual) };
    if count.value > ROWS_IN_FLIGHT_MAX {
        return Err(count.error(format!("{} is more than {ROWS_IN_FLIGHT_MAX}", count.value)));
    }
    Ok(count.value as usize)
}

impl TableAccess {
    /// Reads `table` and the keys that belong to it.
    fn read(table: &Table<'_>) -> Result<Option<TableAccess>, Error> {
        let place = table.word("table", &["memory", "file"])?;
        if place.is_none_or(|place| place.value == 0) {
            for key in ["direct", "in_flight", "method"] {
                table.only_with(key, "table = \"file\"")?;
            }
            return Ok(None);
        }
        let method = match table.parsed::<EngineSpec>("method")? {
            None => EngineSpec::usual(EngineKind::Pread),
            Some(method) if method.value.kind.uses_buffers() && method.value.kind != EngineKind::Null => {
                method.value
            }
            Some(method) => {
                return Err(method.error(format!(
                    "{} does not read into buffers; write read, pread:N, aio:N or uring:N",
                    method.value.kind.name()
                )));
            }
        };
        let is_direct = table.flag("direct")?.unwrap_or(false);
        Ok(Some(TableAccess { is_direct, method, in_flight: in_flight(table, LOOKUPS_IN_FLIGHT)? }))
    }
}

impl Passes {
    /// Reads `pass` and the key that belongs to it.
    fn read(table: &Table<'_>) -> Result<Passes, Error> {
        let pass = table.word("pass", &["at once", "written"])?;
        if pass.is_some_and(|pass| pass.value == 1) {
            return Ok(Passes::Written { in_flight: in_flight(table, ROWS_IN_FLIGHT)? });
        }
        table.only_with("in_flight", "pass = \"written\"")?;
        Ok(Passes::AtOnce)
    }
}

/// Keys that `distinct` remembers unless the description says otherwise: some hundred megabytes.
const DISTINCT_KEYS_MAX: u64 = 1_000_000;

impl StepSpec {
    pub(super) fn read(table: &Table<'_>) -> Result<StepSpec, Error> {
        let op = table.word("op", &OPERATORS)?;
        let op = op.ok_or_else(|| table.missing("op", "\"filter\""))?;
        let name = table.text("name")?.unwrap_or_else(|| op.with(OPERATORS[op.value].to_owned()));
        let step = StepSpec {
            name,
            input: table.text("input")?,
            op: Op::read(OPERATORS[op.value], table)?,
            bad: table.word("bad", &BAD_WORDS)?.map_or(OnBad::Stop, |word| OnBad::of(word.value)),
            cost_ns: table.parsed::<Nanos>("cost")?.map(|cost| cost.value.0 as f64),
            selectivity: table.number("selectivity")?.map(|selectivity| selectivity.value),
            replicas: match KEYED_OPERATORS.contains(&OPERATORS[op.value]) {
                true => table.count("replicas", 1)?,
                false => None,
            },
        };
        table.finish()?;
        step.check_replicas()?;
        Ok(step)
    }
}

/// Replicas of a step at most: the bins of its keys.
const REPLICAS_MAX: u64 = 64;

impl StepSpec {
    /// # Errors
    /// If a step has replicas and no key, or too many.
    fn check_replicas(&self) -> Result<(), Error> {
        let Some(replicas) = &self.replicas else { return Ok(()) };
        let has_key = match &self.op {
            Op::Aggregate { by, .. } => by.is_some(),
            Op::Top { per, .. } => per.is_some(),
            _ => true,
        };
        if !has_key {
            let problem = "replicas divide the rows by a key, and this step has none; set `by` of an aggregate, or `per` of a top";
            return Err(replicas.error(problem));
        }
        if replicas.value > REPLICAS_MAX {
            return Err(replicas.error(format!("{} is more than {REPLICAS_MAX}", replicas.value)));
        }
        Ok(())
    }
}

impl Op {
    fn read(name: &str, table: &Table<'_>) -> Result<Op, Error> {
        let window = || table.parsed::<Window>("window");
        Ok(match name {
            "filter" => Op::Filter { condition: table.required("where", "\"status >= 500\"")? },
            "select" => Op::Select { columns: table.required("columns", "\"path, bytes / 1024 AS kib\"")? },
            "aggregate" => Op::Aggregate {
                by: table.text("by")?,
                window: window()?,
                compute: table.required("compute", "\"count(*) AS n\"")?,
            },
            "top" => Op::Top {
                k: table.count("k", 1)?.ok_or_else(|| table.missing("k", "10"))?.value,
                by: table.required("by", "\"n\"")?,
                per: table.text("per")?,
                window: window()?,
            },
            "distinct" => Op::Distinct {
                by: table.text("by")?,
                window: window()?,
                keys_max: table.count("keys_max", 1)?.map_or(DISTINCT_KEYS_MAX, |keys| keys.value),
            },
            "join" => Op::Join {
                with: table.required("with", "\"orders\"")?,
                on: table.required("on", "\"key = key\"")?,
                within_ns: table
                    .parsed::<Nanos>("within")?
                    .ok_or_else(|| table.missing("within", "\"10s\""))?
                    .value
                    .0,
            },
            "lookup" => {
                let file = table.required("file", "\"hosts.csv\"")?;
                Op::Lookup {
                    table: LookupTable {
                        path: file.with(PathBuf::from(&file.value)),
                        columns: table.named_texts("columns")?,
                        access: TableAccess::read(table)?,
                    },
                    on: table.required("on", "\"host = name\"")?,
                    required: table.word("missing", &["null", "drop"])?.is_some_and(|word| word.value == 1),
                }
            }
            _ => {
                let (path, format) = (table.required("file", "\"rows.csv\"")?, OutputFormat::read(table)?);
                if let (OutputFormat::Arrow, Some(word)) = (format, table.text("format")?) {
                    return Err(
                        word.error("rows in Arrow IPC cannot be appended to a file; write json or csv")
                    );
                }
                Op::Append { path: path.value.into(), format, passes: Passes::read(table)? }
            }
        })
    }
}
