//! One zone: addresses ↔ physical sectors, past spares, slips and remaps.
//!
//! Addresses and physical sectors are counted from the zone's start; physical sectors in the order in which the tracks
//! are numbered.

use sakiyomi_model::Nanos;

use crate::spec::{GeometrySpec, Layout, ServoSpec, SparesPer, ZoneSpec};

/// Skews are kept in thousandths of a sector.
pub(super) const MILLI: u64 = 1000;

/// Cylinders with equally many sectors on a track, ready for arithmetic.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) first_lba: u64,
    pub(super) lbas: u64,
    pub(super) first_cylinder: u32,
    pub(super) cylinders: u32,
    pub(super) track_sectors: u64,
    /// Sectors of a track that carry addresses (fewer than all where spares lie on each track).
    track_used: u64,
    /// The same for a cylinder, where spares lie on each cylinder.
    cylinder_used: Option<u64>,
    pub(super) track_skew: u64,
    pub(super) cylinder_skew: u64,
    pub(super) offset: u64,
    /// Physical index of each slipped sector, less the slips before it: comparable with unslipped addresses.
    slip_keys: Vec<u64>,
    remaps: Vec<[u64; 2]>,
}

/// A place within a zone.
pub(super) struct Place {
    pub(super) track: u64,
    pub(super) sector: u64,
    pub(super) to_gap: u64,
    pub(super) from_gap: u64,
}

impl Zone {
    pub(super) fn new(
        spec: &ZoneSpec,
        drive: &GeometrySpec,
        next: (u64, u32),
        revolution: u64,
        servo: &ServoSpec,
    ) -> Zone {
        let heads = drive.heads;
        let track = u64::from(spec.sectors_per_track);
        let tracks = u64::from(spec.cylinders) * u64::from(heads);
        let spares = u64::from(spec.spares);
        let (track_used, cylinder_used) = match spec.spares_per {
            SparesPer::Zone => (track, None),
            SparesPer::Cylinder => (track, Some(track * u64::from(heads) - spares)),
            SparesPer::Track => (track - spares, None),
        };
        let lbas = match spec.spares_per {
            SparesPer::Zone => tracks * track - spares.max(spec.slips.len() as u64),
            SparesPer::Cylinder => u64::from(spec.cylinders) * (track * u64::from(heads) - spares),
            SparesPer::Track => tracks * track_used,
        };
        let passing = |time: Nanos| (time.0 * track).div_ceil(revolution) % track * MILLI;
        // To the next cylinder's first track: the arm moves, and unless the order of heads turns, the head changes too.
        let same_head = drive.layout != Layout::Cylinder || heads == 1;
        let head_switch = if same_head { Nanos::ZERO } else { servo.head_switch };
        let next_cylinder = crate::seek::single_cylinder(servo).max(head_switch);
        let milli = |skew: f64| (skew * MILLI as f64).round() as u64;
        Zone {
            first_lba: next.0,
            lbas,
            first_cylinder: spec.first_cylinder.unwrap_or(next.1),
            cylinders: spec.cylinders,
            track_sectors: track,
            track_used,
            cylinder_used,
            track_skew: spec.track_skew.map_or_else(|| passing(servo.head_switch), milli),
            cylinder_skew: spec.cylinder_skew.map_or_else(|| passing(next_cylinder), milli),
            offset: milli(spec.offset),
            slip_keys: spec.slips.iter().enumerate().map(|(before, slip)| slip - before as u64).collect(),
            remaps: spec.remaps.clone(),
        }
    }

    /// The place of the zone's `relative`-th address, with the sectors to and from the nearest gap on its track.
    pub(super) fn place(&self, relative: u64, heads: u64) -> Place {
        let (physical, used_on_track, slipped) = self.home(relative, heads);
        let (track, sector) = (physical / self.track_sectors, physical % self.track_sectors);
        // After a zone's last address lie its spares.
        let mut to_gap = (used_on_track - sector).min(self.lbas - relative);
        let mut from_gap = sector;
        if !self.slip_keys.is_empty() {
            to_gap = self.slip_keys.get(slipped).map_or(to_gap, |key| to_gap.min(key - relative));
            from_gap =
                slipped.checked_sub(1).map_or(from_gap, |i| from_gap.min(relative - self.slip_keys[i]));
        }
        if self.remaps.is_empty() {
            return Place { track, sector, to_gap, from_gap };
        }
        self.remapped(physical, Place { track, sector, to_gap, from_gap })
    }

