//! Reading the parameter files of DiskSim 4.0 (manual CMU-PDL-08-101): a drive in its terms becomes a [`DriveSpec`].
//!
//! | file | what |
//! |---|---|
//! | `syntax.rs` | blocks, lists and words with their lines |
//! | `fields.rs` | every field of every block: what it means, and what it becomes |
//! | `geometry.rs`, `mechanics.rs`, `queue.rs`, `buffer.rs`, `interface.rs` | one part of the drive each |
//! | `system.rs` | the bus and the controller that the drive hangs on |
//!
//! Nothing is passed over in silence: a field that has no counterpart here is answered with a warning, unless it says
//! what the simulator does anyway.

mod buffer;
mod fields;
mod geometry;
mod interface;
mod mechanics;
mod queue;
mod syntax;
mod system;

use crate::geometry::Geometry;
use fields::{DiskFields, Given, LayoutFields, MechanicsFields, ModelFields};
use syntax::{Block, Fault, File, Value, Word};

use super::{DriveSpec, SpecError};

/// A drive read from another simulator's files.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The drive.
    pub spec: DriveSpec,
    /// Sentences: what the files say that the drive cannot, and what it does instead.
    pub warnings: Vec<String>,
}

impl DriveSpec {
    /// Reads and checks a drive in DiskSim's terms. `text` holds a `disksim_disk` block, or names by `source` the file
    /// that does; `origin` names it in errors. `system` is the `.parv` file that puts the drive on a bus, with its name:
    /// the way to the host depends on it. `source` is asked for the text of further files, by the name that stands in
    /// the file.
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
        let name = disk.name.clone().unwrap_or_default();

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

        let mut spec = DriveSpec { name, geometry, servo, queue, cache, interface };
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

/// Sets how many sectors the drive offers: no more than its zones hold.
fn limit(
    spec: &mut DriveSpec,
    offered: &Given<u64>,
    layout: &LayoutFields,
    warnings: &mut Vec<String>,
) -> Result<(), Fault> {
    let held = Geometry::new(&spec.geometry, &spec.servo).capacity().0;
    if offered.value > held || offered.value == 0 {
        let advice = "correct it, or the zones and their spares";
        return Err(offered.fault(format!("{} sectors, but the zones hold {held}; {advice}", offered.value)));
    }
    let beyond = held - offered.value;
    if beyond > 0 && layout.sparing.value != geometry::DISK_SPARING_SCHEME {
        warnings.push(offered.warning(format!(
            "the zones hold {beyond} sectors more; these lie at the drive's end and carry no address"
        )));
    }
    spec.geometry.sectors = Some(offered.value);
    Ok(())
}

/// Gives a fault its file.
fn in_file(origin: &str) -> impl Fn(Fault) -> SpecError {
    move |fault| SpecError::Malformed(format!("{origin}: line {}: {}", fault.line, fault.problem))
}

/// Further files, asked for by name.
struct Sources<'a> {
    read: &'a mut dyn FnMut(&str) -> Result<String, String>,
}

impl Sources<'_> {
    fn text(&mut self, file: &Word, origin: &str) -> Result<String, SpecError> {
        (self.read)(&file.text).map_err(|error| {
            in_file(origin)(Fault::new(file.line, format!("cannot read {}: {error}", file.text)))
        })
    }

    /// The one drive of a file or of those that it names, and the file where it stands.
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

    /// The block that a value is, or that is alone in the file that it names.
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

/// The file's drive, if it has one.
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
