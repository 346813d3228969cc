//! `sim`: simulates a trace on a drive.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use sakiyomi_drive::observe::Chunking;
use sakiyomi_model::Nanos;
use sakiyomi_report::{Document, SimResult};
use sakiyomi_simulation::{parse_chunking, sim_result};

use crate::args::WorkloadArgs;
use crate::console::Common;
use crate::log::{LogFormat, Logs};
use crate::output::Overwrite;
use crate::progress::Progress;
use crate::provenance::simulation_run;
use crate::simulation::{simulate, trace_size};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sim trace.csv.gz --drive deskstar-7k250
  sakiyomi sim trace.csv.gz --drive deskstar-7k250 --set cache.read_ahead.max=1MiB --out long
  sakiyomi sim trace.csv.gz --drive mine.toml --chunk commands=1000 --out result --log parquet
";

/// Simulate a block trace on a hard disk.
#[derive(Debug, Args)]
pub(crate) struct Sim {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Length of a chunk of the charts and logs, such as time=1s, bytes=64MiB or commands=1000
    #[arg(long, value_name = "KIND=SIZE", default_value = "time=1s", value_parser = parse_chunking)]
    chunk: Chunking,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Also write the command, cache and disk logs and all chunks there, in this format
    #[arg(long, value_name = "FORMAT", value_enum, requires = "out")]
    log: Option<LogFormat>,
}

impl Sim {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let document = self.document(common)?;
        common.present(&document)?;
        Ok(ExitCode::SUCCESS)
    }

    fn document(&self, common: &Common) -> Result<Document<SimResult>> {
        let begun = Instant::now();
        let spec = self.workload.drive.spec(common)?;
        let logs: Vec<String> = self.log.into_iter().flat_map(LogFormat::files).collect();
        let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
        let out = self.overwrite.out(self.out.as_deref(), &logs)?;
        let mut logs = match (&out, self.log) {
            (Some(out), Some(format)) => Some(Logs::create(out.path(), format)?),
            _ => None,
        };
        let mut progress = Progress::new(trace_size(&self.workload.trace), common.quiet);
        let simulated = simulate(&self.workload, &spec, self.chunk, logs.as_mut(), &mut progress)?;
        drop(progress);
        let settings = &self.workload.drive.set;
        let result = sim_result(&simulated, &spec.title(), settings, self.workload.warm_up, self.chunk);
        let run = simulation_run(begun.elapsed(), result.commands, Nanos(result.simulated_ns));
        let document = Document::new(run, result);
        if let Some(logs) = logs {
            logs.finish()?;
        }
        if let Some(out) = &out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        Ok(document)
    }
}
