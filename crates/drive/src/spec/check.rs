//! Validation of a drive. Every assumption of the model about the parameters is checked here, once.

use sakiyomi_model::suggest::did_you_mean;
use sakiyomi_model::{Bytes, Nanos};

use crate::geometry::Geometry;
use crate::seek;

use super::{
    DriveSpec, GeometrySpec, Layout, Overhead, PreviousCommand, SeekSpec, SegmentMode, SparesPer, WriteShare,
    ZoneSpec,
};

/// Reasons why a drive cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The text is not TOML or not a drive, or a value does not fit its key. The message states the place, with the
    /// line in a file.
    #[error("{0}")]
    Malformed(String),
    /// Unknown key.
    #[error("no setting is called `{key}`{} `sakiyomi drive show NAME --explain` lists them all", question(.similar))]
    UnknownKey {
        /// Key given.
        key: String,
        /// Similar keys.
        similar: Vec<String>,
    },
    /// A parameter that is out of range or contradicts another.
    #[error("{drive}: {key}: {problem}")]
    Impossible {
        /// Name of the drive, or its file.
        drive: String,
        /// Key.
        key: String,
        /// The fault, and the accepted values.
        problem: String,
    },
    /// Unknown built-in drive.
    #[error(
        "no built-in drive is called `{name}`{} `sakiyomi drive list` shows them, and a path ending in .toml, .diskspecs or .parv reads a file", question(.similar)
    )]
    UnknownDrive {
        /// Name given.
        name: String,
        /// Similar names.
        similar: Vec<String>,
    },
}

/// Returns the text between an unknown name and the list of known names.
fn question(similar: &[String]) -> String {
    match did_you_mean(similar) {
        none if none.is_empty() => ";".to_owned(),
        question => question,
    }
}

/// Exceeds any drive. Keeps every product of angles and addresses within 64 bits.
const MAX_SECTORS_PER_TRACK: u32 = 100_000;
/// Exceeds any drive; the same bound.
const MAX_CYLINDERS: u32 = 10_000_000;
/// Exceeds any drive; the same bound.
const MAX_HEADS: u32 = 256;
/// Each remembered range takes about 100 bytes of memory.
const MAX_GHOSTS: u32 = 1 << 20;
/// Longer times indicate a wrong unit, and would overflow the 32-bit times of the inner loops.
const MAX_MECHANICAL: Nanos = Nanos(1_000_000_000);

/// Stops at the first failed condition.
struct Check<'a> {
    drive: &'a str,
}

impl Check<'_> {
    fn that(&self, holds: bool, key: &str, problem: impl FnOnce() -> String) -> Result<(), SpecError> {
        if holds {
            return Ok(());
        }
        Err(SpecError::Impossible { drive: self.drive.to_owned(), key: key.to_owned(), problem: problem() })
    }

    fn mechanical(&self, time: Nanos, key: &str) -> Result<(), SpecError> {
        self.that(time <= MAX_MECHANICAL, key, || format!("{time} is longer than a second; check the unit"))
    }
}

impl DriveSpec {
    /// Checks that the parameters are possible and consistent.
    ///
    /// # Errors
    /// [`SpecError::Impossible`] with the first key that is not.
    pub fn check(&self) -> Result<(), SpecError> {
        let check = Check { drive: &self.name };
        let named = !self.name.trim().is_empty() && !self.name.contains(char::is_control);
        Check { drive: "the drive" }
            .that(named, "name", || "it is empty, or more than a line; give maker and model".to_owned())?;
        check_geometry(&check, &self.geometry)?;
        self.check_servo(&check)?;
        self.check_capacity(&check)?;
        self.check_remaps(&check)?;
        self.check_queue(&check)?;
        self.check_cache(&check)?;
        self.check_interface(&check)?;
        self.check_smr(&check)?;
        let fault = self.array.as_ref().and_then(|array| array.fault(self.geometry.sector));
        fault.map_or(Ok(()), |(key, problem)| check.that(false, key, || problem))
    }

    fn check_smr(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let Some(smr) = &self.smr else { return Ok(()) };
        let sector = self.geometry.sector.0;
        let half = Geometry::new(&self.geometry, &self.servo).capacity().0 * sector / 2;
        let sizes = [("smr.band", smr.band), ("smr.media_cache", smr.media_cache)];
        sizes.into_iter().try_for_each(|(key, size)| {
            check.that(size.0 >= sector && size.0 <= half && size.0.is_multiple_of(sector), key, || {
                format!("{size}; expected whole sectors, up to half the drive's {}", Bytes(2 * half))
            })
        })
    }

