//! A device in real time: requests go in when they come, and are answered when the model says so.
//!
//! The model has its own time line. Who wakes up late finds what was due at the instants it was due, and requests that
//! wait for room in the device's queue enter it at the instant there was room: [`Schedule`] sees to that, without a
//! clock, and is held to the replay in virtual time by a property test. [`RealtimeDevice`] is the thread that sleeps.

mod backing;
mod driver;
mod rates;
mod schedule;
#[cfg(test)]
mod tests;
mod timeline;

pub(crate) use backing::{BACKING_SECTOR, Backing};
pub(crate) use driver::Question;
pub use driver::{Access, Answer, LiveDevice, RealtimeDevice, Stopped};
pub use rates::Past;
pub(crate) use rates::{OwnerStats, Rates, RatesSnapshot};
pub use schedule::Schedule;
pub use timeline::Timeline;
