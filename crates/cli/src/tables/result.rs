//! The result of a command on tables.

use std::process::ExitCode;

use anyhow::Result;
use sakiyomi_query::Job;
use sakiyomi_query::statement::Outcome;
use sakiyomi_report::Document;
use sakiyomi_tables::{Figures, Measurement};

use crate::console::{Common, note_pretty_json};
use crate::output::OutDir;
use crate::provenance;

/// A running command, and its report directory.
pub(crate) struct Command {
    begun: Measurement,
    out: Option<OutDir>,
}

impl Command {
    /// Starts the clocks; the report is also written to `out`.
    pub(crate) fn begin(out: Option<OutDir>) -> Command {
        Command { begun: Measurement::begin(), out }
    }

    /// Prints the result and writes the report.
    pub(crate) fn finish(
        self,
        figures: Figures,
        job: &Job,
        outcome: &Outcome,
        common: &Common,
    ) -> Result<ExitCode> {
        let elapsed = self.begun.elapsed();
        let is_on_stdout = figures.outputs.iter().any(|file| file.path == "-");
        let result = self.begun.result(figures, job, outcome);
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
}
