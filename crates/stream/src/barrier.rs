//! Barriers of aligned snapshots (Carbone et al., Bulletin of the IEEE TCDE 38(4), 2015).
//!
//! Each source emits a barrier, which flows along all edges in the order of the items. An operator saves its state when
//! the barriers of all its inputs have come, reports it to the barrier's collection, and forwards the barrier. A join
//! holds the input whose barrier comes first back in its ring. No thread waits: tuples pause while `save` runs, or while
//! their side of a join is held back.
//!
//! An input that is held back fills its ring, which pauses the segment before it. That segment has emitted the barrier,
//! so that no other barrier of the epoch waits for it: the alignment always ends.
//!
//! A barrier may move bins between replicas instead of taking a snapshot (`replicas/migration.rs`): no state is saved then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::board::Board;
use crate::error::Error;
use crate::replicas::{Migration, joined};
use crate::shape::{OperatorKind, Outline, Shape};
use crate::snapshot::{Progress, Snapshot};
use crate::state::StateError;
use crate::sync::{Mutex, lock};
use crate::tuple::OperatorId;

/// A barrier, with the collection of the states that are saved at it.
#[derive(Clone)]
pub(crate) struct Barrier(Arc<Collection>);

struct Collection {
    epoch: u64,
    /// Bins that move at the barrier; none at that of a snapshot.
    migration: Option<Migration>,
    /// The stream is to be dropped after it.
    is_last: bool,
    /// The place of each operator in the snapshot.
    places: Vec<SnapshotPlace>,
    collected: Mutex<Collected>,
}

struct Collected {
    snapshot: Snapshot,
    /// Operators that have not reported.
    missing: usize,
    /// Reports of replicas, by their number in the snapshot.
    replicas: BTreeMap<usize, Vec<Saved>>,
    /// The first operator that reported that it has no state to resume from, by its number there, and the reason.
    failure: Option<(usize, String)>,
    /// When the barrier had passed the last operator, in nanoseconds of the stream's clock.
    completed_ns: u64,
}

/// The place of an operator in a snapshot, which has all replicas of one as one operator.
#[derive(Clone, Copy)]
struct SnapshotPlace {
    number: usize,
    is_replica: bool,
}

/// Report of an operator at a barrier.
pub(crate) struct Saved {
    pub(crate) state: Option<Vec<u8>>,
    pub(crate) restart_state: Option<Vec<u8>>,
    pub(crate) progress: Progress,
}

impl Barrier {
    /// Returns the barrier of an epoch.
    pub(crate) fn new(shape: &Shape, epoch: u64) -> Barrier {
        Barrier::with(shape, epoch, None, false)
    }

    /// Returns the barrier of the last snapshot of a stream that is to be resumed from it: its sources emit nothing
    /// behind it, and it overtakes nothing.
    pub(crate) fn last(shape: &Shape, epoch: u64) -> Barrier {
        Barrier::with(shape, epoch, None, true)
    }

    /// Returns a barrier that moves bins.
    pub(crate) fn migrating(shape: &Shape, epoch: u64, migration: Migration) -> Barrier {
        Barrier::with(shape, epoch, Some(migration), false)
    }

    fn with(shape: &Shape, epoch: u64, migration: Option<Migration>, is_last: bool) -> Barrier {
        let outlines = shape.logical_numbers().into_iter().zip(&shape.operators);
        let place = |(number, outline): (usize, &Outline)| SnapshotPlace {
            number,
            is_replica: outline.replica.is_some(),
        };
        let places: Vec<SnapshotPlace> = outlines.map(place).collect();
        let collected = Collected {
            snapshot: Snapshot::of(shape, epoch),
            missing: places.len(),
            replicas: BTreeMap::new(),
            failure: None,
            completed_ns: 0,
        };
        Barrier(Arc::new(Collection { epoch, migration, is_last, places, collected: Mutex::new(collected) }))
    }

    /// Returns the bins that move at this barrier; none at that of a snapshot.
    pub(crate) fn migration(&self) -> Option<&Migration> {
        self.0.migration.as_ref()
    }

    /// Returns whether the stream is to be dropped after it.
    pub(crate) fn is_last(&self) -> bool {
        self.0.is_last
    }

