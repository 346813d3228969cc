//! Tables of groups and of joins, expressions and filters.

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use rand_core::Rng;

use super::data::{batch, column, generator};
use super::measure::Effort;
use crate::Error;
use crate::cost::curve::{Curve, CurvePoint};
use crate::cost::operators::ValueKind;

/// Measured costs of tables and expressions.
pub(super) struct TableCosts {
    pub(super) build: Curve,
    pub(super) probe: Curve,
    pub(super) group: Curve,
    pub(super) update_ns_per_value: f64,
    pub(super) merge_join_ns_per_row: f64,
    pub(super) expression_ns_per_value: f64,
    pub(super) filter_ns_per_value: f64,
}

/// Bytes of tables: within a private cache, and beyond.
const TABLE_BYTES: [usize; 3] = [1 << 14, 1 << 20, 1 << 26];
/// Bytes of a place of a table: a key and a row or group.
const PLACE_BYTES: usize = 16;
/// Rows that are looked up in a run, at least.
const LOOKED_UP_ROWS: usize = 1 << 16;
/// Rows of each side of a join.
const JOINED_ROWS: usize = 1 << 17;
/// Rows of a batch that an expression is evaluated on.
const BATCH_ROWS: usize = 8192;

pub(super) fn measure(effort: Effort) -> Result<TableCosts, Error> {
    let (mut build, mut probe) = (Vec::new(), Vec::new());
    for bytes in TABLE_BYTES {
        let size = bytes as f64;
        let (build_ns, probe_ns) = tables(effort, bytes);
        build.push(CurvePoint { size, ns: build_ns });
        probe.push(CurvePoint { size, ns: probe_ns });
    }
    let (expression_ns_per_value, filter_ns_per_value) = expressions(effort)?;
    // A group is found as a row of a join is; the table is built once and hit by all rows.
    let group = Curve::new(probe.clone());
    Ok(TableCosts {
        build: Curve::new(build),
        probe: Curve::new(probe),
        group,
        update_ns_per_value: update(effort),
        merge_join_ns_per_row: merge_join(effort),
        expression_ns_per_value,
        filter_ns_per_value,
    })
}

/// A table with open addressing: keys that are not 0, and their rows.
struct HashTable {
    places: Vec<(u64, u64)>,
    shift: u32,
}

impl HashTable {
    fn new(places: usize) -> HashTable {
        let count = places.next_power_of_two().max(2);
        HashTable { places: vec![(0, 0); count], shift: 64 - count.trailing_zeros() }
    }

    /// The place of a key, or the free one where it belongs.
    fn find(&self, key: u64) -> usize {
        // Fibonacci hashing.
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        while self.places[at].0 != 0 && self.places[at].0 != key {
            at = (at + 1) & (self.places.len() - 1);
        }
        at
    }
}

/// Nanoseconds to insert a row, and to look one up, in a table of some bytes that is half full.
fn tables(effort: Effort, bytes: usize) -> (f64, f64) {
    let rows = effort.amount(bytes / PLACE_BYTES / 2);
    let mut table = HashTable::new(2 * rows);
    let mut random = generator(30);
    let keys: Vec<u64> = (0..rows).map(|_| random.next_u64() | 1).collect();
    let repeats = (effort.amount(LOOKED_UP_ROWS) / rows).max(1);
    let build = effort.measure(rows * repeats, || {
        for _ in 0..repeats {
            table.places.fill((0, 0));
            for (row, &key) in keys.iter().enumerate() {
                let at = table.find(key);
                table.places[at] = (key, row as u64);
            }
        }
    });
    let looked_up = effort.amount(LOOKED_UP_ROWS);
    let order: Vec<u64> = (0..looked_up).map(|_| keys[(random.next_u64() % rows as u64) as usize]).collect();
    let probe = effort.measure(looked_up, || {
        let sum = order.iter().fold(0u64, |sum, &key| sum.wrapping_add(table.places[table.find(key)].1));
        std::hint::black_box(sum);
    });
    (build, probe)
}

/// Adds values to the states of their groups.
fn update(effort: Effort) -> f64 {
    let rows = effort.amount(BATCH_ROWS);
    let mut random = generator(31);
    let groups: Vec<u32> = (0..rows).map(|_| (random.next_u64() % 4) as u32).collect();
    let values: Vec<i64> = (0..rows).map(|_| random.next_u64() as i64 >> 20).collect();
    let mut sums = vec![0i64; 64];
    effort.measure(rows, || {
        for (&group, &value) in groups.iter().zip(&values) {
            let sum = &mut sums[group as usize];
            *sum = sum.wrapping_add(value);
        }
        std::hint::black_box(&sums);
    })
}

/// Merges the sorted keys of two tables and notes the pairs.
fn merge_join(effort: Effort) -> f64 {
    let rows = effort.amount(JOINED_ROWS);
    let sorted = |stream| {
        let mut random = generator(stream);
        let mut keys: Vec<u64> = (0..rows).map(|_| random.next_u64() % rows as u64).collect();
        keys.sort_unstable();
        keys
    };
    let (left, right) = (sorted(32), sorted(33));
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    effort.measure(2 * rows, || {
        pairs.clear();
        let (mut a, mut b) = (0, 0);
        while a < left.len() && b < right.len() {
            if left[a] == right[b] {
                pairs.push((a as u32, b as u32));
            }
            let goes_left = left[a] <= right[b];
            a += usize::from(goes_left);
            b += usize::from(!goes_left);
        }
        std::hint::black_box(&pairs);
    })
}

/// Nanoseconds of an arithmetic operation or comparison on a value, and of a value that a filter keeps.
fn expressions(effort: Effort) -> Result<(f64, f64), Error> {
    let rows = effort.amount(BATCH_ROWS);
    let numbers: ArrayRef = column(ValueKind::Fixed8, true, rows, 0);
    let multiply = effort.try_measure(rows, || {
        arrow_arith::numeric::mul(&numbers, &numbers).map(|product| drop(std::hint::black_box(product)))
    })?;
    let compare = effort.try_measure(rows, || {
        arrow_ord::cmp::lt(&numbers, &numbers).map(|less| drop(std::hint::black_box(less)))
    })?;
    let mut random = generator(34);
    let mask = BooleanArray::from_iter((0..rows).map(|_| Some(random.next_u64().is_multiple_of(2))));
    let filtered: RecordBatch = batch(numbers.clone())?;
    let kept = mask.true_count();
    let filter = effort.try_measure(kept, || {
        arrow_select::filter::filter_record_batch(&filtered, &mask)
            .map(|kept| drop(std::hint::black_box(kept)))
    })?;
    Ok(((multiply + compare) / 2.0, filter))
}