    fn check_servo(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let servo = &self.servo;
        check.that((100.0..=100_000.0).contains(&servo.rpm), "servo.rpm", || {
            format!("{} revolutions per minute; expected 100 to 100000", servo.rpm)
        })?;
        check.mechanical(servo.head_switch, "servo.head_switch")?;
        check.mechanical(Nanos(servo.write_settle.0.unsigned_abs()), "servo.write_settle")?;
        check.that((0.0..=1.0).contains(&servo.lost_turns), "servo.lost_turns", || {
            format!("{}; expected a share, 0 to 1", servo.lost_turns)
        })?;
        check_seek(check, &servo.seek, "servo.seek")?;
        servo.seek_write.as_ref().map_or(Ok(()), |seek| check_seek(check, seek, "servo.seek_write"))?;
        self.check_longest_seeks(check)?;
        self.check_settling(check)
    }

    /// Checks the longest seek: a curve is evaluated over the whole stroke, beyond the points given.
    fn check_longest_seeks(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let cylinders = self.geometry.cylinders();
        let curves =
            [("servo.seek", Some(&self.servo.seek)), ("servo.seek_write", self.servo.seek_write.as_ref())];
        let longest = cylinders.saturating_sub(1);
        for (key, curve) in
            curves.into_iter().filter_map(|(key, curve)| Some((key, curve?))).filter(|_| longest > 0)
        {
            let time = seek::time(curve, cylinders, longest);
            check.that(time <= MAX_MECHANICAL, key, || {
                format!("over {longest} cylinders it comes to {time}, longer than a second; check the units and the curve's slope")
            })?;
        }
        Ok(())
    }

    /// Checks the settling time of a write: `write_settle` is relative to reads and may be negative, the sum may not.
    fn check_settling(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let (servo, settle) = (&self.servo, self.servo.write_settle.0);
        let curve = servo.seek_write.as_ref().unwrap_or(&servo.seek);
        let cylinders = self.geometry.cylinders();
        let seek = (cylinders > 1).then(|| seek::time(curve, cylinders, 1));
        let switch = (self.geometry.heads > 1).then_some(servo.head_switch);
        let shortest = [seek, switch].into_iter().flatten().min().unwrap_or_default();
        let possible = settle >= 0 || settle.unsigned_abs() <= shortest.0;
        check.that(possible, "servo.write_settle", || {
            format!(
                "-{}: a write would be settled before its arm has moved; it is added to seeks and head switches, the \
                 shortest of which takes {shortest}: expected -{shortest} or more",
                Nanos(settle.unsigned_abs())
            )
        })
    }

    /// Rejects a changed sector size with unchanged sectors per track: it would change the recording density and the
    /// capacity, which is hardly intended.
    pub(super) fn check_recording_density(&self, changed: &DriveSpec) -> Result<(), SpecError> {
        let (before, after) = (&self.geometry, &changed.geometry);
        let mut zones = before.zones.iter().zip(&after.zones);
        let kept = zones.any(|(before, after)| before.sectors_per_track == after.sectors_per_track);
        Check { drive: &changed.name }.that(before.sector == after.sector || !kept, "geometry.sector", || {
            format!(
                "{} instead of {} with as many sectors on a track makes a drive of {:.3} GB instead of {:.3} GB; set \
                 geometry.zones.N.sectors_per_track of all its zones as well, or change both in a file (`sakiyomi drive \
                 show NAME > mine.toml`)",
                after.sector,
                before.sector,
                capacity_bytes(changed) as f64 / 1e9,
                capacity_bytes(self) as f64 / 1e9,
            )
        })
    }

    /// Checks `sectors`, which truncates the zones' capacity.
    fn check_capacity(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let Some(sectors) = self.geometry.sectors else { return Ok(()) };
        let whole = GeometrySpec { sectors: None, ..self.geometry.clone() };
        let most = Geometry::new(&whole, &self.servo).capacity().0;
        check.that((1..=most).contains(&sectors), "geometry.sectors", || {
            format!("{sectors}; expected 1 to {most}, what the zones hold")
        })
    }

    /// Checks that a replacement is a sector without an address of its own, used once.
    fn check_remaps(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let geometry = Geometry::new(&self.geometry, &self.servo);
        self.geometry.zones.iter().enumerate().try_for_each(|(index, zone)| {
            let taken = zone.remaps.iter().find(|remap| geometry.is_addressed(index, remap[1]));
            let key = format!("geometry.zones.{index}.remaps");
            check.that(taken.is_none(), &key, || {
                let [from, to] = taken.copied().unwrap_or_default();
                format!("[{from}, {to}]: a remap must lead to a spare sector, and {to} is not one; set spares")
            })?;
            let mut targets: Vec<u64> = zone.remaps.iter().map(|remap| remap[1]).chain(zone.slips.clone()).collect();
            targets.sort_unstable();
            let twice = targets.windows(2).find(|pair| pair[0] == pair[1]);
            check.that(twice.is_none(), &key, || {
                let to = twice.map_or(0, |pair| pair[0]);
                format!("two remaps lead to sector {to}, or it is slipped as defective; each needs a spare of its own")
            })
        })
    }

