//! All that flows along an edge.

use crate::barrier::Barrier;
use crate::tuple::Tuple;

/// An entry of an edge.
pub(crate) enum Item<T> {
    Tuple(Tuple<T>),
    Mark(Mark),
}

/// An entry between tuples.
pub(crate) enum Mark {
    /// No later tuple has an event time before this one.
    Watermark(u64, Stamp),
    /// No tuple and no watermark follows. Barriers may.
    End(Stamp),
    /// A snapshot contains the effects of all items before this one, and of none after it. Its number is that of the
    /// item that follows: it takes none itself, so that the numbers of tuples do not depend on snapshots.
    Barrier(Barrier, u64),
}

/// Time and place of a watermark or the end.
#[derive(Clone, Copy)]
pub(crate) struct Stamp {
    /// When the source emitted it; of several sources the latest. Outputs of the operators' reactions inherit it.
    pub(crate) arrival_ns: u64,
    /// Its number on its edge, in one sequence with the tuples.
    pub(crate) sequence: u64,
}

/// Tuples that follow each other on an edge and are handed over in one go. The receiver takes all of them.
pub(crate) struct Run<'a, T> {
    /// Number of the first.
    pub(crate) first: u64,
    /// Values and their arrivals.
    pub(crate) tuples: &'a mut Vec<(T, u64)>,
}

impl<T> Run<'_, T> {
    /// Returns the entries, each with its number.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Tuple<T>> {
        let numbered = self.tuples.drain(..).zip(self.first..);
        numbered.map(|((value, arrival_ns), sequence)| Tuple { value, arrival_ns, sequence })
    }
}
