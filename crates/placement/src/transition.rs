//! From one placement to another while tuples flow.
//!
//! [`Planner::near`] gives a wanted placement the cores on which most of its operators run already: cores of
//! a cache domain are alike, and so are domains with as many cores. [`Planner::moves`] then orders the changes
//! so that every placement on the way is valid: an operator on one core at each moment (or on its replicas), a
//! group on each core at most, no groups that send in a circle, pinned operators on their cores.

mod moves;

pub use moves::Move;

use crate::assignment::greatest_sum;
use crate::model::constraints::Pin;
use crate::{Arrivals, Error, Group, Model, Placement, Planner};

impl<'a> Planner<'a> {
    /// The placement `wanted` on cores that leave the most operators where `current` has them; its figures are
    /// the same. A replica of an operator counts as an operator. A core that a group keeps keeps its index, as
    /// bins of keys are on replicas by index.
    ///
    /// # Errors
    /// As [`Model::check`], of either placement.
    pub fn near(&self, wanted: &Placement, current: &Placement) -> Result<Placement, Error> {
        let model = self.structure()?;
        model.check(wanted)?;
        model.check(current)?;
        Ok(Relabelling { model: &model, wanted, current }.placement())
    }

    /// Changes that lead from one placement to another, in order. Operators are split from their groups
    /// before others join them where cores are free for that, so that no core has more to do on the way than
    /// in one of the placements; where none are, a core may have the operators of two for a while. A group that
    /// is replicated on the same cores already is left as it is, whatever the order of its cores.
    ///
    /// # Errors
    /// As [`Model::check`], of either placement; [`Error::Moves`] if pinned operators and scarce cores leave
    /// no order of changes.
    pub fn moves(&self, from: &Placement, to: &Placement) -> Result<Vec<Move>, Error> {
        let model = self.structure()?;
        model.check(from)?;
        model.check(to)?;
        moves::Transition::new(&model, from, to).moves().ok_or(Error::Moves)
    }

    /// The model by which placements are valid or not, whatever the rate.
    fn structure(&self) -> Result<Model<'a>, Error> {
        Ok(self.model(Arrivals::constant(1.0)?))
    }
}

/// The choice of cores for a placement near another one.
struct Relabelling<'a> {
    model: &'a Model<'a>,
    wanted: &'a Placement,
    current: &'a Placement,
}

/// Wanted cores of a domain, each by its group and its number there, on cores of another domain.
struct Domain {
    slots: Vec<(usize, usize)>,
    cores: Vec<usize>,
    /// Operators that stay.
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

    /// Orders the cores of a group so that those which run some of its operators already are where they were.
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

    /// The groups of a domain on the cores of another one, which must be like it.
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
            // Less than any assignment that is allowed; adding up a few of them must not overflow.
            return Domain { slots: Vec::new(), cores: Vec::new(), kept: i64::from(i32::MIN) };
        }
        let row = |&(group, _): &(usize, usize)| open.iter().map(|&core| self.common(group, core)).collect();
        let weights: Vec<Vec<i64>> = slots.iter().map(row).collect();
        let assigned = greatest_sum(&weights, open.len());
        let kept = assigned.iter().zip(&weights).map(|(&column, row)| row[column]).sum();
        Domain { slots, cores: assigned.into_iter().map(|column| open[column]).collect(), kept }
    }

    /// Number of operators of a wanted group that run on a core already.
    fn common(&self, group: usize, core: usize) -> i64 {
        let runs_there = |group: &&Group| group.cores.contains(&core);
        let Some(current) = self.current.groups.iter().find(runs_there) else { return 0 };
        let wanted = &self.wanted.groups[group].operators;
        wanted.iter().filter(|operator| current.operators.contains(operator)).count() as i64
    }
}
