//! Streams that adapt: the placement follows the rate and the load, by the plans of `sakiyomi-placement`.
//!
//! ```text
//! workers ─ counters ─► control thread ── requests ──► planning thread
//!    ▲                  samples, decides ◄── tables ──┘
//!    └─── relocate, split, fuse ──┘
//! ```
//!
//! The stream begins on as few cores as possible, for nothing is known of it. After some 20 ms of measuring there is a
//! table of plans for all rates, and from then on a step of the rate costs a look-up. Both threads have a low weight and a
//! short time slice, for they share their CPUs with workers.
//!
//! | file | what |
//! |---|---|
//! | [`machine`] | this machine as a planner sees it |
//! | `live`, `control` | the threads, and the interface |
//! | `sample`, `graph` | counters of a moment; operators and edges |
//! | `intake` | the rate by scheduled arrivals, and how far sources are behind |
//! | `estimates`, `meters`, `loads` | service times and selectivities; whether they have changed |
//! | `overload` | whether a plan holds less than it should |
//! | `decide`, `pace`, `change`, `plans` | when to change the placement, to which, in which steps |
//! | `ownership`, `cpus` | whether a worker's CPU is its own, or polling would harm it |
//! | [`events`] | what was decided, and what came of it |

mod change;
mod control;
mod cpus;
mod decide;
mod estimates;
pub mod events;
mod graph;
mod intake;
mod live;
mod loads;
pub mod machine;
mod meters;
mod overload;
mod ownership;
mod pace;
mod plans;
mod sample;

pub use control::Status;
pub use live::{AdaptSettings, Adaptive, Finished};
