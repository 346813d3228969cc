//! Import of DiskSim 4.0 parameter files (manual CMU-PDL-08-101) as a [`DriveSpec`].
//!
//! | file | content |
//! |---|---|
//! | `syntax.rs` | grammar: blocks, lists and words with their lines |
//! | `fields.rs` | all fields of all blocks, their meaning and their translation |
//! | `geometry.rs`, `mechanics.rs`, `queue.rs`, `buffer.rs`, `interface.rs` | translation of one part of the drive each |
//! | `system.rs` | the bus and the controller that the drive is attached to |
//!
//! No field is ignored silently: a field that is not modeled causes a warning, unless its value describes what the
//! simulator does anyway.

mod buffer;
mod fields;
mod geometry;
mod interface;
mod mechanics;
mod queue;
mod syntax;
mod system;

use crate::geometry::Geometry;
use fields::{DiskFields, FieldValue, LayoutFields, MechanicsFields, ModelFields};
use syntax::{Block, Fault, File, Value, Word};

use super::{DriveSpec, SpecError};

/// A drive imported from another simulator's files.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The drive.
    pub spec: DriveSpec,
    /// Messages about parameters that cannot be represented, and what the drive does instead.
    pub warnings: Vec<String>,
}

impl DriveSpec {
    /// Imports and validates a drive in DiskSim's format. `text` contains a `disksim_disk` block, or a `source`
    /// statement with the file that does; `origin` names it in errors. `system` is the `.parv` file with the drive's
    /// bus, and its name; the link parameters depend on it. `source` returns the text of a further file by the name
    /// used in `source` statements.
    ///
    /// # Errors
    /// [`SpecError::Malformed`] with the file and the line, or [`SpecError::Impossible`].
    pub fn from_disksim(
        text: &str,
        origin: &str,
        system: Option<(&str, &str)>,
        source: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Imported, SpecError> {
        let mut sources = Sources { read: source };
        let mut warnings = Vec::new();
        let file = syntax::parse(text).map_err(in_file(origin))?;
        let (disk, disk_origin) = sources.disk(&file, origin)?;
        let system = match system {
            Some((text, origin)) => Some((syntax::parse(text).map_err(in_file(origin))?, origin)),
            None => (!file.topologies.is_empty()).then_some((file, origin)),
        };
        let name = disk.name.clone().unwrap_or_else(|| stem(&disk_origin).to_owned());

        let fields = DiskFields::read(&disk, &mut warnings).map_err(in_file(&disk_origin))?;
        let (model, model_origin) = sources.block(&fields.model.value, &disk_origin)?;
        let model = ModelFields::read(&model, &mut warnings).map_err(in_file(&model_origin))?;
        let (layout, layout_origin) = sources.block(&model.layout.value, &model_origin)?;
        let layout = LayoutFields::read(&layout, &mut warnings).map_err(in_file(&layout_origin))?;
        let geometry = geometry::geometry(&model, &layout, &mut warnings).map_err(in_file(&layout_origin))?;
        let (mechanics, mechanics_origin) = sources.block(&model.mechanics.value, &model_origin)?;
        let mechanics =
            MechanicsFields::read(&mechanics, &mut warnings).map_err(in_file(&mechanics_origin))?;
        let cylinders =
            geometry.zones.last().map_or(1, |zone| zone.first_cylinder.unwrap_or(0) + zone.cylinders);
        let servo = mechanics::servo(&mechanics, cylinders, &mechanics_origin, &mut sources)?;
        let (scheduler, scheduler_origin) = sources.block(&fields.scheduler.value, &disk_origin)?;
        let queue = queue::queue(&fields, &scheduler, &mut warnings).map_err(in_file(&scheduler_origin))?;
        let longest_track = geometry.zones.iter().map(|zone| zone.sectors_per_track).max().unwrap_or(0);
        let cache =
            buffer::cache(&fields, &queue, longest_track, &mut warnings).map_err(in_file(&disk_origin))?;
        let path = match &system {
            Some((file, origin)) => Some(system::path(file, &name, &mut warnings).map_err(in_file(origin))?),
            None => None,
        };
        let interface =
            interface::interface(&fields, path.as_ref(), &mut warnings).map_err(in_file(&disk_origin))?;

        let mut spec = DriveSpec { name, geometry, servo, queue, cache, interface, smr: None, array: None };
        spec.check().map_err(|error| match error {
            SpecError::Impossible { key, problem, .. } => {
                SpecError::Impossible { drive: origin.to_owned(), key, problem }
            }
            other => other,
        })?;
        limit(&mut spec, &model.block_count, &layout, &mut warnings).map_err(in_file(&model_origin))?;
        Ok(Imported { spec, warnings })
    }
}

/// Returns the name of a file without its directory and ending.
fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// Sets the number of addressable sectors: the block count, or what the zones hold if that is less.
fn limit(
    spec: &mut DriveSpec,
    offered: &FieldValue<u64>,
    layout: &LayoutFields,
    warnings: &mut Vec<String>,
) -> Result<(), Fault> {
    let held = Geometry::new(&spec.geometry, &spec.servo).capacity().0;
    if offered.value == 0 {
        return Err(offered.fault("0 sectors; a drive has at least one"));
    }
    if offered.value > held {
        warnings.push(offered.warning(format!("the zones hold {held}; the drive has as many sectors")));
    }
    let count = offered.value.min(held);
    let beyond = held - count;
    if beyond > 0 && layout.sparing.value != geometry::DISK_SPARING_SCHEME {
        warnings.push(offered.warning(format!(
            "the zones hold {beyond} more sectors; these are at the end of the drive and have no address"
        )));
    }
    spec.geometry.sectors = Some(count);
    Ok(())
}

/// Adds the file to a fault.
fn in_file(origin: &str) -> impl Fn(Fault) -> SpecError {
    move |fault| SpecError::Malformed(format!("{origin}: line {}: {}", fault.line, fault.problem))
}

/// Access to further files by name.
struct Sources<'a> {
    read: &'a mut dyn FnMut(&str) -> Result<String, String>,
}

