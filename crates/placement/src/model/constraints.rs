//! Operators pinned to a given core, and cores reserved for other uses.

mod saved;

use serde::{Deserialize, Serialize};

use std::collections::{BTreeMap, BTreeSet};

use crate::error::PlacementFault;
use crate::{Error, Pipeline, Placement, Topology};
use saved::SavedConstraints;

/// Cores that plans must use, and cores that they must not use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SavedConstraints", into = "SavedConstraints")]
pub struct Constraints {
    /// The core of each pinned operator.
    pinned: BTreeMap<usize, usize>,
    reserved: BTreeSet<usize>,
}

/// The core constraint of a set of operators in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// Any core that is open.
    Open,
    /// This one.
    Core(usize),
    /// They cannot form a group: they are pinned to different cores, or other operators are pinned to the same core.
    Torn,
}

/// Constraints without pinned operators or reserved cores.
pub(crate) static UNCONSTRAINED: Constraints =
    Constraints { pinned: BTreeMap::new(), reserved: BTreeSet::new() };

impl Constraints {
    /// Pins an operator to `core`, such as a source that reads a queue of a network card. Its group is never
    /// replicated.
    #[must_use]
    pub fn pin(mut self, operator: usize, core: usize) -> Constraints {
        self.pinned.insert(operator, core);
        self
    }

    /// Reserves a core, for example for interrupts or another program.
    #[must_use]
    pub fn reserve(mut self, core: usize) -> Constraints {
        self.reserved.insert(core);
        self
    }

    /// Returns the pinned operators, each with its core, in order.
    pub fn pinned(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pinned.iter().map(|(&operator, &core)| (operator, core))
    }

    /// Returns the reserved cores, in order.
    pub fn reserved(&self) -> impl Iterator<Item = usize> {
        self.reserved.iter().copied()
    }

    /// Checks that the constraints fit a pipeline and a topology.
    ///
    /// # Errors
    /// If an operator or a core is unknown, a pinned operator's core is reserved, all cores are reserved, or pins
    /// force groups to send to each other in a cycle.
    pub(crate) fn check(&self, pipeline: &Pipeline, topology: &Topology) -> Result<(), Error> {
        let operators = pipeline.operators().len();
        if let Some((&operator, _)) = self.pinned.iter().find(|&(&operator, _)| operator >= operators) {
            return Err(Error::Placement(PlacementFault::Operator(operator)));
        }
        let mut cores = self.pinned.values().chain(&self.reserved);
        if let Some(&core) = cores.find(|&&core| core >= topology.cores()) {
            return Err(Error::Placement(PlacementFault::Core(core)));
        }
        if let Some((&operator, &core)) = self.pinned.iter().find(|(_, core)| self.reserved.contains(core)) {
            return Err(Error::Placement(PlacementFault::Pinned { operator, core }));
        }
        if self.reserved.len() == topology.cores() {
            return Err(Error::NoCores);
        }
        if self.blocks(pipeline).is_none() {
            return Err(Error::Placement(PlacementFault::Circle));
        }
        Ok(())
    }

    /// Checks that a placement meets these constraints.
    ///
    /// # Errors
    /// If a placement violates these constraints.
    pub(crate) fn check_placement(&self, placement: &Placement) -> Result<(), PlacementFault> {
        for group in &placement.groups {
            if let Some(&core) = group.cores.iter().find(|core| self.reserved.contains(core)) {
                return Err(PlacementFault::Core(core));
            }
            for &operator in &group.operators {
                if let Some(&core) = self.pinned.get(&operator)
                    && group.cores != [core]
                {
                    return Err(PlacementFault::Pinned { operator, core });
                }
            }
        }
        Ok(())
    }

    /// Returns whether no operator is pinned.
    pub(crate) fn has_no_pins(&self) -> bool {
        self.pinned.is_empty()
    }

    /// Returns the constraints without pinned operators.
    pub(crate) fn without_pins(&self) -> Constraints {
        Constraints { pinned: BTreeMap::new(), reserved: self.reserved.clone() }
    }

    /// Returns the cores with pinned operators.
    pub(crate) fn pinned_cores(&self) -> BTreeSet<usize> {
        self.pinned.values().copied().collect()
    }

    /// Returns the core constraint of a group of operators.
    pub(crate) fn pin_of(&self, operators: &[usize]) -> Pin {
        let mut cores = operators.iter().filter_map(|operator| self.pinned.get(operator));
        let Some(&core) = cores.next() else { return Pin::Open };
        let others = cores.filter(|&&other| other == core).count();
        let is_whole = self.pinned.values().filter(|&&other| other == core).count() == others + 1;
        let is_one =
            operators.iter().filter(|&operator| self.pinned.contains_key(operator)).count() == others + 1;
        if is_whole && is_one { Pin::Core(core) } else { Pin::Torn }
    }

    /// Returns whether any group without pinned operators may run on a core.
    pub(crate) fn is_open(&self, core: usize) -> bool {
        !self.reserved.contains(&core) && !self.pinned.values().any(|&other| other == core)
    }

    /// Returns the number of open cores of each domain.
    pub(crate) fn room(&self, topology: &Topology) -> Vec<usize> {
        let open = |domain| topology.cores_of(domain).filter(|&core| self.is_open(core)).count();
        (0..topology.domains().len()).map(open).collect()
    }

    /// Assigns each operator a pinned core such that tuples never return to an earlier core; `None` if pins do not
    /// permit that. All are 0 without pins.
    pub(crate) fn blocks(&self, pipeline: &Pipeline) -> Option<Vec<usize>> {
        let order = self.core_order(pipeline)?;
        let rank = |core: usize| order.iter().position(|&other| other == core);
        let mut ranks: Vec<usize> = Vec::new();
        for operator in 0..pipeline.operators().len() {
            let senders = pipeline.incoming(operator).iter().map(|&edge| ranks[pipeline.edges()[edge].from]);
            let earliest = senders.max().unwrap_or(0);
            ranks.push(self.pinned.get(&operator).and_then(|&core| rank(core)).unwrap_or(earliest));
        }
        Some(ranks.into_iter().map(|rank| order.get(rank).copied().unwrap_or(0)).collect())
    }

    /// Returns the pinned cores in topological order of the tuples between them.
    fn core_order(&self, pipeline: &Pipeline) -> Option<Vec<usize>> {
        // The cores from which tuples reach each operator, including its own.
        let mut reached: Vec<BTreeSet<usize>> = Vec::new();
        let mut before: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for operator in 0..pipeline.operators().len() {
            let senders =
                pipeline.incoming(operator).iter().map(|&edge| &reached[pipeline.edges()[edge].from]);
            let mut cores: BTreeSet<usize> = senders.flatten().copied().collect();
            if let Some(&core) = self.pinned.get(&operator) {
                cores.insert(core);
                before.entry(core).or_default().extend(cores.iter().filter(|&&other| other != core));
            }
            reached.push(cores);
        }
        let mut order = Vec::new();
        while let Some((&core, _)) =
            before.iter().find(|(_, cores)| cores.iter().all(|core| order.contains(core)))
        {
            before.remove(&core);
            order.push(core);
        }
        before.is_empty().then_some(order)
    }
}
