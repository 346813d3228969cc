//! Both engines, the plain loops and the pipelines in TOML have the same results.

mod engines;
mod records;

use std::sync::Arc;

use sakiyomi_bench_streams::event::{Feed, Pool, Schedule};

/// Events of a run: a few hundred windows, and some repetitions of the pool.
const RUN_EVENTS: u64 = 60_000;

/// Events that are repeated.
const POOL_EVENTS: usize = 25_000;

/// Nominal rate, by which a window has some events.
const RATE_PER_S: f64 = 50_000.0;

/// Time between the ends of two windows.
const HOP_NS: u64 = 4_000_000;

fn schedule() -> Schedule {
    Schedule { events: RUN_EVENTS, rate_per_s: RATE_PER_S }
}

fn feed(pool: &Arc<Pool>) -> Feed {
    Feed::new(Arc::clone(pool), schedule(), 0, 1)
}
