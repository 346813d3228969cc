//! A device in real time: requests are submitted when they arrive, and answered at the times that the model computes.
//!
//! The model has its own time line. After a late wake-up, events are processed with the times at which they were due,
//! and requests that wait for room in the device's queue enter it at the time at which there was room. [`Schedule`]
//! does this without a clock; a property test compares it with the replay in virtual time. [`RealtimeDevice`] is the
//! thread that sleeps.

mod backing;
mod driver;
mod rates;
mod schedule;
#[cfg(test)]
mod tests;
mod timeline;

pub(crate) use backing::{BACKING_SECTOR, Backing};
pub(crate) use driver::RateQuery;
pub use driver::{Access, Extents, OnCompletion, RealtimeDevice, Stopped};
pub use rates::{LiveDevice, Past};
pub(crate) use rates::{OwnerStats, Rates, RatesSnapshot};
pub use schedule::Schedule;
pub use timeline::Timeline;
