//! Which waiting command is next: `queue.*`.

use sakiyomi_model::Nanos;
use serde::{Deserialize, Serialize};

/// Which waiting command is next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSpec {
    /// Commands accepted at once, 1 to 256.
    pub depth: u32,
    /// The rule of choice.
    pub policy: QueuePolicy,
    /// SPTF: how much of a command's waiting time counts against its positioning time (ASPTF), 0 or more.
    pub age_weight: f64,
    /// A command that waited longer goes first; zero: none does.
    pub age_limit: Nanos,
    /// Only this many of the oldest commands are looked at.
    pub window: u32,
    /// SPTF: a command whose sector would come round within this time after the arm arrives is taken to miss it.
    pub rpo_margin: Nanos,
    /// How much worse a read may be than a write and still go first.
    pub read_preference: Nanos,
}

impl Default for QueueSpec {
    fn default() -> QueueSpec {
        QueueSpec {
            depth: 32,
            policy: QueuePolicy::Sptf,
            age_weight: 0.0,
            age_limit: Nanos::ZERO,
            window: 256,
            rpo_margin: Nanos::ZERO,
            read_preference: Nanos::ZERO,
        }
    }
}

/// The rule by which the next command is chosen, at every command end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePolicy {
    /// First come, first served.
    Fcfs,
    /// Shortest seek time first.
    Sstf,
    /// Elevator: on in one direction while something waits there, then back.
    Look,
    /// Elevator in one direction only, then from the start again.
    CLook,
    /// Shortest positioning time (seek and rotation) first: what drive makers call RPO.
    #[default]
    Sptf,
}