    fn check_queue(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let queue = &self.queue;
        check.that((1..=256).contains(&queue.depth), "queue.depth", || {
            format!("{} commands; expected 1 to 256", queue.depth)
        })?;
        check.that(queue.window >= 1, "queue.window", || {
            "0 commands; at least 1 must be considered".to_owned()
        })?;
        check.that((0.0..=1000.0).contains(&queue.age_weight), "queue.age_weight", || {
            format!("{}; expected 0 to 1000", queue.age_weight)
        })?;
        check.mechanical(queue.rpo_margin, "queue.rpo_margin")?;
        check.that(queue.read_preference <= Nanos(3_600_000_000_000), "queue.read_preference", || {
            format!("{} is longer than an hour", queue.read_preference)
        })
    }

    fn check_cache(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let (cache, sector) = (&self.cache, self.geometry.sector);
        let count = u64::from(cache.segments.count);
        check.that((1..=65_536).contains(&count), "cache.segments.count", || {
            format!("{count} segments; expected 1 to 65536")
        })?;
        check.that(cache.ghosts <= MAX_GHOSTS, "cache.ghosts", || {
            format!("{} ranges; expected 0 to {MAX_GHOSTS}", cache.ghosts)
        })?;
        check.that(cache.size.0 <= 1 << 40, "cache.size", || format!("{} is more than 1TiB", cache.size))?;
        let reserved = match cache.write.share {
            WriteShare::Separate if cache.write.enabled => cache.write.limit,
            _ => Bytes::ZERO,
        };
        check.that(cache.write.limit <= cache.size || !cache.write.enabled, "cache.write.limit", || {
            format!("{} does not fit cache.size = {}", cache.write.limit, cache.size)
        })?;
        let for_reads = cache.size.saturating_sub(reserved);
        let smallest = if cache.segments.mode == SegmentMode::Fixed { count } else { 1 };
        check.that(for_reads.0 / smallest >= sector.0, "cache.segments.count", || {
            format!(
                "{count} segments in {for_reads} leave less than a sector of {sector} for each; use fewer"
            )
        })?;
        let read_ahead = &cache.read_ahead;
        check.that(read_ahead.min <= read_ahead.max, "cache.read_ahead.min", || {
            format!("{} is more than cache.read_ahead.max = {}", read_ahead.min, read_ahead.max)
        })?;
        self.check_write_cache(check)
    }

    fn check_write_cache(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let write = &self.cache.write;
        check.that((1..=65_536).contains(&write.window), "cache.write.window", || {
            format!("{} ranges; expected 1 to 65536", write.window)
        })?;
        let share = |x: f64| (0.0..=1.0).contains(&x);
        check.that(share(write.high_watermark), "cache.write.high_watermark", || {
            format!("{}; expected a share from 0 to 1", write.high_watermark)
        })?;
        check.that(
            share(write.low_watermark) && write.low_watermark <= write.high_watermark,
            "cache.write.low_watermark",
            || {
                format!(
                    "{}; expected a share from 0 to cache.write.high_watermark = {}",
                    write.low_watermark, write.high_watermark
                )
            },
        )?;
        check.that(write.destage_max >= self.geometry.sector, "cache.write.destage_max", || {
            format!("{} is less than a sector", write.destage_max)
        })?;
        check.that(write.limit >= self.geometry.sector || !write.enabled, "cache.write.limit", || {
            format!("{} is less than a sector; set cache.write.enabled=false instead", write.limit)
        })
    }

