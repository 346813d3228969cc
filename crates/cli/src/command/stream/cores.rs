//! The cores that streams may use, with what messages between them cost: measured once, and saved.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_os::topology::{Cpus, Topology as Machine};
use sakiyomi_placement::{Distance, Topology};
use sakiyomi_probe::Error;
use sakiyomi_probe::calibration::document::{self, Kind};
use sakiyomi_probe::calibration::{self, default_directory};
use sakiyomi_probe::cores::{CoreCost, measure};
use sakiyomi_stream::adapt::machine::{MessageCost, topology};
use serde::{Deserialize, Serialize};

use crate::progress::{Interrupted, go_on};

/// Measured costs of messages between cores, as they are saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CoreCosts {
    schema: String,
    measured_unix_s: u64,
    machine: calibration::Machine,
    pub(super) costs: Vec<CoreCost>,
}

const KIND: Kind = Kind {
    schema: "sakiyomi.core-costs/1",
    name: "file of costs between cores",
    command: "sakiyomi stream topology",
};

impl CoreCosts {
    /// Measures one pair of CPUs at each distance, for two tenths of a second each.
    pub(super) fn measure() -> Result<CoreCosts> {
        let costs = measure(&mut || go_on().map_err(|Interrupted| Error::Interrupted));
        let costs = costs.map_err(|error| match error {
            Error::Interrupted => Interrupted.into(),
            error => anyhow::Error::from(error),
        })?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let machine = calibration::Machine::current();
        Ok(CoreCosts { schema: KIND.schema.to_owned(), measured_unix_s: now.as_secs(), machine, costs })
    }

    pub(super) fn to_json(&self) -> String {
        document::to_json(self)
    }

    /// The saved costs, if there are any of this machine and these CPUs.
    fn saved() -> Result<Option<CoreCosts>> {
        let Some(path) = default_path().filter(|path| path.exists()) else { return Ok(None) };
        let costs: CoreCosts = document::load(KIND, &path, CoreCosts::fault)?;
        let is_of_here = costs.machine == calibration::Machine::current() && costs.has_all_distances()?;
        Ok(is_of_here.then_some(costs))
    }

    /// Returns whether there are costs for each distance between the CPUs that may be used: they may have been
    /// measured among others.
    fn has_all_distances(&self) -> Result<bool> {
        let pairs = Machine::of_machine().pairs(&cpus()?);
        Ok(pairs.iter().all(|(distance, ..)| self.costs.iter().any(|cost| cost.distance == *distance)))
    }

    fn fault(&self) -> Option<String> {
        let times = |cost: &CoreCost| [cost.hop_ns, cost.wake_ns, cost.waker_ns];
        let mut all = self.costs.iter().flat_map(times).flatten();
        all.any(|ns| !(ns.is_finite() && ns >= 0.0)).then(|| "a time is negative or not a number".to_owned())
    }

    /// Returns the cores of these CPUs.
    pub(super) fn topology(&self, cpus: &Cpus) -> Result<Topology> {
        let cost = |cost: &CoreCost| MessageCost {
            distance: cost.distance,
            hop_ns: cost.hop_ns,
            wake_ns: cost.wake_ns,
            waker_ns: cost.waker_ns,
        };
        let costs: Vec<MessageCost> = self.costs.iter().map(cost).collect();
        Ok(topology(&Machine::of_machine(), cpus, &costs)?)
    }
}

/// The cores of this machine with saved costs, or those of a Xeon: the same at each call.
fn unmeasured() -> Result<Topology> {
    match CoreCosts::saved()? {
        Some(costs) => costs.topology(&cpus()?),
        None => Ok(topology(&Machine::of_machine(), &cpus()?, &[])?),
    }
}

/// The place of the saved costs; `None` where no directory for them is known.
pub(super) fn default_path() -> Option<PathBuf> {
    Some(default_directory()?.join("stream/cores.json"))
}

/// Creates the directory of the saved costs.
pub(super) fn make_directory(path: &Path) -> Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot create the directory {}", directory.display()))
}

/// Returns the CPUs that this process may use.
pub(super) fn cpus() -> Result<Cpus> {
    Ok(usable_cpus()?)
}

/// Returns the machine of a simulation: one with these cores, or this one.
pub(super) fn simulated(cores: Option<Cores>) -> Result<Topology> {
    cores.map_or_else(unmeasured, Cores::elsewhere)
}

/// Returns the cores of this machine; only the first ones if there are to be fewer.
pub(super) fn here(cores: Option<usize>) -> Result<Topology> {
    let costs = CoreCosts::saved()?.map_or_else(CoreCosts::measure, Ok)?;
    let all = costs.topology(&cpus()?)?;
    let Some(cores) = cores else { return Ok(all) };
    ensure!(
        cores <= all.cores(),
        "--cores-max {cores}: this process may use {} cores; give at most that many, or plan for other machines with `sakiyomi stream plan`",
        all.cores()
    );
    let first = (0..cores).map(|core| all.cpu_of(core)).collect();
    costs.topology(&first)
}

/// A number of cores, in cache domains: `8`, or `4x8` for 4 domains of 8 cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cores {
    domains: usize,
    each: usize,
}

/// Largest number of cores of a machine that a plan is made for: the dynamic programs take seconds beyond it.
const PLANNED_CORES_MAX: usize = 1024;

impl Cores {
    /// Returns a machine with these cores, on which hops cost what they do here as far as that is saved, or else on a
    /// Xeon.
    pub(super) fn elsewhere(self) -> Result<Topology> {
        let here = unmeasured()?;
        let [near, far] = Distance::ALL.map(|distance| *here.hop(distance));
        Ok(Topology::two_level(vec![self.each; self.domains], near, far)?)
    }
}

impl FromStr for Cores {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Cores> {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&number| number > 0);
        let (domains, each) = match text.split_once('x') {
            Some((domains, each)) => (number(domains), number(each)),
            None => (Some(1), number(text)),
        };
        let Some((domains, each)) = domains.zip(each) else {
            bail!("give a number of cores, such as 8, or cache domains and cores of each, such as 4x8");
        };
        let cores = domains.saturating_mul(each);
        ensure!(cores <= PLANNED_CORES_MAX, "{cores} cores: give {PLANNED_CORES_MAX} at most");
        Ok(Cores { domains, each })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_a_number_or_domains_of_a_number() {
        let parsed = |text: &str| text.parse::<Cores>().map(|cores| (cores.domains, cores.each)).ok();
        assert_eq!(parsed("8"), Some((1, 8)));
        assert_eq!(parsed("4x8"), Some((4, 8)));
        for mistake in ["", "0", "x", "4x", "x4", "4x0", "-1", "2000", "99999999999x99999999999"] {
            assert_eq!(parsed(mistake), None, "{mistake}");
        }
    }

    #[test]
    fn costs_are_the_same_after_they_were_saved() {
        let costs = CoreCosts {
            schema: KIND.schema.to_owned(),
            measured_unix_s: 7,
            machine: calibration::Machine::current(),
            costs: Vec::new(),
        };
        let read =
            document::parse(KIND, costs.to_json().as_bytes(), Path::new("cores.json"), CoreCosts::fault);
        assert_eq!(read.unwrap(), costs);
    }
}
