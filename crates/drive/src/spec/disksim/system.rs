//! The bus and the controller that the drive is attached to, from the topology.

use super::fields::{BusFields, ControllerFields};
use super::syntax::{Block, Fault, File, Node};

/// Components between the drive and the host.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// Bus of the drive.
    pub(super) bus: BusFields,
    /// Nearest controller above it.
    pub(super) controller: Option<ControllerFields>,
}

/// Returns the components above the drive whose block is called `disk`. If nothing is instantiated under this name, but
/// all disks are of another one, that is the drive: a copied file keeps the name of its system.
pub(super) fn path(file: &File, disk: &str, warnings: &mut Vec<String>) -> Result<Path, Fault> {
    let of = |wanted: &str| -> Vec<&String> {
        let instances = file.instances.iter().filter(|instances| instances.of == wanted);
        instances.flat_map(|instances| &instances.names).collect()
    };
    let mut names = of(disk);
    if let Some(other) = only_kind(file).filter(|_| names.is_empty()) {
        warnings
            .push(format!("instantiate … as {other}: the drive's file calls it {disk}; its place is taken"));
        names = of(other);
    }
    if names.is_empty() {
        return Err(Fault::new(
            1,
            format!("nothing is instantiated as {disk}; add `instantiate [ disk0 ] as {disk}`"),
        ));
    }
    let mut above = Vec::new();
    let found = file.topologies.iter().find_map(|top| {
        above.clear();
        find(top, &names, &mut above).then(|| above.clone())
    });
    let Some(above) = found else {
        let problem = format!("the topology has no disk {}, which is a {disk}; add it below a bus", names[0]);
        return Err(Fault::new(1, problem));
    };
    let mut parts = above.iter().rev();
    let bus = match parts.next() {
        Some(part) if part.kind == "disksim_bus" => BusFields::read(block(file, part)?, warnings)?,
        _ => {
            return Err(Fault::new(
                1,
                format!("the disk {} is not connected to a bus in the topology", names[0]),
            ));
        }
    };
    let mut controller = None;
    for part in parts {
        match part.kind.as_str() {
            "disksim_bus" => {
                let bus = BusFields::read(block(file, part)?, warnings)?;
                let slow = [&bus.arbitration, &bus.read_block, &bus.write_block];
                let slow = slow.into_iter().find(|time| !time.value.is_zero());
                warnings.extend(slow.map(|time| time.warning(beyond(part))));
            }
            "disksim_ctlr" if controller.is_none() => {
                controller = Some(ControllerFields::read(block(file, part)?, warnings)?);
            }
            "disksim_ctlr" => {
                let other = ControllerFields::read(block(file, part)?, warnings)?;
                if !other.bulk_sector.value.is_zero() {
                    warnings.push(other.bulk_sector.warning(beyond(part)));
                }
            }
            // The host's device driver is replaced by the replay.
            _ => {}
        }
    }
    Ok(Path { bus, controller })
}

/// Returns the name under which all disks of the topologies are instantiated, if it is one.
fn only_kind(file: &File) -> Option<&str> {
    fn disks<'a>(node: &'a Node, names: &mut Vec<&'a str>) {
        if node.kind == "disksim_disk" {
            names.push(&node.name);
        }
        node.below.iter().for_each(|below| disks(below, names));
    }
    let mut names = Vec::new();
    file.topologies.iter().for_each(|top| disks(top, &mut names));
    let instances = |name: &str| file.instances.iter().find(|all| all.names.iter().any(|own| own == name));
    let mut kinds = names.into_iter().map(|name| instances(name).map(|instances| instances.of.as_str()));
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

fn beyond(part: &Node) -> String {
    format!("{} takes no time; only the drive's own bus and the controller above it do", part.name)
}

/// Searches for the first of the named disks; `above` receives the components above it.
fn find<'a>(node: &'a Node, names: &[&String], above: &mut Vec<&'a Node>) -> bool {
    if node.kind == "disksim_disk" && names.contains(&&node.name) {
        return true;
    }
    above.push(node);
    let found = node.below.iter().any(|below| find(below, names, above));
    if !found {
        above.pop();
    }
    found
}

/// Returns the block as which a component is instantiated.
fn block<'a>(file: &'a File, part: &Node) -> Result<&'a Block, Fault> {
    let of = file.instances.iter().find(|instances| instances.names.contains(&part.name));
    let of = of.ok_or_else(|| {
        Fault::new(1, format!("the topology has {}, but no `instantiate [ {} ] as …`", part.name, part.name))
    })?;
    let found =
        file.blocks.iter().find(|block| block.kind == part.kind && block.name.as_ref() == Some(&of.of));
    found.ok_or_else(|| {
        Fault::new(1, format!("{} is a {}, but no block {} {} is there", part.name, of.of, part.kind, of.of))
    })
}
