//! Simulation of the I/O stack in virtual time: programs that read, compute and write; jobs of tasks on several
//! threads; the page cache with the kernel's read-ahead and write-back; a prefetcher; the block queue; a regulator; and
//! a drive.
//!
//! | topic | item |
//! |---|---|
//! | an experiment as described by its file | [`Scenario`], in [`spec`] |
//! | running an experiment | [`run`]; [`run_with`] further workloads besides programs and jobs |
//! | the interface of workloads | [`Workload`], in [`workload`] |
//! | results | [`Outcome`] |
//! | streams of tuples on cores | [`stream::simulate`], [`stream::StreamWorkload`] |
//!
//! The prefetcher is the one used in real time, `sakiyomi_prefetch::Controller`; here it observes simulated programs at
//! the instants that it requests. So is the regulator, `sakiyomi_regulate::RegulatedDevice`. Times are integer
//! nanoseconds and randomness comes from one seed: the same input gives the same output, byte for byte. The crate is
//! pure: it reads no clock and no file, and starts no thread.
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
//! | file of `scenario` | content |
//! |---|---|
//! | `spec.rs`, `spec/` | the TOML description of an experiment; setting keys by path; validation |
//! | `workload.rs` | `trait Workload`: times and completions in, actions of threads out; requirements of a workload |
//! | `program.rs` | the workload of one thread that reads, computes, writes, pauses |
//! | `job.rs`, `job/manager.rs` | the workload of a job's threads; the choice of the next task: parts, task blocks, dependencies |
//! | `cache.rs` | the page cache, constant time per page; `cache/naive.rs` is its reference implementation |
//! | `readahead.rs`, `readahead/xnu.rs`, `writeback.rs`, `queue.rs`, `cpu.rs` | one kernel mechanism each, independent of the others |
//! | `storage.rs`, `measure.rs` | a device with usage statistics; accuracy of I/O times |
//! | `cores.rs` | one pool of cores, or cores with distances: placement of bursts, cost of hops |
//! | `file.rs`, `layout.rs` | a file of a workload: placement, owner, the kernel's state while it is open |
//! | `stream.rs`, `stream/` | pipelines of operators on cores: rings, hops, replicas, relocations, the controller; look-ups as a workload |
//! | `world/pages.rs`, `xnu.rs`, `mapped.rs` | reading through the page cache, in Linux and in Mac OS X; touching mapped files |
//! | `world/workloads.rs`, `actions.rs`, `thread.rs` | requests actions from workloads and delivers completions; carries out actions; time accounting of threads |
//! | `world/experiment.rs`, `build.rs` | from an experiment to its workloads and the world at time 0, and to the results |
//! | `world.rs`, `world/` | the event loop that joins them, without a queue of events that could become stale |
//!
//! Every component that waits for an instant returns it when queried, and the earliest is next. The event loop is
//! independent of the kind of workload: `run_with` accepts others than programs and jobs, such as those of the tests
//! (`tests/it/workload.rs`). A workload is never asked to act before the time that it named, and each action
//! completes once. The controller is that of `prefetch` and the regulator that of `regulate`, as in real time:
//! `docs/explanation/scenario.md`.
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
    Allowance, AllowanceSource, Distances, JobOutcome, JobRun, Outcome, ProcessOutcome, RateAccuracy,
    Regulation, WorkloadOutcome,
};
pub use sakiyomi_regulate::Rate;
pub use spec::{Scenario, SpecError};
pub use workload::Workload;
pub use world::{RunError, run, run_with};
