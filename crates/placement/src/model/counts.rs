//! Numbers of tuples on links that stem from the same tuple of the input: their means and covariances.
//!
//! A *link* is an edge, or the entry of an operator. Tuples that stem from one tuple of an entry come together where
//! they meet, as siblings do after a split and a join: their numbers are not independent. In a graph all moments
//! follow from those of the preceding operators. With `X` tuples taken, mean selectivities `s`, variance `v` of the
//! number of tuples sent per tuple taken, and any earlier link `Z`,
//! ```text
//! E Y = s E X      Var Y = s^2 Var X + v E X      Cov(Y, Z) = s Cov(X, Z)
//! ```

use super::Pipeline;

/// Moments of the numbers of tuples, summed over entries, weighted by the tuples of each entry per tuple of the
/// pipeline.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    edges: usize,
    /// For each link its tuples per tuple at the pipeline.
    flows: Vec<f64>,
    /// For each pair of links the covariance of their numbers.
    covariances: Vec<f64>,
    /// For each pair of links the product of their means.
    means: Vec<f64>,
}

/// The combined tuples of several links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Tuples per tuple that arrives at the pipeline.
    pub(super) flow: f64,
    /// Variance over mean of their number in a long window.
    pub(super) dispersion: f64,
    /// Mean number of tuples that come together, as seen by one of them, including itself.
    pub(super) batch: f64,
}

impl Counts {
    pub(super) fn new(pipeline: &Pipeline) -> Counts {
        let edges = pipeline.edges().len();
        let links = edges + pipeline.operators().len();
        let pairs = vec![0.0; links * links];
        let mut counts = Counts { edges, flows: vec![0.0; links], covariances: pairs.clone(), means: pairs };
        for entry in 0..pipeline.operators().len() {
            if pipeline.entry(entry) > 0.0 {
                counts.add(&Offspring::new(pipeline, entry), pipeline.entry(entry));
            }
        }
        counts
    }

    /// Returns the link of an operator's entry.
    pub(super) fn entry(&self, operator: usize) -> usize {
        self.edges + operator
    }

    /// Returns the tuples on a link per tuple at the pipeline.
    pub(super) fn flow(&self, link: usize) -> f64 {
        self.flows[link]
    }

    /// Returns the combined stream of several links; `dispersion` is that of the arrivals.
    pub(super) fn stream(&self, links: &[usize], dispersion: f64) -> Stream {
        let pairs = || links.iter().flat_map(|one| links.iter().map(move |other| (*one, *other)));
        let sum = |of: &[f64]| -> f64 { pairs().map(|(one, other)| of[self.pair(one, other)]).sum() };
        let flow: f64 = links.iter().map(|&link| self.flows[link]).sum();
        let (covariance, means) = (sum(&self.covariances), sum(&self.means));
        // A tuple among N siblings sees E N^2 / E N, which is at least 1 except for rounding.
        let batch = ((covariance + means) / flow).max(1.0);
        Stream { flow, dispersion: (covariance + dispersion * means) / flow, batch }
    }

    fn pair(&self, one: usize, other: usize) -> usize {
        one * self.flows.len() + other
    }

    fn add(&mut self, offspring: &Offspring<'_>, tuples: f64) {
        let mean = |link: usize| match link.checked_sub(self.edges) {
            None => offspring.means[link],
            Some(operator) => f64::from(u8::from(operator == offspring.entry)),
        };
        let links = self.flows.len();
        for one in 0..links {
            self.flows[one] += tuples * mean(one);
            for other in 0..links {
                let pair = self.pair(one, other);
                self.means[pair] += tuples * mean(one) * mean(other);
                if one < self.edges && other < self.edges {
                    self.covariances[pair] += tuples * offspring.covariances[one][other];
                }
            }
        }
    }
}

/// Moments of the numbers of tuples on each edge that stem from one tuple of an entry.
struct Offspring<'a> {
    pipeline: &'a Pipeline,
    entry: usize,
    means: Vec<f64>,
    covariances: Vec<Vec<f64>>,
}

