//! The whole stack in virtual time: programs that read, compute and write; jobs of tasks on several threads; the page
//! cache with the kernel's read-ahead and write-back; a prefetcher; the block queue; a regulator; and a drive.
//!
//! | what | where |
//! |---|---|
//! | an experiment as its file says it | [`Scenario`], in [`spec`] |
//! | running it | [`run`]; [`run_with`] other workloads than programs and jobs |
//! | what such a workload is | [`Workload`], in [`workload`] |
//! | what came of it | [`Outcome`] |
//!
//! The prefetcher is the one that runs in real time, `sakiyomi_prefetch::Controller`; here it is shown the positions of
//! simulated programs at the instants at which it asks for them; and so is the regulator,
//! `sakiyomi_regulate::RegulatedDevice`. Integer nanoseconds, one seed: the same bytes for the
//! same input. The crate is pure: it reads no clock and no file, and starts no thread.
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
