//! Statements on files: sessions of DataFusion with a memory limit, our spill files and our reads.
//!
//! A path in quotation marks is a table: `SELECT … FROM 'sales/2026.parquet'`. Results are a table, or a file that appears
//! when it is whole.

mod errors;
mod figures;
mod output;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use sakiyomi_os::cpu::user_and_system_of_this_process;
use sakiyomi_os::process::memory::peak_resident;
use sakiyomi_probe::calibration::{self, Calibration};

use crate::operators::{OperatorChoice, OperatorOptions, OperatorRule, Operators};
use crate::spill::{SpillCosts, SpillFactory, SpillOptions, spill_costs};
use crate::store::{LocalStore, StoreOptions};

pub(crate) use errors::chain;
pub use errors::sentence;
pub use figures::{Figures, OperatorFigures};
pub use output::{Format, Preview, print};

/// Options of a session.
#[derive(Clone, Debug)]
pub struct SqlOptions {
    /// Memory limit in bytes: that of DataFusion's operators and of the buffers of spill files.
    pub memory: usize,
    /// Threads, and partitions of a plan.
    pub threads: usize,
    /// Spill files; their memory is a part of [`SqlOptions::memory`].
    pub spill: SpillOptions,
    /// Reads of files.
    pub store: StoreOptions,
    /// Sorts and joins: DataFusion's, ours, or the cheaper ones.
    pub operators: OperatorChoice,
    /// DataFusion's own spill files, reads and operators in place of ours, to compare them.
    pub is_stock: bool,
    /// Settings of DataFusion by their names, such as `datafusion.execution.batch_size`.
    pub settings: Vec<(String, String)>,
}

/// The spill buffers take at most this part of the memory limit.
const SPILL_MEMORY_PARTS: usize = 4;

/// A session with its spill files.
pub struct Session {
    context: SessionContext,
    spill: Option<Spilling>,
    calibrations: Vec<Calibration>,
}

/// The spill files of a session.
struct Spilling {
    factory: Arc<SpillFactory>,
    costs: Option<SpillCosts>,
}

/// A planned statement.
pub struct Statement<'a> {
    session: &'a Session,
    frame: DataFrame,
    begun: Instant,
}

/// The outcome of a statement.
pub struct Outcome {
    /// The plan, with the metrics of its operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Its first rows, if requested.
    pub preview: Preview,
    /// Rows of the result.
    pub rows: u64,
    /// Time from the statement to its end.
    pub elapsed: Duration,
}

/// Returns a plan as text, with the metrics of its operators.
#[must_use]
pub fn annotated(plan: &Arc<dyn ExecutionPlan>) -> String {
    DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(false).to_string()
}

impl Session {
    /// Opens a session; uses the calibrations that `sakiyomi probe` has saved.
    ///
    /// # Errors
    /// If a spill file cannot be created, a setting is unknown, or an engine is not available.
    pub fn new(options: &SqlOptions) -> Result<Session> {
        let mut config = SessionConfig::new().with_target_partitions(options.threads.max(1));
        for (name, value) in &options.settings {
            config.options_mut().set(name, value)?;
        }
        let calibrations: Vec<Calibration> = calibration::default_directory()
            .map(|directory| {
                calibration::saved(&directory).into_iter().filter_map(|(_, found)| found.ok()).collect()
            })
            .unwrap_or_default();
        let mut pool = options.memory;
        let mut spill = None;
        let disk = DiskManagerBuilder::default();
        let disk = if options.is_stock {
            disk.with_mode(DiskManagerMode::Directories(options.spill.directories.clone()))
                .with_max_temp_directory_size(options.spill.limit_bytes)
        } else {
            let spilling = Spilling::new(options, &calibrations)?;
            pool -= spilling.memory(options);
            let factory = Arc::clone(&spilling.factory) as _;
            spill = Some(spilling);
            disk.with_temp_file_factory(factory)
        };
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(pool)))
            .with_disk_manager_builder(disk)
            .build_arc()?;
        let state =
            SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features();
        let state = match options.is_stock {
            true => state,
            false => state.with_physical_optimizer_rule(rule(options, pool, &calibrations)),
        };
        let context = SessionContext::new_with_state(state.build());
        if !options.is_stock {
            LocalStore::register(&context, options.store).map_err(crate::spill::external)?;
        }
        Ok(Session { context: context.enable_url_table(), spill, calibrations })
    }

    /// Plans a statement, which reads what its tables look like.
    ///
    /// # Errors
    /// If it is not a statement, or a table cannot be read.
    pub async fn plan(&self, statement: &str) -> Result<Statement<'_>> {
        let begun = Instant::now();
        Ok(Statement { session: self, frame: self.context.sql(statement).await?, begun })
    }

    /// Figures of a statement that has ended.
    #[must_use]
    pub fn figures(&self, outcome: &Outcome) -> Figures {
        let (user, system) = user_and_system_of_this_process();
        let spill = self.spill.as_ref();
        Figures {
            rows: outcome.rows,
            elapsed: outcome.elapsed,
            user,
            system,
            peak_bytes: peak_resident().unwrap_or(0),
            operators_spilled_bytes: figures::spilled_bytes(&outcome.plan),
            operators: figures::operators(&outcome.plan),
            spill: spill.map(|spill| spill.factory.stats()),
            costs: spill.and_then(|spill| spill.costs),
            is_calibrated: !self.calibrations.is_empty(),
        }
    }
}

