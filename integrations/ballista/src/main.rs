//! `sakiyomi-ballista scheduler | executor | query`: a cluster of Ballista with our shuffles, reads, spill files and
//! operators.
//!
//! Results go to stdout, notes to stderr. Exit codes: 0 done, 2 usage or operating error.

mod address;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ballista::prelude::SessionContextExt;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::{Args, Parser, Subcommand};
use datafusion::arrow::csv;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::StreamExt;
use sakiyomi_ballista::cluster::{self, Node, NodeOptions};
use sakiyomi_ballista::shuffle::ShuffleOptions;
use sakiyomi_datafusion::operators::{OperatorChoice, OperatorOptions};
use sakiyomi_datafusion::spill::SpillOptions;
use sakiyomi_datafusion::sql::sentence;
use sakiyomi_datafusion::store::StoreOptions;
use sakiyomi_io::{Access, EngineSpec};
use sakiyomi_model::Bytes;

use address::{Address, Bind};

/// Run a cluster of Apache Ballista with sakiyomi's shuffles, reads, spill files and operators
///
/// All processes must reach each other by TCP, without encryption, and find tables at the same paths.
#[derive(Debug, Parser)]
#[command(
    name = "sakiyomi-ballista",
    version,
    after_help = "Examples:\n  \
        sakiyomi-ballista scheduler --bind 127.0.0.1:50050\n  \
        sakiyomi-ballista executor --scheduler 127.0.0.1:50050 --bind 127.0.0.1:50060 --work-dir /var/tmp/executor\n  \
        sakiyomi-ballista query --table sales=sales.parquet \"SELECT city, sum(price) FROM sales GROUP BY city\""
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scheduler until it is ended
    Scheduler(SchedulerArgs),
    /// Run an executor until it is ended by SIGTERM or Ctrl-C
    Executor(Box<ExecutorArgs>),
    /// Run a statement on a cluster, and print its rows as CSV
    Query(QueryArgs),
}

#[derive(Debug, Args)]
struct SchedulerArgs {
    /// Address to listen at
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    bind: Bind,
    /// Seconds without a sign of life after which an executor counts as lost
    #[arg(long, value_name = "N", default_value_t = 180, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    executor_timeout: u64,
    /// Use Ballista's own reads and operators, to compare them
    #[arg(long)]
    stock: bool,
}

#[derive(Debug, Args)]
struct ExecutorArgs {
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,
    /// Address to listen at for readers of shuffles
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50060")]
    bind: Bind,
    /// Name or address by which the others reach this executor [default: the host of --bind]
    #[arg(long, value_name = "HOST", value_parser = address::host)]
    external_host: Option<String>,
    /// Existing directory; shuffle files are in a directory of this executor in it, which is emptied at the end
    #[arg(long, value_name = "DIR")]
    work_dir: PathBuf,
    /// Remove the shuffle files of a job that have not changed for this many seconds: longer than any statement runs
    #[arg(long, value_name = "N", default_value_t = 604_800, value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    job_data_ttl: u64,
    /// Partitions that are computed at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory limit of the operators of all tasks
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory: Bytes,
    /// Memory of encoded rows of shuffles, before they are spilled
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    shuffle_memory: Bytes,
    /// Directory for spill files; may be repeated [default: the work directory]
    #[arg(long, value_name = "DIR")]
    spill: Vec<PathBuf>,
    /// Access to shuffle files: direct or buffered
    #[arg(long, value_name = "ACCESS", default_value = "buffered", value_parser = access)]
    shuffle_access: Access,
    /// Read and write with this method: read, pread:N, aio:N or uring:N
    #[arg(long, value_name = "METHOD", default_value = "pread:4", value_parser = engine)]
    method: EngineSpec,
    /// Sorts and joins: stock (DataFusion's), sakiyomi (this project's) or auto (those that the cost model prefers)
    #[arg(long, value_name = "CHOICE", default_value = "auto")]
    operators: OperatorChoice,
    /// Use Ballista's own shuffles, reads, spill files and operators, to compare them
    #[arg(long, conflicts_with_all = ["shuffle_memory", "spill", "shuffle_access", "method", "operators"])]
    stock: bool,
}

#[derive(Debug, Args)]
struct QueryArgs {
    /// The statement
    statement: String,
    /// Address of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,
    /// A table and its Parquet file or directory; may be repeated
    #[arg(long = "table", value_name = "NAME=PATH", value_parser = pair)]
    tables: Vec<(String, String)>,
    /// Change a setting of DataFusion or Ballista; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
    /// Print the number of rows and the seconds until the last one was printed to standard error
    #[arg(long)]
    time: bool,
}

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("threads cannot be started: {error}")),
    };
    let outcome = match Cli::parse().command {
        Command::Scheduler(args) => runtime.block_on(scheduler(&args)),
        Command::Executor(args) => runtime.block_on(executor(&args)),
        Command::Query(args) => runtime.block_on(query(&args)),
    };
    // Threads that wait for a device or a socket do not keep the process.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(&message),
    }
}

fn fail(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "error: {message}");
    ExitCode::from(2)
}

/// How often an executor looks for files of jobs that have ended unheard: seldom, because each look lists all files.
const CLEAN_UP_INTERVAL_MAX_SECONDS: u64 = 3600;

async fn scheduler(args: &SchedulerArgs) -> Result<(), String> {
    let config = SchedulerConfig {
        bind_host: args.bind.ip(),
        external_host: args.bind.host().to_owned(),
        bind_port: args.bind.port(),
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        executor_timeout_seconds: args.executor_timeout,
        no_executors_grace_period_seconds: args.executor_timeout,
        ..SchedulerConfig::default()
    };
    let config = if args.stock {
        config
    } else {
        let ours = cluster::scheduler(config, StoreOptions::default(), OperatorOptions::default());
        ours.map_err(|error| sentence(&error))?
    };
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(|error| error.to_string())?;
    note(&format!("scheduler at {}", args.bind));
    let served = start_server(cluster, args.bind.socket(), Arc::new(config)).await;
    served.map_err(|error| format!("the scheduler at {} has ended: {error}", args.bind))
}

