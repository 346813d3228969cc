//! This machine as a planner sees it: cores in cache domains, and what it costs to hand a tuple over.

use std::collections::BTreeSet;

use sakiyomi_os::topology::{Cpus, Distance, Topology as Machine};
use sakiyomi_placement::{Error, Hop, Topology};

/// One way of a cache line where it was not measured, in nanoseconds: two cores of a Xeon (Sapphire Rapids) that share
/// a cache.
const LINE_ASSUMED_NS: f64 = 150.0;

/// Time from a wake-up call until the sleeper runs where it was not measured, in nanoseconds, on the same machine.
const WAKE_ASSUMED_NS: f64 = 25_000.0;

/// CPU time of a wake-up call where it was not measured, in nanoseconds, on the same machine.
const WAKER_ASSUMED_NS: f64 = 9_000.0;

/// CPU time of a push or a pop of a ring whose lines are in the core's own cache, in nanoseconds: both take 11 ns.
const RING_OPERATION_NS: f64 = 5.5;

/// Costs of a message between two CPUs at one distance, in nanoseconds, as measured; none where it could not be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageCost {
    /// The distance.
    pub distance: Distance,
    /// One way of a cache line to a receiver that polls.
    pub hop_ns: Option<f64>,
    /// From the call that wakes a receiver until it runs.
    pub wake_ns: Option<f64>,
    /// CPU time of that call.
    pub waker_ns: Option<f64>,
}

/// Returns the cores of a machine, of the CPUs that may be used: one CPU of each core, as the threads of a core share
/// its execution units, so that service times measured beside an idle one do not hold beside a busy one. Cores that
/// share a cache are a domain, and the operating system's numbers are those of [`Topology::cpu_of`].
///
/// A distance that was not measured has the costs of the next one that was, farther ones first, or else those of a
/// Xeon.
///
/// # Errors
/// If none of the CPUs is online, or a cost is negative or not finite.
pub fn topology(machine: &Machine, usable: &Cpus, costs: &[MessageCost]) -> Result<Topology, Error> {
    let domains = domains(machine, usable);
    let near =
        if domains.iter().any(|cpus| cpus.len() > 1) { Distance::SharedCache } else { Distance::SameNode };
    let far = if nodes(machine, &domains) > 1 { Distance::OtherNode } else { Distance::SameNode };
    let sizes = domains.iter().map(Vec::len).collect();
    Topology::two_level(sizes, hop(costs, near), hop(costs, far))?.with_cpus(domains.concat())
}

/// CPUs of different cores, by the cache that they share.
fn domains(machine: &Machine, usable: &Cpus) -> Vec<Vec<usize>> {
    let mut domains: Vec<Vec<usize>> = Vec::new();
    let is_first = |cpu: &usize| {
        let siblings = machine.cpu(*cpu).map(|data| &data.siblings);
        siblings.is_some_and(|siblings| !siblings.range(..cpu).any(|other| usable.contains(other)))
    };
    for &cpu in usable.iter().filter(|cpu| is_first(cpu)) {
        let is_near = |other: &usize| machine.distance(cpu, *other) == Some(Distance::SharedCache);
        match domains.iter_mut().find(|cpus| cpus.iter().all(is_near)) {
            Some(cpus) => cpus.push(cpu),
            None => domains.push(vec![cpu]),
        }
    }
    domains
}

fn nodes(machine: &Machine, domains: &[Vec<usize>]) -> usize {
    let node = |cpu: &usize| machine.cpu(*cpu).map(|data| data.node);
    domains.iter().flatten().filter_map(node).collect::<BTreeSet<usize>>().len()
}

