//! A hard disk as a discrete-event model, behind the [`Device`](sakiyomi_model::Device) interface.
//!
//! The service time of a command depends on the arm's position, on the content of the buffer, and on the other queued
//! commands: a miss costs between one and about two hundred times the slowest hit (Hosogi 2013). This crate models the
//! parts that determine it: [geometry](Geometry), servo, command queue, cache, and the link to the host. Times are
//! integer nanoseconds. Nothing is random except the seeded spread of [`fixed`], so the same input gives the same
//! output, byte for byte.
//!
//! | task | use |
//! |---|---|
//! | describe a drive | [`DriveSpec`](spec::DriveSpec), [`spec::BUILTIN`] |
//! | submit commands | [`Drive`], through [`Device`](sakiyomi_model::Device) |
//! | replay a trace | [`replay::Replay`] |
//! | collect statistics | [`observe::Observation`] |
//! | simulate an array | [`Disk`], or [`Array`] over any device |
//! | storage with position-independent service times | [`fixed::Fixed`] |
//!
//! The crate is pure: it reads no clock and no file, and starts no thread. `docs/explanation/model.md` describes the
//! model and its limits.
//!
//! # Files
//!
//! | file | content |
//! |---|---|
//! | `spec.rs`, `spec/` | the TOML description of a drive: types, reading and setting keys, validation, the explanation of each key, effective values (`effective.rs`), `drives/*.toml`; `disksim/` imports DiskSim's parameter files |
//! | `document.rs` | TOML deserialization with errors by line and key; also used for experiments |
//! | `geometry.rs`, `geometry/` | LBA ↔ (cylinder, head, sector, angle). Angles are nanoseconds on a common grid, so that a transfer that continues another has no rotational latency at all |
//! | `seek.rs`, `servo.rs` | seek curves as tables; arm movement, settling, rotational latency |
//! | `queue.rs`, `queue/` | scheduling policies, one per file, over the same `Waiting` and `View` |
//! | `cache/` | read segments, dirty data, recently evicted ranges |
//! | `media.rs`, `media/` | a `Plan`: when each sector passes under the head, track by track |
//! | `usage.rs` | time accounting of the mechanism: planned ahead, and cut when a read-ahead is cut |
//! | `controller/` | the drive as a state machine: commands in, completions out. `read.rs` and `write.rs` execute commands, `schedule.rs` chooses the mechanism's next access |
//! | `replay.rs` | a host that replays requests, open or closed loop, with a bounded queue |
//! | `observe/` | totals and intervals in constant memory |
//! | `array.rs`, `array/` | RAID over any devices: placement, accesses of the members, degraded operation, rebuilding |
//! | `disk.rs` | what a `DriveSpec` describes: a drive or an array |
//! | `fixed.rs` | storage without a mechanism, for mounts and scenarios |
//!
//! Three activities run in parallel: the mechanism makes one access, the link carries one transfer, and commands wait.
//! Events at known instants are in a heap; the end of the current access is kept separately, because it changes when a
//! command cuts a read-ahead short.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod array;
mod cache;
mod controller;
mod disk;
pub mod document;
pub mod fixed;
mod geometry;
pub mod log;
mod media;
pub mod observe;
mod queue;
pub mod replay;
mod seek;
mod servo;
pub mod spec;
mod usage;

pub use array::Array;
pub use controller::Drive;
pub use disk::{Disk, Simulated};
pub use geometry::{Geometry, Run};
pub use usage::{DiskTime, Seeks, Usage};