    /// Returns the barrier of a stream whose operators, as numbered in the snapshot, are on these workers.
    pub(crate) fn with_workers(self, workers: Vec<usize>) -> Barrier {
        lock(&self.0.collected).snapshot.workers = workers;
        self
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Takes the report of an operator: its state, or why there is none.
    pub(crate) fn report(&self, operator: OperatorId, saved: Result<Saved, String>, board: &Board) {
        let SnapshotPlace { number, is_replica } = self.0.places[operator.0];
        {
            let mut collected = lock(&self.0.collected);
            match saved {
                Ok(saved) if is_replica => collected.replicas.entry(number).or_default().push(saved),
                Ok(saved) => collected.set(number, saved),
                Err(reason) => {
                    collected.failure.get_or_insert((number, reason));
                }
            }
        }
        self.pass(board);
    }

    /// The barrier has passed an operator, which has reported what it had to.
    pub(crate) fn pass(&self, board: &Board) {
        let missing = {
            let mut collected = lock(&self.0.collected);
            collected.missing -= 1;
            if collected.missing == 0 {
                collected.completed_ns = board.now_ns();
            }
            collected.missing
        };
        if missing == 0 {
            board.snapshot_completed();
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.0.collected).missing == 0
    }
}

impl Collected {
    fn set(&mut self, number: usize, saved: Saved) {
        let Saved { state, restart_state, progress } = saved;
        let to = &mut self.snapshot.operators[number];
        (to.state, to.restart_state, to.progress) = (state, restart_state, progress);
    }

    /// Makes of what all replicas of an operator have reported the state of one.
    fn join_replicas(&mut self) {
        for (number, saved) in std::mem::take(&mut self.replicas) {
            match joined_replicas(saved) {
                Ok(saved) => self.set(number, saved),
                Err(error) => {
                    self.failure.get_or_insert((number, format!("has states that do not fit: {error}")));
                }
            }
        }
    }
}

/// Returns the state of all bins. Edges between a partition and a merge depend on the number of replicas: a stream
/// that resumes numbers their items from 0.
fn joined_replicas(saved: Vec<Saved>) -> Result<Saved, StateError> {
    let mut progress = saved.first().map(|saved| saved.progress.clone()).unwrap_or_default();
    progress.tuples = saved.iter().map(|saved| saved.progress.tuples).sum();
    progress.inputs.iter_mut().for_each(|input| input.sequence = 0);
    progress.outputs.fill(0);
    let (states, restart_states) = saved.into_iter().map(|saved| (saved.state, saved.restart_state)).unzip();
    Ok(Saved { state: joined(states)?, restart_state: joined(restart_states)?, progress })
}

/// A snapshot that is being taken. If it is dropped, the snapshot is discarded; the stream continues.
#[must_use = "`wait` returns the snapshot"]
pub struct PendingSnapshot {
    pub(crate) barrier: Barrier,
    pub(crate) board: Arc<Board>,
}

impl PendingSnapshot {
    /// Returns whether [`PendingSnapshot::wait`] returns at once.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.barrier.is_complete()
    }

    /// Waits until the barrier has passed all operators.
    ///
    /// # Errors
    /// If an operator has stopped or its `save` panicked, a worker was lost, or the stream was stopped before.
    pub fn wait(self) -> Result<Snapshot, Error> {
        self.wait_timed().map(|(snapshot, _)| snapshot)
    }

    /// Like [`PendingSnapshot::wait`], with the time from the barrier's emission by the first source until it
    /// had passed all operators, which
    /// contains the time in which they saved their states.
    ///
    /// # Errors
    /// Returns the errors of [`PendingSnapshot::wait`].
    pub fn wait_timed(self) -> Result<(Snapshot, Duration), Error> {
        self.board.wait_for_snapshot(|| self.barrier.is_complete())?;
        let mut collected = lock(&self.barrier.0.collected);
        collected.join_replicas();
        let mut snapshot = std::mem::take(&mut collected.snapshot);
        if let Some((operator, reason)) = collected.failure.take() {
            return Err(Error::Snapshot { name: snapshot.operators.swap_remove(operator).name, reason });
        }
        let sources = snapshot.operators.iter().filter(|operator| operator.kind == OperatorKind::Source);
        let emitted_ns = sources.map(|source| source.progress.arrival_ns);
        let first_ns = emitted_ns.clone().min().unwrap_or(0);
        snapshot.clock_ns = emitted_ns.max().unwrap_or(0);
        let alignment_ns = collected.completed_ns.saturating_sub(first_ns);
        Ok((snapshot, Duration::from_nanos(alignment_ns)))
    }
}
