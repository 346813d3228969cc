//! Naive geometry: the sectors of a drive as a list in address order, without arithmetic.

use sakiyomi_drive::spec::{DriveSpec, GeometrySpec, Layout, ServoSpec, SparesPer, ZoneSpec};

/// A sector with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sector {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    pub(crate) number: u64,
    pub(crate) track_sectors: u64,
    /// Angle of the track's sector 0, in nanoseconds.
    pub(crate) track_angle: u64,
    /// Angle of its leading edge, in nanoseconds.
    pub(crate) angle: u64,
    /// Time it takes to pass, in nanoseconds.
    pub(crate) width: u64,
    /// Whether it replaces a defective sector.
    pub(crate) replaced: bool,
    /// Track to which its address belongs, replaced or not, counted over the whole drive.
    pub(crate) home_track: usize,
    pub(crate) home_cylinder: u32,
}

/// All sectors of a drive that have an address.
#[derive(Clone, Debug)]
pub(crate) struct Platter {
    pub(crate) sectors: Vec<Sector>,
    pub(crate) revolution: u64,
    pub(crate) cylinders: u32,
}

impl Platter {
    pub(crate) fn new(spec: &DriveSpec) -> Platter {
        let geometry = &spec.geometry;
        let revolution = (60e9 / spec.servo.rpm).round() as u64;
        let (mut sectors, mut cylinder, mut tracks) = (Vec::new(), 0, 0);
        for zone in &geometry.zones {
            let first = zone.first_cylinder.unwrap_or(cylinder);
            let physical = physical(zone, geometry, &spec.servo, revolution, (first, tracks));
            let carries = carries_address(zone, geometry.heads);
            let replacement =
                |at: usize| zone.remaps.iter().find(|remap| remap[0] == at as u64).map(|remap| remap[1]);
            for (at, home) in physical.iter().enumerate().filter(|(at, _)| carries[*at]) {
                let Sector { home_track, home_cylinder, .. } = *home;
                sectors.push(match replacement(at) {
                    Some(to) => Sector { replaced: true, home_track, home_cylinder, ..physical[to as usize] },
                    None => *home,
                });
            }
            cylinder = first + zone.cylinders;
            tracks += (zone.cylinders * geometry.heads) as usize;
        }
        sectors.truncate(geometry.sectors.unwrap_or(u64::MAX) as usize);
        Platter { sectors, revolution, cylinders: cylinder }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// Returns whether sector `lba + 1` follows sector `lba` directly, both at their original positions.
    pub(crate) fn goes_on(&self, lba: u64) -> bool {
        let Some(next) = self.sectors.get(lba as usize + 1) else { return false };
        let this = &self.sectors[lba as usize];
        let same_track = (this.cylinder, this.head) == (next.cylinder, next.head);
        same_track && !this.replaced && !next.replaced && next.number == this.number + 1
    }
}

/// Returns all sectors of a zone, spares included, in address order.
fn physical(
    zone: &ZoneSpec,
    drive: &GeometrySpec,
    servo: &ServoSpec,
    revolution: u64,
    (first_cylinder, first_track): (u32, usize),
) -> Vec<Sector> {
    let spt = u64::from(zone.sectors_per_track);
    let (track_skew, cylinder_skew) = skews(zone, drive, servo, revolution);
    let mut skew = thousandths(zone.offset);
    let mut sectors = Vec::new();
    let tracks = tracks(zone, drive);
    for (index, &(cylinder, head)) in tracks.iter().enumerate() {
        if index > 0 {
            skew += if tracks[index - 1].0 == cylinder { track_skew } else { cylinder_skew };
        }
        let track_angle = skew % (spt * 1000) * revolution / (spt * 1000);
        let edge = |number: u64| number * revolution / spt;
        sectors.extend((0..spt).map(|number| Sector {
            cylinder: first_cylinder + cylinder,
            head,
            number,
            track_sectors: spt,
            track_angle,
            angle: (track_angle + edge(number)) % revolution,
            width: edge(number + 1) - edge(number),
            replaced: false,
            home_track: first_track + index,
            home_cylinder: first_cylinder + cylinder,
        }));
    }
    sectors
}

/// Returns (cylinder, head) of a zone's tracks, in address order.
fn tracks(zone: &ZoneSpec, drive: &GeometrySpec) -> Vec<(u32, u32)> {
    let (mut tracks, heads, cylinders) = (Vec::new(), drive.heads, zone.cylinders);
    match drive.layout {
        Layout::Cylinder => {
            for cylinder in 0..cylinders {
                tracks.extend((0..heads).map(|head| (cylinder, head)));
            }
        }
        Layout::Zigzag => {
            for cylinder in 0..cylinders {
                let turn = |head| if cylinder % 2 == 0 { head } else { heads - 1 - head };
                tracks.extend((0..heads).map(|head| (cylinder, turn(head))));
            }
        }
        Layout::Serpentine => {
            for head in 0..heads {
                let turn = |cylinder| if head % 2 == 0 { cylinder } else { cylinders - 1 - cylinder };
                tracks.extend((0..cylinders).map(|cylinder| (turn(cylinder), head)));
            }
        }
    }
    tracks
}

/// Returns track and cylinder skew in thousandths of a sector.
fn skews(zone: &ZoneSpec, drive: &GeometrySpec, servo: &ServoSpec, revolution: u64) -> (u64, u64) {
    let spt = u64::from(zone.sectors_per_track);
    // Number of sectors that begin while `time` passes.
    let passing = |time: u64| (0..).find(|n| n * revolution >= time * spt).expect("a number") % spt * 1000;
    let curves = [Some(&servo.seek), servo.seek_write.as_ref()];
    let step = curves.into_iter().flatten().map(|curve| crate::mechanism::seek_time(curve, 1)).max().unwrap();
    // Writes, too, continue without losing a revolution.
    let settle = servo.write_settle.0.max(0) as u64;
    let changes_head = drive.layout == Layout::Cylinder && drive.heads > 1;
    let next_cylinder = if changes_head { step.max(servo.head_switch.0) } else { step };
    (
        zone.track_skew.map_or_else(|| passing(servo.head_switch.0 + settle), thousandths),
        zone.cylinder_skew.map_or_else(|| passing(next_cylinder + settle), thousandths),
    )
}

fn thousandths(skew: f64) -> u64 {
    (skew * 1000.0).round() as u64
}

/// Returns for each physical sector of a zone whether it carries an address, ignoring remaps.
pub(crate) fn carries_address(zone: &ZoneSpec, heads: u32) -> Vec<bool> {
    let track = zone.sectors_per_track as usize;
    let total = track * heads as usize * zone.cylinders as usize;
    let mut carries = vec![true; total];
    zone.slips.iter().for_each(|slip| carries[*slip as usize] = false);
    let unit = match zone.spares_per {
        SparesPer::Zone => total,
        SparesPer::Cylinder => track * heads as usize * zone.spares_range as usize,
        SparesPer::Track => track,
    };
    // Slips use up spares; the remaining spares lie at the unit's end.
    for first in (0..total).step_by(unit) {
        let of_unit = first..(first + unit).min(total);
        let slips = zone.slips.iter().filter(|slip| of_unit.contains(&(**slip as usize))).count();
        let mut spares = (zone.spares as usize).saturating_sub(slips);
        for sector in carries[of_unit].iter_mut().rev() {
            if spares > 0 && *sector {
                *sector = false;
                spares -= 1;
            }
        }
    }
    carries[..zone.reserved_front as usize].fill(false);
    carries
}
