//! `query gen`: tables of TPC-H as files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_query::statement::{self, Generated};

use crate::console::Common;
use crate::tables::{Asked, Command, JobArgs, OutputFormat, ReportArgs, file, format_name, run};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query gen --sf 1 -o tpch
  sakiyomi query gen --sf 10 --tables lineitem,orders --shuffle 1 --format arrow -o tpch10
  sakiyomi query gen --sf 0.01 --tables lineitem --columns l_orderkey,l_partkey,l_shipdate -o small
";

/// Generate tables of TPC-H, at any scale factor in bounded memory.
#[derive(Debug, Args)]
#[command(
    after_help = "Tables: lineitem, orders, customer, part, partsupp, supplier, nation, region; each becomes a file of its \
name in DIR. LINEITEM has 6,000,000 rows for each unit of the scale factor and is born ordered by l_orderkey, which hides \
the work of a sort or join: --shuffle permutes the rows. The same scale factor and seed give the same rows on any machine."
)]
pub(crate) struct Generate {
    /// Scale factor; fractions are allowed
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    sf: f64,
    /// Tables to generate
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "lineitem,orders")]
    tables: Vec<String>,
    /// Generate only these columns
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// Permute the rows by this seed
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Write the tables to this directory
    #[arg(short, long, value_name = "DIR", required = true)]
    output: PathBuf,
    #[command(flatten)]
    format: OutputFormat,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    report: ReportArgs,
}

impl Generate {
    pub(crate) fn run(&self, common: &Common) -> Result<ExitCode> {
        let command = Command::begin(self.report.directory()?);
        ensure!(
            self.sf.is_finite() && (0.0001..=100_000.0).contains(&self.sf),
            "--sf {}: give a scale factor from 0.0001 to 100000",
            self.sf
        );
        let job = self.job.open()?;
        let statement = statement::Generate {
            scale: self.sf,
            tables: self.tables.clone(),
            columns: self.columns.clone(),
            shuffle: self.shuffle,
            directory: self.output.clone(),
            options: self.format.options_or(sakiyomi_query::table::Format::Parquet)?,
        };
        statement.check()?;
        let made = !self.output.exists();
        std::fs::create_dir_all(&self.output)
            .with_context(|| format!("cannot make the directory {}", self.output.display()))?;
        let format = format_name(statement.options.format);
        let outcome = run(&job, common, move |job| statement::generate(job, &statement));
        if made && outcome.is_err() {
            // Fails on a directory that is not empty, as it should.
            let _ = std::fs::remove_dir(&self.output);
        }
        let (outcome, tables) = outcome?;
        let shuffled = self.shuffle.map_or_else(String::new, |seed| format!(", shuffled by {seed}"));
        let asked = Asked {
            operation: "gen",
            description: format!("{} at SF {}{shuffled}", self.tables.join(", "), self.sf),
            ..Asked::default()
        };
        let files = tables.iter().map(|Generated { path, rows }| file(path, format, Some(*rows))).collect();
        command.finish_files(asked, &job, &outcome, files, common)
    }
}
