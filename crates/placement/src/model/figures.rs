//! Latency and utilization of a placement.

use serde::{Deserialize, Serialize};

use super::stage::Stage;
use super::{Model, Placement};
use crate::{Distance, Error};

/// Figures of a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Mean latency of a result on the longest path, in nanoseconds; infinite if a core is overloaded.
    pub latency_ns: f64,
    /// Part of the latency that is waiting due to irregular or simultaneous arrivals, in nanoseconds.
    pub arrival_wait_ns: f64,
    /// Utilization of each group's core, of its busiest replica: from 1 on it is overloaded.
    #[serde(rename = "utilization_ratio", alias = "utilisation_ratio")]
    pub utilization: Vec<f64>,
}

impl Figures {
    /// Returns the utilization of the busiest core.
    #[must_use]
    pub fn utilization_max(&self) -> f64 {
        self.utilization.iter().copied().fold(0.0, f64::max)
    }
}

impl Model<'_> {
    /// Returns the figures of a placement.
    ///
    /// # Errors
    /// Returns the errors of [`Model::check`].
    pub fn figures(&self, placement: &Placement) -> Result<Figures, Error> {
        self.check(placement)?;
        Ok(self.figures_of_valid(placement))
    }

    /// Returns the figures of a placement that [`Model::check`] accepts.
    pub(crate) fn figures_of_valid(&self, placement: &Placement) -> Figures {
        let group_of = placement.group_of(self.pipeline.operators().len());
        let hop_of = |edge: usize| {
            let edge = &self.pipeline.edges()[edge];
            let (from, to) = (group_of[edge.from], group_of[edge.to]);
            let core = |group: usize| placement.groups[group].cores[0];
            (from != to).then(|| self.topology.distance(core(from), core(to)))
        };
        let stage = |group: &super::Group| {
            let stage = Stage::new(self, &group.operators, group.cores.len(), &hop_of);
            stage.expect("the placement was checked")
        };
        let stages: Vec<Stage> = placement.groups.iter().map(stage).collect();
        let arrival_wait_ns = stages.iter().map(|stage| stage.arrival_wait_ns).fold(0.0, f64::max);
        Figures {
            latency_ns: self.longest_path_ns(&stages, &group_of, &hop_of) + arrival_wait_ns,
            arrival_wait_ns,
            utilization: stages.iter().map(|stage| stage.utilization).collect(),
        }
    }

    /// Returns the time of the longest path, without the wait due to irregular arrivals.
    fn longest_path_ns(
        &self,
        stages: &[Stage],
        group_of: &[usize],
        hop_of: &dyn Fn(usize) -> Option<Distance>,
    ) -> f64 {
        let pipeline = self.pipeline;
        let mut begin_ns = Vec::with_capacity(group_of.len());
        let mut longest: f64 = 0.0;
        for (operator, data) in pipeline.operators().iter().enumerate() {
            let stage = &stages[group_of[operator]];
            let mut begin = if pipeline.entry(operator) > 0.0 { stage.entry_ns() } else { 0.0 };
            for &edge in pipeline.incoming(operator) {
                let from = pipeline.edges()[edge].from;
                let distance = hop_of(edge);
                let sent: f64 = begin_ns[from] + stages[group_of[from]].service_ns(self, edge, distance);
                let hop = distance.map_or(0.0, |distance| stage.hop_ns(self, edge, distance));
                begin = begin.max(sent + hop);
            }
            begin_ns.push(begin);
            longest = longest.max(begin + data.service_ns);
        }
        longest
    }
}
