//! An emulated drive, live: the files of a directory at the speed of a simulated disk, on any machine.
//!
//! ```text
//! application ──► kernel (page cache) ──► fs ──► frontend ──┬─► layout ──► live ──► model::Device
//!                                                           └─► backing directory, on threads of its own
//! ```
//!
//! A file system under FUSE passes everything on to a backing directory, which always holds the true content. An
//! access to the data of a file is also an access to the sectors where the file would lie, made of a simulated drive
//! that runs in real time; it is answered when both have ended. So any program sees the drive: its seeks, its cache,
//! its queue.
//!
//! | what | where |
//! |---|---|
//! | where files lie on the drive (pure) | [`layout`] |
//! | a device in real time | [`live`] |
//! | owners of I/O and their rates | `regulation` |
//! | mounting and unmounting | [`mount()`], [`unmount`] |
//! | whether this process can mount, and why not | [`can_mount`], [`try_mount`] |
//!
//! No policy of other parts is in here: it does not read ahead, and `sakiyomi-regulate` decides which requests are
//! delayed.
//!
//! # An access, from the kernel to its answer
//!
//! ```text
//! application ──► kernel ──► fs ──► frontend ──┬─► layout ──► live ──► Device      says when
//!                (page cache)                  └─► backing directory               holds what
//! ```
//!
//! An access to the data of a file has two sides that go on in parallel; the thread that ends last answers it. One
//! thread has the device: it sleeps until `next_event()` or until a request arrives, and answers. `live/schedule.rs`
//! has no clock; a property test compares it with the replay in virtual time, however late it is woken. Time begins
//! with the first access, so that a replayed trace finds the platters where they were.
//!
//! A read is an `Issuer` (process and owner), an `IoRequest` (as the trace and the statistics see it) and a `Read`
//! (backing file, buffer and reply), which an `InFlight` joins with the results of the two sides; an `Access` goes to
//! the device's thread, a `Completion` comes back, and a `Completed` is counted and recorded. The threads share the
//! `InFlight`: with the data's buffer it is all that a read allocates, and if a mount without a device finds the data
//! in the page cache, a read allocates nothing. `crates/mount/tests/allocations.rs` counts that for every kind of
//! mount, from the kernel's request to the answer, with everything that `fuser` and the threads of the mount do.
//! State that every request needs belongs to the thread that serves it (`per_thread.rs`): open files, counts, the
//! list of the trace, the last runs of the layout (`shared_layout.rs`). So a request waits for no lock that another
//! thread holds.
//!
//! `RegulatedDevice` stands between the schedule and the device on that same thread; with `--regulate` it has a
//! regulator, and requests carry their owner as their stream. `live/rates.rs` has the statistics of owners. If no
//! drive is emulated, `live/backing.rs` is the device: it gives a submitted request to a thread, whose completion
//! wakes the device's. The thread of the kernel's request finds the owner (`regulation/owners.rs`), and sends changes
//! and queries of rates to the device's thread through the queue of requests; so a rate holds from an instant on.
//!
//! | what | bound |
//! |---|---|
//! | accesses that wait for the device's thread | 65,536, then the submitter blocks |
//! | processes and groups with a rate | 16,384, and three in 16 files that may be open |
//! | processes without a rate that are remembered | about 1,024, and one in 16 files that may be open |
//! | accesses that wait for a backing thread | 1,024, then the submitter blocks |
//! | descriptors of files that the kernel only knows | half the process's, 65,536 at most; without the right to open files by handle, one each |
//! | blocks of metadata in memory | 32,768, the last used |
//! | changed blocks of metadata that gather | 256, and those of files that grow meanwhile |

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
