//! From one placement of all operators to another.

use sakiyomi_placement::Placement;

use super::Running;
use crate::builder::Stream;
use crate::error::Error;
use crate::shape::Shape;
use crate::tuple::OperatorId;

/// Share by which a replica may exceed the mean load before bins leave it.
const BIN_EXCESS_RATIO: f64 = 0.1;

/// A placement in terms of workers.
struct Plan {
    /// The worker of each operator, replicas apart.
    worker_of: Vec<usize>,
    /// For each group of replicas the number of those that have bins.
    replicas: Vec<usize>,
}

impl Stream {
    /// Returns the worker of each operator, replicas apart, by a placement of all operators as [`Running::apply`]
    /// takes it.
    ///
    /// # Errors
    /// Returns the errors of [`Running::apply`].
    pub fn workers(&self, plan: &Placement) -> Result<Vec<usize>, Error> {
        Ok(Plan::new(plan, &self.shape)?.worker_of)
    }
}

impl Running {
    /// Brings each operator to the worker of the same number as its core in a plan. The operators of a plan are numbered as
    /// those of the stream, but all replicas of one are one operator: those beyond its cores get no bins, and run with the
    /// partition.
    ///
    /// # Errors
    /// If the plan is for another number of operators, has more replicas of one than there are, or needs more workers than
    /// there are; or a worker was lost. Only the last one may leave some operators moved and others not.
    pub fn apply(&mut self, plan: &Placement) -> Result<(), Error> {
        let Plan { worker_of, replicas } = Plan::new(plan, &self.shape)?;
        worker_of.iter().try_for_each(|&worker| self.check_worker(worker))?;
        self.divide_all(&replicas, |now, wanted| wanted < now)?;
        self.place(&worker_of)?;
        self.divide_all(&replicas, |now, wanted| wanted >= now)
    }

    /// Divides again the bins of groups whose number of replicas is the planned one.
    fn divide_all(&mut self, replicas: &[usize], fits: impl Fn(usize, usize) -> bool) -> Result<(), Error> {
        for (group, &wanted) in replicas.iter().enumerate() {
            let group = &self.shape.groups[group];
            if !fits(group.bins.replicas(), wanted) {
                continue;
            }
            let partition = group.partitions[0].id;
            let bins = group.bins.redivided(&group.loads(), wanted, BIN_EXCESS_RATIO)?;
            match self.divide(partition, &bins) {
                // Its bins stay, wherever the replica is.
                Ok(()) | Err(Error::ReplicaStopped(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Brings each operator to the worker that `worker_of` names: first makes the new cuts, then moves what changes
    /// its worker, then removes the cuts between operators that now share a worker.
    fn place(&mut self, worker_of: &[usize]) -> Result<(), Error> {
        let all = || (0..worker_of.len()).map(OperatorId);
        for at in all() {
            if self.shape.is_cut(at, worker_of) && !self.segments.contains_key(&at) {
                self.split(at, worker_of[at.0])?;
            }
        }
        for at in all() {
            if self.segments.contains_key(&at) {
                self.relocate(at, worker_of[at.0])?;
            }
        }
        for at in all() {
            if !self.shape.is_cut(at, worker_of) && self.segments.contains_key(&at) {
                self.fuse(at)?;
            }
        }
        Ok(())
    }
}

impl Plan {
    fn new(plan: &Placement, shape: &Shape) -> Result<Plan, Error> {
        let numbers = shape.logical_numbers();
        let cores_of = cores_of(plan, shape)?;
        let mut replicas = vec![1; shape.groups.len()];
        for (outline, cores) in shape.logical().zip(&cores_of) {
            if let Some(place) = outline.replica {
                replicas[place.group] = cores.len().max(replicas[place.group]);
            }
        }
        let mut worker_of = Vec::with_capacity(numbers.len());
        for (outline, number) in shape.operators.iter().zip(numbers) {
            let cores = cores_of[number];
            worker_of.push(match outline.replica {
                None => cores[0],
                // Operators of a chain that do not share their cores may have different numbers of them.
                Some(place) if place.replica < replicas[place.group] => cores[place.replica % cores.len()],
                Some(place) => worker_of[shape.groups[place.group].partitions[0].id.0],
            });
        }
        Ok(Plan { worker_of, replicas })
    }
}

/// Returns the cores of each operator; the replicas of an operator count as one.
fn cores_of<'p>(plan: &'p Placement, shape: &Shape) -> Result<Vec<&'p [usize]>, Error> {
    let operators = shape.logical().count();
    let mut cores_of = vec![None; operators];
    for group in &plan.groups {
        for &operator in &group.operators {
            let outline = shape.logical().nth(operator);
            let outline = outline.ok_or(Error::Operators { given: operator + 1, operators })?;
            let replicas_max = outline.replica.map_or(1, |place| shape.groups[place.group].replicas);
            if !(1..=replicas_max).contains(&group.cores.len()) {
                return Err(Error::Replicas(OperatorId(operator)));
            }
            cores_of[operator] = Some(&group.cores[..]);
        }
    }
    let placed: Vec<&[usize]> = cores_of.into_iter().flatten().collect();
    if placed.len() != operators {
        return Err(Error::Operators { given: placed.len(), operators });
    }
    Ok(placed)
}
