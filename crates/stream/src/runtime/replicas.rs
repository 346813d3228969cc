//! Changes of the replicas of keyed operators, while tuples flow.

use sakiyomi_placement::Bins;

use super::Running;
use crate::barrier::Barrier;
use crate::error::Error;
use crate::mailbox::Mail;
use crate::replicas::Migration;
use crate::sync::lock;
use crate::tuple::OperatorId;

impl Running {
    /// Returns the replica of each bin of the operators that follow a partition.
    ///
    /// # Errors
    /// If the operator is not a partition.
    pub fn bins(&self, partition: OperatorId) -> Result<&Bins, Error> {
        Ok(&self.shape.groups[self.group_of(partition)?].bins)
    }

    /// Returns the largest number of replicas of the operators that follow a partition.
    ///
    /// # Errors
    /// If the operator is not a partition.
    pub fn replicas_max(&self, partition: OperatorId) -> Result<usize, Error> {
        Ok(self.shape.groups[self.group_of(partition)?].replicas)
    }

    /// Tuples of each bin since the start, of all inputs of its operators, and one more: the loads that [`Bins::divided`]
    /// and [`Bins::redivided`] want.
    ///
    /// # Errors
    /// If the operator is not a partition.
    pub fn bin_loads(&self, partition: OperatorId) -> Result<Vec<f64>, Error> {
        Ok(self.shape.groups[self.group_of(partition)?].loads())
    }

    /// Gives the replicas that follow a partition other bins, and waits until they have them. The stream continues: only a
    /// replica that gets bins holds its input back until it has those that others had. Replicas without bins take no
    /// tuples; which worker they are on does not matter then.
    ///
    /// # Errors
    /// If the operator is not a partition, or has not as many bins or replicas; if one of the replicas has stopped, whose
    /// states are lost; or if a worker was lost.
    pub fn divide(&mut self, partition: OperatorId, bins: &Bins) -> Result<(), Error> {
        let index = self.group_of(partition)?;
        let group = &self.shape.groups[index];
        let (given, expected) = (bins.replica_of().len(), group.bins.replica_of().len());
        if given != expected {
            return Err(Error::Bins { operator: partition, given, bins: expected });
        }
        if let Some(&replica) = bins.replica_of().iter().find(|&&replica| replica >= group.replicas) {
            return Err(Error::Replica { operator: partition, replica, replicas: group.replicas });
        }
        self.check_replicas(index)?;
        if group.bins.replica_of() != bins.replica_of() {
            let migration = Migration::new(index, group.bins.replica_of(), bins.replica_of());
            self.epoch += 1;
            let barrier = Barrier::migrating(&self.shape, self.epoch, migration);
            self.emit(&barrier);
            self.board.wait_for_snapshot(|| barrier.is_complete())?;
        }
        self.shape.groups[index].bins = bins.clone();
        Ok(())
    }

    /// Tells all sources to emit a barrier next.
    pub(super) fn emit(&self, barrier: &Barrier) {
        for head in self.shape.sources() {
            self.mailboxes.send(self.segments[&head], Mail::Barrier { head, barrier: barrier.clone() });
        }
    }

    /// # Errors
    /// If a replica of a group has stopped.
    fn check_replicas(&self, group: usize) -> Result<(), Error> {
        let failures = lock(&self.board.failures);
        let is_of_group = |operator: OperatorId| {
            self.shape.operators[operator.0].replica.is_some_and(|place| place.group == group)
        };
        match failures.iter().find(|failure| is_of_group(failure.operator)) {
            Some(failure) => Err(Error::ReplicaStopped(failure.name.clone())),
            None => Ok(()),
        }
    }

    fn group_of(&self, partition: OperatorId) -> Result<usize, Error> {
        let has = |group: &crate::replicas::Group| group.partitions.iter().any(|one| one.id == partition);
        let group = self.shape.groups.iter().position(has);
        group.ok_or(Error::Segment { operator: partition, reason: "is not a partition" })
    }
}
