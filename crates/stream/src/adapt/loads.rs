//! The load of each operator, and whether it has changed so much that plans are out of date.

use sakiyomi_placement::{Edge, Error, Key, Operator, Pipeline};

use super::estimates::Figure;
use super::graph::Graph;

/// Share of all work below which a change of an operator's is ignored: a plan leaves more room on each core.
const WORK_CHANGE_MIN_RATIO: f64 = 0.02;

/// Share by which the work of an operator changes before plans are made again: what the reserve of a core absorbs.
const LOAD_CHANGE_RATIO: f64 = 0.2;

/// Relative change of a load that invalidates plans that are old, or were made from rough figures.
const LOAD_CHANGE_OLD_RATIO: f64 = 0.05;

/// Relative deviation up to which figures are precise: plans by rougher ones are made again when these are known.
const PRECISE_RATIO: f64 = 0.05;

/// Age of plans from which on they are old.
const PLANS_AGE_MAX_NS: u64 = 60_000_000_000;

/// Tuples per arrival that an operator takes, below which it does not matter that little is known of it.
const FLOW_MIN_RATIO: f64 = 0.001;

/// Difference from 1 up to which a selectivity is 1: what an operator takes and sends is counted at slightly different
/// moments, and a planner that expects tuples in pairs assumes other gaps between them.
const SELECTIVITY_ONE_RATIO: f64 = 0.001;

/// Share of the tuples that a source without any has, for a planner that needs each source to have some.
const ENTRY_MIN_SHARE: f64 = 1e-9;

/// Figures of an operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OperatorLoad {
    /// Time per tuple taken, in nanoseconds.
    pub(crate) service_ns: Figure,
    /// Squared coefficient of variation of that time.
    pub(crate) scv: f64,
    /// Whether the figures rest on too few calls.
    pub(crate) is_guess: bool,
}

/// Figures of all operators and edges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Loads {
    graph: Graph,
    operators: Vec<OperatorLoad>,
    /// Tuples sent along each edge per tuple that its sender takes.
    edges: Vec<Figure>,
    /// Share of each source in all arrivals.
    entries: Vec<Figure>,
    /// Time that each operator takes per tuple that arrives at any source, in nanoseconds.
    work_ns: Vec<Figure>,
    /// Whether too little is known of an operator that takes tuples.
    is_guess: bool,
    /// For each group of replicas the shares of the busiest one.
    keys: Vec<Key>,
}

impl Loads {
    /// Returns the loads of these operators and edges, with the sources' rates in tuples per second.
    pub(crate) fn new(
        graph: &Graph,
        operators: Vec<OperatorLoad>,
        edges: Vec<Figure>,
        rates_per_s: &[Figure],
    ) -> Loads {
        let all_per_s: f64 = rates_per_s.iter().map(|rate| rate.value).sum();
        let share = |rate: &Figure| match all_per_s > 0.0 {
            true => Figure { value: rate.value / all_per_s, deviation: rate.deviation / all_per_s },
            false => Figure::guess(1.0 / rates_per_s.len() as f64),
        };
        let entries = match rates_per_s {
            // A share that cannot change.
            [_] => vec![Figure::guess(1.0)],
            _ => rates_per_s.iter().map(share).collect(),
        };
        let graph = graph.clone();
        let mut loads = Loads {
            graph,
            operators,
            edges,
            entries,
            work_ns: Vec::new(),
            is_guess: false,
            keys: Vec::new(),
        };
        let flows = loads.flows();
        let is_guess = |(load, flow): (&OperatorLoad, &Figure)| load.is_guess && flow.value > FLOW_MIN_RATIO;
        loads.is_guess = loads.operators.iter().zip(&flows).any(is_guess);
        loads.work_ns =
            loads.operators.iter().zip(flows).map(|(load, flow)| flow.times(load.service_ns)).collect();
        loads
    }

    /// With the keys of all groups of replicas; without them no operator is replicated.
    pub(crate) fn with_keys(self, keys: Vec<Key>) -> Loads {
        Loads { keys, ..self }
    }

    /// Tuples that each operator takes per tuple that arrives at any source.
    fn flows(&self) -> Vec<Figure> {
        let mut flows = vec![Figure::default(); self.graph.operators];
        for (&source, &entry) in self.graph.sources.iter().zip(&self.entries) {
            flows[source] = entry;
        }
        // Edges are in the order of their senders, each below its receivers.
        for (edge, &selectivity) in self.graph.edges.iter().zip(&self.edges) {
            flows[edge.to] = flows[edge.to].plus(flows[edge.from].times(selectivity));
        }
        flows
    }

    /// Returns the time that all operators take per tuple that arrives, in nanoseconds.
    pub(crate) fn all_work_ns(&self) -> f64 {
        self.work_ns.iter().map(|work| work.value).sum()
    }

    /// Returns whether too little is known of an operator that takes tuples.
    pub(crate) fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// Returns whether the work of an operator has a larger relative deviation than this.
    pub(crate) fn is_rougher_than(&self, ratio: f64) -> bool {
        let floor_ns = WORK_CHANGE_MIN_RATIO * self.all_work_ns();
        let is_rough = |work: &Figure| work.deviation > floor_ns.max(ratio * work.value);
        self.is_guess || self.work_ns.iter().any(is_rough)
    }

