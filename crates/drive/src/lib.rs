//! A hard disk as a discrete-event model, behind the [`Device`](sakiyomi_model::Device) interface.
//!
//! What a command costs in a drive depends on where the arm stands, on what the buffer holds, and on which other
//! commands wait: misses cost from one to some two hundred times the slowest hit (Hosogi 2013). This crate models just
//! what decides that: [geometry](Geometry), servo, command queue, cache, and the link to the host; integer
//! nanoseconds, no randomness (but the seeded spread of [`fixed`]), the same bytes for the same input.
//!
//! | to do this | use |
//! |---|---|
//! | describe a drive | [`DriveSpec`](spec::DriveSpec), [`spec::BUILTIN`] |
//! | drive it yourself | [`Drive`], through [`Device`](sakiyomi_model::Device) |
//! | replay a trace | [`replay::Replay`] |
//! | count and measure | [`observe::Observation`] |
//! | storage whose time does not depend on places | [`fixed::Fixed`] |
//!
//! The crate is pure: it reads no clock and no file, and starts no thread. How the model works, and what it leaves
//! out, is in `docs/model.md`.
//!
//! # Files
//!
//! | file | what |
//! |---|---|
//! | `spec.rs`, `spec/` | a drive as its TOML describes it: the types, reading and setting keys, validation, the explanation of each key, effective values of settings (`effective.rs`), `drives/*.toml`; `disksim/` reads drives in DiskSim's terms |
//! | `document.rs` | TOML read into a type, with errors by line and key; experiments are read by it as well |
//! | `geometry.rs`, `geometry/` | LBA ↔ (cylinder, head, sector, angle). Angles are nanoseconds on a common grid, so that a transfer that goes on where another ended waits for exactly nothing |
//! | `seek.rs`, `servo.rs` | seek curves as tables; arm movement, settling, rotational wait |
//! | `queue.rs`, `queue/` | one file a policy; all see the same `Waiting` and `View`, and name the next command |
//! | `cache/` | read segments, dirty data, the memory of what was evicted |
//! | `media.rs`, `media/` | a `Plan`: which sector passes under the head when, track by track |
//! | `usage.rs` | the ledger: what the mechanism does with its time, planned ahead and cut when a read-ahead is cut |
//! | `controller/` | the drive as a state machine: commands in, events, ends out. `read.rs` and `write.rs` say what a command does, `schedule.rs` what the mechanism does next |
//! | `replay.rs` | a host that replays requests, open or closed loop, with its own bounded queue |
//! | `observe/` | totals and chunks in constant memory |
//! | `fixed.rs` | no disk: storage whose time does not depend on places, for mounts and scenarios |
//!
//! Three things go on side by side in a drive: the mechanism makes one access, the link carries one transfer, commands
//! wait. What will happen at a known instant is in a heap; the end of the access is kept apart, because it moves when a
//! command cuts a read-ahead short.
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod cache;
mod controller;
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

pub use controller::Drive;
pub use geometry::{Geometry, Run};
pub use usage::{DiskTime, Seeks, Usage};
