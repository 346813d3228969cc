//! Cores in cache domains, and the costs of passing a tuple from one core to another.
//!
//! Two levels: cores of one domain share a cache and are *near*, all others are *far*. The costs are data, measured
//! or assumed; the module does not examine the machine.

mod saved;

use serde::{Deserialize, Serialize};

use std::collections::BTreeSet;

use crate::Error;
use saved::SavedTopology;

/// Maximum cores of a topology: Linux supports at most 8192 CPUs, and a damaged file must not exhaust memory.
pub(crate) const CORES_MAX: usize = 1 << 16;

/// Costs of a hop: a tuple passed through a ring between two cores. All are nanoseconds per tuple.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hop {
    /// CPU time of the sender: the push.
    pub send_ns: f64,
    /// Transit time, which no core spends.
    pub transit_ns: f64,
    /// CPU time of the receiver: the pop, including the cache misses that stall it.
    pub receive_ns: f64,
    /// Time from the wake-up call until a parked receiver runs.
    pub wake_ns: f64,
    /// CPU time of the sender that wakes a parked receiver.
    pub waker_ns: f64,
}

impl Hop {
    /// A hop that costs nothing, to be completed by struct update.
    pub const FREE: Hop = Hop { send_ns: 0.0, transit_ns: 0.0, receive_ns: 0.0, wake_ns: 0.0, waker_ns: 0.0 };

    /// Returns all costs, in the order of the fields.
    fn costs_ns(&self) -> [f64; 5] {
        [self.send_ns, self.transit_ns, self.receive_ns, self.wake_ns, self.waker_ns]
    }
}

/// Distance of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Between cores of one cache domain.
    Near,
    /// Between cores of different cache domains.
    Far,
}

impl Distance {
    /// Both distances, the nearer first.
    pub const ALL: [Distance; 2] = [Distance::Near, Distance::Far];
}

/// Cores in cache domains. Core numbers count through the domains: the first domain has the lowest. The operating
/// system's numbers may differ ([`Topology::cpu_of`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SavedTopology", into = "SavedTopology")]
pub struct Topology {
    /// Number of cores of each domain.
    domains: Vec<usize>,
    /// The domain of each core.
    domain_of: Vec<usize>,
    near: Hop,
    far: Hop,
    /// The operating system's number of each core.
    cpus: Vec<usize>,
}

impl Topology {
    /// Creates `cores` cores that are all near each other.
    ///
    /// # Errors
    /// Returns the errors of [`Topology::two_level`].
    pub fn uniform(cores: usize, hop: Hop) -> Result<Topology, Error> {
        Topology::two_level(vec![cores], hop, hop)
    }

    /// Creates cache domains with these numbers of cores, and the costs of a hop within one, and between two.
    ///
    /// # Errors
    /// If no domain is given, a domain has no cores, there are more than 65536 cores, or a cost is negative or not
    /// finite.
    pub fn two_level(domains: Vec<usize>, near: Hop, far: Hop) -> Result<Topology, Error> {
        if domains.is_empty() || domains.contains(&0) {
            return Err(Error::NoCores);
        }
        let cores = domains.iter().fold(0_usize, |sum, &cores| sum.saturating_add(cores));
        if cores > CORES_MAX {
            return Err(Error::Value {
                what: "number of cores",
                value: cores as f64,
                range: "65536 or less",
            });
        }
        let costs = near.costs_ns().into_iter().chain(far.costs_ns());
        if let Some(cost) = costs.into_iter().find(|cost| !(cost.is_finite() && *cost >= 0.0)) {
            return Err(Error::Value { what: "cost of a hop in ns", value: cost, range: "0 or more" });
        }
        let domain_of: Vec<usize> =
            domains.iter().enumerate().flat_map(|(domain, &cores)| vec![domain; cores]).collect();
        let cpus = (0..domain_of.len()).collect();
        Ok(Topology { domains, domain_of, near, far, cpus })
    }

    /// Sets the operating system's number of each core, in the order of cores. By default core 0 is CPU 0, and so on.
    ///
    /// # Errors
    /// Unless there is one number for each core, each different.
    pub fn with_cpus(self, cpus: Vec<usize>) -> Result<Topology, Error> {
        if cpus.len() != self.cores() {
            let (what, range) = ("number of CPU numbers", "the number of cores");
            return Err(Error::Value { what, value: cpus.len() as f64, range });
        }
        let mut numbers = BTreeSet::new();
        if let Some(&cpu) = cpus.iter().find(|&&cpu| !numbers.insert(cpu)) {
            let (what, range) = ("CPU number", "that of one core alone");
            return Err(Error::Value { what, value: cpu as f64, range });
        }
        Ok(Topology { cpus, ..self })
    }

    /// Returns the operating system's number of a core.
    ///
    /// # Panics
    /// If `core` is not below [`Topology::cores`].
    #[must_use]
    pub fn cpu_of(&self, core: usize) -> usize {
        self.cpus[core]
    }

    /// Returns the core with a number of the operating system.
    #[must_use]
    pub fn core_of_cpu(&self, cpu: usize) -> Option<usize> {
        self.cpus.iter().position(|&other| other == cpu)
    }

    /// Returns the number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.domain_of.len()
    }

    /// Returns the number of cores of each domain.
    #[must_use]
    pub fn domains(&self) -> &[usize] {
        &self.domains
    }

    /// Returns the domain of a core.
    ///
    /// # Panics
    /// If `core` is not below [`Topology::cores`].
    #[must_use]
    pub fn domain_of(&self, core: usize) -> usize {
        self.domain_of[core]
    }

    /// Returns the cores of a domain.
    pub(crate) fn cores_of(&self, domain: usize) -> std::ops::Range<usize> {
        let first = self.domains[..domain].iter().sum();
        first..first + self.domains[domain]
    }

    /// Returns the distance between two different cores.
    ///
    /// # Panics
    /// If a core is not below [`Topology::cores`].
    #[must_use]
    pub fn distance(&self, from: usize, to: usize) -> Distance {
        if self.domain_of[from] == self.domain_of[to] { Distance::Near } else { Distance::Far }
    }

    /// Returns the costs of a hop.
    #[must_use]
    pub fn hop(&self, distance: Distance) -> &Hop {
        match distance {
            Distance::Near => &self.near,
            Distance::Far => &self.far,
        }
    }

    /// Returns whether near and far hops differ only in transit, so that neither the load of a core nor a wake-up
    /// depends on the distance.
    pub(crate) fn differs_in_transit_only(&self) -> bool {
        Hop { transit_ns: 0.0, ..self.near } == Hop { transit_ns: 0.0, ..self.far }
    }
}
