//! `sakiyomi-sql 'SELECT …'`: statements on files within a memory limit.
//!
//! Results go to stdout, notes to stderr. Exit codes: 0 done, 2 usage or operating error.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use sakiyomi_datafusion::operators::OperatorChoice;
use sakiyomi_datafusion::spill::SpillOptions;
use sakiyomi_datafusion::sql::{Format, Session, SqlOptions, print, sentence};
use sakiyomi_datafusion::store::StoreOptions;
use sakiyomi_io::{Access, EngineSpec};
use sakiyomi_model::Bytes;
use sakiyomi_os::allocator::{self, Keep};
use sakiyomi_query::spill::{Level, SpillCompression};

/// Run an SQL statement on files, within a memory limit
///
/// Tables are paths in quotation marks: Parquet, CSV, JSON and Arrow files, and directories of them. Data that does not fit into
/// memory is spilled. Statements have the syntax of Apache DataFusion, whose settings can be changed by --set.
#[derive(Debug, Parser)]
#[command(
    name = "sakiyomi-sql",
    version,
    after_help = "Examples:\n  \
        sakiyomi-sql \"SELECT city, sum(price) FROM 'sales.parquet' GROUP BY city\"\n  \
        sakiyomi-sql --memory 256MiB -o sorted.parquet \"SELECT * FROM 'sales.csv' ORDER BY price\"\n  \
        sakiyomi-sql --analyze \"SELECT count(*) FROM 'sales.parquet' WHERE price > 10\""
)]
struct Args {
    /// The statement
    statement: String,
    /// Write all rows to this file: .parquet, .csv, .json or .arrow
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows to print
    #[arg(long, value_name = "N", default_value_t = 40)]
    rows: usize,
    /// Print the plan with its metrics, the resources used, and those that a calibration predicts, instead of the rows
    #[arg(long)]
    analyze: bool,
    /// Print the figures of --analyze as one JSON object
    #[arg(long, requires = "analyze")]
    json: bool,
    /// Memory limit of the operators and the buffers of spill files
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory: Bytes,
    /// Number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Directory for spill files; may be repeated [default: $TMPDIR, /var/tmp or the current directory]
    #[arg(long, value_name = "DIR")]
    spill: Vec<PathBuf>,
    /// Maximum size of spill files: of DataFusion's operators together, and of each partition of sakiyomi's
    #[arg(long, value_name = "SIZE", default_value = "100GiB")]
    spill_limit: Bytes,
    /// Compression of spill files: auto, none, lz4, zstd or zstd3
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = compression)]
    spill_compression: SpillCompression,
    /// Access to spill files: direct or buffered [default: the faster one by the calibration, else direct]
    #[arg(long, value_name = "ACCESS", value_parser = access)]
    spill_access: Option<Access>,
    /// Read and spill with this method: read, pread:N, aio:N or uring:N
    #[arg(long, value_name = "METHOD", default_value = "pread:4", value_parser = engine)]
    method: EngineSpec,
    /// Bypass the page cache when tables are read
    #[arg(long)]
    direct: bool,
    /// Change a setting of DataFusion; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// Sorts and joins: stock (DataFusion's), sakiyomi (this project's) or auto (those that the cost model prefers)
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    operators: OperatorChoice,
    /// Use DataFusion's own spill files, reads and operators, to compare them
    #[arg(long)]
    stock: bool,
}

/// Smallest memory limit: that of a sort with one thread.
const MEMORY_MIN: Bytes = Bytes(16 << 20);

/// Settings of the jobs of `sakiyomi sort`: batches are allocated and freed all the time.
const KEEP: Keep = Keep { arenas: 2, mapped_min_bytes: 8 << 20, trim_bytes: 8 << 20 };

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(io::stderr(), "error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), String> {
    allocator::keep(KEEP);
    let options = options(args)?;
    let format = args.output.as_deref().map(|path| {
        Format::of(path).ok_or_else(|| {
            format!(
                "--output {}: the format is not known; end the name in .parquet, .csv, .json or .arrow",
                path.display()
            )
        })
    });
    let format = format.transpose()?;
    let mut builder = match options.threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(options.threads).build();
    let runtime = runtime.map_err(|error| format!("threads cannot be started: {error}"))?;
    let session = Session::new(&options).map_err(|error| sentence(&error))?;
    let outcome = runtime.block_on(async {
        let statement = session.plan(&args.statement).await?;
        match (&args.output, format) {
            (Some(path), Some(format)) => statement.write(path.clone(), format).await,
            _ => statement.run((!args.analyze).then_some(args.rows)).await,
        }
    });
    let outcome = outcome.map_err(|error| sentence(&error))?;
    if args.analyze {
        let figures = session.figures(&outcome);
        return say(&if args.json {
            format!("{:#}\n", figures.to_json())
        } else {
            format!("{}\n{figures}", sakiyomi_datafusion::sql::annotated(&outcome.plan))
        });
    }
    if args.output.is_some() {
        return Ok(());
    }
    say(&format!("{}\n", print(&outcome.preview).map_err(|error| sentence(&error))?))?;
    if outcome.preview.is_cut() {
        let rows = outcome.preview.rows();
        let _ = writeln!(io::stderr(), "the first {rows} rows; --rows N prints more, -o FILE writes all");
    }
    Ok(())
}

fn options(args: &Args) -> Result<SqlOptions, String> {
    if args.memory < MEMORY_MIN {
        return Err(format!("--memory {}: too small; give at least {MEMORY_MIN}", args.memory));
    }
    for directory in &args.spill {
        if !directory.is_dir() {
            return Err(format!("--spill {}: it is not a directory", directory.display()));
        }
    }
    let defaults = SpillOptions::default();
    let threads = args.threads.map_or(defaults.threads, usize::from);
    let access = if args.direct { Access::Direct } else { Access::Buffered };
    Ok(SqlOptions {
        memory: usize::try_from(args.memory.0).unwrap_or(usize::MAX),
        threads,
        spill: SpillOptions {
            directories: if args.spill.is_empty() { defaults.directories } else { args.spill.clone() },
            limit_bytes: args.spill_limit.0,
            compression: args.spill_compression,
            access: args.spill_access,
            engine: args.method,
            threads,
            ..defaults
        },
        store: StoreOptions { engine: args.method, access, ..StoreOptions::default() },
        operators: args.operators,
        is_stock: args.stock,
        settings: args.settings.clone(),
    })
}

/// Writes to stdout; a reader that closes its end of a pipe wants no more.
fn say(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the result cannot be written to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

fn compression(text: &str) -> Result<SpillCompression, String> {
    if text == "auto" {
        return Ok(SpillCompression::Adaptive);
    }
    let level = Level::ALL.into_iter().find(|level| level.name() == text);
    level.map(SpillCompression::Fixed).ok_or_else(|| "give auto, none, lz4, zstd or zstd3".to_owned())
}

fn access(text: &str) -> Result<Access, String> {
    match text {
        "direct" => Ok(Access::Direct),
        "buffered" => Ok(Access::Buffered),
        _ => Err("give direct or buffered".to_owned()),
    }
}

fn engine(text: &str) -> Result<EngineSpec, String> {
    let spec: EngineSpec =
        text.parse().map_err(|error: sakiyomi_io::engine::ParseEngineError| error.to_string())?;
    match spec.kind.uses_buffers() {
        true => Ok(spec),
        false => Err("it does not read into buffers; give read, pread:N, aio:N or uring:N".to_owned()),
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or("give NAME=VALUE, such as datafusion.execution.batch_size=4096")?;
    Ok((name.to_owned(), value.to_owned()))
}