impl<'a> Offspring<'a> {
    fn new(pipeline: &'a Pipeline, entry: usize) -> Offspring<'a> {
        let edges = pipeline.edges().len();
        let (means, covariances) = (vec![0.0; edges], vec![vec![0.0; edges]; edges]);
        let mut offspring = Offspring { pipeline, entry, means, covariances };
        (entry..pipeline.operators().len()).for_each(|operator| offspring.send(operator));
        offspring
    }

    /// Adds the moments of an operator's edges, computed from those of the edges to it.
    fn send(&mut self, operator: usize) {
        let (pipeline, incoming) = (self.pipeline, self.pipeline.incoming(operator));
        let taken = f64::from(u8::from(operator == self.entry));
        let taken = taken + incoming.iter().map(|&edge| self.means[edge]).sum::<f64>();
        let row = |other: usize| incoming.iter().map(|&edge| self.covariances[edge][other]).sum();
        let with_edge: Vec<f64> = (0..self.means.len()).map(row).collect();
        let variance: f64 = incoming.iter().map(|&edge| with_edge[edge]).sum();
        for &edge in pipeline.outgoing(operator) {
            let data = &pipeline.edges()[edge];
            self.means[edge] = data.selectivity * taken;
            for (other, with) in with_edge.iter().enumerate() {
                self.set(edge, other, data.selectivity * with);
            }
        }
        for &one in pipeline.outgoing(operator) {
            for &other in pipeline.outgoing(operator) {
                let [sent, others] = [one, other].map(|edge| pipeline.edges()[edge].selectivity);
                self.set(one, other, sent * others * variance);
            }
            let data = &pipeline.edges()[one];
            self.covariances[one][one] += data.count_variance() * taken;
        }
    }

    fn set(&mut self, one: usize, other: usize, covariance: f64) {
        self.covariances[one][other] = covariance;
        self.covariances[other][one] = covariance;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Operator};

    fn counts(operators: usize, edges: &[(usize, usize, f64)], entries: &[(usize, f64)]) -> Counts {
        let edge = |&(from, to, selectivity): &(usize, usize, f64)| Edge { from, to, selectivity };
        let operators = vec![Operator::new(1.0); operators];
        Counts::new(
            &Pipeline::graph(operators, edges.iter().map(edge).collect(), entries, Vec::new()).unwrap(),
        )
    }

    #[track_caller]
    fn assert_stream(stream: Stream, flow: f64, dispersion: f64, batch: f64) {
        let pairs = [(stream.flow, flow), (stream.dispersion, dispersion), (stream.batch, batch)];
        assert!(pairs.iter().all(|(one, other)| (one - other).abs() < 1e-9), "{stream:?}");
    }

    #[test]
    fn a_filter_leaves_each_of_a_batch_by_itself() {
        // Each of 100 tuples passes with probability 0.01: E N^2 / E N = 1 + 99 * 0.01.
        let counts = counts(3, &[(0, 1, 100.0), (1, 2, 0.01)], &[(0, 1.0)]);
        assert_stream(counts.stream(&[0], 0.0), 100.0, 0.0, 100.0);
        assert_stream(counts.stream(&[1], 0.0), 1.0, 0.99, 1.99);
        assert_stream(counts.stream(&[1], 1.0), 1.0, 1.99, 1.99);
    }

    #[test]
    fn one_or_two_tuples_are_more_together_than_their_mean() {
        // Two of three tuples come in pairs.
        let counts = counts(2, &[(0, 1, 1.5)], &[(0, 1.0)]);
        assert_stream(counts.stream(&[0], 0.0), 1.5, 0.25 / 1.5, 5.0 / 3.0);
    }

    #[test]
    fn branches_that_join_come_together() {
        let edges = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0)];
        let joined = counts(4, &edges, &[(0, 1.0)]).stream(&[2, 3], 1.0);
        assert_stream(joined, 2.0, 2.0, 2.0);
        // Filters after a batch of four: N is the sum of two binomials of four, which are otherwise independent.
        let edges = [(0, 1, 4.0), (1, 2, 0.5), (1, 3, 0.5), (2, 4, 1.0), (3, 4, 1.0)];
        let joined = counts(5, &edges, &[(0, 1.0)]).stream(&[3, 4], 0.0);
        assert_stream(joined, 4.0, 0.5, 4.5);
    }

    #[test]
    fn entries_are_independent() {
        let both = counts(3, &[(0, 2, 1.0), (1, 2, 2.0)], &[(0, 1.0), (1, 1.0)]).stream(&[0, 1], 1.0);
        assert_stream(both, 3.0, 5.0 / 3.0, 5.0 / 3.0);
    }
}