impl Sources<'_> {
    fn text(&mut self, file: &Word, origin: &str) -> Result<String, SpecError> {
        (self.read)(&file.text).map_err(|error| {
            in_file(origin)(Fault::new(file.line, format!("cannot read {}: {error}", file.text)))
        })
    }

    /// Returns the only drive in a file or in its sources, and the name of the file that contains it.
    fn disk(&mut self, file: &File, origin: &str) -> Result<(Block, String), SpecError> {
        if let Some(disk) = only_disk(file).map_err(in_file(origin))? {
            return Ok((disk.clone(), origin.to_owned()));
        }
        let mut found = None;
        for name in &file.sources {
            let further = syntax::parse(&self.text(name, origin)?).map_err(in_file(&name.text))?;
            let disk = only_disk(&further).map_err(in_file(&name.text))?;
            if disk.is_some() && found.is_some() {
                let problem =
                    format!("{} holds a second drive; name the drive's own file instead", name.text);
                return Err(in_file(origin)(Fault::new(name.line, problem)));
            }
            found = found.or(disk.map(|disk| (disk.clone(), name.text.clone())));
        }
        found.ok_or_else(|| {
            SpecError::Malformed(format!(
                "{origin}: no block `disksim_disk` and no `source` of a file with one; this is not a drive of DiskSim's"
            ))
        })
    }

    /// Returns the block that a value is, or the only block of the file that it names.
    fn block(&mut self, value: &Value, origin: &str) -> Result<(Block, String), SpecError> {
        match value {
            Value::Block(block) => Ok((block.clone(), origin.to_owned())),
            Value::Source(name) => {
                let file = syntax::parse(&self.text(name, origin)?).map_err(in_file(&name.text))?;
                match <[Block; 1]>::try_from(file.blocks) {
                    Ok([block]) => Ok((block, name.text.clone())),
                    Err(blocks) => {
                        let problem = format!(
                            "{} blocks in a file that is named by `source`; expected one",
                            blocks.len()
                        );
                        Err(SpecError::Malformed(format!("{}: {problem}", name.text)))
                    }
                }
            }
            other => {
                let problem = format!("{}; expected a block or `source FILE`", other.describe());
                Err(in_file(origin)(Fault::new(other.line(), problem)))
            }
        }
    }
}

/// Returns the file's drive, if there is one.
fn only_disk(file: &File) -> Result<Option<&Block>, Fault> {
    let mut disks = file.blocks.iter().filter(|block| block.kind == "disksim_disk");
    let first = disks.next();
    match disks.next() {
        Some(second) => {
            Err(Fault::new(second.line, "a second `disksim_disk`; leave only the one to be read"))
        }
        None => Ok(first),
    }
}

#[cfg(test)]
mod tests;
