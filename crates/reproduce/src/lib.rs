//! The experiments of five papers in virtual time, and the figures that the papers published.
//!
//! | paper | experiment |
//! |---|---|
//! | `waseda2006` | Fukayama et al.: `gzip` with a prefetching thread, on two computers |
//! | `waseda2013` | Ueda: the CPU time of file I/O, and a stream on cores whose rate changes |
//! | `kochi2023` | Tani: I/O times kept constant on three computers |
//! | `cerium2014` | Kohagura and Kono: counting words with blocked reads |
//! | `hitachi2013` | Hosogi et al.: a drive's cache with a short and a long read-ahead |
//!
//! [`published`] are the papers' figures, from `published.toml`. [`tasks`] are the simulations of a paper, each a pure
//! function of its definition, so that they can be run in any order, on several cores, and kept between runs.
//! [`estimates`] are the figures that follow from their results, and [`curves`] the papers' pictures redrawn from them.
//!
//! ```text
//! scenarios/*.toml ──► tasks ──► Task::run ──► Metrics ──► Results ──► estimates ─┐
//! published.toml ──► published ───────────────────────────────────────────────────┴─► figures side by side
//! ```
//!
//! [`live_tasks`] are experiments that the caller runs with real files, threads and clocks, and [`live_estimates`] the
//! figures that follow from them.
//!
//! The crate is pure: it reads no clock and no file, and starts no thread.

mod cerium2014;
mod curve;
mod estimate;
mod experiment;
mod hitachi2013;
mod kochi2023;
mod live;
mod metrics;
mod paper;
mod published;
mod stream;
mod task;
mod waseda2006;
mod waseda2013;
mod workload;

pub use curve::{Curve, Figure};
pub use estimate::{Estimate, Results};
pub use live::{
    LiveCount, LiveDirectRead, LiveExperiment, LiveProgram, LiveReaders, LiveReplay, LiveTables, LiveTask,
    shuffled,
};
pub use metrics::{Metrics, TaskError};
pub use paper::{Effort, Paper};
pub use published::{Published, Relation, published};
pub use sakiyomi_scenario::spec::ReadMethod;
pub use task::Task;

use std::collections::BTreeMap;

/// Returns the simulations of `paper`.
#[must_use]
pub fn tasks(paper: Paper, effort: Effort) -> Vec<Task> {
    match paper {
        Paper::Waseda2006 => waseda2006::tasks(effort),
        Paper::Waseda2013 => waseda2013::tasks(effort),
        Paper::Kochi2023 => kochi2023::tasks(effort),
        Paper::Cerium2014 => cerium2014::tasks(),
        Paper::Hitachi2013 => hitachi2013::tasks(effort),
    }
}

/// Returns the experiments of `paper` that are to be run live.
#[must_use]
pub fn live_tasks(paper: Paper, effort: Effort) -> Vec<LiveTask> {
    match paper {
        Paper::Waseda2006 => waseda2006::live_tasks(effort),
        Paper::Waseda2013 => waseda2013::live_tasks(effort),
        Paper::Kochi2023 => kochi2023::live_tasks(effort),
        Paper::Cerium2014 => cerium2014::live_tasks(effort),
        Paper::Hitachi2013 => hitachi2013::live_tasks(effort),
    }
}

/// Returns the figures of `paper` that follow from the results of its live tasks, as [`estimates`] does for simulations.
#[must_use]
pub fn live_estimates(paper: Paper, results: &Results) -> BTreeMap<String, Estimate> {
    match paper {
        Paper::Waseda2006 => waseda2006::live_estimates(results),
        Paper::Waseda2013 => waseda2013::live_estimates(results),
        Paper::Kochi2023 => kochi2023::live_estimates(results),
        Paper::Cerium2014 => cerium2014::live_estimates(results),
        Paper::Hitachi2013 => hitachi2013::live_estimates(results),
    }
}

/// Returns figures of `paper` in virtual time under the conditions of its live tasks, where these are not the paper's: what
/// [`live_estimates`] are held against.
#[must_use]
pub fn live_conditions(paper: Paper, results: &Results) -> BTreeMap<String, Estimate> {
    match paper {
        Paper::Waseda2006 => waseda2006::live_conditions(results),
        _ => BTreeMap::new(),
    }
}

/// Returns the figures of `paper` that follow from `results`, by the identifiers of [`Published::id`]. Figures whose tasks have
/// no results are left out.
#[must_use]
pub fn estimates(paper: Paper, results: &Results) -> BTreeMap<String, Estimate> {
    match paper {
        Paper::Waseda2006 => waseda2006::estimates(results),
        Paper::Waseda2013 => waseda2013::estimates(results),
        Paper::Kochi2023 => kochi2023::estimates(results),
        Paper::Cerium2014 => cerium2014::estimates(results),
        Paper::Hitachi2013 => hitachi2013::estimates(results),
    }
}

/// Returns the paper's figures redrawn from `results`; lines without a point are left out.
#[must_use]
pub fn curves(paper: Paper, results: &Results) -> Vec<Curve> {
    let published: Vec<Published> = published().into_iter().filter(|figure| figure.paper == paper).collect();
    let estimates = estimates(paper, results);
    let mut curves = match paper {
        Paper::Waseda2006 => waseda2006::curves(results, &estimates, &published),
        Paper::Kochi2023 => kochi2023::curves(&estimates, &published),
        Paper::Cerium2014 => cerium2014::curves(&estimates, &published),
        Paper::Waseda2013 | Paper::Hitachi2013 => Vec::new(),
    };
    curves.retain(|curve| !curve.points.is_empty());
    curves
}