/// The costs of a hop over a distance.
///
/// Half of the way of a cache line is the sender's store, which takes the line from the receiver, and which the sender
/// waits for: it passes a fence after each push. The other half is the receiver's load. So no time is left in which
/// neither of them is busy.
fn hop(costs: &[MessageCost], distance: Distance) -> Hop {
    let cost = |of: fn(&MessageCost) -> Option<f64>, assumed: f64| {
        let measured = |cost: &&MessageCost| cost.distance > Distance::SmtSibling && of(cost).is_some();
        let candidates = costs.iter().filter(measured);
        // Farther ones first, and of several the nearest to it.
        let farther = candidates.clone().filter(|cost| cost.distance >= distance);
        let found = farther.min_by_key(|cost| cost.distance).or(candidates.max_by_key(|cost| cost.distance));
        found.and_then(of).unwrap_or(assumed)
    };
    let line_ns = cost(|cost| cost.hop_ns, LINE_ASSUMED_NS);
    Hop {
        send_ns: line_ns / 2.0 + RING_OPERATION_NS,
        transit_ns: 0.0,
        receive_ns: line_ns / 2.0 + RING_OPERATION_NS,
        wake_ns: cost(|cost| cost.wake_ns, WAKE_ASSUMED_NS),
        waker_ns: cost(|cost| cost.waker_ns, WAKER_ASSUMED_NS),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Two nodes of two caches of two cores of two threads: the threads of core `n` are CPUs `n` and `n + 8`.
    fn machine() -> Machine {
        Machine::parse(|file| {
            let cpu = || file.strip_prefix("cpu/cpu")?.split('/').next()?.parse::<usize>().ok();
            let pair = |core: usize| format!("{},{}", core, core + 8);
            match file.rsplit('/').next()? {
                "online" if file == "cpu/online" => Some("0-15".to_owned()),
                "online" if file == "node/online" => Some("0-1".to_owned()),
                "cpulist" if file.starts_with("node/node0") => Some("0-3,8-11".to_owned()),
                "cpulist" => Some("4-7,12-15".to_owned()),
                "thread_siblings_list" | "core_cpus_list" => Some(pair(cpu()? % 8)),
                "type" if file.contains("index0") => Some("Unified".to_owned()),
                "level" if file.contains("index0") => Some("2".to_owned()),
                "shared_cpu_list" if file.contains("index0") => {
                    let first = cpu()? % 8 / 2 * 2;
                    Some(format!("{},{}", pair(first), pair(first + 1)))
                }
                _ => None,
            }
        })
    }

    const NEAR: MessageCost = MessageCost {
        distance: Distance::SharedCache,
        hop_ns: Some(50.0),
        wake_ns: Some(3e3),
        waker_ns: None,
    };
    const FAR: MessageCost = MessageCost {
        distance: Distance::OtherNode,
        hop_ns: Some(300.0),
        wake_ns: Some(5e3),
        waker_ns: Some(2e3),
    };

    #[test]
    fn cores_are_grouped_by_cache_and_of_each_one_thread_is_used() {
        let all = (0..16).collect();
        let topology = topology(&machine(), &all, &[NEAR, FAR]).unwrap();
        assert_eq!(topology.domains(), [2; 4]);
        assert_eq!((0..8).map(|core| topology.cpu_of(core)).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7]);
        let (near, far) = (sakiyomi_placement::Distance::Near, sakiyomi_placement::Distance::Far);
        assert_eq!((topology.hop(near).send_ns, topology.hop(far).receive_ns), (30.5, 155.5));
        assert_eq!(topology.hop(near).waker_ns, 2e3, "that of the next distance");
    }

    #[test]
    fn cpus_that_may_not_be_used_are_left_out() {
        let topology = topology(&machine(), &Cpus::from([1, 9, 10, 15]), &[NEAR, FAR]).unwrap();
        assert_eq!(topology.domains(), [1; 3]);
        assert_eq!((0..3).map(|core| topology.cpu_of(core)).collect::<Vec<_>>(), [1, 10, 15]);
        assert_eq!(topology.hop(sakiyomi_placement::Distance::Near).send_ns, 155.5, "no two share a cache");
        assert!(super::topology(&machine(), &Cpus::new(), &[NEAR]).is_err());
    }

    #[test]
    fn any_machine_has_a_topology_of_cpus_that_may_be_used() {
        let usable = sakiyomi_os::affinity::usable_cpus().unwrap();
        let topology = topology(&Machine::of_machine(), &usable, &[]).unwrap();
        assert!((1..=usable.len()).contains(&topology.cores()));
        assert!((0..topology.cores()).all(|core| usable.contains(&topology.cpu_of(core))));
    }
}
