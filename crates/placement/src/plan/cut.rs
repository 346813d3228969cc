//! The cheapest edge at which a pipeline is divided between these cores and a larger engine.

use crate::{Arrivals, Constraints, Edge, Operator, Pipeline, Planner};

/// A division of a pipeline at some of its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Operators that stay, in order.
    pub stays: Vec<usize>,
    /// Operators that go to the other engine, in order.
    pub goes: Vec<usize>,
    /// Indices of the edges from the former to the latter.
    pub edges: Vec<usize>,
    /// Tuples per second on these edges.
    pub tuples_per_s: f64,
    /// Bytes per second on these edges.
    pub bytes_per_s: f64,
}

impl Planner<'_> {
    /// Returns the cut with the least bytes per second whose staying part has a plan at these arrivals; of equal cuts
    /// the one where most operators stay. Operators that receive tuples from outside stay. The candidates are each
    /// other operator with all that follow it, which are all cuts of a chain.
    ///
    /// `tuple_bytes` are the mean bytes of a tuple on each edge, in the order of [`Pipeline::edges`]; `send_ns` is the
    /// CPU time of handing a tuple over, in nanoseconds.
    ///
    /// # Panics
    /// If there are fewer sizes than edges.
    #[must_use]
    pub fn cheapest_cut(&self, arrivals: Arrivals, tuple_bytes: &[f64], send_ns: f64) -> Option<Cut> {
        let flows = self.model(arrivals).flows();
        let mut cuts: Vec<Cut> = (0..self.pipeline.operators().len())
            .filter_map(|first| self.cut_before(first, arrivals, tuple_bytes, &flows))
            .collect();
        cuts.sort_by(|one, other| {
            let bytes = one.bytes_per_s.total_cmp(&other.bytes_per_s);
            bytes.then_with(|| one.goes.len().cmp(&other.goes.len()))
        });
        cuts.into_iter().find(|cut| self.holds_rest(cut, arrivals, send_ns))
    }

    /// Returns the cut after which an operator and all that follow it go; none if tuples enter there from outside.
    fn cut_before(
        &self,
        first: usize,
        arrivals: Arrivals,
        tuple_bytes: &[f64],
        flows: &[f64],
    ) -> Option<Cut> {
        let pipeline = self.pipeline;
        let mut is_gone = vec![false; flows.len()];
        is_gone[first] = true;
        // Edges lead to later operators.
        for from in first..flows.len() {
            if is_gone[from] {
                pipeline.outgoing(from).iter().for_each(|&edge| is_gone[pipeline.edges()[edge].to] = true);
            }
        }
        if (0..flows.len()).any(|operator| is_gone[operator] && pipeline.entry(operator) > 0.0) {
            return None;
        }
        let (goes, stays): (Vec<usize>, Vec<usize>) = (0..flows.len()).partition(|&one| is_gone[one]);
        let is_cut = |&edge: &usize| {
            let Edge { from, to, .. } = pipeline.edges()[edge];
            !is_gone[from] && is_gone[to]
        };
        let edges: Vec<usize> = (0..pipeline.edges().len()).filter(is_cut).collect();
        let tuples_per_s = |&edge: &usize| {
            let Edge { from, selectivity, .. } = pipeline.edges()[edge];
            arrivals.rate_per_s() * flows[from] * selectivity
        };
        let bytes_per_s = edges.iter().map(|edge| tuples_per_s(edge) * tuple_bytes[*edge]).sum();
        Some(Cut { tuples_per_s: edges.iter().map(tuples_per_s).sum(), stays, goes, edges, bytes_per_s })
    }

    /// Returns whether there is a plan for the staying part, with an operator in place of each edge that is cut.
    fn holds_rest(&self, cut: &Cut, arrivals: Arrivals, send_ns: f64) -> bool {
        let pipeline = self.pipeline;
        let place = |operator: usize| cut.stays.iter().position(|&stays| stays == operator);
        let mut operators: Vec<Operator> =
            cut.stays.iter().map(|&operator| pipeline.operators()[operator].clone()).collect();
        let within = |edge: &Edge| {
            let Edge { from, to, selectivity } = *edge;
            Some(Edge { from: place(from)?, to: place(to)?, selectivity })
        };
        let mut edges: Vec<Edge> = pipeline.edges().iter().filter_map(within).collect();
        for &edge in &cut.edges {
            let Edge { from, selectivity, .. } = pipeline.edges()[edge];
            let Some(from) = place(from) else { return false };
            edges.push(Edge { from, to: operators.len(), selectivity });
            operators.push(Operator::new(send_ns));
        }
        let entries =
            cut.stays.iter().enumerate().map(|(place, &operator)| (place, pipeline.entry(operator)));
        let entries: Vec<(usize, f64)> = entries.filter(|(_, tuples)| *tuples > 0.0).collect();
        let Ok(rest) = Pipeline::graph(operators, edges, &entries, pipeline.keys().to_vec()) else {
            return false;
        };
        let reserved = self.constraints.reserved().fold(Constraints::default(), Constraints::reserve);
        let pinned = self.constraints.pinned().filter_map(|(operator, core)| Some((place(operator)?, core)));
        let constraints = pinned.fold(reserved, |all, (operator, core)| all.pin(operator, core));
        let planner = Planner::new(&rest, self.topology, self.settings);
        planner
            .and_then(|planner| {
                planner.with_constraints(&constraints).map(|planner| planner.holds(arrivals).0)
            })
            .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arrivals, Edge, Hop, Operator, Pipeline, Planner, Settings, Topology};

    fn cut(pipeline: &Pipeline, rate_per_s: f64, bytes: &[f64]) -> Option<super::Cut> {
        let topology = Topology::uniform(1, Hop::FREE).unwrap();
        let planner = Planner::new(pipeline, &topology, Settings::default()).unwrap();
        planner.cheapest_cut(Arrivals::constant(rate_per_s).unwrap(), bytes, 100.0)
    }

    /// A source, a filter that passes a tenth, a slow operator, a sink.
    fn chain() -> Pipeline {
        let operators = [100.0, 100.0, 20_000.0, 100.0].map(Operator::new);
        Pipeline::chain(operators.to_vec(), &[1.0, 0.1, 1.0]).unwrap()
    }

    #[test]
    fn the_cut_is_behind_the_filter_where_the_slow_operator_does_not_fit() {
        let cut = cut(&chain(), 1e6, &[64.0, 32.0, 8.0]).unwrap();
        assert_eq!((&cut.stays[..], &cut.goes[..], &cut.edges[..]), (&[0, 1][..], &[2, 3][..], &[1][..]));
        assert!((cut.tuples_per_s / 1e5 - 1.0).abs() < 1e-9, "{cut:?}");
        assert!((cut.bytes_per_s / 3.2e6 - 1.0).abs() < 1e-9, "{cut:?}");
    }

    #[test]
    fn the_edge_with_the_least_bytes_is_cut_where_all_but_the_sink_fit() {
        let cut = cut(&chain(), 1e5, &[64.0, 32.0, 8.0]).unwrap();
        assert_eq!(cut.goes, [3]);
    }

    #[test]
    fn a_source_that_is_too_slow_leaves_no_cut() {
        assert_eq!(cut(&chain(), 1e8, &[64.0, 32.0, 8.0]), None);
    }

    #[test]
    fn handing_tuples_over_takes_time_as_well() {
        // 0.6 of the core for the source, 0.3 for sending each of its tuples.
        let pipeline = Pipeline::chain(vec![Operator::new(600.0), Operator::new(900.0)], &[1.0]).unwrap();
        assert_eq!(cut(&pipeline, 1e6, &[8.0]).map(|cut| cut.goes), Some(vec![1]));
        assert_eq!(cut(&pipeline, 1.3e6, &[8.0]), None);
    }

    #[test]
    fn a_join_that_goes_cuts_both_of_its_inputs() {
        let operators = [100.0, 100.0, 5_000.0, 100.0].map(Operator::new).to_vec();
        let edge = |from, to| Edge { from, to, selectivity: 1.0 };
        let edges = vec![edge(0, 2), edge(1, 2), edge(2, 3)];
        let pipeline = Pipeline::graph(operators, edges, &[(0, 0.5), (1, 0.5)], Vec::new()).unwrap();
        let cut = cut(&pipeline, 1e6, &[10.0, 30.0, 8.0]).unwrap();
        assert_eq!((&cut.goes[..], &cut.edges[..]), (&[2, 3][..], &[0, 1][..]));
        assert!((cut.bytes_per_s / 2e7 - 1.0).abs() < 1e-9, "{cut:?}");
    }
}
