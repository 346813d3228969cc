//! A block device over the NBD protocol: a file or a disk, at its own speed, with rates, or with the times of a drive.
//!
//! ```text
//! client ──socket──► connection ──► Dispatcher ──┬─► RealtimeDevice ──► Device      says when
//!    ▲                (protocol)                 └─► Volume, on this thread         holds what
//!    └────────────────── outbound ◄── the last of the two
//! ```
//!
//! A virtual machine, the kernel's `nbd`, and tools for NBD see a disk. Unlike a mount, it is below their page cache and
//! file system, and an emulated drive sees the real addresses: there is no layout.
//!
//! | part | file |
//! |---|---|
//! | negotiation, requests and replies as bytes (pure) | `protocol.rs`, `protocol/` |
//! | where a server listens | `address.rs` |
//! | the life of a server: content, device, exports, connections | `server.rs` |
//! | what connections share: rates, statistics | `shared.rs` |
//! | the threads and requests of a connection | `connection.rs` |
//! | replies, for clients that read slowly | `outbound.rs` |
//! | the memory of a connection | `quota.rs` |
//!
//! A flush on any connection covers the writes that were answered on all of them: there is one device, and one file. So
//! clients may use several (`NBD_FLAG_CAN_MULTI_CONN`).
//!
//! | resource | bound |
//! |---|---|
//! | connections | 64; more are closed at once |
//! | data of unanswered requests of a connection | 40 MiB, then it is not received from |
//! | unanswered requests of a connection | 1,024, likewise |
//! | data of a request | 32 MiB; for trims, zeros and hints, 4 GiB |
//! | threads of a connection | 16, and one that writes |
//! | time to negotiate | 20 s between two messages, 1,000 options |
//!
//! Connections are neither encrypted nor authenticated: a Unix socket has permissions, and what goes over a network needs a
//! tunnel.

pub mod protocol;

mod address;
mod connection;
mod error;
mod outbound;
mod quota;
mod server;
mod shared;

pub use address::Address;
pub use error::Error;
pub use sakiyomi_regulate::{Percent, Rate};
pub use server::{ExportOptions, Finished, Options, Server, serve};
pub use shared::Snapshot;
