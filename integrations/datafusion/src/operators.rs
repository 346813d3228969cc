//! The external sort and the joins of the query engine as operators of DataFusion's plans.
//!
//! ```text
//! plan ─► OperatorRule: cost model ─┬─► ExternalSortExec, SpillingJoinExec
//!                                   └─► DataFusion's operator, with the reason in EXPLAIN VERBOSE
//! ```
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use datafusion::execution::session_state::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use sakiyomi_datafusion::operators::{OperatorOptions, OperatorRule, Operators};
//! let operators = Operators::new(OperatorOptions { memory: 512 << 20, ..OperatorOptions::default() });
//! let state = SessionStateBuilder::new()
//!     .with_default_features()
//!     .with_physical_optimizer_rule(OperatorRule::new(&operators))
//!     .build();
//! let context = SessionContext::new_with_state(state);
//! # Ok(())
//! # }
//! ```
//!
//! - **Memory** is that of the runtime's pool: an operator takes its share before its first row, and returns it with its
//!   last thread. Within it the query engine sorts, joins and spills.
//! - **Threads** are the operator's own (`bridge`). The runtime polls the inputs, and is never blocked.
//! - **Results** are those of DataFusion. Where the order or the equality of values differs, where a join has a condition
//!   besides equality, or where rows cannot be packed, the rule leaves DataFusion's operator (`types`, `rule`).
//! - **Choice**: the cost model (`cost`) predicts both operators from the statistics of the inputs, the memory, and the
//!   calibrations of device and operators, or else stated defaults.
//!
//! - **Other processes** get plans of DataFusion's operators ([`stock_plan`]), and apply the rule to them where they run.
//!
//! Spill files of these operators lie in the same directories as those of [`crate::spill`], and have no names. The limit of
//! spilled bytes holds for each partition of an operator.

mod bridge;
mod cost;
mod join;
mod kept;
mod memory;
mod rule;
mod sort;
mod types;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_probe::calibration::Calibration;
use sakiyomi_query::calibrate::{OperatorCalibration, default_path};
use sakiyomi_query::job::spill_directory;
use sakiyomi_query::spill::SpillCompression;
use sakiyomi_query::{Error, Job, JobOptions};

pub use cost::{Estimate, Prediction};
pub use join::SpillingJoinExec;
pub use rule::{OperatorRule, stock_plan};
pub use sort::ExternalSortExec;

use crate::sql::chain;
use cost::CostModel;

/// Which operators a plan has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperatorChoice {
    /// DataFusion's.
    Stock,
    /// Ours wherever their results are the same.
    Sakiyomi,
    /// The cheaper ones by the cost model.
    #[default]
    Auto,
}

impl FromStr for OperatorChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<OperatorChoice, String> {
        match text {
            "stock" => Ok(OperatorChoice::Stock),
            "sakiyomi" => Ok(OperatorChoice::Sakiyomi),
            "auto" => Ok(OperatorChoice::Auto),
            _ => Err("give stock, sakiyomi or auto".to_owned()),
        }
    }
}

/// Options of the operators.
#[derive(Clone, Debug)]
pub struct OperatorOptions {
    /// Which operators are chosen.
    pub choice: OperatorChoice,
    /// Bytes of the runtime's memory pool, for predictions; also the memory of an operator if the pool has no limit.
    pub memory: usize,
    /// Threads of an operator that reads several partitions.
    pub threads: usize,
    /// Directories of spill files, used in turn.
    pub directories: Vec<PathBuf>,
    /// Bytes that each partition of an operator may write to spill files.
    pub limit_bytes: u64,
    /// Compression of spilled data.
    pub compression: SpillCompression,
    /// The engine of spill files.
    pub engine: EngineSpec,
}

/// As DataFusion's limit of temporary files.
const DEFAULT_LIMIT_BYTES: u64 = 100 << 30;
/// The limit of `sakiyomi-sql`.
const DEFAULT_MEMORY_BYTES: usize = 512 << 20;

impl Default for OperatorOptions {
    /// Chosen by cost; 512 MiB, all cores, 100 GiB in [`spill_directory`], `pread` on threads.
    fn default() -> OperatorOptions {
        OperatorOptions {
            choice: OperatorChoice::default(),
            memory: DEFAULT_MEMORY_BYTES,
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            directories: vec![spill_directory()],
            limit_bytes: DEFAULT_LIMIT_BYTES,
            compression: SpillCompression::default(),
            engine: EngineSpec::usual(EngineKind::Pread),
        }
    }
}

/// The options and the cost model of the operators of a session. Clones are handles of the same.
#[derive(Clone)]
pub struct Operators {
    shared: Arc<Shared>,
}

struct Shared {
    options: OperatorOptions,
    model: CostModel,
}

impl Operators {
    /// Operators whose costs are the default ones.
    #[must_use]
    pub fn new(options: OperatorOptions) -> Operators {
        Operators::calibrated(options, &[], None)
    }

    /// Operators whose costs are those of calibrations: of the device of the first spill directory (`sakiyomi probe`), and
    /// of the operators on this machine (`sakiyomi query calibrate`).
    #[must_use]
    pub fn calibrated(
        options: OperatorOptions,
        devices: &[Calibration],
        operators: Option<OperatorCalibration>,
    ) -> Operators {
        let model = CostModel::new(&options, devices, operators);
        Operators { shared: Arc::new(Shared { options, model }) }
    }

    /// The costs of operators that `sakiyomi query calibrate` has saved, if they are valid.
    #[must_use]
    pub fn saved_calibration() -> Option<OperatorCalibration> {
        OperatorCalibration::load(&default_path()?).ok()
    }

    /// Their options.
    #[must_use]
    pub fn options(&self) -> &OperatorOptions {
        &self.shared.options
    }

    fn model(&self) -> &CostModel {
        &self.shared.model
    }

    /// The job of an operator.
    fn job(&self, memory: usize, threads: usize) -> Result<Job> {
        let options = self.options();
        let job = JobOptions {
            memory,
            threads,
            engine: options.engine,
            spill: options.directories.clone(),
            spill_compression: options.compression,
            ..JobOptions::default()
        };
        Job::new(job).map_err(operator_error)
    }

    /// Fails if an operator has written more than its limit.
    fn check_limit(&self, job: &Job) -> Result<(), Error> {
        let written: u64 = job.spill_bytes().iter().map(|level| level.stored_bytes).sum();
        let limit = self.options().limit_bytes;
        if written <= limit {
            return Ok(());
        }
        Err(Error::Query(format!(
            "an operator has spilled {written} bytes of at most {limit}; raise the limit of spill files, or give the query \
             more memory"
        )))
    }
}

/// The error of an operator as one of DataFusion. Those of spill files are errors of the I/O, which may not occur in another
/// attempt: engines that try tasks again know them by that. Such engines show `Debug`, so it is a sentence.
fn operator_error(error: Error) -> DataFusionError {
    let text = chain(&error);
    let kind = match error {
        Error::Io(error) => match io::Error::from(error) {
            // Too little memory, or no engine.
            other if other.kind() == io::ErrorKind::Other => {
                return DataFusionError::External(Box::new(other));
            }
            error => error.kind(),
        },
        Error::SpillFull { .. } => io::ErrorKind::StorageFull,
        Error::SpillDamaged { .. } => io::ErrorKind::InvalidData,
        other => return DataFusionError::External(Box::new(other)),
    };
    DataFusionError::IoError(io::Error::new(kind, text))
}

impl fmt::Debug for Operators {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Operators").field("options", self.options()).finish_non_exhaustive()
    }
}
