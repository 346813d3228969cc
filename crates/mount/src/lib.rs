//! An emulated drive, live: the files of a directory at the speed of a simulated disk, on any machine.
//!
//! ```text
//! application ──► kernel (page cache) ──► fs ──► frontend ──┬─► layout ──► live ──► model::Device
//!                                                           └─► backing directory, on threads of its own
//! ```
//!
//! A file system under FUSE passes everything on to a backing directory, which always holds the true content. An access
//! to what is in a file is at the same time an access to the sectors where the file would lie, made of a simulated
//! drive that runs in real time; it is answered when both have ended. So any program meets the drive: its seeks, its
//! cache, its queue.
//!
//! | what | where |
//! |---|---|
//! | where files lie on the drive (pure) | [`layout`] |
//! | a device in real time | [`live`] |
//! | who has which rate | `regulation` |
//! | mounting and unmounting | [`mount()`], [`unmount`] |
//! | whether this process can mount, and why not | [`can_mount`], [`try_mount`] |
//!
//! No policy of other parts is in here: it does not read ahead, and `sakiyomi-regulate` decides what is held back.

pub mod layout;
pub mod live;

mod backing_pool;
mod check;
mod error;
mod frontend;
mod fs;
mod fuse_access;
mod in_flight;
mod per_thread;
mod process;
mod record;
mod regulation;
mod request;
mod scan;
mod session;
mod shared_layout;
mod trial;
mod unmount;
mod watch;

pub use error::Error;
pub use fuse_access::can_mount;
pub use regulation::{RatesSeen, Regulate};
pub use sakiyomi_iorate::protocol::Bypass;
pub use sakiyomi_regulate::Policy;
pub use session::{Behind, Finished, Mounted, Options, Snapshot, mount};
pub use trial::try_mount;
pub use unmount::unmount;
pub use watch::Totals;
