//! The jobs: sorts, joins and aggregations, in memory and spilled, on one thread and on all.

use super::tables::Source;
use crate::aggregate::Function;
use crate::cost::plan::Algorithm;
use crate::join::JoinKind;
use crate::output::{Compression, OutputOptions};
use crate::statement::{Aggregate, Input, Join, Sort, Statement};
use crate::table::{Format, Table};

/// A job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) sources: &'static [Source],
    pub(super) work: Work,
    /// Memory limit in bytes.
    pub(super) memory: usize,
    pub(super) threads: Threads,
    /// Format of the result.
    pub(super) format: Format,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// Sorts by a column.
    Sort(&'static str),
    /// Finds the first rows by a column.
    First(&'static str),
    /// Joins both tables on `k` by sorting them, or by a hash table.
    MergeJoin,
    HashJoin,
    /// Groups by a column and aggregates `v`.
    Group(&'static str),
}

/// Number of compute threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    One,
    All,
}

/// A memory limit within which the tables of the jobs stay in memory.
const IN_MEMORY_BYTES: usize = 256 << 20;
/// A memory limit at which they are spilled.
const SPILLING_MEMORY_BYTES: usize = 64 << 20;
/// Rows of [`Work::First`].
const FIRST_ROWS: u64 = 1000;

/// The jobs in the order of their runs.
pub(super) const CASES: [Case; 15] = [
    case("sort", &[Source::Narrow], Work::Sort("k"), IN_MEMORY_BYTES),
    case("spilled sort", &[Source::Narrow], Work::Sort("k"), SPILLING_MEMORY_BYTES),
    Case {
        threads: Threads::One,
        ..case("sort on one thread", &[Source::Wide], Work::Sort("k"), IN_MEMORY_BYTES)
    },
    case("spilled sort of wide rows", &[Source::Wide], Work::Sort("k"), SPILLING_MEMORY_BYTES),
    Case {
        format: Format::ArrowFile,
        ..case("sort by text", &[Source::Texts], Work::Sort("t"), IN_MEMORY_BYTES)
    },
    case("spilled sort by text", &[Source::Texts], Work::Sort("t"), SPILLING_MEMORY_BYTES),
    case("first rows", &[Source::ArrowFacts], Work::First("v"), IN_MEMORY_BYTES),
    case("first rows of Parquet", &[Source::Facts], Work::First("v"), IN_MEMORY_BYTES),
    case("merge join", &[Source::Facts, Source::Sides], Work::MergeJoin, IN_MEMORY_BYTES),
    case("spilled merge join", &[Source::Facts, Source::Sides], Work::MergeJoin, SPILLING_MEMORY_BYTES),
    case("hash join", &[Source::Facts, Source::Sides], Work::HashJoin, IN_MEMORY_BYTES),
    case("few groups", &[Source::ArrowFacts], Work::Group("c"), IN_MEMORY_BYTES),
    case("few groups of Parquet", &[Source::Facts], Work::Group("c"), IN_MEMORY_BYTES),
    case("many groups", &[Source::Facts], Work::Group("k"), IN_MEMORY_BYTES),
    case("spilled groups", &[Source::Narrow], Work::Group("k"), SPILLING_MEMORY_BYTES),
];

const fn case(name: &'static str, sources: &'static [Source], work: Work, memory: usize) -> Case {
    Case { name, sources, work, memory, threads: Threads::All, format: Format::Parquet }
}

impl Case {
    /// Returns the options of the result: the compression that commands use by default.
    pub(super) fn output_options(&self) -> OutputOptions {
        let compression =
            if self.format == Format::Parquet { Compression::Snappy } else { Compression::None };
        OutputOptions { compression, ..OutputOptions::new(self.format) }
    }
}

impl Work {
    /// Returns the statement on opened tables.
    pub(super) fn statement(self, tables: Vec<Table>) -> Option<Statement> {
        let mut tables = tables.into_iter();
        let first = tables.next()?;
        let sort = |by: &str, limit| Sort { by: by.to_owned(), limit, stable: false };
        Some(match self {
            Work::Sort(by) => Statement::Sort(Input::all(first), sort(by, None)),
            Work::First(by) => Statement::Sort(Input::all(first), sort(by, Some(FIRST_ROWS))),
            Work::MergeJoin | Work::HashJoin => {
                let (kind, on) = (JoinKind::Inner, "k=k".to_owned());
                let join = Join { on, kind, filter: None, select: None, method: None };
                Statement::Join(first, tables.next()?, join)
            }
            Work::Group(by) => {
                let functions = [Function::Sum, Function::Avg, Function::Max];
                let functions = functions.map(|function| (function, "v".to_owned())).to_vec();
                let aggregate = Aggregate { by: Some(by.to_owned()), functions, count: true };
                Statement::Aggregate(Input::all(first), aggregate)
            }
        })
    }

    /// Returns whether an algorithm is the one that the job is for.
    pub(super) fn is_done_by(self, algorithm: Algorithm) -> bool {
        match self {
            Work::MergeJoin => matches!(algorithm, Algorithm::MergeJoin { .. }),
            Work::HashJoin => matches!(algorithm, Algorithm::HashJoin { .. }),
            Work::Sort(_) | Work::First(_) | Work::Group(_) => true,
        }
    }
}
