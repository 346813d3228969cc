//! Groups of operators that have a domain, but no cores yet.

use crate::{Group, Placement, Topology};

/// A group, and how many cores of which domain it takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// In ascending order.
    pub(super) operators: Vec<usize>,
    pub(super) domain: usize,
    /// Number of cores.
    pub(super) replicas: usize,
}

/// Gives each part the first free cores of its domain.
///
/// # Panics
/// If a domain has too few.
pub(super) fn placement(parts: &[Part], topology: &Topology) -> Placement {
    let mut free: Vec<_> = (0..topology.domains().len()).map(|domain| topology.cores_of(domain)).collect();
    let group = |part: &Part| {
        let cores: Vec<usize> = free[part.domain].by_ref().take(part.replicas).collect();
        assert_eq!(cores.len(), part.replicas, "domain {} has too few cores", part.domain);
        Group { operators: part.operators.clone(), cores }
    };
    let mut groups: Vec<Group> = parts.iter().map(group).collect();
    groups.sort_by_key(|group| group.operators[0]);
    Placement { groups }
}
