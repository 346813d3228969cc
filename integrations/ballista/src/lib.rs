//! Ballista on sakiyomi's I/O and operators: shuffles that are written while tasks compute and read ahead, spill files, reads
//! of local files, sorts and joins that spill.
//!
//! ```text
//! scheduler ── stage ──► executor: ShuffleEngine ─┬─► OperatorRule: sorts and joins by this machine's memory and costs
//!                                                 ├─► readers of shuffles: blocks read ahead
//!                                                 └─► writers of shuffles: write streams, memory within a budget
//! ```
//!
//! Files of shuffles have Ballista's format and names: stock executors read ours, and ours read theirs. A cluster may have
//! both.
//!
//! | subject | module |
//! |---|---|
//! | the execution engine of an executor (`override_execution_engine`) | [`engine`] |
//! | shuffle files: writers, readers, their options and figures | [`shuffle`] |
//! | plans with our sorts and joins on the wire (`override_physical_codec`) | [`codec`] |
//! | the configuration of schedulers, executors and sessions with all of these | [`cluster`] |

pub mod cluster;
pub mod codec;
pub mod engine;
pub mod shuffle;

mod clients;