/// The rule that chooses sorts and joins, whose memory is that of the pool.
fn rule(options: &SqlOptions, pool: usize, calibrations: &[Calibration]) -> Arc<OperatorRule> {
    let operators = OperatorOptions {
        choice: options.operators,
        memory: pool,
        threads: options.threads.max(1),
        directories: options.spill.directories.clone(),
        limit_bytes: options.spill.limit_bytes,
        compression: options.spill.compression,
        engine: options.spill.engine,
    };
    OperatorRule::new(&Operators::calibrated(operators, calibrations, Operators::saved_calibration()))
}

impl Spilling {
    fn new(options: &SqlOptions, calibrations: &[Calibration]) -> Result<Spilling> {
        let mut spill = options.spill.clone();
        spill.memory = spill.memory.min(options.memory / SPILL_MEMORY_PARTS);
        let directory = spill.directories.first();
        let costs = directory.and_then(|directory| spill_costs(calibrations, directory, &spill));
        // Without a calibration: around the page cache where that is possible.
        spill.access = spill.access.or(costs.map(|costs| costs.access));
        Ok(Spilling { factory: SpillFactory::new(&spill)?, costs })
    }

    /// Returns the bytes of the limit that are not DataFusion's.
    fn memory(&self, options: &SqlOptions) -> usize {
        options.spill.memory.min(options.memory / SPILL_MEMORY_PARTS)
    }
}

impl Statement<'_> {
    /// Runs the statement, and keeps its first `rows` rows; `None` keeps none and reads all.
    ///
    /// # Errors
    /// If it fails, such as for too little memory or a full disk.
    pub async fn run(self, rows: Option<usize>) -> Result<Outcome> {
        let context = self.frame.task_ctx();
        let plan = self.frame.create_physical_plan().await?;
        let mut stream = execute_stream(Arc::clone(&plan), Arc::new(context))?;
        let mut preview = Preview::new(plan.schema(), rows.unwrap_or(0));
        let mut count = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            count += batch.num_rows() as u64;
            if rows.is_some() && !preview.add(&batch) {
                break;
            }
        }
        drop(stream);
        Ok(Outcome { plan, preview, rows: count, elapsed: self.begun.elapsed() })
    }

    /// Runs the statement, and writes its rows to a file, which appears when it is whole.
    ///
    /// # Errors
    /// Returns the errors of [`Statement::run`], and an error if the file cannot be written.
    pub async fn write(self, path: PathBuf, format: Format) -> Result<Outcome> {
        let Statement { session, frame, begun } = self;
        // DataFusion completes the file even if its input fails.
        let partial = output::Partial::new(path)?;
        let frame = output::written_to(frame, partial.path(), format)?;
        let outcome = Statement { session, frame, begun }.run(Some(1)).await?;
        partial.complete()?;
        // The only row of the plan is the number of rows written.
        let rows = outcome.preview.first_number().unwrap_or(0);
        Ok(Outcome { rows, ..outcome })
    }
}
