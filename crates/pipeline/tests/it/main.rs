//! The crate from outside: whole pipelines.

mod appends;
mod claims;
mod errors;
mod export;
mod file_lookups;
mod files;
mod formats;
mod harness;
mod lookups;
mod outputs;
mod page;
mod random;
mod refused_snapshots;
mod replicas;
mod resume;
mod sockets;
mod waits;
mod windows;
