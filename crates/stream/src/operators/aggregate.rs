//! Aggregates: what a window computes of its values.
//!
//! Each is a monoid, so that a sliding window can be made of panes (Li et al., SIGMOD Record 34(1), 2005) and sessions
//! can be merged. Tuples of aggregates compute several at once.

mod numbers;
mod ordered;

pub use numbers::{Mean, Sum, Summable, mean, sum};
pub use ordered::{DistinctCount, Max, Min, TopValues, distinct_count, max, min, top_values};

use super::key::Value;

/// Computes one result of many values.
///
/// `add` and `merge` are called in the order of arrival within a pane, and in the order of time between panes: a result
/// that depends on the order, as a sum of floating-point numbers does in its last digits, is the same in each run.
pub trait Aggregate<T>: Send + 'static {
    /// The kept state.
    type State: Value;
    /// The emitted values.
    type Output: Send + 'static;

    /// Returns the state without values.
    fn init(&self) -> Self::State;

    /// Adds a value.
    fn add(&self, state: &mut Self::State, value: &T);

    /// Adds the values of a later state.
    fn merge(&self, state: &mut Self::State, later: &Self::State);

    /// Returns the result.
    fn output(&self, state: &Self::State) -> Self::Output;
}

/// Number of values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count;

impl<T> Aggregate<T> for Count {
    type State = u64;
    type Output = u64;

    fn init(&self) -> u64 {
        0
    }

    fn add(&self, state: &mut u64, _: &T) {
        *state += 1;
    }

    fn merge(&self, state: &mut u64, later: &u64) {
        *state += later;
    }

    fn output(&self, state: &u64) -> u64 {
        *state
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),+) => {
        impl<T, $($name: Aggregate<T>),+> Aggregate<T> for ($($name,)+) {
            type State = ($($name::State,)+);
            type Output = ($($name::Output,)+);

            fn init(&self) -> Self::State {
                ($(self.$index.init(),)+)
            }

            fn add(&self, state: &mut Self::State, value: &T) {
                $(self.$index.add(&mut state.$index, value);)+
            }

            fn merge(&self, state: &mut Self::State, later: &Self::State) {
                $(self.$index.merge(&mut state.$index, &later.$index);)+
            }

            fn output(&self, state: &Self::State) -> Self::Output {
                ($(self.$index.output(&state.$index),)+)
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
