//! Worst case of the operators and cores of a placement.

use std::collections::BTreeMap;

use super::{ArrivalBounds, at_least};
use crate::{Error, Group, Pipeline};

/// Worst case of the operators and cores of a placement.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkBounds {
    /// Longest CPU time of each operator per tuple taken, in nanoseconds.
    pub service_max_ns: Vec<f64>,
    /// Maximum tuples sent along each edge per tuple that its sender takes.
    pub outputs_max: Vec<u32>,
    /// Maximum total time, in nanoseconds, for which a core is stalled between two moments when its group has no
    /// tuple to take, apart from the share `stall_ratio`.
    pub stall_max_ns: f64,
    /// Long-term share of the time for which a core is stalled, below 1.
    pub stall_ratio: f64,
    /// By key: division of the tuples among replicas. For other keys a replica may take all of them.
    pub replicas: BTreeMap<usize, ReplicaBounds>,
    /// By operator: tuples that arrive at its entry. Any other entry may receive all tuples of the input, as often as
    /// its mean number of tuples, rounded up.
    pub entries: BTreeMap<usize, ArrivalBounds>,
}

/// Worst case of a division of tuples among replicas: of any `n` consecutive tuples of an edge, a replica takes at
/// most `burst_tuples + share n`. A mean share does not bound it: keys may come one after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicaBounds {
    /// Long-term share that a replica takes, from 1/r for `r` replicas to 1.
    pub share: f64,
    /// Tuples that it takes beyond its share, 0 or more.
    pub burst_tuples: f64,
}

impl ReplicaBounds {
    /// A replica may take all tuples.
    pub(super) const ALL: ReplicaBounds = ReplicaBounds { share: 1.0, burst_tuples: 0.0 };
}

impl WorkBounds {
    /// Creates bounds of operators that take at most `service_max_ratio` times their mean service time, and send
    /// along each edge at most its selectivity, rounded up; cores do not stall. Any division among replicas and
    /// entries is permitted.
    #[must_use]
    pub fn of_means(pipeline: &Pipeline, service_max_ratio: f64) -> WorkBounds {
        let service_max_ns = |operator: &crate::Operator| operator.service_ns * service_max_ratio;
        WorkBounds {
            service_max_ns: pipeline.operators().iter().map(service_max_ns).collect(),
            // Larger counts saturate at the maximum, which is rejected.
            outputs_max: pipeline.edges().iter().map(|edge| edge.selectivity.ceil() as u32).collect(),
            stall_max_ns: 0.0,
            stall_ratio: 0.0,
            replicas: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    /// Adds stalls of the cores.
    #[must_use]
    pub fn with_stalls(self, stall_max_ns: f64, stall_ratio: f64) -> WorkBounds {
        WorkBounds { stall_max_ns, stall_ratio, ..self }
    }

    /// Adds bounds of the division among replicas by a key, by its index.
    #[must_use]
    pub fn with_replicas(mut self, key: usize, bounds: ReplicaBounds) -> WorkBounds {
        self.replicas.insert(key, bounds);
        self
    }

    /// Adds bounds of the tuples that arrive at an operator's entry.
    #[must_use]
    pub fn with_entry(mut self, operator: usize, bounds: ArrivalBounds) -> WorkBounds {
        self.entries.insert(operator, bounds);
        self
    }

    /// Returns the division of the tuples among a group's replicas.
    pub(super) fn of_replicas(&self, pipeline: &Pipeline, group: &Group) -> ReplicaBounds {
        let key = pipeline.operators()[group.operators[0]].key.filter(|_| group.cores.len() > 1);
        key.and_then(|key| self.replicas.get(&key)).copied().unwrap_or(ReplicaBounds::ALL)
    }

    /// Returns the bounds of the tuples that arrive at an operator's entry, with a mean of `tuples` per tuple of the
    /// input.
    pub(super) fn of_entry(&self, operator: usize, tuples: f64, input: ArrivalBounds) -> ArrivalBounds {
        let all = ArrivalBounds {
            burst_tuples: input.burst_tuples * tuples.ceil(),
            rate_per_s: input.rate_per_s * tuples.ceil(),
        };
        self.entries.get(&operator).copied().unwrap_or(all)
    }

    pub(super) fn check(&self, pipeline: &Pipeline) -> Result<(), Error> {
        let lengths = [
            ("number of longest service times", self.service_max_ns.len(), pipeline.operators().len()),
            ("number of largest outputs", self.outputs_max.len(), pipeline.edges().len()),
        ];
        for (what, given, needed) in lengths {
            if given != needed {
                let range = "one for each operator, or edge, of the pipeline";
                return Err(Error::Value { what, value: given as f64, range });
            }
        }
        for &service_max_ns in &self.service_max_ns {
            at_least("longest service time in ns", service_max_ns, f64::MIN_POSITIVE)?;
        }
        for &outputs_max in &self.outputs_max {
            at_least("largest number of outputs", f64::from(outputs_max), 1.0)?;
            if outputs_max == u32::MAX {
                let (what, range) = ("largest number of outputs", "less than 4294967295");
                return Err(Error::Value { what, value: f64::from(outputs_max), range });
            }
        }
        for (&key, bounds) in &self.replicas {
            if key >= pipeline.keys().len() {
                let (what, range) = ("key of a division among replicas", "less than the number of keys");
                return Err(Error::Value { what, value: key as f64, range });
            }
            at_least("tuples beyond the share of a replica", bounds.burst_tuples, 0.0)?;
        }
        for (&operator, bounds) in &self.entries {
            if operator >= pipeline.operators().len() || pipeline.entry(operator) == 0.0 {
                let (what, range) = ("operator with bounds of its entry", "one that has an entry");
                return Err(Error::Value { what, value: operator as f64, range });
            }
            bounds.check()?;
        }
        super::check_stalls(self.stall_max_ns, self.stall_ratio)
    }
}
