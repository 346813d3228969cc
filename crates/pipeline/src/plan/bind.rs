//! The graph of a pipeline: the inputs of all nodes by their names.

use std::collections::BTreeSet;

use super::node::{Bound, Names, Node, TimeColumn};
use super::step;
use crate::Error;
use crate::document::At;
use crate::source::unit_ns;
use crate::spec::{Late, SinkSpec, SourceSpec, StepSpec};

/// Binds all nodes, in the order of sources, steps and sinks.
///
/// # Errors
/// If a name is used twice or is unknown, or an expression does not fit the columns of its input.
pub(super) fn bind(
    sources: &[SourceSpec],
    steps: &[StepSpec],
    sinks: &[SinkSpec],
) -> Result<Vec<Node>, Error> {
    check_names(sources, steps)?;
    let mut names = Names {
        known: sources.iter().map(|source| source.name.as_str()).collect(),
        later: steps.iter().map(|step| step.name.value.as_str()).collect(),
    };
    let mut nodes: Vec<Node> = sources.iter().map(source).collect();
    for step in steps {
        names.later.remove(step.name.value.as_str());
        let input = input_of(step.input.as_ref(), &step.name, &names, sources.len(), nodes.len())?;
        nodes.push(step::bind(step, input, &names, &nodes)?);
        names.known.push(&step.name.value);
    }
    for sink in sinks {
        let place = sink.place.with(sink.name.clone());
        let input =
            input_of(sink.input.as_ref(), &place, &names, sources.len(), sources.len() + steps.len())?;
        let (schema, time) = (nodes[input].schema.clone(), nodes[input].time);
        let name = format!("sink.{}", sink.name);
        nodes.push(Node { name, inputs: vec![input], schema, time, bound: Bound::Sink });
    }
    check_consumers(&nodes, sources, steps)?;
    Ok(nodes)
}

fn check_names(sources: &[SourceSpec], steps: &[StepSpec]) -> Result<(), Error> {
    let mut taken: BTreeSet<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    for step in steps {
        if !taken.insert(&step.name.value) {
            let problem =
                format!("{} is the name of another source or step; write name = \"…\"", step.name.value);
            return Err(step.name.error(problem));
        }
    }
    Ok(())
}

/// Returns the input of a node: the named one, else the previous one.
fn input_of(
    named: Option<&At<String>>,
    of: &At<String>,
    names: &Names<'_>,
    sources: usize,
    before: usize,
) -> Result<usize, Error> {
    match named {
        Some(name) => names.find(name),
        None if before > sources || sources == 1 => Ok(before - 1),
        None => Err(of.error(format!("there are {sources} sources; write input = \"{}\"", names.known[0]))),
    }
}

/// Refuses nodes whose output is unused.
fn check_consumers(nodes: &[Node], sources: &[SourceSpec], steps: &[StepSpec]) -> Result<(), Error> {
    let is_taken = |node: usize| nodes.iter().any(|other| other.inputs.contains(&node));
    let problem =
        |name: &str| format!("no step or sink uses its rows; write input = \"{name}\" in one, or remove it");
    if let Some(source) = (0..sources.len()).find(|&node| !is_taken(node)) {
        return Err(sources[source].place.error(problem(&sources[source].name)));
    }
    match (0..steps.len()).find(|&step| !is_taken(sources.len() + step)) {
        Some(step) => Err(steps[step].name.error(problem(&steps[step].name.value))),
        None => Ok(()),
    }
}

fn source(source: &SourceSpec) -> Node {
    let time = source.event_time.as_ref().map(|time| TimeColumn {
        column: Some(time.column),
        unit_ns: unit_ns(source.schema.field(time.column).data_type()).unwrap_or(1),
        lateness_ns: match time.late {
            Late::Drop => 0,
            Late::Allow { lateness_ns } => lateness_ns,
        },
        is_window: false,
    });
    let name = format!("source.{}", source.name);
    Node { name, inputs: Vec::new(), schema: source.schema.clone(), time, bound: Bound::Source }
}