    /// Where an address lies unless it was replaced: physical index, addressed sectors of its track, slips before it.
    pub(super) fn home(&self, relative: u64, heads: u64) -> (u64, u64, usize) {
        let slipped = self.slip_keys.partition_point(|key| *key <= relative);
        let (physical, used_on_track) = self.physical(relative + slipped as u64, heads);
        (physical, used_on_track, slipped)
    }

    /// Physical index of an address (slips passed over), and how many sectors of its track carry addresses.
    fn physical(&self, index: u64, heads: u64) -> (u64, u64) {
        match self.cylinder_used {
            None if self.track_used == self.track_sectors => (index, self.track_sectors),
            None => (index / self.track_used * self.track_sectors + index % self.track_used, self.track_used),
            Some(used) => {
                let within = index % used;
                let left = used - within / self.track_sectors * self.track_sectors;
                (index / used * self.track_sectors * heads + within, left.min(self.track_sectors))
            }
        }
    }

    /// Ends a run before the next replaced sector; a replaced sector is a run of one, at its replacement.
    fn remapped(&self, physical: u64, mut place: Place) -> Place {
        let next = self.remaps.partition_point(|remap| remap[0] < physical);
        match self.remaps.get(next) {
            Some(remap) if remap[0] == physical => {
                let (track, sector) = (remap[1] / self.track_sectors, remap[1] % self.track_sectors);
                return Place { track, sector, to_gap: 1, from_gap: 0 };
            }
            Some(remap) => place.to_gap = place.to_gap.min(remap[0] - physical),
            None => {}
        }
        if let Some(before) = next.checked_sub(1) {
            place.from_gap = place.from_gap.min(physical - self.remaps[before][0] - 1);
        }
        place
    }

    /// The inverse of [`place`](Self::place).
    pub(super) fn relative_at(&self, track: u64, sector: u64, heads: u64) -> Option<u64> {
        let physical = track * self.track_sectors + sector;
        if let Some(remap) = self.remaps.iter().find(|remap| remap[1] == physical) {
            return self.plain_relative(remap[0], heads);
        }
        if self.remaps.binary_search_by_key(&physical, |remap| remap[0]).is_ok() {
            return None;
        }
        self.plain_relative(physical, heads)
    }

    /// The address at a physical index, remaps left aside.
    pub(super) fn plain_relative(&self, physical: u64, heads: u64) -> Option<u64> {
        let index = match self.cylinder_used {
            None => {
                let (track, sector) = (physical / self.track_sectors, physical % self.track_sectors);
                (sector < self.track_used).then_some(track * self.track_used + sector)?
            }
            Some(used) => {
                let cylinder = self.track_sectors * heads;
                (physical % cylinder < used).then_some(physical / cylinder * used + physical % cylinder)?
            }
        };
        let slipped = self.slips_until(index);
        if slipped > 0 && self.slip_keys[slipped - 1] + slipped as u64 - 1 == index {
            return None;
        }
        let relative = index - slipped as u64;
        (relative < self.lbas).then_some(relative)
    }

    /// How many slipped sectors lie at or before a physical index.
    fn slips_until(&self, index: u64) -> usize {
        let (mut low, mut high) = (0, self.slip_keys.len());
        while low < high {
            let middle = (low + high) / 2;
            if self.slip_keys[middle] + middle as u64 <= index { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The first address that lies after the zone's `track`-th track.
    pub(super) fn first_relative_after(&self, track: u64, heads: u64) -> u64 {
        let index = match self.cylinder_used {
            None => (track + 1) * self.track_used,
            Some(used) => {
                let (cylinder, step) = (track / heads, track % heads);
                cylinder * used + ((step + 1) * self.track_sectors).min(used)
            }
        };
        let slipped = self.slips_until(index.saturating_sub(1)) as u64;
        (index - slipped).min(self.lbas)
    }
}
