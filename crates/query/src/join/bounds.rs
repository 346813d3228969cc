//! Key ranges that divide both sides of a join into pairs of partitions.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::NullBuffer;

use super::keys::{Key, KeyEncoder, KeyValues};
use crate::Error;
use crate::sort::router::{DROPPED_ROW_ROUTE, Router};

/// Splitter keys. Partition 0 precedes the first one; the partition after the last one has the rows with null keys.
#[derive(Debug)]
pub(super) struct Bounds {
    splitters: Splitters,
    /// Whether each partition has a single key.
    singles: Vec<bool>,
}

/// Ascending keys of one form.
#[derive(Debug)]
enum Splitters {
    Narrow(Vec<u64>),
    Wide(Vec<u128>),
    Bytes(Vec<Vec<u8>>),
}

/// A sample of a side: its key columns, and the bytes of the side that each sampled row stands for.
pub(super) struct Sample<'a> {
    pub(super) keys: &'a RecordBatch,
    pub(super) row_weight: f64,
}

impl Bounds {
    /// Computes bounds for at most `partitions` partitions besides that of null keys. A very frequent key gets a
    /// separate partition.
    ///
    /// # Errors
    /// If a sample cannot be cast to the comparison types.
    pub(super) fn new(
        encoder: &KeyEncoder,
        samples: &[Sample<'_>],
        partitions: usize,
    ) -> Result<Bounds, Error> {
        let mut weighted: Vec<(Key, f64)> = Vec::new();
        for sample in samples {
            let places: Vec<usize> = (0..sample.keys.num_columns()).collect();
            let mut values = encoder.empty();
            let nulls = encoder.encode(sample.keys, &places, &mut values)?;
            let is_valid = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
            let rows = (0..sample.keys.num_rows()).filter(is_valid);
            weighted.extend(rows.map(|row| (values.owned(row), sample.row_weight)));
        }
        weighted.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let (keys, singles) = quantiles(&weighted, partitions);
        let splitters = match encoder.empty() {
            KeyValues::Narrow(_) => Splitters::Narrow(keys.into_iter().filter_map(Key::narrow).collect()),
            KeyValues::Wide(_) => Splitters::Wide(keys.into_iter().filter_map(Key::wide).collect()),
            KeyValues::Rows(_) => Splitters::Bytes(keys.into_iter().filter_map(Key::bytes).collect()),
        };
        Ok(Bounds { splitters, singles })
    }

    /// Returns the number of partitions.
    pub(super) fn partitions(&self) -> usize {
        self.nulls() + 1
    }

    /// Returns the partition of null keys.
    fn nulls(&self) -> usize {
        self.singles.len()
    }

    /// Appends the partition of each key.
    fn route(&self, keys: &KeyValues, partitions: &mut Vec<u32>) {
        match (&self.splitters, keys) {
            (Splitters::Narrow(splitters), KeyValues::Narrow(keys)) => {
                partitions
                    .extend(keys.iter().map(|key| splitters.partition_point(|bound| bound <= key) as u32));
            }
            (Splitters::Wide(splitters), KeyValues::Wide(keys)) => {
                partitions
                    .extend(keys.iter().map(|key| splitters.partition_point(|bound| bound <= key) as u32));
            }
            (Splitters::Bytes(splitters), KeyValues::Rows(keys)) => {
                let place = |key: &[u8]| splitters.partition_point(|bound| bound.as_slice() <= key) as u32;
                partitions.extend(keys.iter().map(|row| place(row.data())));
            }
            _ => unreachable!("all keys of a join have one form"),
        }
    }
}

/// Returns the splitters at the quantiles of sorted keys with weights, and whether each part has a single key. A key at
/// several quantiles gets a separate part.
fn quantiles(weighted: &[(Key, f64)], parts: usize) -> (Vec<Key>, Vec<bool>) {
    let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let (mut splitters, mut singles): (Vec<Key>, Vec<bool>) = (Vec::new(), vec![false]);
    let (mut passed, mut part) = (0.0, 1);
    for (key, weight) in weighted {
        passed += weight;
        while part < parts && passed > total * part as f64 / parts as f64 {
            part += 1;
            match splitters.last() {
                Some(last) if last == key => {
                    if let Some(after) = key.after() {
                        splitters.push(after);
                        *singles.last_mut().expect("a part for each splitter") = true;
                        singles.push(false);
                    }
                }
                // The splitter after a frequent key.
                Some(last) if last > key => {}
                _ => {
                    splitters.push(key.clone());
                    singles.push(false);
                }
            }
        }
    }
    (splitters, singles)
}

/// The partitions of the rows of one side.
#[derive(Debug)]
pub(super) struct SideRouter {
    pub(super) bounds: Arc<Bounds>,
    pub(super) encoder: Arc<KeyEncoder>,
    /// Indices of the key columns.
    pub(super) places: Vec<usize>,
    /// Whether the result has rows of this side without a match, such as those with a null key.
    pub(super) keeps_unmatched: bool,
}

impl SideRouter {
    fn move_nulls(&self, nulls: &NullBuffer, partitions: &mut [u32]) {
        let place = if self.keeps_unmatched { self.bounds.nulls() as u32 } else { DROPPED_ROW_ROUTE };
        for (row, partition) in partitions.iter_mut().enumerate() {
            if nulls.is_null(row) {
                *partition = place;
            }
        }
    }
}

impl Router for SideRouter {
    fn partitions(&self) -> usize {
        self.bounds.partitions()
    }

    fn is_single(&self, partition: usize) -> bool {
        self.bounds.singles.get(partition).copied().unwrap_or(true)
    }

    fn route(&self, batch: &RecordBatch, partitions: &mut Vec<u32>) -> Result<(), Error> {
        let mut keys = self.encoder.empty();
        let nulls = self.encoder.encode(batch, &self.places, &mut keys)?;
        let first = partitions.len();
        self.bounds.route(&keys, partitions);
        if let Some(nulls) = nulls {
            self.move_nulls(&nulls, &mut partitions[first..]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
