//! Operators and the edges between them.

mod saved;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::error::PipelineFault;
use saved::SavedPipeline;

/// An operator. It takes a tuple, computes, and sends its results before it takes the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Operator {
    /// Mean CPU time per tuple taken, in nanoseconds.
    pub service_ns: f64,
    /// Squared coefficient of variation of that time: 0 if it is constant, 1 if it is exponential.
    #[serde(default, rename = "service_scv_ratio")]
    pub service_scv: f64,
    /// Index of the key by which tuples may be divided among replicas; `None` if the operator cannot be replicated.
    /// An operator with an entry, or without outgoing edges, always has a single core: that of the source, which
    /// would have to divide the tuples, or of the sink, which would have to restore their order. Add separate
    /// operators for source and sink to replicate it.
    #[serde(default)]
    pub key: Option<usize>,
}

impl Operator {
    /// Creates an operator of constant service time, in nanoseconds, which cannot be replicated.
    #[must_use]
    pub fn new(service_ns: f64) -> Operator {
        Operator { service_ns, service_scv: 0.0, key: None }
    }

    /// Sets the squared coefficient of variation of the service time.
    #[must_use]
    pub fn with_scv(self, service_scv: f64) -> Operator {
        Operator { service_scv, ..self }
    }

    /// Sets the key, by its index.
    #[must_use]
    pub fn with_key(self, key: usize) -> Operator {
        Operator { key: Some(key), ..self }
    }
}

/// A partition key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Measured share of the tuples that the busiest of 1, 2, 3, … replicas takes, from 1/r to 1: skew makes it more
    /// than 1/r, and an unlucky division may give more replicas a larger share than fewer. The length is the maximum
    /// number of replicas.
    #[serde(rename = "max_share_ratio")]
    pub max_share: Vec<f64>,
}

/// A connection of two operators.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// Index of the sender.
    pub from: usize,
    /// Index of the receiver, above that of the sender.
    pub to: usize,
    /// Mean number of tuples sent here per tuple that the sender takes. Below 1 it is a filter, which passes each
    /// tuple independently; above 1 each tuple yields this many, rounded down or up. Edges are independent of each
    /// other. 0, of a filter that has passed nothing yet, counts as 1e-9.
    #[serde(rename = "selectivity_ratio")]
    pub selectivity: f64,
}

impl Edge {
    /// Returns the variance of the number of tuples sent per tuple taken.
    pub(crate) fn count_variance(&self) -> f64 {
        let part = self.selectivity.fract();
        part * (1.0 - part)
    }

    /// Returns the mean number of tuples sent before a given one, for the same tuple taken. A tuple is more likely to
    /// be one of many.
    pub(crate) fn earlier_siblings(&self) -> f64 {
        let siblings = self.selectivity + self.count_variance() / self.selectivity;
        ((siblings - 1.0) / 2.0).max(0.0)
    }
}

/// Selectivity of a filter that has passed no tuple yet: small, but not 0, for averages over the tuples that it
/// passes.
const SELECTIVITY_MIN: f64 = 1e-9;

/// A directed acyclic graph of operators, numbered topologically.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedPipeline", into = "SavedPipeline")]
pub struct Pipeline {
    operators: Vec<Operator>,
    keys: Vec<Key>,
    edges: Vec<Edge>,
    /// For each operator the indices of its outgoing edges, in the order in which it sends.
    outgoing: Vec<Vec<usize>>,
    /// For each operator the indices of its incoming edges.
    incoming: Vec<Vec<usize>>,
    /// Tuples that enter each operator from outside per tuple that arrives at the pipeline.
    entry: Vec<f64>,
}

impl Pipeline {
    /// Creates a sequence of operators, with the selectivity of each link; see [`Edge::selectivity`].
    ///
    /// # Errors
    /// Returns the errors of [`Pipeline::graph`], and an error unless there is one link fewer than operators.
    pub fn chain(operators: Vec<Operator>, selectivities: &[f64]) -> Result<Pipeline, Error> {
        Pipeline::keyed_chain(operators, selectivities, Vec::new())
    }

    /// Creates a chain whose operators have keys.
    ///
    /// # Errors
    /// Returns the errors of [`Pipeline::chain`].
    pub fn keyed_chain(
        operators: Vec<Operator>,
        selectivities: &[f64],
        keys: Vec<Key>,
    ) -> Result<Pipeline, Error> {
        if !operators.is_empty() && selectivities.len() + 1 != operators.len() {
            return Err(Error::Pipeline(PipelineFault::Links { operators: operators.len() }));
        }
        let link = |(from, &selectivity): (usize, &f64)| Edge { from, to: from + 1, selectivity };
        let edges = selectivities.iter().enumerate().map(link).collect();
        Pipeline::graph(operators, edges, &[(0, 1.0)], keys)
    }

