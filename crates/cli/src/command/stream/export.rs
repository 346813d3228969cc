//! `stream export`: a pipeline and its snapshot for another engine.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_pipeline::Pipeline;

use crate::console::Common;
use crate::output::OutFile;

pub(super) const EXAMPLES: &str = "Examples:
  sakiyomi stream export alerts.toml --to flink alerts-flink
  sakiyomi stream export alerts.toml --to flink alerts-flink --snapshot alerts.snapshot
";

/// Export a pipeline, with the state of a snapshot, to be continued by another engine.
#[derive(Debug, Args)]
#[command(
    after_help = "Writes job.json (the operators), state.jsonl (the state of the snapshot) and a copy of the pipeline to the directory. The \
program in integrations/flink of sakiyomi's source builds the job, writes the state as a savepoint, and starts from it where the \
snapshot has left the sources. An operator without an equivalent is refused by name."
)]
pub(crate) struct Export {
    /// The pipeline, as TOML
    file: PathBuf,
    /// The engine, flink, and the directory for its files
    #[arg(long, num_args = 2, value_names = ["ENGINE", "DIR"], required = true)]
    to: Vec<PathBuf>,
    /// Continue from this snapshot of the pipeline, written by `stream run --snapshot`
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

/// The files of an export: the operators, the state, and the pipeline as it was given.
const JOB_FILE: &str = "job.json";
const STATE_FILE: &str = "state.jsonl";
const PIPELINE_FILE: &str = "pipeline.toml";

impl Export {
    pub(super) fn run(&self, common: &Common) -> Result<ExitCode> {
        let [engine, directory] = &self.to[..] else { unreachable!("clap asks for two values") };
        ensure!(
            engine.as_os_str() == "flink",
            "--to {}: pipelines cannot be exported to this engine; write --to flink DIR",
            engine.display()
        );
        let pipeline = Pipeline::read(&self.file)?;
        let snapshot = self.snapshot.as_deref().map(|path| pipeline.read_snapshot(path)).transpose()?;
        let base = std::env::current_dir().context("cannot determine the current directory")?;
        let export = pipeline.export(snapshot.as_ref(), &base)?;
        let text =
            std::fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot create the directory {}", directory.display()))?;
        write(directory, PIPELINE_FILE, &text)?;
        write(directory, STATE_FILE, export.state.as_bytes())?;
        write(directory, JOB_FILE, export.job.as_bytes())?;
        common.note(&format!("export: {}", directory.join(JOB_FILE).display()));
        Ok(ExitCode::SUCCESS)
    }
}

fn write(directory: &Path, name: &str, content: &[u8]) -> Result<()> {
    OutFile::create(&directory.join(name))?.write(content)
}
