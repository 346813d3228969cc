//! Layout fields: zones, spares and defects.
//!
//! | sparing scheme | spares | translation |
//! |---|---|---|
//! | 0 | none | `spares = 0` |
//! | 1 | whole tracks at each zone's end; slips and defects are tracks as well | `per zone`, times the track |
//! | 2 | sectors at each cylinder's end | `per cylinder` |
//! | 3 | sectors at each track's end | `per track` |
//! | 7 | sectors at the drive's end: those beyond the block count | `spares = 0` |
//! | 8 | sectors at the end of each range of cylinders | `per cylinder`, with `spares_range` |
//! | 9 | sectors at each zone's end | `per zone` |

use sakiyomi_model::Bytes;

use super::fields::{FieldValue, Kind, LayoutFields, ModelFields, ZoneFields};
use super::syntax::{Fault, Value};
use crate::spec::{GeometrySpec, Layout, SparesPer, ZoneSpec};

/// Sparing scheme with spares outside the zones.
pub(super) const DISK_SPARING_SCHEME: u32 = 7;

/// Exceeds the sectors of any track; bounds the expansion of a list of tracks.
const TRACK_MAX_SECTORS: u32 = 100_000;
/// Maximum number of sectors that a list of tracks may expand to.
const LIST_MAX_SECTORS: u64 = 10_000_000;

/// Translates the zones, not yet limited by the block count.
pub(super) fn geometry(
    model: &ModelFields,
    layout: &LayoutFields,
    warnings: &mut Vec<String>,
) -> Result<GeometrySpec, Fault> {
    let mut zones: Vec<ZoneSpec> = Vec::new();
    let mut next = 0;
    for value in &layout.zones.value {
        let Value::Block(block) = value else {
            let problem = format!("Zones: {}; expected a block `dm_layout_g1_zone`", value.describe());
            return Err(Fault::new(value.line(), problem));
        };
        let fields = ZoneFields::read(block, warnings)?;
        if fields.first.value < next {
            let before = format!("lies inside the previous zone, which extends to cylinder {}", next - 1);
            return Err(fields.first.fault(format!("cylinder {} {before}", fields.first.value)));
        }
        zones.push(zone(&fields, layout, warnings)?);
        next = fields.last.value.saturating_add(1);
    }
    if zones.is_empty() {
        return Err(layout.zones.fault("no zones; a drive has at least one"));
    }
    if next > model.cylinders.value {
        warnings.push(
            model
                .cylinders
                .warning(format!("the zones extend to cylinder {}; the zones are taken", next - 1)),
        );
    }
    Ok(GeometrySpec {
        sector: Bytes(512),
        physical_sector: None,
        heads: model.surfaces.value,
        layout: order(layout, &zones)?,
        sectors: None,
        zones,
    })
}

/// Translates the order of tracks.
fn order(layout: &LayoutFields, zones: &[ZoneSpec]) -> Result<Layout, Fault> {
    let even = zones.iter().all(|zone| zone.first_cylinder.is_some_and(|first| first % 2 == 0));
    match layout.mapping.value {
        0 => Ok(Layout::Cylinder),
        1 => Ok(Layout::Zigzag),
        // The order of heads alternates over the cylinders of the drive: equal to scheme 1 if zones begin at even
        // cylinders.
        2 if even => Ok(Layout::Zigzag),
        2 => Err(layout.mapping.fault("2 with zones that begin at odd cylinders is not modeled; use 0 or 1")),
        other => Err(layout.mapping.fault(format!("{other} is not a scheme; expected 0, 1 or 2"))),
    }
}

