//! `compare`: two simulations side by side.

mod check;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use sakiyomi_report::{Comparison, Document, Present, Reported, SimResult, text};
use sakiyomi_simulation::read_text;

use serde::Deserialize;

use crate::console::{Common, Envelope, print_error};
use crate::output::Overwrite;
use check::Check;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi sim pc.csv --drive deskstar-7k250 --set cache.read_ahead.max=64KiB --out short
  sakiyomi sim pc.csv --drive deskstar-7k250 --set cache.read_ahead.max=1MiB --out long
  sakiyomi compare short long --out comparison
  sakiyomi compare before after --fail-if 'response_ns.p99>+5%' --fail-if 'hit_ratio<-1%'
";

/// Compare two simulations.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// The first result: the directory that `sim --out` made, or its result.json
    a: PathBuf,
    /// The second result
    b: PathBuf,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Exit with 1 if the relative change of a figure of result.json is above (KEY>+N%) or below (KEY<-N%) a limit; may be repeated
    #[arg(long, value_name = "CHECK")]
    fail_if: Vec<Check>,
}

impl Compare {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let (a, b) = (load(&self.a)?, load(&self.b)?);
        let failures = self.failures(&a.result, &b.result)?;
        let comparison = Comparison { a: &a, b: &b };
        let document = Envelope { schema: "sakiyomi.compare/1", result: comparison };
        if let Some(out) = self.overwrite.out(self.out.as_deref(), &[])? {
            out.write_result(&document, &comparison)?;
            common.note(&out.report());
        }
        common.emit(&document, |style| text::render(&comparison.report(), style))?;
        failures.iter().for_each(|failure| print_error(failure));
        Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// Returns the failed checks as sentences.
    fn failures(&self, a: &SimResult, b: &SimResult) -> Result<Vec<String>> {
        let (a, b) = (serde_json::to_value(a)?, serde_json::to_value(b)?);
        let checked = self.fail_if.iter().map(|check| check.failure(&a, &b));
        checked.filter_map(Result::transpose).collect()
    }
}

fn load(path: &Path) -> Result<Document<SimResult>> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let dir = path.display();
    ensure!(
        !path.is_dir() || file.exists(),
        "there is no result.json in {dir}; `sakiyomi sim … --out {dir}` makes one"
    );
    let text = read_text(&file, "the result", "`sakiyomi sim … --out DIR` makes one")?;
    let not_a_result = format!("{} is not a result of `sakiyomi sim`", file.display());
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| anyhow!("{not_a_result}: it is not JSON from line {} on", error.line().max(1)))?;
    let schema = value["schema"].as_str().unwrap_or("no schema");
    ensure!(schema == SimResult::SCHEMA, "{not_a_result}: it has {schema}, expected {}", SimResult::SCHEMA);
    // Serde's message names only the first mismatching key; the cause is an edited file or another version.
    Document::deserialize(&value).map_err(|_| {
        anyhow!(
            "{}: it has the schema {schema}, but not all of its figures; make it again with `sakiyomi sim … --out DIR`",
            file.display()
        )
    })
}
