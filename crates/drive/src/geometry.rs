//! Disk geometry: LBA ↔ (cylinder, head, sector, angle).
//!
//! Angles are times: the nanoseconds from the index mark until the position passes under the head, below one
//! revolution. A sector's edge is always `floor(edge number × revolution / sectors on the track)` after its track's own
//! angle, so that a transfer that continues another has no rotational latency, at any speed and any number of sectors.
//!
//! Positions within a zone are computed; zones, slips and remaps are found by binary search.

mod zone;

use sakiyomi_model::{Bytes, Lba, Nanos, Sectors};

use crate::spec::{GeometrySpec, Layout, ServoSpec};
use zone::{SKEW_PER_SECTOR, Zone};

/// The layout of a drive.
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

/// A position on the medium, with the number of sectors that follow without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Address of the first sector.
    pub lba: Lba,
    /// Consecutive sectors on this track, in address order.
    pub sectors: u32,
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Index of the first sector on the track.
    pub first: u32,
    /// Sectors on the track.
    pub track_sectors: u32,
    /// Angle of the track's sector 0.
    pub track_angle: Nanos,
    /// Angle of the first sector.
    pub angle: Nanos,
    /// Consecutive sectors before the first one on the track, in address order.
    pub before: u32,
}

impl Geometry {
    /// Builds the layout of a validated drive.
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

    /// Returns the number of addressable sectors.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        Sectors(self.capacity)
    }

    /// Returns the sector size.
    #[must_use]
    pub fn sector(&self) -> Bytes {
        self.sector
    }

    /// Returns the number of cylinders, from the first zone's start to the last one's end.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Returns the time of one revolution.
    #[must_use]
    pub fn revolution(&self) -> Nanos {
        Nanos(self.revolution)
    }

    /// Returns the position of `lba` with the sectors that follow it on the same track without a gap, at most `limit`.
    ///
    /// # Panics
    /// If `lba` is not below the capacity: addresses are checked where a request is accepted.
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

    /// Returns the address at a position; `None` for a spare, slipped or replaced sector, and outside the zones.
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

    /// Returns whether a physical sector of a zone carries an address, ignoring remaps.
    pub(crate) fn is_addressed(&self, zone: usize, physical: u64) -> bool {
        self.zones[zone].plain_relative(physical).is_some()
    }

    /// Returns the first address after the track of `lba`, or after its cylinder. A replaced sector counts at its
    /// original position.
    #[must_use]
    pub fn end_of(&self, lba: Lba, cylinder: bool) -> Lba {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_lba <= lba.0) - 1];
        let heads = u64::from(self.heads);
        let track = zone.home(lba.0 - zone.first_lba).physical / zone.track_sectors;
        // In a serpentine layout the tracks of a cylinder are not adjacent in address order, so its end is the track's.
        let last = if cylinder && self.layout != Layout::Serpentine {
            track / heads * heads + heads - 1
        } else {
            track
        };
        Lba((zone.first_lba + zone.first_relative_after(last)).min(self.capacity))
    }

    /// Returns cylinder, head and accumulated skew (in thousandths of a sector) of the track with index `track` in a
    /// zone.
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

/// Returns the time of one revolution at `rpm`, to the nanosecond.
pub(crate) fn revolution(rpm: f64) -> Nanos {
    Nanos::from_secs_f64(60.0 / rpm)
}

impl Run {
    /// Returns the time from the first sector's leading edge to the trailing edge of the `count`-th sector.
    #[must_use]
    pub fn passing(&self, count: u32, revolution: Nanos) -> Nanos {
        let edge = |n: u32| u64::from(n) * revolution.0 / u64::from(self.track_sectors);
        Nanos(edge(self.first + count) - edge(self.first))
    }

    /// Returns the number of sectors that have passed completely `elapsed` after the first one's leading edge.
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
