//! Where a sector lies: LBA ↔ (cylinder, head, sector, angle).
//!
//! Angles are times: the nanoseconds from the index mark until the place passes under the head, below one revolution.
//! A sector's edge is always `floor(edge number × revolution / sectors on the track)` after its track's own angle, so
//! that a transfer that goes on where another ended waits for nothing, at any speed and any number of sectors.
//!
//! Within a zone all is arithmetic; the zone is found by binary search, slips and remaps likewise.

use sakiyomi_model::{Bytes, Lba, Nanos, Sectors};

use crate::spec::{GeometrySpec, Layout, ServoSpec, SparesPer, ZoneSpec};

/// Skews are kept in thousandths of a sector.
const MILLI: u64 = 1000;

/// The whole drive's layout.
#[derive(Clone, Debug)]
pub struct Geometry {
    sector: Bytes,
    heads: u32,
    cylinders: u32,
    layout: Layout,
    revolution: u64,
    capacity: u64,
    zones: Vec<Zone>,
}

/// Cylinders with equally many sectors on a track, ready for arithmetic.
#[derive(Clone, Debug)]
struct Zone {
    first_lba: u64,
    lbas: u64,
    first_cylinder: u32,
    cylinders: u32,
    track_sectors: u64,
    /// Sectors of a track that carry addresses (fewer than all where spares lie on each track).
    track_used: u64,
    /// The same for a cylinder, where spares lie on each cylinder.
    cylinder_used: Option<u64>,
    track_skew: u64,
    cylinder_skew: u64,
    offset: u64,
    /// Physical index of each slipped sector, less the slips before it: comparable with unslipped addresses.
    slip_keys: Vec<u64>,
    remaps: Vec<[u64; 2]>,
}

/// A place on the medium, and how far it goes on without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first sector's address.
    pub lba: Lba,
    /// How many sectors lie one behind the other on this track, in address order.
    pub sectors: u32,
    /// The cylinder.
    pub cylinder: u32,
    /// The head.
    pub head: u32,
    /// The first sector's number on the track.
    pub first: u32,
    /// Sectors on the track.
    pub track_sectors: u32,
    /// Angle of the track's sector 0.
    pub track_angle: Nanos,
    /// Angle of the first sector.
    pub angle: Nanos,
    /// How many sectors before the first one lie on the track without a gap, in address order.
    pub before: u32,
}

impl Geometry {
    /// Builds the layout of a drive that was checked.
    #[must_use]
    pub fn new(spec: &GeometrySpec, servo: &ServoSpec) -> Geometry {
        let revolution = revolution(servo.rpm).0;
        let mut zones: Vec<Zone> = Vec::with_capacity(spec.zones.len());
        let mut next = (0u64, 0u32);
        for zone in &spec.zones {
            let zone = Zone::new(zone, spec, next, revolution, servo);
            next = (next.0 + zone.lbas, zone.first_cylinder + zone.cylinders);
            zones.push(zone);
        }
        let capacity = spec.sectors.unwrap_or(next.0).min(next.0);
        Geometry {
            sector: spec.sector,
            heads: spec.heads,
            cylinders: next.1,
            layout: spec.layout,
            revolution,
            capacity,
            zones,
        }
    }

