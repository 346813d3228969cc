//! Simulation of a trace on a drive for `sim` and `sweep`, with progress.

use std::path::Path;

use anyhow::Result;
use sakiyomi_drive::observe::Chunking;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_simulation::{Error, Log, Simulated};

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
    match sakiyomi_simulation::simulate(&workload, spec, chunking, logs, &mut advance) {
        Err(Error::Stopped) => Err(Interrupted.into()),
        simulated => Ok(simulated?),
    }
}

/// Returns the size of the trace's file, for a progress bar.
pub(crate) fn trace_size(trace: &Path) -> Option<u64> {
    std::fs::metadata(trace).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
}
