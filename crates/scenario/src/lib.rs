//! The whole stack in virtual time: programs that read, compute and write; jobs of tasks on several threads; the page
//! cache with the kernel's read-ahead and write-back; a prefetcher; the block queue; a regulator; and a drive.
//!
//! | what | where |
//! |---|---|
//! | an experiment as its file says it | [`Scenario`], in [`spec`] |
//! | running it | [`run`]; [`run_with`] other workloads than programs and jobs |
//! | what such a workload is | [`Workload`], in [`workload`] |
//! | what came of it | [`Outcome`] |
//! | streams of tuples on cores | [`stream::simulate`], [`stream::StreamWorkload`] |
//!
//! The prefetcher is the one that runs in real time, `sakiyomi_prefetch::Controller`; here it is shown the positions of
//! simulated programs at the instants at which it asks for them; and so is the regulator,
//! `sakiyomi_regulate::RegulatedDevice`. Integer nanoseconds, one seed: the same bytes for the
//! same input. The crate is pure: it reads no clock and no file, and starts no thread.
//!
//! # Files
//!
//! ```text
//! Workload ──► thread ──► page cache ──► block queue ──► RegulatedDevice ──► Drive | Fixed
//! actions       │  │      pages, windows  merged, plugged  a regulator, if there are rates
//!    ▲          │  │          ▲
//!    └──────────┘  │ position │ fetch
//!    completions   ▼          │
//!           │   Controller ─► fetcher
//!           └─► cores
//! ```
//!
//! | file of `scenario` | what |
//! |---|---|
//! | `spec.rs`, `spec/` | an experiment as its TOML says it; keys set by their paths; what is possible |
//! | `workload.rs` | `trait Workload`: times and completions in, actions of threads out; what a workload needs of the machine |
//! | `program.rs` | the workload of one thread that reads, computes, writes, pauses |
//! | `job.rs`, `job/manager.rs` | the workload of a job's threads; which task is done next: parts, task blocks, what waits for what |
//! | `cache.rs` | the page cache, constant time for each page; `cache/naive.rs` is what it is held against |
//! | `readahead.rs`, `readahead/xnu.rs`, `writeback.rs`, `queue.rs`, `cpu.rs` | one mechanism of the kernel each; none knows another |
//! | `storage.rs`, `measure.rs` | a device that tells what its mechanism did; how well I/O times are kept |
//! | `cores.rs` | one pool of cores, or cores with distances: which one a burst runs on, what it takes to get there |
//! | `file.rs`, `layout.rs` | a file of a workload: its place, its owner, what the kernel remembers while it is open |
//! | `stream.rs`, `stream/` | pipelines of operators on cores: rings, hops, replicas, relocations, the controller; look-ups as a workload |
//! | `world/pages.rs`, `xnu.rs`, `mapped.rs` | reading through the page cache, in Linux and in Mac OS X; touching what is mapped |
//! | `world/workloads.rs`, `actions.rs`, `thread.rs` | asks workloads for actions and tells them what has completed; carries actions out; accounts for the time of threads |
//! | `world/experiment.rs`, `build.rs` | from an experiment to its workloads and the world at time 0, and to what came of them |
//! | `world.rs`, `world/` | the event loop, which joins them: nothing is queued that could become out of date |
//!
//! Whatever waits for an instant says so when asked, and the earliest is next. The event loop does not know what a workload
//! is: `run_with` takes others than programs and jobs, and the tests have some (`tests/it/workload.rs`). A workload is never
//! asked for an action before the time that it named, and each action completes once. The controller is `prefetch`'s and the
//! regulator `regulate`'s, the same as in real time: `docs/scenario.md`.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod cache;
mod cores;
mod cpu;
mod file;
mod job;
mod layout;
mod measure;
mod outcome;
mod program;
mod queue;
mod readahead;
pub mod spec;
mod storage;
pub mod stream;
pub mod workload;
mod world;
mod writeback;

pub use outcome::{
    Allowance, Decided, Distances, JobOutcome, JobRun, Kept, Outcome, ProcessOutcome, Regulation,
    WorkloadOutcome,
};
pub use sakiyomi_regulate::Rate;
pub use spec::{Scenario, SpecError};
pub use workload::Workload;
pub use world::{RunError, run, run_with};
