//! Description of a drive, as in its TOML file.
//!
//! A [`DriveSpec`] is plain data: [`DriveSpec::from_toml`] parses and validates it, [`DriveSpec::set`] changes one key,
//! [`explain`] documents each key. The simulator builds its own, faster structures from it.

mod array;
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
mod smr;

use serde::{Deserialize, Serialize};

pub use array::{ArrayError, ArraySpec, RaidLevel};
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
pub use interface::{InterfaceSpec, Overhead, OverheadSpec, PreviousCommand};
pub use queue::{QueuePolicy, QueueSpec};
pub use servo::{SeekSpec, ServoSpec, SignedNanos};
pub use setting::Setting;
pub use smr::SmrSpec;

/// All parameters of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveSpec {
    /// Maker and model.
    pub name: String,
    /// Layout of the sectors.
    pub geometry: GeometrySpec,
    /// Timing of the arm and the platters.
    pub servo: ServoSpec,
    /// Command queue.
    #[serde(default)]
    pub queue: QueueSpec,
    /// Buffer.
    #[serde(default)]
    pub cache: CacheSpec,
    /// Link to the host.
    #[serde(default)]
    pub interface: InterfaceSpec,
    /// Shingled tracks, if the drive has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smr: Option<SmrSpec>,
    /// Array of such drives, instead of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArraySpec>,
}

impl DriveSpec {
    /// Returns the name, with the array if there is one.
    #[must_use]
    pub fn title(&self) -> String {
        let array = self.array.as_ref().map(|array| format!(", {array}"));
        format!("{}{}", self.name, array.unwrap_or_default())
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