    /// Returns the pipeline for a planner, all of whose service times are `slowdown` times those that were measured.
    ///
    /// # Errors
    /// If a figure is out of range.
    pub(crate) fn pipeline(&self, slowdown: f64) -> Result<Pipeline, Error> {
        let operator = |(load, group): (&OperatorLoad, &Option<usize>)| {
            let operator = Operator::new(load.service_ns.value * slowdown).with_scv(load.scv);
            match group.filter(|&group| group < self.keys.len()) {
                Some(group) => operator.with_key(group),
                None => operator,
            }
        };
        let edge = |(edge, selectivity): (&super::graph::GraphEdge, &Figure)| Edge {
            from: edge.from,
            to: edge.to,
            selectivity: if (selectivity.value - 1.0).abs() < SELECTIVITY_ONE_RATIO {
                1.0
            } else {
                selectivity.value
            },
        };
        let entries = self.graph.sources.iter().zip(&self.entries);
        let entries: Vec<(usize, f64)> =
            entries.map(|(&source, share)| (source, share.value.max(ENTRY_MIN_SHARE))).collect();
        let edges = self.graph.edges.iter().zip(&self.edges).map(edge).collect();
        let operators = self.operators.iter().zip(&self.graph.groups).map(operator).collect();
        Pipeline::graph(operators, edges, &entries, self.keys.clone())
    }

    /// Returns the operator whose work has changed most, if plans that were made by `planned` `age_ns` nanoseconds
    /// ago do not fit these loads.
    pub(crate) fn outdates(&self, planned: &Loads, age_ns: u64) -> Option<usize> {
        let is_refined = planned.is_rougher_than(PRECISE_RATIO) && !self.is_rougher_than(PRECISE_RATIO);
        let is_strict = age_ns > PLANS_AGE_MAX_NS || is_refined;
        self.changed_since(planned, if is_strict { LOAD_CHANGE_OLD_RATIO } else { LOAD_CHANGE_RATIO })
    }

    /// Returns the operator whose work has changed most since `planned`, of those whose work has changed by more than
    /// `ratio` of what it was and by more than chance.
    fn changed_since(&self, planned: &Loads, ratio: f64) -> Option<usize> {
        let floor_ns = WORK_CHANGE_MIN_RATIO * planned.all_work_ns();
        let pairs = self.work_ns.iter().zip(&planned.work_ns).enumerate();
        let change_ns = |now: &Figure, before: &Figure| (now.value - before.value).abs();
        let changed = pairs.filter(|(_, (now, before))| {
            change_ns(now, before) > floor_ns.max(ratio * before.value) && now.differs_from(before.value)
        });
        let most = changed
            .max_by(|(_, one), (_, other)| change_ns(one.0, one.1).total_cmp(&change_ns(other.0, other.1)));
        most.map(|(operator, _)| operator)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn figure(value: f64, deviation: f64) -> Figure {
        Figure { value, deviation }
    }

    /// Returns a source, a split, its two branches, and their join.
    fn loads(left_ns: Figure, filter: Figure, rates_per_s: &[Figure]) -> Loads {
        let graph = Graph::new(6, [(0, 2), (1, 5), (2, 3), (2, 4), (3, 5), (4, 5)], vec![0, 1]);
        let exactly = |value| OperatorLoad { service_ns: figure(value, 0.0), scv: 0.0, is_guess: false };
        let mut operators: Vec<OperatorLoad> = [10.0, 10.0, 20.0, 0.0, 50.0, 5.0].map(exactly).into();
        operators[3].service_ns = left_ns;
        let one = figure(1.0, 0.0);
        Loads::new(&graph, operators, vec![one, one, one, one, filter, one], rates_per_s)
    }

    #[test]
    fn work_follows_flows_through_splits_joins_and_entries() {
        let rates = [figure(3e6, 0.0), figure(1e6, 0.0)];
        let loads = loads(figure(100.0, 0.0), figure(0.5, 0.0), &rates);
        let work_ns: Vec<f64> = loads.work_ns.iter().map(|work| work.value).collect();
        assert_eq!(work_ns, [7.5, 2.5, 15.0, 75.0, 37.5, 5.0 * (0.375 + 0.75 + 0.25)]);
        assert_eq!(loads.pipeline(2.0).unwrap().operators()[3].service_ns, 200.0);
    }

    #[test]
    fn changes_that_matter_and_are_not_chance_are_told() {
        let rates = [figure(3e6, 0.0), figure(1e6, 0.0)];
        let half = figure(0.5, 0.001);
        let planned = loads(figure(100.0, 1.0), half, &rates);
        let with =
            |left_ns, filter, rates: &[Figure]| loads(left_ns, filter, rates).changed_since(&planned, 0.2);
        assert_eq!(with(figure(100.0, 1.0), half, &rates), None);
        assert_eq!(with(figure(119.0, 1.0), half, &rates), None);
        assert_eq!(with(figure(130.0, 1.0), half, &rates), Some(3));
        assert_eq!(with(figure(130.0, 10.0), half, &rates), None, "by chance");
        assert_eq!(
            with(figure(100.0, 1.0), figure(0.9, 0.001), &rates),
            None,
            "of an operator with little work"
        );
        let nearly_one = loads(figure(100.0, 1.0), figure(1.0 + 3e-6, 0.0), &rates).pipeline(1.0).unwrap();
        assert_eq!(nearly_one.edges()[4].selectivity, 1.0);
        assert_eq!(planned.pipeline(1.0).unwrap().edges()[4].selectivity, 0.5);
        let shifted = [figure(1e6, 0.0), figure(3e6, 0.0)];
        assert_eq!(with(figure(100.0, 1.0), half, &shifted), Some(3), "{planned:?}");
    }
}
