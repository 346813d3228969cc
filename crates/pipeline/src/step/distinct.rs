//! The first row of each key.

use sakiyomi_stream::Flow;
use sakiyomi_stream::operators::{Distinct, KeysFull, LateCounter, WindowDistinct, key_into};

use super::aggregate::TimeOf;
use super::{Division, keyed, write_key};
use crate::row::Row;

/// Adds the operator of a step to a flow: with a window of this size, or over all rows with a bounded number of keys, of
/// which the oldest is forgotten: the oldest of a bin, if the step has replicas. The counters are those of late rows, or of
/// keys that were forgotten.
pub(crate) fn distinct(
    input: Flow<Row>,
    name: &str,
    division: Option<Division>,
    keys: &[usize],
    window: Option<(u64, TimeOf)>,
    keys_max: usize,
) -> (Flow<Row>, Vec<LateCounter>) {
    let key = || {
        let keys = keys.to_vec();
        key_into(move |row: &Row, key: &mut Vec<u8>| write_key(row, &keys, key))
    };
    match window {
        Some((size_ns, time)) => keyed::then(input, name, division, || {
            let distinct = WindowDistinct::new(size_ns, move |row: &Row| TimeOf::of(Some(time), row), key());
            let late = distinct.late_counter();
            (distinct, late)
        }),
        None => {
            let bins = division.as_ref().map_or(1, |division| division.replicas.bin_count());
            keyed::then(input, name, division, || {
                let distinct = Distinct::new(keys_max.div_ceil(bins), KeysFull::Forget, key());
                let forgotten = distinct.beyond_counter();
                (distinct, forgotten)
            })
        }
    }
}
