//! Where the time of a program goes: a recording of what its threads do and wait for, its critical path, and the ledger
//! of its elapsed time.
//!
//! ```text
//! tracepoints ──► record ──► Timeline ──► Recording ──► critical path ──► Ledger ──► summary
//! /proc ──► record::sampled ──────────────────┘  └──► Program, Replay ──► scenario ──► Present ──► predictions
//! ```
//!
//! | subject | module |
//! |---|---|
//! | recording of a running program | [`record`] |
//! | from events to a recording (pure) | [`timeline`] |
//! | a recording, as it is saved | [`recording`] |
//! | what the elapsed time depended on (pure) | [`mod@critical_path`] |
//! | elapsed time divided by what it was spent on (pure) | [`ledger`]; for a reader, [`mod@summary`] |
//! | a recording as a workload of a simulated machine (pure) | [`replay`] |
//! | the elapsed time with other storage, memory or prefetching (pure) | [`predict`]; [`remedies`] |

pub mod critical_path;
pub mod ledger;
pub mod predict;
pub mod record;
pub mod recording;
pub mod remedies;
pub mod replay;
pub mod summary;
pub mod timeline;

pub use critical_path::{Step, critical_path};
pub use ledger::{Ledger, LedgerEntry, Term};
pub use predict::{Change, PredictError, Prediction, Prefetching, Present, Storage};
pub use recording::Recording;
