//! A device in real time: requests go in when they come, and are answered when the model says so.
//!
//! The model has its own time line. Who wakes up late finds what was due at the instants it was due, and requests that
//! wait for room in the device's queue enter it at the instant there was room: [`Schedule`] sees to that, without a
//! clock, and is held to the replay in virtual time by a property test. [`Live`] is the thread that sleeps.

mod backing;
mod behind;
mod driver;
mod kept;
mod machine;
mod schedule;
#[cfg(test)]
mod tests;
mod timeline;

pub(crate) use backing::{Backing, Dispatched, Perform};
pub(crate) use behind::Behind;
pub(crate) use driver::Question;
pub use driver::{Access, Extents, Live, OnCompletion, Stopped};
pub use kept::Past;
pub(crate) use kept::{Figures, Kept, Seen};
pub(crate) use machine::Machine;
pub use schedule::Schedule;
pub use timeline::Timeline;
