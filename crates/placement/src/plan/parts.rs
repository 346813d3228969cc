//! Groups of operators that have a domain, but no cores yet.

use crate::model::constraints::Pin;
use crate::{Group, Model, Placement};

/// A group, its domain, and its number of cores.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// In ascending order.
    pub(super) operators: Vec<usize>,
    pub(super) domain: usize,
    /// Number of cores.
    pub(super) replicas: usize,
}

/// Gives each part the core of its pinned operators, or the first open cores of its domain.
///
/// # Panics
/// If a domain has too few.
pub(super) fn placement(parts: &[Part], model: &Model<'_>) -> Placement {
    let Model { topology, constraints, .. } = *model;
    let open = |domain| topology.cores_of(domain).filter(|&core| constraints.is_open(core));
    let mut free: Vec<_> = (0..topology.domains().len()).map(open).collect();
    let group = |part: &Part| {
        if let Pin::Core(core) = constraints.pin_of(&part.operators) {
            return Group { operators: part.operators.clone(), cores: vec![core] };
        }
        let cores: Vec<usize> = free[part.domain].by_ref().take(part.replicas).collect();
        assert_eq!(cores.len(), part.replicas, "domain {} has too few cores", part.domain);
        Group { operators: part.operators.clone(), cores }
    };
    let mut groups: Vec<Group> = parts.iter().map(group).collect();
    groups.sort_by_key(|group| group.operators[0]);
    Placement { groups }
}
