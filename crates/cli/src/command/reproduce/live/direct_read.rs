//! Ueda 2013: sequential direct reads of this machine's storage, and their CPU time in the kernel.

use std::time::Duration;

use anyhow::{Result, anyhow};
use sakiyomi_io::{EngineKind, EngineSpec};
use sakiyomi_probe::Error;
use sakiyomi_probe::campaign::Campaign;
use sakiyomi_probe::plan::{Plan, Wanted};
use sakiyomi_probe::setting::{Buffers, CacheState, Operation};
use sakiyomi_probe::target::Target;
use sakiyomi_reproduce::{LiveDirectRead, Metrics};

use super::scratch::Scratch;
use crate::progress::{Interrupted, go_on};

/// A measurement of `probe`.
pub(super) fn measure(read: LiveDirectRead, scratch: &Scratch) -> Result<Metrics> {
    scratch.on_storage()?;
    let mut watch = |_| go_on().map_err(|Interrupted| Error::Interrupted);
    let target = Target::at(scratch.path(), read.file_bytes, &mut watch).map_err(unless_interrupted)?;
    target.direct.as_ref().map_err(|error| anyhow!("{} cannot be read directly: {error}", target.what))?;
    let plan = Plan::new(&Wanted {
        engines: vec![EngineSpec::usual(EngineKind::Read)],
        ops: vec![Operation::Read],
        blocks: vec![read.block_bytes],
        cache: vec![CacheState::Direct],
        mapped: CacheState::Cold,
        buffers: vec![Buffers::HugeRegistered],
        random: false,
        control_runs: false,
    });
    let campaign = Campaign { period: Duration::from_millis(read.run_ms), rounds: 1, seed: 1 };
    let mut watch = |_: Option<&_>| go_on().map_err(|Interrupted| Error::Interrupted);
    let mut outcome = campaign.run(&target, &plan, &mut watch).map_err(unless_interrupted)?;
    let Some(case) = outcome.cases.first() else {
        let refused = outcome.refused.pop().map(|(_, error)| error.into());
        return Err(refused.unwrap_or_else(|| anyhow!("nothing was read")));
    };
    let kernel = case.system + case.kernel_threads;
    Ok(super::metrics([("megabytes_per_s", case.throughput / 1e6), ("kernel_percent", 100.0 * kernel)]))
}

fn unless_interrupted(error: Error) -> anyhow::Error {
    if matches!(error, Error::Interrupted) { Interrupted.into() } else { error.into() }
}
