use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Parses a tree given as lines of `path: content`; `{0-3}` in a path expands to each of the CPUs.
fn parsed(tree: &str) -> Topology {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let (path, content) = line.trim().split_once(": ").expect("path: content");
        match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
            Some((before, (list, after))) => {
                for cpu in parse_list(list).unwrap() {
                    files.insert(format!("{before}{cpu}{after}"), format!("{content}\n"));
                }
            }
            None => drop(files.insert(path.to_owned(), format!("{content}\n"))),
        }
    }
    Topology::parse(|path| files.get(path).cloned())
}

fn distances(topology: &Topology, among: &str) -> Vec<(Distance, usize, usize)> {
    topology.pairs(&parse_list(among).unwrap())
}

/// Recorded on a virtual machine with two CPUs.
const TWO_VCPUS: &str = "
    cpu/online: 0-1
    node/online: 0
    node/node0/cpulist: 0-1
    cpu/cpu{0-1}/cpu_capacity: 1024
    cpu/cpu{0-1}/topology/physical_package_id: 0
    cpu/cpu0/topology/core_cpus_list: 0
    cpu/cpu1/topology/core_cpus_list: 1
    cpu/cpu{0-1}/cache/index0/level: 1
    cpu/cpu{0-1}/cache/index0/type: Data
    cpu/cpu{0-1}/cache/index0/size: 48K
    cpu/cpu0/cache/index0/shared_cpu_list: 0
    cpu/cpu1/cache/index0/shared_cpu_list: 1
    cpu/cpu{0-1}/cache/index1/level: 1
    cpu/cpu{0-1}/cache/index1/type: Instruction
    cpu/cpu{0-1}/cache/index1/size: 32K
    cpu/cpu{0-1}/cache/index1/shared_cpu_list: 0-1
    cpu/cpu{0-1}/cache/index2/level: 3
    cpu/cpu{0-1}/cache/index2/type: Unified
    cpu/cpu{0-1}/cache/index2/size: 32768K
    cpu/cpu{0-1}/cache/index2/shared_cpu_list: 0-1
";

/// Two sockets with two cores of two threads each; siblings are numbered as by Intel's firmware.
const TWO_SOCKETS: &str = "
    cpu/online: 0-7
    node/online: 0-1
    node/node0/cpulist: 0-1,4-5
    node/node1/cpulist: 2-3,6-7
    cpu/cpu{0-1,4-5}/topology/physical_package_id: 0
    cpu/cpu{2-3,6-7}/topology/physical_package_id: 1
    cpu/cpu{0,4}/topology/thread_siblings_list: 0,4
    cpu/cpu{1,5}/topology/thread_siblings_list: 1,5
    cpu/cpu{2,6}/topology/thread_siblings_list: 2,6
    cpu/cpu{3,7}/topology/thread_siblings_list: 3,7
    cpu/cpu{0-7}/cache/index0/level: 3
    cpu/cpu{0-7}/cache/index0/type: Unified
    cpu/cpu{0-7}/cache/index0/size: 32M
    cpu/cpu{0-1,4-5}/cache/index0/shared_cpu_list: 0-1,4-5
    cpu/cpu{2-3,6-7}/cache/index0/shared_cpu_list: 2-3,6-7
";

#[test]
fn a_machine_of_one_cpu_is_at_no_distance_from_itself() {
    let topology = parsed("cpu/online: 0\ncpu/cpu0/topology/core_cpus_list: 0");
    assert_eq!(distances(&topology, "0"), [(Distance::SameCpu, 0, 0)]);
    assert_eq!(topology.distance(0, 1), None);
}

#[test]
fn virtual_cpus_share_their_last_level_cache_and_not_instructions_alone() {
    let topology = parsed(TWO_VCPUS);
    assert_eq!(distances(&topology, "0-1"), [(Distance::SameCpu, 0, 0), (Distance::SharedCache, 0, 1)]);
    let caches = &topology.cpu(1).unwrap().caches;
    assert_eq!(caches.iter().map(|cache| cache.level).collect::<Vec<u32>>(), [1, 3], "those of data");
    assert_eq!((caches[0].size_bytes, caches[1].size_bytes), (48 << 10, 32 << 20));
    assert_eq!(caches[1].shared_by, Cpus::from([0, 1]));
    assert_eq!(topology.cpu(0).unwrap().capacity, FULL_CAPACITY);
}

