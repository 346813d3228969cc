//! Parameters of the cores: scheduling, distances, and wake-up latency.

use sakiyomi_model::Nanos;
use serde::{Deserialize, Serialize};

use super::SpecError;
use super::error::impossible;

/// Scheduling of threads on cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreScheduler {
    /// All threads share all cores evenly at any moment; threads are not assigned to cores.
    #[default]
    Shared,
    /// Each burst runs on one core, whose threads share it evenly: the core named by the workload, or else the least
    /// loaded one, preferably near the thread's last core.
    PerCore,
}

/// Costs of moving from one core to another, by distance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HopSpec {
    /// Between threads of the same core.
    pub core: Nanos,
    /// Between cores that share an L2 cache.
    pub l2: Nanos,
    /// Between cores of the same node.
    pub node: Nanos,
    /// Between nodes.
    pub remote: Nanos,
}

/// Parameters of the cores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSpec {
    /// Scheduling of threads on the cores (`cpu.cores`).
    pub scheduler: CoreScheduler,
    /// Number of neighboring cores that share an L2 cache.
    pub cores_per_l2: u32,
    /// Number of neighboring cores that share a node (a socket with its memory); all if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores_per_node: Option<u32>,
    /// Costs of hops, charged on the target core: of a thread that moves, and of data handed over by another thread.
    pub hop: HopSpec,
    /// Latency of waking up an idle core, spent on that core.
    pub wake: Nanos,
    /// Time for which an idle core spins, during which no wake-up is needed.
    pub spin: Nanos,
}

impl Default for MachineSpec {
    fn default() -> MachineSpec {
        MachineSpec {
            scheduler: CoreScheduler::Shared,
            cores_per_l2: 1,
            cores_per_node: None,
            hop: HopSpec::default(),
            wake: Nanos::ZERO,
            spin: Nanos::ZERO,
        }
    }
}

/// Maximum number of individually scheduled cores, all of which are searched for the least loaded one.
const CORES_MAX: u32 = 1024;
/// Maximum hop or wake-up time. Measured ones are nanoseconds to milliseconds.
const HOP_MAX: Nanos = Nanos::SECOND;

impl MachineSpec {
    pub(super) fn check(&self, cores: u32) -> Result<(), SpecError> {
        let is_shared = self.scheduler == CoreScheduler::Shared;
        let HopSpec { core, l2, node, remote } = self.hop;
        let needs_cores =
            "cores have no distances while they are shared; set machine.scheduler to `per-core`";
        let a_second = "a second at most";
        let rules = [
            ("cores_per_l2", self.cores_per_l2 > 0, "at least 1"),
            (
                "cores_per_node",
                self.cores_per_node.is_none_or(|node| node > 0 && node.is_multiple_of(self.cores_per_l2)),
                "a multiple of machine.cores_per_l2",
            ),
            ("hop.core", core <= HOP_MAX, a_second),
            ("hop.l2", l2 <= HOP_MAX, a_second),
            ("hop.node", node <= HOP_MAX, a_second),
            ("hop.remote", remote <= HOP_MAX, a_second),
            ("wake", self.wake <= HOP_MAX, a_second),
            ("spin", self.spin <= Nanos::SECOND * 3600, "an hour at most"),
            ("hop", !is_shared || self.hop == HopSpec::default(), needs_cores),
            ("wake", !is_shared || self.wake.is_zero(), needs_cores),
            ("spin", !is_shared || self.spin.is_zero(), needs_cores),
        ];
        if let Some((key, _, problem)) = rules.into_iter().find(|(_, holds, _)| !holds) {
            return Err(impossible(&format!("machine.{key}"), problem));
        }
        if !is_shared && cores > CORES_MAX {
            let problem = "1024 at most where machine.scheduler is `per-core`";
            return Err(impossible("cpu.cores", problem));
        }
        Ok(())
    }

    /// Returns the latency of a hop between cores.
    pub(crate) fn hop(&self, from: usize, to: usize) -> Nanos {
        let is_within = |cores: usize| from / cores == to / cores;
        match self.cores_per_node {
            _ if from == to => self.hop.core,
            _ if is_within(self.cores_per_l2 as usize) => self.hop.l2,
            Some(node) if !is_within(node as usize) => self.hop.remote,
            _ => self.hop.node,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_takes_as_long_as_the_cores_are_apart() {
        let hop = HopSpec { core: Nanos(10), l2: Nanos(50), node: Nanos(150), remote: Nanos(400) };
        let machine = MachineSpec { cores_per_l2: 2, cores_per_node: Some(4), hop, ..MachineSpec::default() };
        let from_5: Vec<u64> = (0..8).map(|to| machine.hop(5, to).0).collect();
        assert_eq!(from_5, [400, 400, 400, 400, 50, 10, 150, 150]);
        let one_node = MachineSpec { cores_per_node: None, ..machine };
        assert_eq!(one_node.hop(0, 7), Nanos(150));
    }
}
