//! The result document of a statement.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sakiyomi_os::cpu;
use sakiyomi_os::process::memory;
use sakiyomi_query::Job;
use sakiyomi_query::output::Target;
use sakiyomi_query::phase::Phase;
use sakiyomi_query::spill::LevelBytes;
use sakiyomi_query::statement::{Destination, Outcome};
use sakiyomi_query::table::{Format, Table};
use sakiyomi_report::QueryResult;
use sakiyomi_report::result::{QueryFile, QueryPhase, SpillLevel};

use crate::rows::rows;
use crate::{Planned, Request, format_name};

/// Figures of a result that its job does not have.
#[derive(Clone, Debug)]
pub struct Figures {
    /// `sort`, `join`, `aggregate`, `q1`, `gen`.
    pub operation: &'static str,
    /// Its parameters.
    pub description: String,
    /// Files that were read.
    pub inputs: Vec<QueryFile>,
    /// Files that were written.
    pub outputs: Vec<QueryFile>,
    /// Whether tables were read with direct I/O.
    pub is_direct: bool,
    /// The plan.
    pub planned: Planned,
}

impl Figures {
    /// Returns those of a statement that has written its destination.
    #[must_use]
    pub fn of(
        request: &Request,
        inputs: Vec<QueryFile>,
        planned: Planned,
        destination: &Destination,
        outcome: &Outcome,
    ) -> Figures {
        let outputs = match destination {
            Destination::File { target, options } => {
                vec![file(target_path(target), format_name(options.format), Some(outcome.output_rows))]
            }
            Destination::Preview { .. } | Destination::Stream(_) => Vec::new(),
        };
        Figures {
            operation: request.operation.name(),
            description: request.operation.description(),
            inputs,
            outputs,
            is_direct: planned.access(&request.resources) == sakiyomi_io::Access::Direct,
            planned,
        }
    }
}

/// A running statement: its start time, and the CPU time of this process at the start.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    begun: Instant,
    cpu: (Duration, Duration),
}

impl Measurement {
    /// Starts the clocks.
    #[must_use]
    pub fn begin() -> Measurement {
        Measurement { begun: Instant::now(), cpu: cpu::user_and_system_of_this_process() }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns the result. CPU times and the peak of memory are those of the whole process.
    #[must_use]
    pub fn result(&self, figures: Figures, job: &Job, outcome: &Outcome) -> QueryResult {
        let (user, system) = cpu::user_and_system_of_this_process();
        let options = job.options();
        QueryResult {
            operation: figures.operation.to_owned(),
            description: figures.description,
            inputs: figures.inputs,
            outputs: figures.outputs,
            input_rows: outcome.input_rows,
            output_rows: outcome.output_rows,
            read_bytes: outcome.read_bytes,
            written_bytes: outcome.output_bytes,
            spilled_bytes: outcome.spilled_bytes,
            spill_compression: job.spill_bytes().iter().map(spill_level).collect(),
            elapsed_ns: nanos(self.elapsed()),
            user_ns: nanos(user.saturating_sub(self.cpu.0)),
            system_ns: nanos(system.saturating_sub(self.cpu.1)),
            memory_limit_bytes: options.memory as u64,
            memory_peak_bytes: memory::peak_resident(),
            threads: options.threads as u64,
            method: options.engine.to_string(),
            direct: figures.is_direct,
            plan: figures.planned.lines.iter().chain(&outcome.plan).cloned().collect(),
            predicted_ns: figures.planned.elapsed.map(nanos),
            phases: job.phases().list().iter().map(phase).collect(),
            rows: outcome.preview.as_ref().map(rows),
            notes: outcome.notes.clone(),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn phase(phase: &Phase) -> QueryPhase {
    QueryPhase {
        name: phase.name.clone(),
        bytes: phase.bytes,
        stored_bytes: phase.stored_bytes,
        elapsed_ns: phase.elapsed_ns,
        user_ns: phase.user_ns,
        system_ns: phase.system_ns,
        io_wait_ns: phase.waited_ns,
        bound: QueryPhase::bound_of(phase.user_ns, phase.system_ns, phase.waited_ns),
    }
}

fn spill_level(bytes: &LevelBytes) -> SpillLevel {
    let LevelBytes { level, raw_bytes, stored_bytes } = *bytes;
    SpillLevel { level: level.name().to_owned(), raw_bytes, stored_bytes }
}

/// Returns the result entries of a table's files. The number of rows is known only for a table of one file.
#[must_use]
pub fn inputs(paths: &[PathBuf], table: &Table) -> Vec<QueryFile> {
    let (format, rows) = (format_name(table.format()), table.rows().filter(|_| paths.len() == 1));
    paths.iter().map(|path| file(path, format, rows)).collect()
}

/// Returns the result entry of a table of record batches.
#[must_use]
pub fn batches_input(name: &str) -> QueryFile {
    let format = format_name(Format::ArrowStream).to_owned();
    QueryFile { path: name.to_owned(), format, rows: None, size_bytes: None }
}

/// Returns the result entry of a file.
#[must_use]
pub fn file(path: &Path, format: &str, rows: Option<u64>) -> QueryFile {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
    QueryFile {
        path: path.to_string_lossy().into_owned(),
        format: format.to_owned(),
        rows,
        size_bytes: size.filter(|_| path != Path::new("-")),
    }
}

/// Returns the path of a target in a result; `-` for standard output.
fn target_path(target: &Target) -> &Path {
    match target {
        Target::File(path) => path,
        Target::Stdout => Path::new("-"),
    }
}
