//! Simulation of traces on drives, with progress.

use std::path::Path;

use anyhow::Result;
use sakiyomi_drive::observe::Chunking;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_simulation::{Error, Log, Simulated, Step};

use crate::args::WorkloadArgs;
use crate::log::Logs;
use crate::progress::{Interrupted, Progress};

/// Runs `workload` on `spec`. `logs` receives the events; `progress` is advanced.
pub(crate) fn simulate(
    workload: &WorkloadArgs,
    spec: &DriveSpec,
    chunking: Chunking,
    logs: Option<&mut Logs>,
    progress: &mut Progress,
) -> Result<Simulated> {
    let logs = logs.map(|logs| logs as &mut dyn Log);
    let workload = workload.workload()?;
    let mut advance = |read, commands| progress.set(read, || format!("{commands} commands")).is_ok();
    sakiyomi_simulation::simulate(&workload, spec, chunking, logs, &mut advance).map_err(of_simulation)
}

/// Converts the error of a simulation that Ctrl-C may have ended.
pub(crate) fn of_simulation(error: Error) -> anyhow::Error {
    match error {
        Error::Stopped => Interrupted.into(),
        error => error.into(),
    }
}

/// Returns a function that shows the steps of work on a trace of `size` bytes.
pub(crate) fn shown(progress: &mut Progress, size: Option<u64>) -> impl FnMut(Step) -> bool {
    let size = size.unwrap_or_default();
    move |step| {
        let told = match step {
            Step::Reading { bytes, requests } => progress.set(bytes, || format!("{requests} requests")),
            Step::Replaying { requests, what } => {
                progress.set(size, || format!("{requests} requests, {what}"))
            }
        };
        told.is_ok()
    }
}

/// Returns the size of the trace's file, for a progress bar.
pub(crate) fn trace_size(trace: &Path) -> Option<u64> {
    std::fs::metadata(trace).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
}
