//! A device in real time: requests are submitted when they arrive, and answered at the times that the model computes.
//!
//! ```text
//! front end ──► Dispatcher ──┬─► RealtimeDevice ──► RegulatedDevice ──► Device      says when
//!    ▲                       └─► backing I/O, on threads                            holds what
//!    └────────── InFlight ◄─────────┘ both sides have completed
//! ```
//!
//! The front ends are file systems (`sakiyomi-mount`) and block devices (`sakiyomi-nbd`). A request has two concurrent
//! sides, the device and the backing file; the thread that completes the last one replies.
//!
//! The model has its own time line. After a late wake-up, events are processed with the times at which they were due,
//! and requests that wait for room in the device's queue enter it at the time at which there was room. [`Schedule`]
//! does this without a clock; a property test compares it with the replay in virtual time. [`RealtimeDevice`] is the
//! thread that sleeps. Time begins with the first access, so that a replayed trace finds the platters in the same
//! position.
//!
//! | part | file |
//! |---|---|
//! | the device and the host's queue, without a clock (pure) | `schedule.rs` |
//! | the device's thread | `driver.rs` |
//! | the device's clock | `timeline.rs` |
//! | real files as a device that a regulator controls | `backing.rs`, `backing_pool.rs` |
//! | the profile of a real device, measured and kept in a file | `calibrate.rs`, `device_profile.rs` |
//! | storage to emulate | `emulated.rs` |
//! | a request, its two sides, and where they go | `request.rs`, `in_flight.rs`, `dispatch.rs` |
//! | counts, times, and the trace | `watch.rs`, `record.rs` |
//! | the requests of a real block device, as a trace | `block_recording.rs` |

mod backing;
mod backing_pool;
mod block_recording;
mod calibrate;
mod device_profile;
mod dispatch;
mod driver;
mod emulated;
mod in_flight;
mod record;
mod request;
mod schedule;
#[cfg(test)]
mod tests;
mod timeline;
mod watch;

pub use backing::BACKING_SECTOR;
pub use backing_pool::{
    BACKING_THREADS, BackingJob, BackingPool, OnPerformed, Perform, WHOLE_REQUEST, start_pool,
};
pub use block_recording::{BlockRecorded, BlockRecorder, BlockRecording};
pub use calibrate::{CalibrateError, Site, calibrate};
pub use device_profile::{
    DeviceProfile, PROFILE_SCHEMA, Time, profile_directory, profile_file_name, saved_profile,
};
pub use dispatch::Dispatcher;
pub use driver::{Access, Extents, OnCompletion, RealtimeDevice};
pub use emulated::{EmulatedStorage, Regulate, serve_promptly, start_backing, start_emulated};
pub use in_flight::{Accounting, BackingIo, InFlight};
pub use record::{Recorder, Recording, StartError};
pub use request::{IoRequest, Issuer};
pub use sakiyomi_iorate::server::{LiveDevice, Past, RateQuery, Rates, Stopped};
pub use sakiyomi_regulate::Policy;
pub use schedule::Schedule;
pub use timeline::Timeline;
pub use watch::{Completed, Totals, Watch};
