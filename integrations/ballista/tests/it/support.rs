//! Clusters within the test's process, and tables.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ballista::prelude::SessionContextExt;
use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::extension::SessionConfigExt;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use sakiyomi_ballista::cluster::{Node, NodeOptions};
use sakiyomi_datafusion::operators::{OperatorChoice, OperatorOptions};
use sakiyomi_datafusion::spill::SpillOptions;
use sakiyomi_query::generate::{ColumnTypes, GenerateOptions, TPCH_TABLES, generate_file, schema};
use sakiyomi_query::output::{OutputOptions, Target};
use sakiyomi_query::table::Format;
use sakiyomi_query::{Job, JobOptions};
use sakiyomi_testing::{Scratch, wait_until};

/// A directory of tables, which later runs use again.
pub(crate) struct Tables(PathBuf);

impl Tables {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// The tables of TPC-H without their comments, at scale factor 0.01.
pub(crate) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let whole = parent.join("ballista-tables-0.01");
    if !whole.exists() {
        let scratch = generated(parent);
        // Another process may have been faster.
        let _ = std::fs::rename(scratch.root(), &whole);
    }
    Tables(whole)
});

fn generated(parent: &Path) -> Scratch {
    let scratch = Scratch::inside(parent, "ballista_tables");
    let job = Job::new(JobOptions::default()).unwrap();
    for table in TPCH_TABLES {
        let mut options = GenerateOptions {
            table,
            scale: 0.01,
            columns: Vec::new(),
            shuffle: None,
            types: ColumnTypes::Standard,
        };
        let all = schema(&options).unwrap();
        let names = all.fields().iter().map(|field| field.name().clone());
        options.columns = names.filter(|name| !name.ends_with("_comment")).collect();
        let path = scratch.path(&format!("{}.parquet", table.name()));
        let mut output = OutputOptions::new(Format::Parquet);
        // Several groups, so that several tasks read the larger tables.
        output.group_rows = 8192;
        generate_file(&job, &options, &Target::File(path), &output, &mut |_| ()).unwrap();
    }
    scratch
}

/// An address of this machine that nothing listens at.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A node whose operators are ours wherever results are the same.
pub(crate) fn node(scratch: &Scratch) -> Node {
    node_with(scratch, NodeOptions::default())
}

/// The same with other options; spill files are in `scratch`.
pub(crate) fn node_with(scratch: &Scratch, options: NodeOptions) -> Node {
    let directories = vec![scratch.root().to_owned()];
    let spill = SpillOptions { directories: directories.clone(), ..options.spill };
    let operators = OperatorOptions {
        choice: OperatorChoice::Sakiyomi,
        memory: 64 << 20,
        directories,
        ..options.operators
    };
    Node::new(NodeOptions { spill, operators, ..options }).unwrap()
}

/// A scheduler and executors on threads of this process.
pub(crate) struct Cluster {
    runtime: Option<tokio::runtime::Runtime>,
    scheduler: SocketAddr,
}

impl Cluster {
    /// Starts a scheduler, and an executor of two cores for each directory; `None` for Ballista's own.
    pub(crate) fn start(executors: &[(&Path, Option<&Node>)]) -> Cluster {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let scheduler = free_address();
        let config = SchedulerConfig {
            bind_host: scheduler.ip().to_string(),
            external_host: scheduler.ip().to_string(),
            bind_port: scheduler.port(),
            scheduling_policy: TaskSchedulingPolicy::PullStaged,
            ..SchedulerConfig::default()
        };
        let config = match executors.iter().find_map(|(_, node)| *node) {
            Some(node) => node.scheduler(config),
            None => config,
        };
        runtime.spawn(async move {
            let cluster = BallistaCluster::new_from_config(&config).await.unwrap();
            start_server(cluster, scheduler, Arc::new(config)).await.unwrap();
        });
        wait_until("the scheduler listens", || TcpStream::connect(scheduler).is_ok());
        for (directory, node) in executors {
            let address = free_address();
            let config = config_of(address, directory, scheduler);
            let config = match node {
                Some(node) => node.executor(config),
                None => config,
            };
            runtime.spawn(async move { start_executor_process(Arc::new(config)).await.unwrap() });
            wait_until("the executor listens", || TcpStream::connect(address).is_ok());
        }
        Cluster { runtime: Some(runtime), scheduler }
    }

    /// Runs a statement on the tables.
    pub(crate) fn query(&self, statement: &str, settings: &[(&str, &str)]) -> Result<Vec<RecordBatch>> {
        self.run(async {
            let context = self.context(settings).await?;
            context.sql(statement).await?.collect().await
        })
    }

    /// A session with the tables.
    pub(crate) async fn context(&self, settings: &[(&str, &str)]) -> Result<SessionContext> {
        let mut config = SessionConfig::new_with_ballista().with_target_partitions(4);
        for (name, value) in settings {
            config.options_mut().set(name, value)?;
        }
        let state = datafusion::execution::session_state::SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .build();
        let context = SessionContext::remote_with_state(&self.url("df"), state).await?;
        for table in TPCH_TABLES {
            let path = TABLES.path(&format!("{}.parquet", table.name()));
            let path = path.to_str().unwrap();
            context.register_parquet(table.name(), path, ParquetReadOptions::default()).await?;
        }
        Ok(context)
    }

    /// The address of the scheduler.
    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}", self.scheduler)
    }

    /// Runs something on the threads of the cluster, for no more than two minutes.
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let limited = async { tokio::time::timeout(Duration::from_secs(120), future).await };
        self.runtime.as_ref().unwrap().block_on(limited).expect("an end within two minutes")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

fn config_of(address: SocketAddr, directory: &Path, scheduler: SocketAddr) -> ExecutorProcessConfig {
    ExecutorProcessConfig {
        bind_host: address.ip().to_string(),
        external_host: Some(address.ip().to_string()),
        port: address.port(),
        scheduler_host: scheduler.ip().to_string(),
        scheduler_port: scheduler.port(),
        vcores: 2,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(directory.to_str().unwrap().to_owned()),
        memory_pool_size: Some(1 << 30),
        ..ExecutorProcessConfig::default()
    }
}

/// The rows as text, in their order.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
    // Widths of columns depend on the other rows.
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The rows as text, sorted.
pub(crate) fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = rows(batches);
    rows.sort_unstable();
    rows
}

/// All files below a directory, as paths within it, without identifiers of jobs.
pub(crate) fn tree(directory: &Path) -> Vec<String> {
    fn walk(root: &Path, directory: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.is_dir() {
                walk(root, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(directory, directory, &mut found);
    found.sort_unstable();
    found
}