async fn executor(args: &ExecutorArgs) -> Result<(), String> {
    let external_host = args.bind.announced(args.external_host.as_deref())?;
    let work_dir = work_dir(args, &external_host)?;
    let threads = args.threads.map_or_else(cores, usize::from);
    let config = ExecutorProcessConfig {
        bind_host: args.bind.ip(),
        external_host: Some(external_host),
        port: args.bind.port(),
        // Only executors that tasks are sent to listen at a second port. This one asks for tasks.
        grpc_port: args.bind.port(),
        scheduler_host: args.scheduler.host().to_owned(),
        scheduler_port: args.scheduler.port(),
        vcores: threads,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(work_dir),
        job_data_ttl_seconds: args.job_data_ttl,
        job_data_clean_up_interval_seconds: args.job_data_ttl.min(CLEAN_UP_INTERVAL_MAX_SECONDS),
        memory_pool_size: Some(args.memory.0),
        ..ExecutorProcessConfig::default()
    };
    let config = if args.stock { config } else { node(args, threads)?.executor(config) };
    note(&format!("executor at {}, scheduler at {}", args.bind, args.scheduler));
    let served = start_executor_process(Arc::new(config)).await;
    served.map_err(|error| format!("the executor at {} has ended: {error}", args.bind))
}

/// Creates the executor's own directory: Ballista removes all directories in it when the executor ends, and at times those of
/// jobs of which it has not heard for long.
fn work_dir(args: &ExecutorArgs, external_host: &str) -> Result<String, String> {
    let parent = &args.work_dir;
    if !parent.is_dir() {
        return Err(format!("--work-dir {}: it is not a directory", parent.display()));
    }
    // Another executor of the machine has another port.
    let own = parent.join(format!("executor-{external_host}-{}", args.bind.port()));
    let Some(text) = own.to_str() else {
        return Err(format!("--work-dir {}: Ballista needs a path in UTF-8; rename it", parent.display()));
    };
    std::fs::create_dir_all(&own)
        .map_err(|error| format!("--work-dir {}: {text} cannot be created: {error}", parent.display()))?;
    Ok(text.to_owned())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn node(args: &ExecutorArgs, threads: usize) -> Result<Node, String> {
    let directories = if args.spill.is_empty() { vec![args.work_dir.clone()] } else { args.spill.clone() };
    if let Some(directory) = directories.iter().find(|directory| !directory.is_dir()) {
        return Err(format!("--spill {}: it is not a directory", directory.display()));
    }
    let memory = |bytes: Bytes| usize::try_from(bytes.0).unwrap_or(usize::MAX);
    let options = NodeOptions {
        shuffle: ShuffleOptions {
            memory: memory(args.shuffle_memory),
            access: args.shuffle_access,
            engine: args.method,
            ..ShuffleOptions::default()
        },
        spill: SpillOptions {
            directories: directories.clone(),
            engine: args.method,
            threads,
            ..SpillOptions::default()
        },
        store: StoreOptions { engine: args.method, ..StoreOptions::default() },
        operators: OperatorOptions {
            choice: args.operators,
            // The pool of a task that computes one partition.
            memory: memory(args.memory) / threads,
            threads: 1,
            directories,
            engine: args.method,
            ..OperatorOptions::default()
        },
    };
    Node::new(options).map_err(|error| sentence(&error))
}

async fn query(args: &QueryArgs) -> Result<(), String> {
    let mut config = SessionConfig::new_with_ballista();
    for (name, value) in &args.settings {
        let set = config.options_mut().set(name, value);
        set.map_err(|error| format!("--set {name}={value}: {}", sentence(&error)))?;
    }
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let context = SessionContext::remote_with_state(&format!("df://{}", args.scheduler), state).await;
    let context = context.map_err(|error| sentence(&error))?;
    for (name, path) in &args.tables {
        let registered = context.register_parquet(name, path, ParquetReadOptions::default()).await;
        registered.map_err(|error| format!("--table {name}={path}: {}", sentence(&error)))?;
    }
    let begun = Instant::now();
    let planned = context.sql(&args.statement).await.map_err(|error| sentence(&error))?;
    let mut batches = planned.execute_stream().await.map_err(|error| sentence(&error))?;
    let (mut rows, mut has_header, mut is_wanted) = (0, false, true);
    while is_wanted && let Some(batch) = batches.next().await {
        let batch = batch.map_err(|error| sentence(&error))?;
        rows += batch.num_rows();
        is_wanted = print(&batch, !has_header)?;
        has_header = true;
    }
    let schema = batches.schema();
    if !has_header && !schema.fields().is_empty() {
        print(&RecordBatch::new_empty(schema), true)?;
    }
    if args.time {
        note(&format!("{rows} rows in {:.3} s", begun.elapsed().as_secs_f64()));
    }
    Ok(())
}

/// Prints rows as CSV; returns whether more are wanted: a reader that closes its end of a pipe wants no more.
fn print(batch: &RecordBatch, has_header: bool) -> Result<bool, String> {
    let mut text = Vec::new();
    let mut writer = csv::WriterBuilder::new().with_header(has_header).build(&mut text);
    writer.write(batch).map_err(|error| format!("the rows cannot be printed: {error}"))?;
    drop(writer);
    let mut out = io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("the result cannot be written to standard output: {error}")),
    }
}

fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
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

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
