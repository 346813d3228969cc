//! Where sectors lie: `geometry.*`.

use sakiyomi_model::Bytes;
use serde::{Deserialize, Serialize};

/// Where sectors lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometrySpec {
    /// Bytes in a sector: 256 B to 4 KiB, a power of two.
    pub sector: Bytes,
    /// Recording surfaces.
    pub heads: u32,
    /// In which order tracks are numbered.
    #[serde(default)]
    pub layout: Layout,
    /// Addressable sectors, where the drive offers fewer than its zones hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// From the outer rim inwards.
    pub zones: Vec<ZoneSpec>,
}

impl GeometrySpec {
    /// Cylinders from the outermost one on, those between zones included.
    pub(crate) fn cylinders(&self) -> u32 {
        self.zones
            .iter()
            .fold(0, |next, zone| zone.first_cylinder.unwrap_or(next).saturating_add(zone.cylinders))
    }
}

/// In which order tracks are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// All heads of a cylinder, from head 0, then the next cylinder.
    #[default]
    Cylinder,
    /// All heads of a cylinder, the order of heads turning round at each cylinder.
    Zigzag,
    /// All cylinders of a zone under one head, then back under the next.
    Serpentine,
}

/// Cylinders with equally many sectors on a track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// The first cylinder; by default the one after the zone before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cylinder: Option<u32>,
    /// How many cylinders.
    pub cylinders: u32,
    /// Physical sectors on a track.
    pub sectors_per_track: u32,
    /// Angle between the first sectors of successive tracks of one cylinder, in sectors; by default as many as pass
    /// during a head switch, settled to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew: Option<f64>,
    /// The same from a cylinder's last track to the next cylinder's first; by default as many as pass while the
    /// arm moves on by one and the head changes, settled to write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew: Option<f64>,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub offset: f64,
    /// Sectors at the zone's start that carry no address: the drive's own data.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub reserved_front: u64,
    /// Sectors held back as spares, per `spares_per`.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub spares: u32,
    /// What `spares` counts for; spares lie at its end.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub spares_per: SparesPer,
    /// Successive cylinders that share their spares, where spares are counted per cylinder: one unless given.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub spares_range: u32,
    /// Defective sectors passed over when the drive was formatted: the numbering slips past them, into the spares at
    /// the end. Counted in physical sectors from the zone's start, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Sectors that turned bad later: `[from, to]`, both in physical sectors from the zone's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<[u64; 2]>,
}

/// The unit at whose end spares lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SparesPer {
    /// Each zone.
    #[default]
    Zone,
    /// Each cylinder, or each range of `spares_range` cylinders.
    Cylinder,
    /// Each track.
    Track,
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}