fn zone(fields: &ZoneFields, layout: &LayoutFields, warnings: &mut Vec<String>) -> Result<ZoneSpec, Fault> {
    let (first, last, track) = (fields.first.value, fields.last.value, fields.track.value);
    if last < first || last == u32::MAX {
        return Err(fields
            .last
            .fault(format!("{last}; expected no less than First cylinder number = {first}")));
    }
    if !(1..=TRACK_MAX_SECTORS).contains(&track) {
        return Err(fields.track.fault(format!("{track} sectors; expected 1 to {TRACK_MAX_SECTORS}")));
    }
    let mut spares_range = 1;
    let (mut spares, spares_per) = (
        fields.spares.value,
        match layout.sparing.value {
            0 | 1 | 9 | DISK_SPARING_SCHEME => SparesPer::Zone,
            2 => SparesPer::Cylinder,
            3 => SparesPer::Track,
            8 => {
                spares_range = layout.range.value;
                SparesPer::Cylinder
            }
            other => {
                return Err(layout
                    .sparing
                    .fault(format!("{other} is not modeled; 0, 1, 2, 3, 7, 8 and 9 are")));
            }
        },
    );
    let mut per_entry = 1;
    match layout.sparing.value {
        0 | DISK_SPARING_SCHEME if spares > 0 => {
            warnings.push(fields.spares.warning(format!(
                "no spares in the zone; Sparing scheme used = {} has none there",
                layout.sparing.value
            )));
            spares = 0;
        }
        1 => {
            per_entry = u64::from(track);
            spares = spares
                .checked_mul(track)
                .ok_or_else(|| fields.spares.fault("more tracks than a zone has"))?;
        }
        _ => {}
    }
    Ok(ZoneSpec {
        first_cylinder: Some(first),
        cylinders: last - first + 1,
        sectors_per_track: track,
        track_skew: Some(fields.track_skew.value),
        cylinder_skew: Some(fields.cylinder_skew.value),
        offset: fields.offset.value,
        reserved_front: fields.reserved.value,
        spares,
        spares_per,
        spares_range,
        slips: slips(&fields.slips, per_entry, fields.reserved.value)?,
        remaps: remaps(&fields.defects, per_entry)?,
    })
}

/// Returns the slipped sectors, ascending; an entry is a sector, or a track of `per_entry` sectors.
fn slips(given: &FieldValue<Vec<u64>>, per_entry: u64, reserved: u64) -> Result<Vec<u64>, Fault> {
    let mut entries = given.value.clone();
    entries.sort_unstable();
    if let Some(twice) = entries.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(given.fault(format!("{} is listed twice; leave one of the two", twice[0])));
    }
    if let Some(early) = entries.iter().find(|entry| entry.saturating_mul(per_entry) < reserved) {
        return Err(given.fault(format!(
            "{early} lies within the {reserved} sectors of empty space at the zone's front, which no address passes"
        )));
    }
    spread(given, &entries, per_entry)
}

/// Returns the pairs of defective and replacing sectors, ascending.
fn remaps(given: &FieldValue<Vec<Value>>, per_entry: u64) -> Result<Vec<[u64; 2]>, Fault> {
    let mut flat: Vec<u64> = Vec::new();
    for value in &given.value {
        match value {
            Value::List(..) => flat.extend(Vec::<u64>::read(value)?),
            other => flat.push(u64::read(other)?),
        }
    }
    if !flat.len().is_multiple_of(2) {
        return Err(
            given.fault("an odd number of sectors; expected pairs, the bad one and the one in its place")
        );
    }
    let of = |side: usize| -> Vec<u64> { flat.iter().skip(side).step_by(2).copied().collect() };
    let (from, to) = (spread(given, &of(0), per_entry)?, spread(given, &of(1), per_entry)?);
    let mut remaps: Vec<[u64; 2]> = from.into_iter().zip(to).map(|(from, to)| [from, to]).collect();
    remaps.sort_unstable();
    Ok(remaps)
}

/// Expands entries into sectors, `per_entry` for each.
fn spread<T>(given: &FieldValue<T>, entries: &[u64], per_entry: u64) -> Result<Vec<u64>, Fault> {
    if entries.len() as u64 * per_entry > LIST_MAX_SECTORS || entries.iter().any(|entry| *entry > 1 << 40) {
        return Err(given.fault("more or larger entries than any zone has"));
    }
    Ok(entries.iter().flat_map(|entry| entry * per_entry..(entry + 1) * per_entry).collect())
}
