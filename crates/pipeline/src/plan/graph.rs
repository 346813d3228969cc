//! The operators of the stream in the order in which they are added. An output with several consumers is split.

use sakiyomi_placement::{Edge, Key, Operator, Pipeline};

use super::{Plan, Role};
use crate::Error;

/// CPU time of a split, in nanoseconds: a copy of a row.
const SPLIT_COST_NS: f64 = 20.0;

/// CPU time of dividing a row among replicas, in nanoseconds: the hash of a key.
const PARTITION_COST_NS: f64 = 40.0;

/// CPU time of a row in the merge of replicas, in nanoseconds: a call.
const MERGE_COST_NS: f64 = 10.0;

/// Suffixes of the names of the operators that divide the rows of the inputs of a step.
pub(crate) const PARTITIONS: [&str; 2] = [".partition", ".partition_right"];

/// Suffix of the name of the operator that makes the results of replicas one flow.
pub(crate) const MERGE: &str = ".merge";

/// Role of an operator of the stream in its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The node.
    Whole,
    /// A copy of its output.
    Split,
    /// The division of the rows of an input among its replicas.
    Partition,
    /// The results of its replicas as one flow.
    Merge,
}

/// An operator of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) part: Part,
    /// The operators whose outputs it takes, in order.
    pub(crate) inputs: Vec<usize>,
}

/// The operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) elements: Vec<Element>,
}

impl Graph {
    pub(crate) fn new(plan: &Plan) -> Graph {
        let consumers = |node: usize| {
            plan.nodes.iter().flat_map(|other| &other.inputs).filter(|&&input| input == node).count()
        };
        let mut elements: Vec<Element> = Vec::new();
        // For each node the operators that have an output left.
        let mut open: Vec<Vec<usize>> = vec![Vec::new(); plan.nodes.len()];
        for (node, found) in plan.nodes.iter().enumerate() {
            let mut add = |name: &str, part: Part, inputs: Vec<usize>| {
                elements.push(Element { name: format!("{}{name}", found.name), node, part, inputs });
                elements.len() - 1
            };
            let mut inputs: Vec<usize> = found.inputs.iter().map(|&input| open[input].remove(0)).collect();
            let is_divided = plan.division(node).is_some();
            if is_divided {
                let names = PARTITIONS.iter().zip(inputs);
                inputs = names.map(|(name, input)| add(name, Part::Partition, vec![input])).collect();
            }
            let mut last = add("", Part::Whole, inputs);
            if is_divided {
                last = add(MERGE, Part::Merge, vec![last]);
            }
            for _ in 1..consumers(node) {
                last = add(".split", Part::Split, vec![last]);
                open[node].push(last);
            }
            open[node].push(last);
        }
        Graph { elements }
    }

    /// Returns the graph for the planner, with the declared or typical figures.
    ///
    /// # Errors
    /// If a declared figure is out of range.
    pub(crate) fn planner(&self, plan: &Plan) -> Result<Pipeline, Error> {
        let mut keys = Vec::new();
        let mut operator = |element: &Element| match element.part {
            Part::Whole => {
                let operator = Operator::new(plan.cost_ns(element.node).max(1.0));
                let Some((replicas, _)) = plan.division(element.node) else { return operator };
                // Keys of which nothing is known have equal shares.
                keys.push(Key { max_share: (1..=replicas).map(|replicas| 1.0 / replicas as f64).collect() });
                operator.with_key(keys.len() - 1)
            }
            Part::Split => Operator::new(SPLIT_COST_NS),
            Part::Partition => Operator::new(PARTITION_COST_NS),
            Part::Merge => Operator::new(MERGE_COST_NS),
        };
        let operators = self.elements.iter().map(&mut operator).collect();
        let mut edges = Vec::new();
        let mut entries = Vec::new();
        for (to, element) in self.elements.iter().enumerate() {
            for &from in &element.inputs {
                let sender = &self.elements[from];
                let is_whole = sender.part == Part::Whole;
                let selectivity = if is_whole { plan.selectivity(sender.node) } else { 1.0 };
                edges.push(Edge { from, to, selectivity });
            }
            if let (Role::Source(index), Part::Whole) = (plan.role(element.node), element.part) {
                let declared = |source: &crate::spec::SourceSpec| source.share.unwrap_or(1.0);
                let all: f64 = plan.sources.iter().map(declared).sum();
                entries.push((to, declared(&plan.sources[index]) / all));
            }
        }
        Ok(Pipeline::graph(operators, edges, &entries, keys)?)
    }

    /// Mean bytes of a row on each edge of [`Graph::planner`], in their order: its values without names, as in a compact
    /// encoding.
    pub(crate) fn row_bytes(&self, plan: &Plan) -> Vec<f64> {
        let sender = |&from: &usize| {
            let mut from = &self.elements[from];
            while from.part == Part::Partition {
                from = &self.elements[from.inputs[0]];
            }
            plan.row_bytes(from.node)
        };
        self.elements.iter().flat_map(|element| element.inputs.iter().map(sender)).collect()
    }
}
