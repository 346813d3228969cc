//! Metrics of a simulation, and the errors that leave it without.

use std::collections::BTreeMap;

use sakiyomi_scenario::RunError;

/// Metrics of one simulation by their names, such as `elapsed_s`.
pub type Metrics = BTreeMap<String, f64>;

/// The reason why a task has no metrics.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The experiment cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The drive is not valid.
    #[error(transparent)]
    Drive(#[from] sakiyomi_drive::spec::SpecError),
    /// The workload cannot be generated, or does not fit the drive.
    #[error(transparent)]
    Trace(#[from] sakiyomi_trace::TraceError),
    /// The stream cannot be simulated.
    #[error(transparent)]
    Stream(#[from] sakiyomi_scenario::stream::StreamError),
    /// The stream cannot be placed.
    #[error(transparent)]
    Placement(#[from] sakiyomi_placement::Error),
    /// No placement holds the stream's rate.
    #[error(transparent)]
    Shortfall(#[from] sakiyomi_placement::Shortfall),
}
