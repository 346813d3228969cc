//! The operators of a stream and the edges between them, as a planner sees them.

use std::collections::BTreeMap;

use crate::shape::Shape;

/// Operators by number, each edge from a lower one to a higher one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Graph {
    /// Number of operators.
    pub(crate) operators: usize,
    /// The edges, in the order of their senders and then of their receivers, each pair of operators once.
    pub(crate) edges: Vec<GraphEdge>,
    /// The sources.
    pub(crate) sources: Vec<usize>,
    /// For each operator the group of replicas that it belongs to; none if it has a single core.
    pub(crate) groups: Vec<Option<usize>>,
    /// For each group its largest number of replicas.
    pub(crate) replicas_max: Vec<usize>,
}

/// An edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GraphEdge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Share of the sender's outputs that goes along it.
    pub(crate) share: f64,
}

impl Graph {
    /// All replicas of an operator are one.
    pub(crate) fn of(shape: &Shape) -> Graph {
        let numbers = &shape.logical_numbers()[..];
        let pairs = shape.operators.iter().zip(numbers).flat_map(|(outline, &to)| {
            outline.parent.iter().chain(&outline.side_parents).map(move |from| (numbers[from.0], to))
        });
        let sources = shape.sources().map(|source| numbers[source.0]).collect();
        let graph = Graph::new(shape.logical().count(), pairs, sources);
        let groups = shape.logical().map(|outline| outline.replica.map(|place| place.group)).collect();
        graph.with_replicas(groups, shape.groups.iter().map(|group| group.replicas).collect())
    }

    /// With these groups of replicas, by operator, and their largest numbers.
    pub(crate) fn with_replicas(self, groups: Vec<Option<usize>>, replicas_max: Vec<usize>) -> Graph {
        Graph { groups, replicas_max, ..self }
    }

    /// Returns the graph with an output for each of these pairs of sender and receiver.
    pub(crate) fn new(
        operators: usize,
        pairs: impl IntoIterator<Item = (usize, usize)>,
        sources: Vec<usize>,
    ) -> Graph {
        let mut counts = BTreeMap::<(usize, usize), usize>::new();
        pairs.into_iter().for_each(|pair| *counts.entry(pair).or_default() += 1);
        let outputs = |from| {
            counts.iter().filter(|((other, _), _)| *other == from).map(|(_, count)| count).sum::<usize>()
        };
        let edge = |(&(from, to), &count): (&(usize, usize), &usize)| GraphEdge {
            from,
            to,
            share: count as f64 / outputs(from) as f64,
        };
        let edges = counts.iter().map(edge).collect();
        Graph { operators, edges, sources, groups: vec![None; operators], replicas_max: Vec::new() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_halves_of_a_split_have_half_of_its_outputs_and_two_into_one_are_one_edge() {
        let graph = Graph::new(5, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)], vec![0]);
        let shares: Vec<f64> = graph.edges.iter().map(|edge| edge.share).collect();
        assert_eq!(shares, [1.0, 0.5, 0.5, 1.0, 1.0]);
        let graph = Graph::new(3, [(0, 1), (1, 2), (1, 2)], vec![0]);
        assert_eq!(graph.edges[1], GraphEdge { from: 1, to: 2, share: 1.0 });
    }
}
