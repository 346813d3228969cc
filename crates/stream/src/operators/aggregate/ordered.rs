//! Extremes, the highest values, and numbers of different values.

use super::Aggregate;
use crate::operators::key::{Key, Table, Value};

macro_rules! extreme {
    ($name:ident, $function:ident, $text:literal, $is_better:ident) => {
        #[doc = concat!($text, "; see [`", stringify!($function), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<F>(F);

        #[doc = concat!($text, ": of `field` of each value.")]
        pub fn $function<T, V: Value + Ord + Clone, F: Fn(&T) -> V + Send + 'static>(field: F) -> $name<F> {
            $name(field)
        }

        impl<T, V: Value + Ord + Clone, F: Fn(&T) -> V + Send + 'static> Aggregate<T> for $name<F> {
            type State = Option<V>;
            /// None without values.
            type Output = Option<V>;

            fn init(&self) -> Option<V> {
                None
            }

            fn add(&self, state: &mut Option<V>, value: &T) {
                let field = (self.0)(value);
                if state.as_ref().is_none_or(|best| field.$is_better(best)) {
                    *state = Some(field);
                }
            }

            fn merge(&self, state: &mut Option<V>, later: &Option<V>) {
                if let Some(field) = later
                    && state.as_ref().is_none_or(|best| field.$is_better(best))
                {
                    *state = Some(field.clone());
                }
            }

            fn output(&self, state: &Option<V>) -> Option<V> {
                state.clone()
            }
        }
    };
}

extreme!(Min, min, "The least value, the first of equal ones", lt);
extreme!(Max, max, "The greatest value, the first of equal ones", gt);

/// Number of different values, counted exactly; see [`distinct_count`].
#[derive(Clone, Copy, Debug)]
pub struct DistinctCount<F>(F);

/// Returns the number of different `field`s. All different ones of a window are kept.
pub fn distinct_count<T, V: Key, F: Fn(&T) -> V + Send + 'static>(field: F) -> DistinctCount<F> {
    DistinctCount(field)
}

impl<T, V: Key, F: Fn(&T) -> V + Send + 'static> Aggregate<T> for DistinctCount<F> {
    type State = Table<V, ()>;
    type Output = u64;

    fn init(&self) -> Table<V, ()> {
        Table::default()
    }

    fn add(&self, state: &mut Table<V, ()>, value: &T) {
        state.insert((self.0)(value), ());
    }

    fn merge(&self, state: &mut Table<V, ()>, later: &Table<V, ()>) {
        for value in later.keys() {
            if !state.contains_key(value) {
                state.insert(value.clone(), ());
            }
        }
    }

    fn output(&self, state: &Table<V, ()>) -> u64 {
        state.len() as u64
    }
}

/// The greatest values; see [`top_values`].
#[derive(Clone, Copy, Debug)]
pub struct TopValues<F> {
    count_max: usize,
    field: F,
}

/// Returns the `count_max` greatest `field`s, in descending order; equal ones as often as they come. A value that is
/// among them costs a search and a move of those below it.
///
/// A stream may resume with another `count_max`. A greater one holds for windows that begin after that: those that are open
/// then have the values that were kept, and may lack some.
pub fn top_values<T, V, F>(count_max: usize, field: F) -> TopValues<F>
where
    V: Value + Ord + Clone,
    F: Fn(&T) -> V + Send + 'static,
{
    TopValues { count_max, field }
}

impl<T, V: Value + Ord + Clone, F: Fn(&T) -> V + Send + 'static> Aggregate<T> for TopValues<F> {
    type State = Vec<V>;
    type Output = Vec<V>;

    fn init(&self) -> Vec<V> {
        Vec::new()
    }

    fn add(&self, state: &mut Vec<V>, value: &T) {
        insert(state, self.count_max, (self.field)(value));
    }

    fn merge(&self, state: &mut Vec<V>, later: &Vec<V>) {
        later.iter().for_each(|field| insert(state, self.count_max, field.clone()));
    }

    fn output(&self, state: &Vec<V>) -> Vec<V> {
        // A state saved with a greater count may have more.
        state.iter().take(self.count_max).cloned().collect()
    }
}

/// Inserts into a descending list, after equal values, and drops what is beyond its length.
fn insert<V: Ord>(list: &mut Vec<V>, count_max: usize, value: V) {
    // A state saved with a greater count may be longer.
    list.truncate(count_max);
    let is_beyond = list.len() >= count_max && list.last().is_none_or(|last| *last >= value);
    if !is_beyond {
        let at = list.partition_point(|other| *other >= value);
        list.truncate(count_max.saturating_sub(1));
        list.insert(at, value);
    }
}
