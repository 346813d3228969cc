//! Folding into states, one for each thread that computes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::block::Block;
use super::builder::BlockedRead;
use super::error::Error;
use super::mapped::Records;
use super::report::Report;
use super::source::Source;
use super::work::BoxError;

/// States that no thread uses at the moment. A thread takes the one that was used last, if there is one.
struct States<S>(Mutex<Vec<Box<S>>>);

impl<S> States<S> {
    fn lock(&self) -> MutexGuard<'_, Vec<Box<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a step to a state, which is lost if the step panics.
    fn step<R>(&self, init: impl Fn() -> S, step: impl FnOnce(&mut S) -> R) -> R {
        let idle = self.lock().pop();
        let mut state = idle.unwrap_or_else(|| Box::new(init()));
        let result = step(&mut state);
        self.lock().push(state);
        result
    }

    fn merged(self, init: impl Fn() -> S, merge: impl Fn(S, S) -> S) -> S {
        let states = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        states.into_iter().map(|state| *state).reduce(merge).unwrap_or_else(init)
    }
}

macro_rules! folds {
    ($type:ident) => {
        impl<S> $type<S> {
            /// Folds blocks into states, of which each thread has one, and merges these at the end: for results that are
            /// expensive to reduce block by block, such as tables.
            ///
            /// Which blocks meet in a state, and in which order, is not determined: the result is, if `step` and `merge`
            /// are commutative and associative, as sums, counts and sets are.
            ///
            /// ```
            /// use sakiyomi_exec::read::blocked_reader;
            /// let text = b"to be or not to be";
            /// let (counts, _) = blocked_reader("text", &text[..]).fold(
            ///     || [0u64; 256],
            ///     |counts, block| block.iter().for_each(|&byte| counts[usize::from(byte)] += 1),
            ///     |mut counts, other| {
            ///         counts.iter_mut().zip(other).for_each(|(count, other)| *count += other);
            ///         counts
            ///     },
            /// )?;
            /// assert_eq!(counts[usize::from(b'o')], 4);
            /// # Ok::<(), sakiyomi_exec::read::Error>(())
            /// ```
            ///
            /// # Errors
            /// If a file cannot be read, a record is too long, or a function of the caller's panics.
            pub fn fold<'f, A: Send>(
                self,
                init: impl Fn() -> A + Sync,
                step: impl Fn(&mut A, Block<'_>) + Sync,
                merge: impl Fn(A, A) -> A,
            ) -> Result<(A, Report), Error>
            where
                S: Source<'f>,
            {
                self.try_fold(
                    init,
                    move |state, block| {
                        step(state, block);
                        Ok::<(), BoxError>(())
                    },
                    merge,
                )
            }

            /// Folds as `fold` does by a step that may fail, which ends the reading.
            ///
            /// # Errors
            /// Those of `fold`; [`Error::Function`] with that of `step`.
            pub fn try_fold<'f, A: Send, E: Into<BoxError>>(
                self,
                init: impl Fn() -> A + Sync,
                step: impl Fn(&mut A, Block<'_>) -> Result<(), E> + Sync,
                merge: impl Fn(A, A) -> A,
            ) -> Result<(A, Report), Error>
            where
                S: Source<'f>,
            {
                let states = States(Mutex::default());
                let mapped = self.erased().try_map(|block| states.step(&init, |state| step(state, block)));
                let ((), report) = mapped.reduce((), |(), ()| ())?;
                Ok((states.merged(init, merge), report))
            }
        }
    };
}

folds!(BlockedRead);
folds!(Records);
