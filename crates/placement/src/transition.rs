//! Transitions from one placement to another while tuples flow.
//!
//! [`Planner::near`] maps a wanted placement to the cores on which most of its operators already run: cores of a
//! cache domain are interchangeable, and so are domains with the same number of cores. [`Planner::moves`] then orders
//! the changes so that every intermediate placement is valid: an operator is on one core at each moment (or on its
//! replicas), each core has at most one group, no groups send in a cycle, and pinned operators are on their cores.

mod moves;

pub use moves::Move;

use crate::assignment::greatest_sum;
use crate::model::constraints::Pin;
use crate::{Arrivals, Error, Group, Model, Placement, Planner};

impl<'a> Planner<'a> {
    /// Returns the placement `wanted` on cores that leave the most operators where `current` has them; its figures
    /// are the same. A replica of an operator counts as an operator. A core that a group keeps also keeps its index,
    /// because bins of keys are assigned to replicas by index.
    ///
    /// # Errors
    /// Returns the errors of [`Model::check`], of either placement.
    pub fn near(&self, wanted: &Placement, current: &Placement) -> Result<Placement, Error> {
        let model = self.structure()?;
        model.check(wanted)?;
        model.check(current)?;
        Ok(Relabelling { model: &model, wanted, current }.placement())
    }

    /// Returns the changes that lead from one placement to another, in order. If cores are free, operators are split
    /// from their groups before others join them, so that no core temporarily has more load than in one of the
    /// placements; otherwise a core may temporarily have the operators of two groups. A group that is already
    /// replicated on the same cores is unchanged, whatever the order of its cores.
    ///
    /// # Errors
    /// Returns the errors of [`Model::check`], of either placement; [`Error::Moves`] if pinned operators and scarce cores leave no order
    /// of changes.
    pub fn moves(&self, from: &Placement, to: &Placement) -> Result<Vec<Move>, Error> {
        let model = self.structure()?;
        model.check(from)?;
        model.check(to)?;
        moves::Transition::new(&model, from, to).moves().ok_or(Error::Moves)
    }

    /// Returns a model that checks the validity of placements, independent of the rate.
    fn structure(&self) -> Result<Model<'a>, Error> {
        Ok(self.model(Arrivals::constant(1.0)?))
    }
}

/// Chooses the cores for a placement near another one.
struct Relabelling<'a> {
    model: &'a Model<'a>,
    wanted: &'a Placement,
    current: &'a Placement,
}

/// Wanted cores of a domain, each by its group and its index there, mapped to cores of another domain.
struct Domain {
    slots: Vec<(usize, usize)>,
    cores: Vec<usize>,
    /// Number of operators that stay.
    kept: i64,
}

impl Relabelling<'_> {
    fn placement(&self) -> Placement {
        let domains = self.model.topology.domains().len();
        let all: Vec<Vec<Domain>> =
            (0..domains).map(|from| (0..domains).map(|to| self.domain(from, to)).collect()).collect();
        let kept: Vec<Vec<i64>> =
            all.iter().map(|row| row.iter().map(|domain| domain.kept).collect()).collect();
        let mut groups = self.wanted.groups.clone();
        for (from, to) in greatest_sum(&kept, domains).into_iter().enumerate() {
            let domain = &all[from][to];
            for (&(group, replica), &core) in domain.slots.iter().zip(&domain.cores) {
                groups[group].cores[replica] = core;
            }
        }
        groups.iter_mut().for_each(|group| self.keep_indices(group));
        Placement { groups }
    }

    /// Orders the cores of a group so that those which already run some of its operators keep their index.
    fn keep_indices(&self, group: &mut Group) {
        let mut cores: Vec<Option<usize>> = vec![None; group.cores.len()];
        let index_of = |core: &usize| {
            let current = self.current.groups.iter().find(|current| current.cores.contains(core))?;
            let is_kept = group.operators.iter().any(|operator| current.operators.contains(operator));
            current.cores.iter().position(|other| other == core).filter(|_| is_kept)
        };
        let mut others = Vec::new();
        for &core in &group.cores {
            match index_of(&core).and_then(|index| cores.get_mut(index)) {
                Some(slot @ None) => *slot = Some(core),
                _ => others.push(core),
            }
        }
        let mut others = others.into_iter();
        group.cores = cores.into_iter().filter_map(|core| core.or_else(|| others.next())).collect();
    }

    /// Maps the groups of a domain to the cores of another one, which must be interchangeable with it.
    fn domain(&self, from: usize, to: usize) -> Domain {
        let topology = self.model.topology;
        let mut slots = Vec::new();
        let mut has_pin = false;
        for (index, group) in self.wanted.groups.iter().enumerate() {
            if topology.domain_of(group.cores[0]) == from {
                let is_open = self.model.constraints.pin_of(&group.operators) == Pin::Open;
                has_pin |= !is_open;
                slots.extend((0..group.cores.len()).filter(|_| is_open).map(|replica| (index, replica)));
            }
        }
        let is_open = |&core: &usize| self.model.constraints.is_open(core);
        let open: Vec<usize> = topology.cores_of(to).filter(is_open).collect();
        if from != to && has_pin || slots.len() > open.len() {
            // Less than any valid assignment; the sum of a few of them must not overflow.
            return Domain { slots: Vec::new(), cores: Vec::new(), kept: i64::from(i32::MIN) };
        }
        let row = |&(group, _): &(usize, usize)| open.iter().map(|&core| self.common(group, core)).collect();
        let weights: Vec<Vec<i64>> = slots.iter().map(row).collect();
        let assigned = greatest_sum(&weights, open.len());
        let kept = assigned.iter().zip(&weights).map(|(&column, row)| row[column]).sum();
        Domain { slots, cores: assigned.into_iter().map(|column| open[column]).collect(), kept }
    }

    /// Returns the number of operators of a wanted group that already run on a core.
    fn common(&self, group: usize, core: usize) -> i64 {
        let runs_there = |group: &&Group| group.cores.contains(&core);
        let Some(current) = self.current.groups.iter().find(runs_there) else { return 0 };
        let wanted = &self.wanted.groups[group].operators;
        wanted.iter().filter(|operator| current.operators.contains(operator)).count() as i64
    }
}