    /// Addressable sectors.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        Sectors(self.capacity)
    }

    /// Bytes in a sector.
    #[must_use]
    pub fn sector(&self) -> Bytes {
        self.sector
    }

    /// Cylinders, from the first zone's start to the last one's end.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// One turn of the platters.
    #[must_use]
    pub fn revolution(&self) -> Nanos {
        Nanos(self.revolution)
    }

    /// The place of `lba`, and how many sectors follow it on the same track without a gap, at most `limit`.
    ///
    /// # Panics
    /// If `lba` is not below the capacity: addresses are checked where a request comes in.
    #[must_use]
    pub fn run(&self, lba: Lba, limit: u64) -> Run {
        assert!(lba.0 < self.capacity, "{lba} is beyond the drive's end");
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_lba <= lba.0) - 1];
        let relative = lba.0 - zone.first_lba;
        let place = zone.place(relative, u64::from(self.heads));
        let sectors = place.to_gap.min(self.capacity - lba.0).min(limit.max(1));
        let (cylinder, head, skew) = self.track(zone, place.track);
        let track_angle =
            skew % (zone.track_sectors * MILLI) * self.revolution / (zone.track_sectors * MILLI);
        let angle = track_angle + place.sector * self.revolution / zone.track_sectors;
        Run {
            lba,
            sectors: sectors as u32,
            cylinder,
            head,
            first: place.sector as u32,
            track_sectors: zone.track_sectors as u32,
            track_angle: Nanos(track_angle),
            angle: Nanos(if angle >= self.revolution { angle - self.revolution } else { angle }),
            before: place.from_gap as u32,
        }
    }

    /// The address at a place; `None` on a spare, a slipped or a replaced sector, and outside the zones.
    #[must_use]
    pub fn lba_at(&self, cylinder: u32, head: u32, sector: u32) -> Option<Lba> {
        let after = self.zones.partition_point(|zone| zone.first_cylinder <= cylinder);
        let zone = &self.zones[after.checked_sub(1)?];
        let within = u64::from(cylinder - zone.first_cylinder);
        if within >= u64::from(zone.cylinders)
            || head >= self.heads
            || u64::from(sector) >= zone.track_sectors
        {
            return None;
        }
        let (heads, head) = (u64::from(self.heads), u64::from(head));
        let track = match self.layout {
            Layout::Cylinder => within * heads + head,
            Layout::Zigzag if within % 2 == 1 => within * heads + (heads - 1 - head),
            Layout::Zigzag => within * heads + head,
            Layout::Serpentine if head % 2 == 1 => {
                head * u64::from(zone.cylinders) + (u64::from(zone.cylinders) - 1 - within)
            }
            Layout::Serpentine => head * u64::from(zone.cylinders) + within,
        };
        let relative = zone.relative_at(track, u64::from(sector), heads)?;
        let lba = zone.first_lba + relative;
        (lba < self.capacity).then_some(Lba(lba))
    }

    /// Whether a physical sector of a zone carries an address, remaps left aside.
    pub(crate) fn is_addressed(&self, zone: usize, physical: u64) -> bool {
        self.zones[zone].plain_relative(physical, u64::from(self.heads)).is_some()
    }

    /// The end of the track, or of the cylinder, that holds `lba`: the first address after it. A replaced sector counts
    /// where it would lie.
    #[must_use]
    pub fn end_of(&self, lba: Lba, cylinder: bool) -> Lba {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_lba <= lba.0) - 1];
        let heads = u64::from(self.heads);
        let track = zone.home(lba.0 - zone.first_lba, heads).0 / zone.track_sectors;
        // Under a serpentine layout a cylinder's tracks are not neighbours in address order: its end is the track's.
        let last = if cylinder && self.layout != Layout::Serpentine {
            track / heads * heads + heads - 1
        } else {
            track
        };
        Lba((zone.first_lba + zone.first_relative_after(last, heads)).min(self.capacity))
    }

    /// Cylinder, head and accumulated skew (in thousandths of a sector) of a zone's `track`-th track.
    fn track(&self, zone: &Zone, track: u64) -> (u32, u32, u64) {
        let (heads, cylinders) = (u64::from(self.heads), u64::from(zone.cylinders));
        let (cylinder, head, skew) = if self.layout == Layout::Serpentine {
            let (head, step) = (track / cylinders, track % cylinders);
            let skew =
                head * ((cylinders - 1) * zone.cylinder_skew + zone.track_skew) + step * zone.cylinder_skew;
            (if head % 2 == 1 { cylinders - 1 - step } else { step }, head, skew)
        } else {
            let (cylinder, step) = (track / heads, track % heads);
            let skew =
                cylinder * ((heads - 1) * zone.track_skew + zone.cylinder_skew) + step * zone.track_skew;
            let turned = self.layout == Layout::Zigzag && cylinder % 2 == 1;
            (cylinder, if turned { heads - 1 - step } else { step }, skew)
        };
        (zone.first_cylinder + cylinder as u32, head as u32, skew + zone.offset)
    }
}

/// One turn at `rpm`, to the nanosecond.
pub(crate) fn revolution(rpm: f64) -> Nanos {
    Nanos::from_secs_f64(60.0 / rpm)
}

/// A place within a zone.
struct Place {
    track: u64,
    sector: u64,
    to_gap: u64,
    from_gap: u64,
}

impl Zone {
    fn new(
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
    fn place(&self, relative: u64, heads: u64) -> Place {
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
    fn home(&self, relative: u64, heads: u64) -> (u64, u64, usize) {
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
    fn relative_at(&self, track: u64, sector: u64, heads: u64) -> Option<u64> {
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
    fn plain_relative(&self, physical: u64, heads: u64) -> Option<u64> {
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
    fn first_relative_after(&self, track: u64, heads: u64) -> u64 {
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

impl Run {
    /// Time from the first sector's leading edge to the trailing edge of the `count`-th sector.
    #[must_use]
    pub fn passing(&self, count: u32, revolution: Nanos) -> Nanos {
        let edge = |n: u32| u64::from(n) * revolution.0 / u64::from(self.track_sectors);
        Nanos(edge(self.first + count) - edge(self.first))
    }

    /// How many sectors have wholly passed `elapsed` after the first one's leading edge.
    #[must_use]
    pub fn passed(&self, elapsed: Nanos, revolution: Nanos) -> u32 {
        let guess = elapsed.0 * u64::from(self.track_sectors) / revolution.0;
        let mut count = guess.min(u64::from(self.sectors)) as u32;
        while count < self.sectors && self.passing(count + 1, revolution) <= elapsed {
            count += 1;
        }
        while count > 0 && self.passing(count, revolution) > elapsed {
            count -= 1;
        }
        count
    }
}