    fn check_interface(&self, check: &Check<'_>) -> Result<(), SpecError> {
        let interface = &self.interface;
        check.that(
            interface.link_rate >= Bytes(1000) && interface.link_rate <= Bytes(1 << 50),
            "interface.link_rate",
            || format!("{} per second; expected 1kB to 1PiB", interface.link_rate),
        )?;
        let write_rate = interface.link_rate_write.unwrap_or(interface.link_rate);
        check.that(
            write_rate >= Bytes(1000) && write_rate <= Bytes(1 << 50),
            "interface.link_rate_write",
            || format!("{write_rate} per second; expected 1kB to 1PiB"),
        )?;
        let watermark = interface.read_watermark;
        check.that((0.0..=1.0).contains(&watermark), "interface.read_watermark", || {
            format!("{watermark}; expected a share from 0 to 1")
        })?;
        let overhead = &interface.overhead;
        let completion_write = overhead.completion_write.unwrap_or(overhead.completion);
        let kinds = [
            (overhead.read_hit, "interface.overhead.read_hit"),
            (overhead.read_miss, "interface.overhead.read_miss"),
            (overhead.write_hit, "interface.overhead.write_hit"),
            (overhead.write_miss, "interface.overhead.write_miss"),
            (overhead.write_data.unwrap_or(overhead.write_miss), "interface.overhead.write_data"),
            (overhead.control, "interface.overhead.control"),
            (Overhead::Same(overhead.reconnect), "interface.overhead.reconnect"),
            (Overhead::Same(overhead.completion), "interface.overhead.completion"),
            (Overhead::Same(completion_write), "interface.overhead.completion_write"),
        ];
        let orders = [(false, false), (true, false), (false, true)];
        kinds.into_iter().try_for_each(|(time, key)| {
            orders.into_iter().try_for_each(|(write, continued)| {
                check.mechanical(time.after(PreviousCommand { write, continued }), key)
            })
        })
    }
}

/// Returns the capacity of a validated drive in bytes.
fn capacity_bytes(spec: &DriveSpec) -> u64 {
    let geometry = Geometry::new(&spec.geometry, &spec.servo);
    geometry.capacity().to_bytes(geometry.sector()).0
}

fn check_seek(check: &Check<'_>, seek: &SeekSpec, key: &str) -> Result<(), SpecError> {
    match seek {
        SeekSpec::Datasheet { track_to_track, average, full_stroke } => {
            for (time, name) in
                [(track_to_track, "track_to_track"), (average, "average"), (full_stroke, "full_stroke")]
            {
                check.mechanical(*time, &format!("{key}.{name}"))?;
            }
            check.that(track_to_track <= average && average <= full_stroke, key, || {
                format!(
                    "track_to_track = {track_to_track}, average = {average}, full_stroke = {full_stroke}; expected them ascending"
                )
            })
        }
        SeekSpec::TwoPiece { short_base, short_per_root, long_base, long_per_cylinder, first, .. } => {
            check.that(first.len() <= MAX_CYLINDERS as usize, key, || {
                format!("first lists more than {MAX_CYLINDERS} times")
            })?;
            let constants = [
                (short_base, "short_base"),
                (short_per_root, "short_per_root"),
                (long_base, "long_base"),
                (long_per_cylinder, "long_per_cylinder"),
            ];
            let first = first.iter().map(|time| (time, "first"));
            constants
                .into_iter()
                .chain(first)
                .try_for_each(|(time, name)| check.mechanical(*time, &format!("{key}.{name}")))
        }
        SeekSpec::Table { points } => {
            check.that(!points.is_empty(), key, || {
                "a table without points; give at least one point".to_owned()
            })?;
            check.that(points.windows(2).all(|pair| pair[0].0 < pair[1].0), key, || {
                "the points are not in ascending order of distance".to_owned()
            })?;
            points.iter().try_for_each(|point| check.mechanical(point.1, &format!("{key}.points")))
        }
    }
}

fn check_geometry(check: &Check<'_>, geometry: &GeometrySpec) -> Result<(), SpecError> {
    let sector = geometry.sector.0;
    check.that(sector.is_power_of_two() && (256..=4096).contains(&sector), "geometry.sector", || {
        format!("{sector} bytes; expected 256, 512, 1024, 2048 or 4096")
    })?;
    let physical = geometry.physical_sector.unwrap_or(geometry.sector);
    let fits = physical.0.is_power_of_two() && (sector..=64 << 10).contains(&physical.0);
    check.that(fits, "geometry.physical_sector", || {
        format!("{physical}; expected a power of two, from the {} of a sector to 64KiB", geometry.sector)
    })?;
    check.that((1..=MAX_HEADS).contains(&geometry.heads), "geometry.heads", || {
        format!("{} heads; expected 1 to {MAX_HEADS}", geometry.heads)
    })?;
    check.that(!geometry.zones.is_empty(), "geometry.zones", || "no zones; give at least one".to_owned())?;
    check.that(geometry.zones.len() <= 10_000, "geometry.zones", || "more than 10000 zones".to_owned())?;
    let cylinder_spares =
        geometry.zones.iter().position(|zone| zone.spares_per == SparesPer::Cylinder && zone.spares > 0);
    check.that(geometry.layout != Layout::Serpentine || cylinder_spares.is_none(), "geometry.layout", || {
        "in a serpentine layout, the tracks of a cylinder are not adjacent; set spares_per to \"track\" or \"zone\"".to_owned()
    })?;
    let mut next = 0u32;
    for (index, zone) in geometry.zones.iter().enumerate() {
        next = check_zone(check, &format!("geometry.zones.{index}"), zone, geometry.heads, next)?;
    }
    Ok(())
}

