//! `query gen`: tables of TPC-H as files.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use sakiyomi_io::Access;
use sakiyomi_model::suggest::{did_you_mean, similar};
use sakiyomi_query::generate::{ColumnTypes, GenerateOptions, TPCH_TABLES, TpchTable, generate_file, schema};
use sakiyomi_query::output::{OutputOptions, Target};
use sakiyomi_query::statement::Outcome;
use sakiyomi_query::table::Format;
use sakiyomi_query::{Error, Job};
use sakiyomi_tables::{Figures, Planned, file, format_name};

use crate::console::Common;
use crate::tables::{Command, JobArgs, OutputFormat, ReportArgs, run};

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi query gen --sf 1 -o tpch
  sakiyomi query gen --sf 10 --tables lineitem,orders --shuffle 1 --format arrow -o tpch10
  sakiyomi query gen --sf 0.01 --tables lineitem --columns l_orderkey,l_partkey,l_shipdate -o small
";

/// Generate tables of TPC-H, at any scale factor in bounded memory.
#[derive(Debug, Args)]
#[command(
    mut_arg("format", |format| format.help("Format of the tables [default: parquet]")),
    after_help = "Tables: lineitem, orders, customer, part, partsupp, supplier, nation, region; each is written to a file \
of its name in DIR. LINEITEM has 6,000,000 rows for each unit of the scale factor. They are ordered by l_orderkey, which \
makes sorts and joins cheap; --shuffle permutes the rows. The same scale factor and seed give the same rows on any machine."
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
    /// Permute the rows with this seed
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
        let job = self.job.open()?;
        let files = self.files()?;
        let made = !self.output.exists();
        std::fs::create_dir_all(&self.output)
            .with_context(|| format!("cannot create the directory {}", self.output.display()))?;
        let (format, written) = (files.output.format, run(&job, common, move |job| files.generate(job)));
        if made && written.is_err() {
            // Fails on a directory that is not empty, as it should.
            let _ = std::fs::remove_dir(&self.output);
        }
        let written = written?;
        let shuffled = self.shuffle.map_or_else(String::new, |seed| format!(", shuffled by {seed}"));
        let outcome = Outcome {
            output_rows: written.iter().map(|(_, rows, _)| rows).sum(),
            output_bytes: written.iter().map(|(.., bytes)| bytes).sum(),
            ..Outcome::default()
        };
        let outputs = written.iter().map(|(path, rows, _)| file(path, format_name(format), Some(*rows)));
        let figures = Figures {
            operation: "gen",
            description: format!("{} at SF {}{shuffled}", self.tables.join(", "), self.sf),
            inputs: Vec::new(),
            outputs: outputs.collect(),
            is_direct: self.job.resources().access() == Access::Direct,
            planned: Planned::default(),
        };
        command.finish(figures, &job, &outcome, common)
    }

    /// Checks tables and columns before any work; returns the files to generate.
    fn files(&self) -> Result<Files> {
        let output = self.format.options_or(Format::Parquet)?;
        let (types, ending) = match output.format {
            Format::Parquet => (ColumnTypes::Standard, "parquet"),
            Format::ArrowFile => (ColumnTypes::Compact, "arrow"),
            Format::ArrowStream => (ColumnTypes::Compact, "arrows"),
            Format::Csv => (ColumnTypes::Standard, "csv"),
        };
        let (mut tables, mut unknown) = (Vec::new(), self.columns.clone());
        for name in &self.tables {
            let (table, scale, shuffle) = (table(name)?, self.sf, self.shuffle);
            let mut options = GenerateOptions { table, scale, columns: Vec::new(), shuffle, types };
            let all = schema(&options)?;
            let has = |column: &&String| all.field_with_name(column).is_ok();
            options.columns = self.columns.iter().filter(has).cloned().collect();
            unknown.retain(|column| !has(&column));
            ensure!(
                self.columns.is_empty() || !options.columns.is_empty(),
                "--columns: {name} has none of them; remove it from --tables, or name one of its columns"
            );
            tables.push((self.output.join(format!("{name}.{ending}")), options));
        }
        ensure!(unknown.is_empty(), "--columns {}: no table has it", unknown.join(", "));
        Ok(Files { tables, output })
    }
}

/// Files to generate.
struct Files {
    tables: Vec<(PathBuf, GenerateOptions)>,
    output: OutputOptions,
}

impl Files {
    /// Generates the files; returns the path, rows and bytes of each.
    fn generate(self, job: &Job) -> Result<Vec<(PathBuf, u64, u64)>, Error> {
        let progress = job.progress();
        // Rows of a shuffled table count twice: when generated, and when written.
        let steps = |options: &GenerateOptions| if options.shuffle.is_some() { 2 } else { 1 };
        let rows = |options: &GenerateOptions| steps(options) * options.table.rows(options.scale);
        progress.expect(self.tables.iter().map(|(_, options)| rows(options)).sum());
        let all = self.tables.into_iter().map(|(path, options)| {
            progress.begin(options.table.name());
            let mut before = 0;
            let mut show = |now: sakiyomi_query::generate::Progress| {
                progress.add_rows(usize::try_from(now.rows.saturating_sub(before)).unwrap_or(usize::MAX));
                before = now.rows;
            };
            let target = Target::File(path.clone());
            let generated = generate_file(job, &options, &target, &self.output, &mut show)?;
            Ok((path, generated.rows, generated.bytes))
        });
        all.collect()
    }
}

/// Finds a table of TPC-H by name.
fn table(name: &str) -> Result<TpchTable> {
    let found = TPCH_TABLES.into_iter().find(|table| table.name() == name);
    found.with_context(|| {
        let near = similar(name, TPCH_TABLES.map(TpchTable::name));
        let names = TPCH_TABLES.map(TpchTable::name).join(", ");
        format!("--tables {name}: TPC-H has {names}{}", did_you_mean(&near))
    })
}
