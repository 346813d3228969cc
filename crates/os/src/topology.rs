//! Cores, SMT siblings, caches and NUMA nodes, as `/sys/devices/system` describes them.
//!
//! The parser takes a function that reads files, so that trees recorded on other machines can be parsed. A tree with
//! missing or invalid files gives a coarser topology and never an error: a container may hide any of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Numbers of CPUs as the kernel counts them: one per hardware thread.
pub type Cpus = BTreeSet<usize>;

/// Largest number of CPUs that a list may name. The kernel is built for at most 8192.
const CPUS_MAX: usize = 8192;

/// Capacity of the fastest CPUs, as in the kernel's `cpu_capacity`.
pub const FULL_CAPACITY: u32 = 1024;

/// Maximum number of caches of a CPU.
const CACHES_MAX: usize = 16;

/// The online CPUs, and the caches and nodes that they share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    cores: Vec<Cpu>,
}

/// A CPU: a hardware thread of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// The socket that it is in.
    pub package: usize,
    /// The nearest NUMA node; the package where the kernel knows no nodes.
    pub node: usize,
    /// The hardware threads of the same core, including this one.
    pub siblings: Cpus,
    /// Its data caches, level 1 first.
    pub caches: Vec<Cache>,
    /// Capacity relative to the fastest CPUs, which have [`FULL_CAPACITY`]: less for the efficiency cores of hybrid
    /// processors.
    pub capacity: u32,
}

/// A data or unified cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its level; 1 is nearest to the core.
    pub level: u32,
    /// Its size in bytes; 0 if the kernel does not report it.
    pub size_bytes: u64,
    /// The CPUs that share it.
    pub shared_by: Cpus,
}

/// The distance of a message between two CPUs, ordered from near to far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Distance {
    /// Both are one CPU.
    SameCpu,
    /// Two hardware threads of one core.
    SmtSibling,
    /// Two cores that share a cache.
    SharedCache,
    /// Two cores of a NUMA node that share no cache.
    SameNode,
    /// Cores of two NUMA nodes.
    OtherNode,
}

impl Distance {
    /// All distances, the nearest first.
    pub const ALL: [Distance; 5] = [
        Distance::SameCpu,
        Distance::SmtSibling,
        Distance::SharedCache,
        Distance::SameNode,
        Distance::OtherNode,
    ];
}

impl Topology {
    /// Returns the topology of this machine.
    #[must_use]
    pub fn of_machine() -> Topology {
        let root = Path::new("/sys/devices/system");
        Topology::parse(|file| fs::read_to_string(root.join(file)).ok())
    }

    /// Returns the topology of a tree like `/sys/devices/system`, whose files `read` returns by their path below it.
    ///
    /// Without a list of online CPUs the topology consists of CPU 0.
    pub fn parse(read: impl Fn(&str) -> Option<String>) -> Topology {
        let list = |file: &str| read(file).and_then(|text| parse_list(&text));
        let online = list("cpu/online").or_else(|| list("cpu/present")).filter(|cpus| !cpus.is_empty());
        let online = online.unwrap_or_else(|| Cpus::from([0]));
        let nodes = nodes(&read);
        let mut cores: Vec<Cpu> = online.iter().map(|&cpu| parse_cpu(cpu, &online, &nodes, &read)).collect();
        relative(&mut cores);
        Topology { cores }
    }

    /// Returns the CPUs, by number.
    #[must_use]
    pub fn cpus(&self) -> &[Cpu] {
        &self.cores
    }

