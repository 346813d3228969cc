//! Where a sector lies: LBA ↔ (cylinder, head, sector, angle).
//!
//! Angles are times: the nanoseconds from the index mark until the place passes under the head, below one revolution.
//! A sector's edge is always `floor(edge number × revolution / sectors on the track)` after its track's own angle, so
//! that a transfer that goes on where another ended waits for nothing, at any speed and any number of sectors.
//!
//! Within a zone all is arithmetic; the zone is found by binary search, slips and remaps likewise.

mod zone;

use sakiyomi_model::{Bytes, Lba, Nanos, Sectors};

use crate::spec::{GeometrySpec, Layout, ServoSpec};
use zone::{SKEW_PER_SECTOR, Zone};

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
        let place = zone.place(relative);
        let sectors = place.to_gap.min(self.capacity - lba.0).min(limit.max(1));
        let (cylinder, head, skew) = self.track(zone, place.track);
        let track_angle = skew % (zone.track_sectors * SKEW_PER_SECTOR) * self.revolution
            / (zone.track_sectors * SKEW_PER_SECTOR);
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
        let relative = zone.relative_at(track, u64::from(sector))?;
        let lba = zone.first_lba + relative;
        (lba < self.capacity).then_some(Lba(lba))
    }

    /// Whether a physical sector of a zone carries an address, remaps left aside.
    pub(crate) fn is_addressed(&self, zone: usize, physical: u64) -> bool {
        self.zones[zone].plain_relative(physical).is_some()
    }

    /// The end of the track, or of the cylinder, that holds `lba`: the first address after it. A replaced sector counts
    /// where it would lie.
    #[must_use]
    pub fn end_of(&self, lba: Lba, cylinder: bool) -> Lba {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_lba <= lba.0) - 1];
        let heads = u64::from(self.heads);
        let track = zone.home(lba.0 - zone.first_lba).physical / zone.track_sectors;
        // Under a serpentine layout a cylinder's tracks are not neighbours in address order: its end is the track's.
        let last = if cylinder && self.layout != Layout::Serpentine {
            track / heads * heads + heads - 1
        } else {
            track
        };
        Lba((zone.first_lba + zone.first_relative_after(last)).min(self.capacity))
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
