//! Topologies, pipelines and plans as they are written to files: what was read is checked as if it had been
//! built anew. Keys of figures end in their unit.

use serde::{Deserialize, Serialize};

use crate::{
    Arrivals, Bins, Constraints, Edge, Error, Hop, Key, Operator, Pipeline, Plan, PlanTable, Topology,
};

/// A [`Topology`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedTopology {
    /// Cores of each domain.
    domain_cores: Vec<usize>,
    near: Hop,
    far: Hop,
    /// The operating system's number of each core; in order if left out.
    #[serde(default)]
    cpus: Option<Vec<usize>>,
}

impl From<Topology> for SavedTopology {
    fn from(topology: Topology) -> SavedTopology {
        let [near, far] = crate::Distance::ALL.map(|distance| *topology.hop(distance));
        let cpus = (0..topology.cores()).map(|core| topology.cpu_of(core)).collect();
        SavedTopology { domain_cores: topology.domains().to_vec(), near, far, cpus: Some(cpus) }
    }
}

impl TryFrom<SavedTopology> for Topology {
    type Error = Error;

    fn try_from(saved: SavedTopology) -> Result<Topology, Error> {
        let topology = Topology::two_level(saved.domain_cores, saved.near, saved.far)?;
        match saved.cpus {
            Some(cpus) => topology.with_cpus(cpus),
            None => Ok(topology),
        }
    }
}

/// A [`Pipeline`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedPipeline {
    operators: Vec<Operator>,
    edges: Vec<Edge>,
    entries: Vec<SavedEntry>,
    #[serde(default)]
    keys: Vec<Key>,
}

/// An operator that receives tuples from outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedEntry {
    operator: usize,
    /// Tuples per tuple that arrives at the pipeline.
    tuples_ratio: f64,
}

impl From<Pipeline> for SavedPipeline {
    fn from(pipeline: Pipeline) -> SavedPipeline {
        let entry = |operator| SavedEntry { operator, tuples_ratio: pipeline.entry(operator) };
        let entries = (0..pipeline.operators().len()).map(entry).filter(|entry| entry.tuples_ratio > 0.0);
        SavedPipeline {
            operators: pipeline.operators().to_vec(),
            edges: pipeline.edges().to_vec(),
            entries: entries.collect(),
            keys: pipeline.keys().to_vec(),
        }
    }
}

impl TryFrom<SavedPipeline> for Pipeline {
    type Error = Error;

    fn try_from(saved: SavedPipeline) -> Result<Pipeline, Error> {
        let entries: Vec<(usize, f64)> =
            saved.entries.iter().map(|entry| (entry.operator, entry.tuples_ratio)).collect();
        Pipeline::graph(saved.operators, saved.edges, &entries, saved.keys)
    }
}

/// [`Arrivals`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedArrivals {
    rate_per_s: f64,
    dispersion_ratio: f64,
}

impl From<Arrivals> for SavedArrivals {
    fn from(arrivals: Arrivals) -> SavedArrivals {
        SavedArrivals { rate_per_s: arrivals.rate_per_s(), dispersion_ratio: arrivals.dispersion() }
    }
}

impl TryFrom<SavedArrivals> for Arrivals {
    type Error = Error;

    fn try_from(saved: SavedArrivals) -> Result<Arrivals, Error> {
        Arrivals::new(saved.rate_per_s, saved.dispersion_ratio)
    }
}

/// An entry of a [`PlanTable`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedPlan {
    /// The highest rate that the plan is for.
    held_per_s: f64,
    plan: Plan,
}

impl From<PlanTable> for Vec<SavedPlan> {
    fn from(table: PlanTable) -> Vec<SavedPlan> {
        let saved =
            |(held_per_s, plan): &(f64, Plan)| SavedPlan { held_per_s: *held_per_s, plan: plan.clone() };
        table.entries().iter().map(saved).collect()
    }
}

impl TryFrom<Vec<SavedPlan>> for PlanTable {
    type Error = Error;

    fn try_from(saved: Vec<SavedPlan>) -> Result<PlanTable, Error> {
        PlanTable::from_entries(saved.into_iter().map(|saved| (saved.held_per_s, saved.plan)).collect())
    }
}

/// [`Constraints`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedConstraints {
    #[serde(default)]
    pinned: Vec<SavedPin>,
    #[serde(default)]
    reserved_cores: Vec<usize>,
}

/// An operator that stays on a core.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedPin {
    operator: usize,
    core: usize,
}

impl From<Constraints> for SavedConstraints {
    fn from(constraints: Constraints) -> SavedConstraints {
        let pinned = constraints.pinned().map(|(operator, core)| SavedPin { operator, core }).collect();
        SavedConstraints { pinned, reserved_cores: constraints.reserved().collect() }
    }
}

impl From<SavedConstraints> for Constraints {
    fn from(saved: SavedConstraints) -> Constraints {
        let pin = |constraints: Constraints, pin: SavedPin| constraints.pin(pin.operator, pin.core);
        let pinned = saved.pinned.into_iter().fold(Constraints::default(), pin);
        saved.reserved_cores.into_iter().fold(pinned, Constraints::reserve)
    }
}

/// [`Bins`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedBins {
    replica_of: Vec<usize>,
    replicas: usize,
}

impl From<Bins> for SavedBins {
    fn from(bins: Bins) -> SavedBins {
        SavedBins { replica_of: bins.replica_of().to_vec(), replicas: bins.replicas() }
    }
}

impl TryFrom<SavedBins> for Bins {
    type Error = Error;

    fn try_from(saved: SavedBins) -> Result<Bins, Error> {
        Bins::from_parts(saved.replica_of, saved.replicas)
    }
}
