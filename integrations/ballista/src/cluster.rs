//! Configurations of schedulers, executors and sessions with our parts.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
//! use sakiyomi_ballista::cluster::{Node, NodeOptions};
//! let node = Node::new(NodeOptions::default())?;
//! let config = ExecutorProcessConfig { work_dir: Some("work".into()), ..ExecutorProcessConfig::default() };
//! start_executor_process(Arc::new(node.executor(config))).await?;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use ballista_core::RuntimeProducer;
use ballista_core::extension::SessionConfigExt;
use ballista_core::utils::default_session_builder;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::SchedulerConfig;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::SessionConfig;
use sakiyomi_datafusion::operators::{OperatorOptions, Operators};
use sakiyomi_datafusion::spill::{SpillFactory, SpillOptions};
use sakiyomi_datafusion::store::{LocalStore, StoreOptions};
use sakiyomi_io::Error;

use crate::codec::OperatorCodec;
use crate::engine::ShuffleEngine;
use crate::shuffle::{Shuffle, ShuffleOptions};

/// Options of a scheduler or an executor.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Shuffles of an executor.
    pub shuffle: ShuffleOptions,
    /// Spill files of DataFusion's operators.
    pub spill: SpillOptions,
    /// Reads of local files.
    pub store: StoreOptions,
    /// Our sorts and joins.
    pub operators: OperatorOptions,
}

/// The parts of a process: engine, spill files, store, operators. Clones are handles of the same.
#[derive(Clone, Debug)]
pub struct Node {
    shuffle: Shuffle,
    operators: Operators,
    spills: Arc<SpillFactory>,
    runtime: Arc<RuntimeEnv>,
}

impl Node {
    /// Opens engines and spill files.
    ///
    /// # Errors
    /// If an option is out of its range, an engine is not available, or a spill file cannot be created.
    pub fn new(options: NodeOptions) -> Result<Node> {
        let spills = SpillFactory::new(&options.spill)?;
        let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::clone(&spills) as _);
        let runtime = RuntimeEnvBuilder::new().with_disk_manager_builder(disk).build_arc()?;
        LocalStore::register_in(&runtime, options.store).map_err(external)?;
        Ok(Node {
            shuffle: Shuffle::new(options.shuffle)?,
            operators: Operators::new(options.operators),
            spills,
            runtime,
        })
    }

    /// With other shuffles, such as ones with faults.
    #[must_use]
    pub fn with_shuffle(mut self, shuffle: &Shuffle) -> Node {
        self.shuffle = shuffle.clone();
        self
    }

    /// The shuffles.
    #[must_use]
    pub fn shuffle(&self) -> &Shuffle {
        &self.shuffle
    }

    /// The spill files of DataFusion's operators.
    #[must_use]
    pub fn spills(&self) -> &Arc<SpillFactory> {
        &self.spills
    }

    /// Our sorts and joins.
    #[must_use]
    pub fn operators(&self) -> &Operators {
        &self.operators
    }

    /// The execution engine.
    #[must_use]
    pub fn engine(&self) -> ShuffleEngine {
        ShuffleEngine::new(&self.shuffle).with_operators(&self.operators)
    }

    /// Spill files and the store of local files, for all sessions. Ballista gives each task a memory pool of its own.
    #[must_use]
    pub fn runtime_producer(&self) -> RuntimeProducer {
        let runtime = Arc::clone(&self.runtime);
        Arc::new(move |_: &SessionConfig| Ok(Arc::clone(&runtime)))
    }

    /// The codec.
    #[must_use]
    pub fn codec(&self) -> Arc<OperatorCodec> {
        Arc::new(OperatorCodec::new(&self.operators))
    }

    /// The configuration of an executor with our engine, runtime and codec.
    #[must_use]
    pub fn executor(&self, config: ExecutorProcessConfig) -> ExecutorProcessConfig {
        ExecutorProcessConfig {
            override_execution_engine: Some(Arc::new(self.engine())),
            override_runtime_producer: Some(self.runtime_producer()),
            override_physical_codec: Some(self.codec()),
            ..config
        }
    }

    /// The configuration of a scheduler with our store of local files and codec, as [`scheduler`] makes it.
    #[must_use]
    pub fn scheduler(&self, config: SchedulerConfig) -> SchedulerConfig {
        with_store_and_codec(config, Arc::clone(&self.runtime), self.codec())
    }

    /// The state of a client's session, for `SessionContextExt::remote_with_state` and `standalone_with_state`. An executor
    /// of `standalone_with_state` has our spill files, store and codec, but Ballista's shuffles.
    #[must_use]
    pub fn session(&self, config: SessionConfig) -> SessionState {
        let config = config.upgrade_for_ballista().with_ballista_physical_extension_codec(self.codec());
        SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_runtime_env(Arc::clone(&self.runtime))
            .build()
    }
}

/// The configuration of a scheduler with our store of local files and codec. It divides plans of DataFusion's operators into
/// stages, in which the executors replace them. It has neither shuffles nor spill files.
///
/// # Errors
/// If the engine of the store is not available.
pub fn scheduler(
    config: SchedulerConfig,
    store: StoreOptions,
    operators: OperatorOptions,
) -> Result<SchedulerConfig> {
    let runtime = RuntimeEnvBuilder::new().build_arc()?;
    LocalStore::register_in(&runtime, store).map_err(external)?;
    let codec = Arc::new(OperatorCodec::new(&Operators::new(operators)));
    Ok(with_store_and_codec(config, runtime, codec))
}

fn with_store_and_codec(
    config: SchedulerConfig,
    runtime: Arc<RuntimeEnv>,
    codec: Arc<OperatorCodec>,
) -> SchedulerConfig {
    let session = move |config: SessionConfig| {
        let state = default_session_builder(config)?;
        Ok(SessionStateBuilder::new_from_existing(state).with_runtime_env(Arc::clone(&runtime)).build())
    };
    SchedulerConfig {
        override_session_builder: Some(Arc::new(session)),
        override_physical_codec: Some(codec),
        ..config
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