/// Checks a zone and returns the cylinder after it.
fn check_zone(
    check: &Check<'_>,
    key: &str,
    zone: &ZoneSpec,
    heads: u32,
    next: u32,
) -> Result<u32, SpecError> {
    let first = zone.first_cylinder.unwrap_or(next);
    check.that(first >= next, key, || {
        format!("first_cylinder = {first} lies inside the zone before, which ends at cylinder {next}")
    })?;
    check.that(zone.cylinders >= 1, key, || "cylinders = 0; expected at least 1".to_owned())?;
    let end = u64::from(first) + u64::from(zone.cylinders);
    check.that(end <= u64::from(MAX_CYLINDERS), key, || {
        format!("it ends at cylinder {end}; at most {MAX_CYLINDERS} are supported")
    })?;
    check.that((1..=MAX_SECTORS_PER_TRACK).contains(&zone.sectors_per_track), key, || {
        format!("sectors_per_track = {}; expected 1 to {MAX_SECTORS_PER_TRACK}", zone.sectors_per_track)
    })?;
    for skew in [zone.track_skew, zone.cylinder_skew, Some(zone.offset)].into_iter().flatten() {
        check.that((0.0..=f64::from(zone.sectors_per_track)).contains(&skew), key, || {
            format!(
                "a skew or offset of {skew} sectors; expected 0 to sectors_per_track = {}",
                zone.sectors_per_track
            )
        })?;
    }
    check_spares(check, key, zone, heads)?;
    Ok(end as u32)
}

fn check_spares(check: &Check<'_>, key: &str, zone: &ZoneSpec, heads: u32) -> Result<(), SpecError> {
    let track = u64::from(zone.sectors_per_track);
    let zone_sectors = track * u64::from(heads) * u64::from(zone.cylinders);
    let range = u64::from(zone.spares_range);
    check.that(range == 1 || (range > 1 && zone.spares_per == SparesPer::Cylinder), key, || {
        format!("spares_range = {range}; expected 1, or more with spares_per = \"cylinder\"")
    })?;
    let unit = match zone.spares_per {
        SparesPer::Zone => zone_sectors,
        SparesPer::Cylinder => track * u64::from(heads) * range,
        SparesPer::Track => track,
    };
    // The last unit of a zone may be shorter.
    let smallest = if zone_sectors % unit == 0 { unit } else { zone_sectors % unit };
    check.that(u64::from(zone.spares) < smallest, key, || {
        format!("spares = {} leave nothing of the {smallest} sectors they are taken from", zone.spares)
    })?;
    check.that(zone.slips.windows(2).all(|pair| pair[0] < pair[1]), key, || {
        "slips are not in ascending order, or one is listed twice".to_owned()
    })?;
    check.that(zone.slips.last().is_none_or(|slip| *slip < zone_sectors), key, || {
        format!("a slip lies beyond the zone's {zone_sectors} sectors")
    })?;
    let crowded =
        zone.slips.chunk_by(|a, b| a / unit == b / unit).find(|slips| slips.len() > zone.spares as usize);
    check.that(zone.spares_per == SparesPer::Zone || crowded.is_none(), key, || {
        let (at, count) = crowded.map_or((0, 0), |slips| (slips[0] / unit, slips.len()));
        format!(
            "{count} slips within the {unit} sectors from {} on, which have spares = {}; a slip takes up a spare",
            at * unit,
            zone.spares
        )
    })?;
    let lost = (u64::from(zone.spares) * zone_sectors.div_ceil(unit)).max(zone.slips.len() as u64);
    check.that(zone.reserved_front.saturating_add(lost) < zone_sectors, key, || {
        format!(
            "reserved_front = {} and {lost} spares or slips leave nothing of the zone's {zone_sectors} sectors",
            zone.reserved_front
        )
    })?;
    let beyond = zone.remaps.iter().flatten().find(|sector| **sector >= zone_sectors);
    check
        .that(beyond.is_none(), key, || format!("a remap names a sector beyond the zone's {zone_sectors}"))?;
    check.that(zone.remaps.windows(2).all(|pair| pair[0][0] < pair[1][0]), key, || {
        "remaps are not in ascending order of the defective sector, or one is listed twice".to_owned()
    })
}