#[test]
fn two_sockets_with_smt_and_numa_have_every_distance_but_one() {
    let topology = parsed(TWO_SOCKETS);
    let expected = [
        (Distance::SameCpu, 0, 0),
        (Distance::SmtSibling, 0, 4),
        (Distance::SharedCache, 0, 1),
        (Distance::OtherNode, 0, 2),
    ];
    assert_eq!(distances(&topology, "0-7"), expected);
    // A process that may use one thread of each core has no siblings.
    assert!(distances(&topology, "0-3").iter().all(|(distance, ..)| *distance != Distance::SmtSibling));
}

#[test]
fn sockets_count_as_nodes_where_the_kernel_knows_no_nodes() {
    let without_nodes: Vec<&str> = TWO_SOCKETS.lines().filter(|line| !line.contains("node/")).collect();
    let topology = parsed(&without_nodes.join("\n"));
    assert_eq!(topology.distance(0, 2), Some(Distance::OtherNode));
}

#[test]
fn hybrid_cores_have_different_capacities() {
    let by_frequency = parsed(
        "cpu/online: 0-3
        cpu/cpu{0-1}/cpufreq/cpuinfo_max_freq: 5000000
        cpu/cpu{2-3}/cpufreq/cpuinfo_max_freq: 3750000
        cpu/cpu{2-3}/cache/index0/level: 2
        cpu/cpu{2-3}/cache/index0/shared_cpu_list: 2-3",
    );
    let capacities: Vec<u32> = by_frequency.cpus().iter().map(|cpu| cpu.capacity).collect();
    assert_eq!(capacities, [1024, 1024, 768, 768]);
    assert_eq!(by_frequency.distance(2, 3), Some(Distance::SharedCache), "efficient cores share level 2");
    assert_eq!(by_frequency.distance(0, 1), Some(Distance::SameNode));
    let big_little = parsed("cpu/online: 0-1\ncpu/cpu0/cpu_capacity: 446\ncpu/cpu1/cpu_capacity: 1024");
    assert_eq!(big_little.cpu(0).unwrap().capacity, 446);
}

#[test]
fn cpus_that_are_offline_are_not_there() {
    let tree = TWO_SOCKETS.replace("cpu/online: 0-7", "cpu/online: 0-2,6");
    let topology = parsed(&tree);
    assert_eq!(topology.cpus().len(), 4);
    assert_eq!(topology.cpu(0).unwrap().siblings, Cpus::from([0]), "its sibling is offline");
    assert_eq!(topology.cpu(2).unwrap().siblings, Cpus::from([2, 6]));
    assert_eq!(topology.distance(0, 4), None);
}

#[test]
fn lists_are_read_as_the_kernel_writes_them() {
    assert_eq!(parse_list("0-2,5\n"), Some(Cpus::from([0, 1, 2, 5])));
    assert_eq!(parse_list("\n"), Some(Cpus::new()));
    for bad in ["a", "3-1", "-1", "0-99999999999", "1-", "0;1", "0-8192"] {
        assert_eq!(parse_list(bad), None, "{bad}");
    }
}

#[test]
fn this_machine_has_the_cpus_that_this_process_may_use() {
    let topology = Topology::of_machine();
    let usable = crate::affinity::usable_cpus().unwrap();
    // A sandbox may hide the list of CPUs.
    if Path::new("/sys/devices/system/cpu/online").exists() {
        assert!(usable.iter().all(|&cpu| topology.cpu(cpu).is_some()));
    }
}

proptest! {
    #[test]
    fn no_tree_is_too_odd(contents in proptest::collection::vec("[0-9,K\\-a ]{0,6}", 1..9), seed: u64) {
        let read = |path: &str| {
            let sum = path.bytes().fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
            contents.get(sum as usize % (contents.len() + 1)).cloned()
        };
        let topology = Topology::parse(read);
        prop_assert!(!topology.cpus().is_empty());
        let all: Cpus = topology.cpus().iter().map(|cpu| cpu.number).take(8).collect();
        for &a in &all {
            prop_assert!(topology.cpu(a).unwrap().siblings.contains(&a));
            prop_assert_eq!(topology.distance(a, a), Some(Distance::SameCpu));
        }
        prop_assert!(topology.pairs(&all).len() <= Distance::ALL.len());
    }
}
