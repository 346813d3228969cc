//! What a drive is made of, as its TOML file says it.
//!
//! A [`DriveSpec`] is plain data: [`DriveSpec::from_toml`] reads and checks it, [`DriveSpec::set`] changes one key,
//! [`explain`] says what each key means. The simulator builds its own, faster structures from it.

mod builtin;
mod cache;
mod check;
mod disksim;
mod edit;
mod effective;
mod explain;
mod geometry;
mod interface;
mod queue;
mod servo;
mod setting;

use serde::{Deserialize, Serialize};

pub use builtin::{BUILTIN, Builtin, builtin};
pub use cache::{
    CacheSpec, Consumed, ReadAheadMode, ReadAheadSpec, Replacement, SegmentMode, SegmentSpec, WriteOnCached,
    WriteShare, WriteSpec,
};
pub use check::SpecError;
pub use disksim::Imported;
pub use effective::Limit;
pub use explain::{Explanation, explain};
pub use geometry::{GeometrySpec, Layout, SparesPer, ZoneSpec};
pub use interface::{Before, InterfaceSpec, Overhead, OverheadSpec};
pub use queue::{QueuePolicy, QueueSpec};
pub use servo::{SeekSpec, ServoSpec, SignedNanos};
pub use setting::Setting;

/// A drive: every figure that the model uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Maker and model.
    pub name: String,
    /// Where sectors lie.
    pub geometry: GeometrySpec,
    /// How the arm and the platters move.
    pub servo: ServoSpec,
    /// Which waiting command is next.
    #[serde(default)]
    pub queue: QueueSpec,
    /// What is kept in the buffer.
    #[serde(default)]
    pub cache: CacheSpec,
    /// The way to the host.
    #[serde(default)]
    pub interface: InterfaceSpec,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