    /// Returns an online CPU.
    #[must_use]
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.cores.binary_search_by_key(&number, |cpu| cpu.number).ok().map(|index| &self.cores[index])
    }

    /// Returns the distance between two CPUs; `None` if either is not online.
    #[must_use]
    pub fn distance(&self, a: usize, b: usize) -> Option<Distance> {
        let (a, b) = (self.cpu(a)?, self.cpu(b)?);
        Some(match () {
            () if a.number == b.number => Distance::SameCpu,
            () if a.siblings.contains(&b.number) => Distance::SmtSibling,
            () if a.caches.iter().any(|cache| cache.shared_by.contains(&b.number)) => Distance::SharedCache,
            () if a.node == b.node => Distance::SameNode,
            () => Distance::OtherNode,
        })
    }

    /// Returns one pair of CPUs of `among` per distance, the nearest first; among pairs at the same distance, the one
    /// with the lowest numbers.
    #[must_use]
    pub fn pairs(&self, among: &Cpus) -> Vec<(Distance, usize, usize)> {
        let mut pairs: Vec<(Distance, usize, usize)> = Vec::new();
        for &a in among {
            for &b in among.range(a..) {
                let Some(distance) = self.distance(a, b) else { continue };
                if pairs.iter().all(|&(known, ..)| known != distance) {
                    pairs.push((distance, a, b));
                }
            }
            if pairs.len() == Distance::ALL.len() {
                break;
            }
        }
        pairs.sort();
        pairs
    }
}

fn parse_cpu(
    number: usize,
    online: &Cpus,
    nodes: &[(usize, Cpus)],
    read: &impl Fn(&str) -> Option<String>,
) -> Cpu {
    let of = |file: &str| read(&format!("cpu/cpu{number}/{file}"));
    let value = |file: &str| of(file).and_then(|text| text.trim().parse::<usize>().ok());
    let siblings = of("topology/core_cpus_list").or_else(|| of("topology/thread_siblings_list"));
    let package = value("topology/physical_package_id").unwrap_or(0);
    let node = nodes.iter().find(|(_, cpus)| cpus.contains(&number)).map_or(package, |(node, _)| *node);
    let capacity = value("cpu_capacity").or_else(|| value("cpufreq/cpuinfo_max_freq")).unwrap_or(0);
    Cpu {
        number,
        package,
        node,
        siblings: with_itself(siblings, number, online),
        caches: caches(number, online, &of),
        capacity: u32::try_from(capacity).unwrap_or(u32::MAX),
    }
}

/// Returns the listed CPUs that are online, always including the CPU itself.
fn with_itself(list: Option<String>, number: usize, online: &Cpus) -> Cpus {
    let listed = list.and_then(|list| parse_list(&list)).unwrap_or_default();
    listed.intersection(online).copied().chain([number]).collect()
}

fn caches(number: usize, online: &Cpus, of: &impl Fn(&str) -> Option<String>) -> Vec<Cache> {
    let cache = |index: usize| {
        let file = |name: &str| of(&format!("cache/index{index}/{name}"));
        let level = file("level")?.trim().parse().ok()?;
        let holds_data = file("type").is_none_or(|kind| kind.trim() != "Instruction");
        let size_bytes = file("size").and_then(|size| parse_size(&size)).unwrap_or(0);
        let shared_by = with_itself(file("shared_cpu_list"), number, online);
        Some((holds_data, Cache { level, size_bytes, shared_by }))
    };
    let found = (0..CACHES_MAX).map_while(cache);
    let mut caches: Vec<Cache> =
        found.filter(|(holds_data, _)| *holds_data).map(|(_, cache)| cache).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn nodes(read: &impl Fn(&str) -> Option<String>) -> Vec<(usize, Cpus)> {
    let numbers = read("node/online").and_then(|text| parse_list(&text)).unwrap_or_default();
    let cpus = |node: usize| parse_list(&read(&format!("node/node{node}/cpulist"))?);
    numbers.into_iter().filter_map(|node| Some((node, cpus(node)?))).collect()
}

/// Scales capacities, or the frequencies used in their place, relative to the largest.
fn relative(cores: &mut [Cpu]) {
    let most = cores.iter().map(|cpu| cpu.capacity).max().unwrap_or(0);
    for cpu in cores {
        let share = u64::from(cpu.capacity) * u64::from(FULL_CAPACITY) / u64::from(most.max(1));
        // A CPU without a capacity counts as fast as the others.
        cpu.capacity = if cpu.capacity == 0 { FULL_CAPACITY } else { share.max(1) as u32 };
    }
}

/// Parses a list as the kernel writes it: `0-3,8`. `None` if it is not such a list.
#[must_use]
pub fn parse_list(text: &str) -> Option<Cpus> {
    let mut cpus = Cpus::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CPUS_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Parses a cache size as the kernel writes it: `48K`.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests;
