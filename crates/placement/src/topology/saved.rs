//! Serialized form of a topology; deserialized values are validated like new ones.

use serde::{Deserialize, Serialize};

use super::{Distance, Hop, Topology};
use crate::Error;

/// A [`Topology`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedTopology {
    /// Number of cores of each domain.
    domain_cores: Vec<usize>,
    near: Hop,
    far: Hop,
    /// The operating system's number of each core; consecutive from 0 if omitted.
    #[serde(default)]
    cpus: Option<Vec<usize>>,
}

impl From<Topology> for SavedTopology {
    fn from(topology: Topology) -> SavedTopology {
        let [near, far] = Distance::ALL.map(|distance| *topology.hop(distance));
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
