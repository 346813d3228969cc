//! From one placement of all operators to another.

use sakiyomi_placement::Placement;

use super::Running;
use crate::error::Error;
use crate::tuple::OperatorId;

impl Running {
    /// Brings each operator to the worker of the same number as its core in a plan.
    ///
    /// # Errors
    /// If the plan is for another number of operators, has replicas, or needs more workers than there are; or a worker
    /// was lost. Only the last one may leave some operators moved and others not.
    pub fn apply(&mut self, plan: &Placement) -> Result<(), Error> {
        let operators = self.shape.operators.len();
        let mut worker_of = vec![None; operators];
        for group in &plan.groups {
            for &operator in &group.operators {
                let worker = worker_of.get_mut(operator);
                let worker = worker.ok_or(Error::Operators { given: operator + 1, operators })?;
                let &[core] = &group.cores[..] else { return Err(Error::Replicas(OperatorId(operator))) };
                *worker = Some(core);
            }
        }
        let placed: Vec<usize> = worker_of.into_iter().flatten().collect();
        if placed.len() != operators {
            return Err(Error::Operators { given: placed.len(), operators });
        }
        placed.iter().try_for_each(|&worker| self.check_worker(worker))?;
        self.place(&placed)
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
