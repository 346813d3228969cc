//! Groups of operators on cores.

use serde::{Deserialize, Serialize};

use super::Model;
use crate::error::PlacementFault;
use crate::{Distance, Error};

/// Operators that share a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Their indices, in ascending order.
    pub operators: Vec<usize>,
    /// Their core; several if the group is replicated.
    pub cores: Vec<usize>,
}

/// The placement of all operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The groups, in the order of their first operators.
    pub groups: Vec<Group>,
}

impl Placement {
    /// Returns the number of cores with operators.
    #[must_use]
    pub fn cores_used(&self) -> usize {
        self.groups.iter().map(|group| group.cores.len()).sum()
    }

    /// Returns the group of each of `operators` operators; `usize::MAX` for those in none.
    pub(crate) fn group_of(&self, operators: usize) -> Vec<usize> {
        let mut group_of = vec![usize::MAX; operators];
        for (index, group) in self.groups.iter().enumerate() {
            group.operators.iter().for_each(|&operator| group_of[operator] = index);
        }
        group_of
    }

    /// Checks that operators and cores are assigned once.
    ///
    /// # Errors
    /// Unless each of `operators` operators is in one group, in ascending order there, and each of `cores` cores has
    /// one group at most.
    pub(crate) fn check_members(&self, operators: usize, cores: usize) -> Result<(), PlacementFault> {
        let mut operators = vec![0; operators];
        let mut cores = vec![0; cores];
        for (index, group) in self.groups.iter().enumerate() {
            if group.operators.is_empty() || group.cores.is_empty() {
                return Err(PlacementFault::Empty(index));
            }
            for &operator in &group.operators {
                *operators.get_mut(operator).ok_or(PlacementFault::Operator(operator))? += 1;
            }
            if let Some(pair) = group.operators.windows(2).find(|pair| pair[0] >= pair[1]) {
                return Err(PlacementFault::Operator(pair[1]));
            }
            for &core in &group.cores {
                *cores.get_mut(core).ok_or(PlacementFault::Core(core))? += 1;
            }
        }
        if let Some(operator) = operators.iter().position(|&count| count != 1) {
            return Err(PlacementFault::Operator(operator));
        }
        cores.iter().position(|&count| count > 1).map_or(Ok(()), |core| Err(PlacementFault::Core(core)))
    }
}

impl Model<'_> {
    /// Checks that a placement is valid for this model.
    ///
    /// # Errors
    /// If the placement does not place each operator once, on existing cores, in groups that may have these replicas
    /// and do not send to each other in a cycle; or if it violates the constraints of the planner that made this
    /// model.
    pub fn check(&self, placement: &Placement) -> Result<(), Error> {
        placement
            .check_members(self.pipeline.operators().len(), self.topology.cores())
            .and_then(|()| self.check_replicas(placement))
            .and_then(|()| self.constraints.check_placement(placement))
            .and_then(|()| if self.has_circle(placement) { Err(PlacementFault::Circle) } else { Ok(()) })
            .map_err(Error::Placement)
    }

    fn check_replicas(&self, placement: &Placement) -> Result<(), PlacementFault> {
        let is_allowed = |group: &Group| {
            let near = |&core: &usize| self.topology.distance(group.cores[0], core) == Distance::Near;
            group.cores.iter().all(near)
                && self.pipeline.max_share(&group.operators, group.cores.len()).is_some()
        };
        match placement.groups.iter().position(|group| !is_allowed(group)) {
            Some(index) => Err(PlacementFault::Replicas(index)),
            None => Ok(()),
        }
    }

    /// Returns whether groups send to each other in a cycle: each would wait for room in the other's ring.
    pub(crate) fn has_circle(&self, placement: &Placement) -> bool {
        self.sending_order(placement).len() < placement.groups.len()
    }

    /// Returns the groups in topological order, without those in a cycle or after one.
    pub(crate) fn sending_order(&self, placement: &Placement) -> Vec<usize> {
        let group_of = placement.group_of(self.pipeline.operators().len());
        let ends = |edge: &super::Edge| (group_of[edge.from], group_of[edge.to]);
        let mut links: Vec<(usize, usize)> =
            self.pipeline.edges().iter().map(ends).filter(|(from, to)| from != to).collect();
        let mut left: Vec<usize> = (0..placement.groups.len()).collect();
        let mut order = Vec::with_capacity(left.len());
        while let Some(index) = left.iter().position(|&group| links.iter().all(|&(_, to)| to != group)) {
            let group = left.remove(index);
            links.retain(|&(from, _)| from != group);
            order.push(group);
        }
        order
    }
}
