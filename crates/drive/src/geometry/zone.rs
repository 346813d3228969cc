//! A zone: addresses ↔ physical sectors, with spares, slips and remaps.
//!
//! Addresses and physical sectors are relative to the zone's start; physical sectors follow the order of tracks.

use sakiyomi_model::Nanos;

use crate::spec::{GeometrySpec, Layout, ServoSpec, SparesPer, ZoneSpec};

/// Skews are in thousandths of a sector.
pub(super) const SKEW_PER_SECTOR: u64 = 1000;

/// Cylinders with the same number of sectors per track.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) first_lba: u64,
    pub(super) lbas: u64,
    pub(super) first_cylinder: u32,
    pub(super) cylinders: u32,
    pub(super) track_sectors: u64,
    /// Physical sectors that share spares: a track, some cylinders, or the zone. The last unit may be shorter.
    unit: u64,
    /// Sectors per unit that carry addresses, reserved ones included.
    used: u64,
    /// Reserved sectors at the zone's start that would otherwise carry addresses.
    front: u64,
    pub(super) track_skew: u64,
    pub(super) cylinder_skew: u64,
    pub(super) offset: u64,
    /// Physical index of each slipped sector.
    slips: Vec<u64>,
    /// Number of addresses, reserved ones included, before each slipped sector.
    slip_keys: Vec<u64>,
    remaps: Vec<[u64; 2]>,
}

/// Original position of an address, ignoring remaps.
pub(super) struct Home {
    /// Physical index.
    pub(super) physical: u64,
    /// Addresses from this one on, inclusive, before the spares of the unit.
    left: u64,
    /// Address, counted with the reserved ones before it.
    index: u64,
    /// Slips before it in the zone.
    slipped: usize,
}

/// Position within a zone.
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
        let sectors = tracks * track;
        let (unit, lost) = match spec.spares_per {
            SparesPer::Zone => (sectors, spares.max(spec.slips.len() as u64)),
            SparesPer::Cylinder => (track * u64::from(heads) * u64::from(spec.spares_range), spares),
            SparesPer::Track => (track, spares),
        };
        let used = unit - lost;
        let rest = sectors % unit;
        let indices = sectors / unit * used + if rest > 0 { rest - lost } else { 0 };
        let passing = |time: Nanos| (time.0 * track).div_ceil(revolution) % track * SKEW_PER_SECTOR;
        // To the next cylinder's first track the arm moves, and the head changes too unless the order of heads
        // alternates.
        let same_head = drive.layout != Layout::Cylinder || heads == 1;
        let head_switch = if same_head { Nanos::ZERO } else { servo.head_switch };
        let next_cylinder = crate::seek::single_cylinder(servo).max(head_switch);
        // Tracks are skewed so that a write, too, continues without losing a revolution.
        let settle = Nanos(servo.write_settle.0.max(0) as u64);
        let milli = |skew: f64| (skew * SKEW_PER_SECTOR as f64).round() as u64;
        let (slips, slip_keys) = slips(&spec.slips, unit, used);
        let mut zone = Zone {
            first_lba: next.0,
            lbas: indices,
            first_cylinder: spec.first_cylinder.unwrap_or(next.1),
            cylinders: spec.cylinders,
            track_sectors: track,
            unit,
            used,
            front: 0,
            track_skew: spec.track_skew.map_or_else(|| passing(servo.head_switch + settle), milli),
            cylinder_skew: spec.cylinder_skew.map_or_else(|| passing(next_cylinder + settle), milli),
            offset: milli(spec.offset),
            slips,
            slip_keys,
            remaps: spec.remaps.clone(),
        };
        zone.front = zone.indices_before(spec.reserved_front);
        zone.lbas -= zone.front;
        zone
    }

    /// Returns the position of the `relative`-th address, with the sectors to and from the nearest gap on its track.
    pub(super) fn place(&self, relative: u64) -> Place {
        let home = self.home(relative);
        let (track, sector) = (home.physical / self.track_sectors, home.physical % self.track_sectors);
        let mut to_gap = (self.track_sectors - sector).min(home.left).min(self.lbas - relative);
        let mut from_gap = sector.min(relative);
        if !self.slip_keys.is_empty() {
            to_gap = self.slip_keys.get(home.slipped).map_or(to_gap, |key| to_gap.min(key - home.index));
            from_gap = home
                .slipped
                .checked_sub(1)
                .map_or(from_gap, |i| from_gap.min(home.index - self.slip_keys[i]));
        }
        let place = Place { track, sector, to_gap, from_gap };
        if self.remaps.is_empty() { place } else { self.remapped(home.physical, place) }
    }

    /// Returns the original position of an address, ignoring remaps.
    pub(super) fn home(&self, relative: u64) -> Home {
        let index = relative + self.front;
        let unit = if index < self.used { 0 } else { index / self.used };
        let first = unit * self.used;
        let slipped = self.slip_keys.partition_point(|key| *key <= index);
        let before_unit =
            if unit == 0 { 0 } else { self.slip_keys[..slipped].partition_point(|key| *key < first) };
        let physical = unit * self.unit + (index - first) + (slipped - before_unit) as u64;
        Home { physical, left: first + self.used - index, index, slipped }
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

    /// Returns the address at a position: the inverse of [`place`](Self::place).
    pub(super) fn relative_at(&self, track: u64, sector: u64) -> Option<u64> {
        let physical = track * self.track_sectors + sector;
        if let Some(remap) = self.remaps.iter().find(|remap| remap[1] == physical) {
            return self.plain_relative(remap[0]);
        }
        if self.remaps.binary_search_by_key(&physical, |remap| remap[0]).is_ok() {
            return None;
        }
        self.plain_relative(physical)
    }

    /// Returns the address at a physical sector, ignoring remaps.
    pub(super) fn plain_relative(&self, physical: u64) -> Option<u64> {
        let index = self.indices_before(physical);
        // A sector carries an address if the count increases at the next sector.
        let carries = self.indices_before(physical + 1) > index;
        let relative = index.checked_sub(self.front).filter(|_| carries)?;
        (relative < self.lbas).then_some(relative)
    }

    /// Returns the first address after the zone's `track`-th track.
    pub(super) fn first_relative_after(&self, track: u64) -> u64 {
        let index = self.indices_before((track + 1) * self.track_sectors);
        index.saturating_sub(self.front).min(self.lbas)
    }

    /// Returns the number of addresses, reserved ones included, before a physical sector.
    fn indices_before(&self, physical: u64) -> u64 {
        let (unit, within) = (physical / self.unit, physical % self.unit);
        let slipped = self.slips.partition_point(|slip| *slip < physical);
        let before_unit = self.slips[..slipped].partition_point(|slip| *slip < unit * self.unit);
        unit * self.used + (within - (slipped - before_unit) as u64).min(self.used)
    }
}

/// Returns the slips that shift addresses, and the addresses before each. A slip among a unit's spares shifts none.
fn slips(slips: &[u64], unit: u64, used: u64) -> (Vec<u64>, Vec<u64>) {
    let units = slips.chunk_by(|a, b| a / unit == b / unit);
    units
        .flat_map(|slips| slips.iter().enumerate())
        .map(|(before, slip)| (*slip, slip / unit, slip % unit - before as u64))
        .filter(|(_, _, within)| *within < used)
        .map(|(slip, of, within)| (slip, of * used + within))
        .unzip()
}
