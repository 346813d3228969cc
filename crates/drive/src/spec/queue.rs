//! Command queue parameters (`queue.*`).

use sakiyomi_model::Nanos;
use serde::{Deserialize, Serialize};

/// Parameters of the command queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSpec {
    /// Queue depth, 1 to 256.
    pub depth: u32,
    /// Scheduling policy.
    pub policy: QueuePolicy,
    /// SPTF: factor of a command's waiting time that is deducted from its positioning time (ASPTF), 0 or more.
    pub age_weight: f64,
    /// A command that has waited longer goes first; zero: no limit.
    pub age_limit: Nanos,
    /// Number of the oldest commands that are considered.
    pub window: u32,
    /// SPTF: a command whose rotational latency would be shorter than this is assumed to miss its sector.
    pub rpo_margin: Nanos,
    /// Bonus of a read over a write, in the policy's measure.
    pub read_preference: Nanos,
}

/// Bounds every wait in a deep queue: SPTF over 256 commands would leave one near the edge for 15 s. Commands wait 1 to
/// 2 s there on average; a limit near that mean would turn the queue into FCFS, this one costs less than 1 % of the
/// throughput (`docs/explanation/model.md`).
const AGE_LIMIT_DEFAULT: Nanos = Nanos(5_000_000_000);

impl Default for QueueSpec {
    fn default() -> QueueSpec {
        QueueSpec {
            depth: 32,
            policy: QueuePolicy::Sptf,
            age_weight: 0.0,
            age_limit: AGE_LIMIT_DEFAULT,
            window: 256,
            rpo_margin: Nanos::ZERO,
            read_preference: Nanos::ZERO,
        }
    }
}

/// Scheduling policies, applied at every command end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePolicy {
    /// First come, first served.
    Fcfs,
    /// Shortest seek time first.
    Sstf,
    /// Elevator: in one direction while commands wait there, then back.
    Look,
    /// Elevator in one direction only, then again from the start.
    CLook,
    /// Shortest positioning time (seek and rotation) first: what drive makers call RPO.
    #[default]
    Sptf,
}
