//! Geometry parameters (`geometry.*`).

use sakiyomi_model::Bytes;
use serde::{Deserialize, Serialize};

/// Layout of the sectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeometrySpec {
    /// Sector size: 256 B to 4 KiB, a power of two.
    pub sector: Bytes,
    /// Size of a sector on the medium, if it is larger: a multiple of `sector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_sector: Option<Bytes>,
    /// Recording surfaces.
    pub heads: u32,
    /// Order of tracks.
    #[serde(default)]
    pub layout: Layout,
    /// Addressable sectors, if fewer than the zones hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// Zones, from the outer rim inwards.
    pub zones: Vec<ZoneSpec>,
}

impl GeometrySpec {
    /// Returns the number of cylinders from the outermost one on, those between zones included.
    pub(crate) fn cylinders(&self) -> u32 {
        self.zones
            .iter()
            .fold(0, |next, zone| zone.first_cylinder.unwrap_or(next).saturating_add(zone.cylinders))
    }
}

/// Orders of tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// All heads of a cylinder from head 0 on, then the next cylinder.
    #[default]
    Cylinder,
    /// All heads of a cylinder, in alternating order from cylinder to cylinder.
    Zigzag,
    /// All cylinders of a zone under one head, then back under the next.
    Serpentine,
}

/// Cylinders with the same number of sectors per track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// First cylinder; by default the one after the previous zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cylinder: Option<u32>,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Physical sectors per track.
    pub sectors_per_track: u32,
    /// Angle between the first sectors of successive tracks of one cylinder, in sectors; by default the number that
    /// pass during a head switch and write settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew: Option<f64>,
    /// Angle from a cylinder's last track to the next cylinder's first, in sectors; by default the number that pass
    /// during a single-cylinder seek, the head switch and write settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew: Option<f64>,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub offset: f64,
    /// Reserved sectors at the zone's start, without addresses: the drive's own data.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub reserved_front: u64,
    /// Number of spare sectors, per `spares_per`.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub spares: u32,
    /// Unit that has `spares` spare sectors, at its end.
    #[serde(default, skip_serializing_if = "super::is_default")]
    pub spares_per: SparesPer,
    /// Number of successive cylinders that share their spares, with spares per cylinder; 1 by default.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub spares_range: u32,
    /// Defective sectors known at formatting: the numbering skips them and extends into the spares at the end. In
    /// physical sectors from the zone's start, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u64>,
    /// Sectors that became defective later: `[from, to]`, both in physical sectors from the zone's start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<[u64; 2]>,
}

/// Units with spares at their end.
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
