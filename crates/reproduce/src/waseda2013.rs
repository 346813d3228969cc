//! Figure 1 of Ueda 2013: the throughput of direct reads, and their CPU time in the kernel.

use std::collections::BTreeMap;

use crate::estimate::{Estimate, Results};
use crate::live::{LiveDirectRead, LiveExperiment, LiveTask, live_point};
use crate::paper::{Effort, Paper};

/// Size of a direct read in live runs: the largest that any file system takes at once is not needed to occupy a core.
const LIVE_BLOCK_BYTES: usize = 16 << 20;
/// Size of the file in live runs.
const LIVE_FILE_BYTES: u64 = 256 << 20;

/// One thread that reads this machine's storage.
pub(crate) fn live_tasks(effort: Effort) -> Vec<LiveTask> {
    let runs = if effort == Effort::Full { 10 } else { 3 };
    let read =
        LiveDirectRead { file_bytes: LIVE_FILE_BYTES, block_bytes: LIVE_BLOCK_BYTES, run_ms: 1000, runs };
    let what = "sequential direct reads of 16 MiB by one thread from this machine's storage".to_owned();
    let point = live_point(Paper::Waseda2013, "show", []);
    vec![LiveTask::new(&point, 0, what, LiveExperiment::DirectRead(read))]
}

pub(crate) fn live_estimates(results: &Results) -> BTreeMap<String, Estimate> {
    let point = live_point(Paper::Waseda2013, "show", []);
    let figures = [("show.throughput", "megabytes_per_s"), ("show.cpu", "kernel_percent")];
    let estimates =
        figures.iter().filter_map(|(id, metric)| Some(((*id).to_owned(), results.estimate(&point, metric)?)));
    estimates.collect()
}
