//! The result document of a job.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use sakiyomi_os::cpu;
use sakiyomi_os::process::memory;
use sakiyomi_query::Job;
use sakiyomi_query::output::Target;
use sakiyomi_query::phase::Phase;
use sakiyomi_query::spill::LevelBytes;
use sakiyomi_query::statement::{Destination, Outcome};
use sakiyomi_query::table::Table;
use sakiyomi_report::result::{QueryFile, QueryPhase, SpillLevel};
use sakiyomi_report::{Document, QueryResult};

use super::args::format_name;
use super::plan::Planned;
use super::rows::rows;
use crate::console::{Common, note_pretty_json};
use crate::output::OutDir;
use crate::provenance::{self, nanos};

/// Operation, inputs and plan of a command.
pub(crate) struct Asked {
    /// `sort`, `join`, `aggregate`, `q1`, `gen`.
    pub(crate) operation: &'static str,
    /// Its parameters.
    pub(crate) description: String,
    pub(crate) inputs: Vec<QueryFile>,
    /// Whether tables were read with direct I/O.
    pub(crate) is_direct: bool,
    pub(crate) planned: Planned,
}

/// A running command: its start time, CPU time at the start, and report directory.
pub(crate) struct Command {
    begun: Instant,
    cpu: (Duration, Duration),
    out: Option<OutDir>,
}

impl Command {
    /// Starts the clocks; the report is also written to `out`.
    pub(crate) fn begin(out: Option<OutDir>) -> Command {
        Command { begun: Instant::now(), cpu: cpu::user_and_system_of_this_process(), out }
    }

    /// Prints the result and writes the report.
    pub(crate) fn finish(
        self,
        asked: Asked,
        job: &Job,
        outcome: &Outcome,
        destination: &Destination,
        common: &Common,
    ) -> Result<ExitCode> {
        let outputs = match destination {
            Destination::File { target, options } => {
                vec![file(target_path(target), format_name(options.format), Some(outcome.output_rows))]
            }
            Destination::Preview { .. } => Vec::new(),
        };
        self.finish_files(asked, job, outcome, outputs, common)
    }

    /// Like `finish`, for several output files.
    pub(crate) fn finish_files(
        self,
        asked: Asked,
        job: &Job,
        outcome: &Outcome,
        outputs: Vec<QueryFile>,
        common: &Common,
    ) -> Result<ExitCode> {
        let elapsed = self.begun.elapsed();
        let is_on_stdout = outputs.iter().any(|file| file.path == "-");
        let result = self.result(asked, job, outcome, outputs, elapsed);
        let document = Document::new(provenance::run(elapsed), result);
        if let Some(out) = &self.out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        match is_on_stdout {
            false => common.present(&document)?,
            true if common.json => note_pretty_json(&document),
            true => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    fn result(
        &self,
        asked: Asked,
        job: &Job,
        outcome: &Outcome,
        outputs: Vec<QueryFile>,
        elapsed: Duration,
    ) -> QueryResult {
        let (user, system) = cpu::user_and_system_of_this_process();
        let options = job.options();
        QueryResult {
            operation: asked.operation.to_owned(),
            description: asked.description,
            inputs: asked.inputs,
            outputs,
            input_rows: outcome.input_rows,
            output_rows: outcome.output_rows,
            read_bytes: outcome.read_bytes,
            written_bytes: outcome.output_bytes,
            spilled_bytes: outcome.spilled_bytes,
            spill_compression: job.spill_bytes().iter().map(spill_level).collect(),
            elapsed_ns: nanos(elapsed),
            user_ns: nanos(user.saturating_sub(self.cpu.0)),
            system_ns: nanos(system.saturating_sub(self.cpu.1)),
            memory_limit_bytes: options.memory as u64,
            memory_peak_bytes: memory::peak_resident(),
            threads: options.threads as u64,
            method: options.engine.to_string(),
            direct: asked.is_direct,
            plan: asked.planned.lines.iter().chain(&outcome.plan).cloned().collect(),
            predicted_ns: asked.planned.elapsed.map(nanos),
            phases: job.phases().list().iter().map(phase).collect(),
            rows: outcome.preview.as_ref().map(rows),
            notes: outcome.notes.clone(),
        }
    }
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
pub(crate) fn inputs(paths: &[PathBuf], table: &Table) -> Vec<QueryFile> {
    let (format, rows) = (format_name(table.format()), table.rows().filter(|_| paths.len() == 1));
    paths.iter().map(|path| file(path, format, rows)).collect()
}

/// Returns the result entry of a file.
pub(crate) fn file(path: &Path, format: &str, rows: Option<u64>) -> QueryFile {
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