    /// Creates any graph. `entries` are operators that receive tuples from outside, each with its tuples per tuple
    /// that arrives at the pipeline; they are independent of each other. An operator sends along its edges in the
    /// given order.
    ///
    /// # Errors
    /// If the graph is empty, an edge does not lead to a later operator, an operator receives nothing, or a figure is
    /// out of range.
    pub fn graph(
        operators: Vec<Operator>,
        mut edges: Vec<Edge>,
        entries: &[(usize, f64)],
        keys: Vec<Key>,
    ) -> Result<Pipeline, Error> {
        let count = operators.len();
        if count == 0 {
            return Err(Error::Pipeline(PipelineFault::Empty));
        }
        check_figures(&operators, &edges, entries, &keys)?;
        check_edges(&edges, count)?;
        edges.iter_mut().for_each(|edge| edge.selectivity = edge.selectivity.max(SELECTIVITY_MIN));
        let mut entry = vec![0.0; count];
        for &(operator, tuples) in entries {
            *entry.get_mut(operator).ok_or(Error::Pipeline(PipelineFault::Unreached(operator)))? += tuples;
        }
        let edges_of = |end: fn(&Edge) -> usize| {
            let of = |operator| (0..edges.len()).filter(|&edge| end(&edges[edge]) == operator).collect();
            (0..count).map(of).collect::<Vec<Vec<usize>>>()
        };
        let (outgoing, incoming) = (edges_of(|edge| edge.from), edges_of(|edge| edge.to));
        let unreached = (0..count).find(|&operator| entry[operator] == 0.0 && incoming[operator].is_empty());
        if let Some(operator) = unreached {
            return Err(Error::Pipeline(PipelineFault::Unreached(operator)));
        }
        Ok(Pipeline { operators, keys, edges, outgoing, incoming, entry })
    }

    /// Returns the operators.
    #[must_use]
    pub fn operators(&self) -> &[Operator] {
        &self.operators
    }

    /// Returns the edges.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Returns the partition keys.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Returns whether each operator sends only to the next one, and tuples enter only at the first.
    #[must_use]
    pub fn is_chain(&self) -> bool {
        self.edges.len() + 1 == self.operators.len()
            && self.edges.iter().all(|edge| edge.to == edge.from + 1)
            && self.entry[1..].iter().all(|&tuples| tuples == 0.0)
    }

    /// Returns the outgoing edges of an operator, in the order in which it sends.
    pub(crate) fn outgoing(&self, operator: usize) -> &[usize] {
        &self.outgoing[operator]
    }

    /// Returns the incoming edges of an operator.
    pub(crate) fn incoming(&self, operator: usize) -> &[usize] {
        &self.incoming[operator]
    }

    /// Returns the tuples that enter an operator from outside per tuple that arrives at the pipeline.
    ///
    /// # Panics
    /// If the pipeline does not have the operator.
    #[must_use]
    pub fn entry(&self, operator: usize) -> f64 {
        self.entry[operator]
    }

    /// Returns the maximum number of replicas of these operators on one key; 1 if they have none or different ones,
    /// or are an end of the pipeline.
    pub(crate) fn replicas_max(&self, operators: impl IntoIterator<Item = usize>) -> usize {
        self.shared_key(operators).map_or(1, |key| key.max_share.len())
    }

    /// Returns the share of the busiest of `replicas` of these operators; `None` if they cannot have this number of
    /// replicas.
    pub(crate) fn max_share(&self, operators: &[usize], replicas: usize) -> Option<f64> {
        if replicas == 1 {
            return Some(1.0);
        }
        self.shared_key(operators.iter().copied())?.max_share.get(replicas - 1).copied()
    }

    /// Returns the common key of these operators. `None` if one is an end of the pipeline: the source runs on the
    /// core of an entry, and results are put in order on the core of an exit.
    fn shared_key(&self, operators: impl IntoIterator<Item = usize>) -> Option<&Key> {
        let is_end = |operator: usize| self.entry[operator] > 0.0 || self.outgoing[operator].is_empty();
        let key = |operator: usize| self.operators[operator].key.filter(|_| !is_end(operator));
        let mut keys = operators.into_iter().map(key);
        let first = keys.next()??;
        keys.all(|key| key == Some(first)).then(|| &self.keys[first])
    }
}

fn check_edges(edges: &[Edge], operators: usize) -> Result<(), Error> {
    for (index, &Edge { from, to, .. }) in edges.iter().enumerate() {
        if from >= to || to >= operators {
            return Err(Error::Pipeline(PipelineFault::Edge { from, to }));
        }
        if edges[..index].iter().any(|other| (other.from, other.to) == (from, to)) {
            return Err(Error::Pipeline(PipelineFault::Parallel { from, to }));
        }
    }
    Ok(())
}

fn check_figures(
    operators: &[Operator],
    edges: &[Edge],
    entries: &[(usize, f64)],
    keys: &[Key],
) -> Result<(), Error> {
    for (index, operator) in operators.iter().enumerate() {
        positive("service time in ns", operator.service_ns)?;
        not_negative("squared variation of a service time", operator.service_scv)?;
        if operator.key.is_some_and(|key| key >= keys.len()) {
            return Err(Error::Pipeline(PipelineFault::Key(index)));
        }
    }
    edges.iter().try_for_each(|edge| not_negative("selectivity", edge.selectivity))?;
    entries.iter().try_for_each(|&(_, tuples)| positive("tuples at an entry", tuples))?;
    keys.iter().try_for_each(check_key)
}

fn check_key(key: &Key) -> Result<(), Error> {
    for (index, &share) in key.max_share.iter().enumerate() {
        let least = 1.0 / (index + 1) as f64;
        // Measured shares may be slightly below 1/r due to rounding.
        if !(least * 0.999..=1.0).contains(&share) {
            let range = "from 1/r to 1";
            return Err(Error::Value { what: "share of the busiest of r replicas", value: share, range });
        }
    }
    if key.max_share.is_empty() {
        let (what, range) = ("number of shares of a key", "1 or more");
        return Err(Error::Value { what, value: 0.0, range });
    }
    Ok(())
}

fn not_negative(what: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(Error::Value { what, value, range: "0 or more" })
    }
}

fn positive(what: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(Error::Value { what, value, range: "more than 0" })
    }
}
