//! An emulated drive in real time: the files of a directory at the speed of a simulated disk, on any machine.
//!
//! ```text
//! application ──► kernel (page cache) ──► fs ──► frontend ──┬─► layout ──► realtime ──► model::Device
//!                                                           └─► backing directory, on threads of its own
//! ```
//!
//! A file system under FUSE passes all operations on to a backing directory, which always holds the true content. An
//! access to file data is also an access to the sectors where the file would lie on a simulated drive, which runs in
//! real time; the reply is sent when both have completed. Thus any program observes the drive: its seeks, its cache,
//! its queue.
//!
//! | part | where |
//! |---|---|
//! | where files lie on the drive (pure) | [`layout`] |
//! | a device in real time | [`sakiyomi_realtime`] |
//! | mounting and unmounting | [`mount()`], [`unmount`] |
//! | whether this process can mount, and why not | [`can_mount`], [`try_mount`] |
//!
//! The crate contains no policy of other parts: it does not read ahead, and `sakiyomi-regulate` decides which requests
//! are delayed.
//!
//! # The path of an access from the kernel to its reply
//!
//! ```text
//! application ──► kernel ──► fs ──► frontend ──┬─► layout ──► realtime ──► Device  says when
//!                (page cache)                  └─► backing directory               holds what
//! ```
//!
//! An access to file data has two concurrent sides; the thread that completes the last one replies. One thread owns the
//! device: it sleeps until `next_event()` or until a request arrives, and replies (`sakiyomi-realtime`).
//!
//! A read consists of an `Issuer` (process and owner), an `IoRequest` (as seen by the trace and the statistics) and a
//! `Read` (backing file, buffer and reply). An `InFlight` joins them with the results of the two sides; an `Access`
//! goes to the device's thread, a `Completion` comes back, and a `Completed` is counted and recorded. The threads share
//! the `InFlight`: besides the data's buffer it is the only allocation of a read, and if a mount without a device finds
//! the data in the page cache, a read allocates nothing. `crates/mount/tests/allocations.rs` counts that for every kind
//! of mount, from the kernel's request to the reply, including `fuser` and all threads of the mount. State that every
//! request needs belongs to the thread that serves it (`sakiyomi_realtime::PerThread`): open files, counts, the list of the trace, the
//! last runs of the layout (`shared_layout.rs`). So a request never waits for a lock that another thread holds.
//!
//! `RegulatedDevice` stands between the schedule and the device on that same thread; with `--regulate` it has a
//! regulator, and requests carry their owner as their stream. If no drive is emulated, `sakiyomi_realtime::Backing` is
//! the device: it passes a dispatched request to a thread, whose completion wakes the device's thread. The thread that serves the kernel's request finds the owner (`sakiyomi_iorate::server`), and sends
//! changes and queries of rates to the device's thread through the queue of requests, so that each takes effect at a
//! definite instant.
//!
//! | resource | bound |
//! |---|---|
//! | accesses queued for the device's thread | 65,536, then the submitter blocks |
//! | processes and groups with a rate | 16,384, and three in 16 of the open-files limit |
//! | cached processes without a rate | about 1,024, and one in 16 of the open-files limit |
//! | accesses queued for a backing thread | 1,024, then the submitter blocks |
//! | descriptors of files cached by the kernel | half of the limit, 65,536 at most; one each without the right to open by handle |
//! | cached blocks of metadata | 32,768, the most recently used |
//! | changed blocks of metadata before a commit | 256, and those of files that grow meanwhile |

pub mod layout;

mod check;
mod error;
mod frontend;
mod fs;
mod fuse_access;
mod process;
mod scan;
mod session;
mod shared_layout;
mod trial;
mod unmount;

pub use error::Error;
pub use fuse_access::can_mount;
pub use sakiyomi_iorate::protocol::Bypass;
pub use sakiyomi_iorate::server::RatesSeen;
pub use sakiyomi_realtime::{EmulatedStorage, Past, Policy, Regulate, Totals};
pub use session::{Finished, Mounted, Options, Snapshot, mount};
pub use trial::try_mount;
pub use unmount::{abort, unmount};
