//! Parameters of shingled tracks (`smr.*`).

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Parameters of a drive-managed SMR drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SmrSpec {
    /// Consecutive bytes that can be rewritten only together.
    pub band: Bytes,
    /// Log on the medium that takes all writes first, at the end of the drive.
    pub media_cache: Bytes,
    /// Idle time after which bands are cleaned; zero: only when the media cache is exhausted.
    pub idle_delay: Nanos,
}

impl Default for SmrSpec {
    fn default() -> SmrSpec {
        SmrSpec { band: Bytes(32 << 20), media_cache: Bytes(20 << 30), idle_delay: Nanos::SECOND }
    }
}
