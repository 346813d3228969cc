//! Snapshots of a stream that runs, and streams that resume from them.

use std::sync::Arc;

use super::{Running, Settings};
use crate::barrier::{Barrier, PendingSnapshot};
use crate::board::Board;
use crate::builder::Stream;
use crate::error::Error;
use crate::shape::{OperatorKind, Shape};
use crate::snapshot::Snapshot;
use crate::tree;
use crate::tuple::OperatorId;

impl Stream {
    /// A hash of the names, kinds and edges of the operators, the same on all machines.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.shape.fingerprint()
    }

    /// Returns the names of the operators whose state a snapshot may lack: sources that cannot return to a position,
    /// and operators whose type has fields and that save no state ([`Recover::state`](crate::Recover::state)).
    pub fn unsaved(&self) -> impl Iterator<Item = &str> {
        let unsaved = self.shape.operators.iter().filter(|operator| !operator.is_saved);
        unsaved.map(|operator| operator.name.as_str())
    }

    /// Like [`Stream::start`], from a snapshot. Operators and sources load their states; the numbers of tuples and the
    /// stream's clock continue. Operators whose inputs had ended are not called again.
    ///
    /// If all states are saved, they become those of a stream that was not interrupted. Sinks receive the tuples since the
    /// snapshot again. The counters, latencies and failures of the report start over; what operators save continues, as
    /// the numbers of late values do ([`LateCounter`](crate::operators::LateCounter)).
    ///
    /// # Errors
    /// If the snapshot is of another stream or version, or damaged; or as [`Stream::start`].
    pub fn start_from(
        mut self,
        settings: Settings,
        worker_of: &[usize],
        snapshot: &Snapshot,
    ) -> Result<Running, Error> {
        snapshot.check(&self.shape)?;
        let numbers = self.shape.logical_numbers();
        for source in &mut self.sources {
            tree::load(source.root(), snapshot, &numbers)?;
        }
        let sinks = snapshot.operators.iter().filter(|operator| operator.kind == OperatorKind::Sink);
        let open = sinks.filter(|sink| !sink.progress.has_ended).count();
        let board = Board::resumed(settings.workers.len(), open, snapshot.clock_ns);
        self.launch(settings, worker_of, board, snapshot.epoch)
    }
}

impl Running {
    /// Takes a snapshot while the stream continues.
    ///
    /// # Errors
    /// Returns the errors of [`PendingSnapshot::wait`].
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        self.begin_snapshot().wait()
    }

    /// Begins to take a snapshot: all sources emit a barrier next. The placement may be changed, and other snapshots
    /// begun, before it is complete. A fusion of a segment whose join holds its first input back waits until the barrier
    /// of the second input has come.
    pub fn begin_snapshot(&mut self) -> PendingSnapshot {
        self.begin_with(Barrier::new)
    }

    /// Begins to take the last snapshot of a stream that is dropped when it is complete: the sources emit nothing after their
    /// barriers, and the snapshot waits for all requests in flight. A stream that resumes from it gives its sinks no tuple
    /// again.
    ///
    /// If the sources are ended before it is complete, it is not to be used.
    pub fn begin_last_snapshot(&mut self) -> PendingSnapshot {
        self.begin_with(Barrier::last)
    }

    fn begin_with(&mut self, barrier: fn(&Shape, u64) -> Barrier) -> PendingSnapshot {
        self.epoch += 1;
        // All replicas of an operator are its first one there.
        let all = self.shape.operators.iter().enumerate();
        let first = all.filter(|(_, outline)| outline.replica.is_none_or(|place| place.replica == 0));
        let workers = first.map(|(operator, _)| self.segments[&self.segment_of(OperatorId(operator))]);
        let barrier = barrier(&self.shape, self.epoch).with_workers(workers.collect());
        self.emit(&barrier);
        PendingSnapshot { barrier, board: Arc::clone(&self.board) }
    }
}
