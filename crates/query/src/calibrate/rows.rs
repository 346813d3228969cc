//! Packed rows: scattering, sorting, gathering, merging, copying.

use rand_core::Rng;

use super::data::generator;
use super::measure::{Effort, split};
use crate::cost::curve::{Curve, CurvePoint};
use crate::cost::operators::RowCost;

/// Measured costs of packed rows.
pub(super) struct RowCosts {
    pub(super) scatter: RowCost,
    pub(super) radix_sort: Curve,
    pub(super) comparison_ns: f64,
    pub(super) gather: RowCost,
    pub(super) merge: Curve,
    pub(super) copy_ns_per_byte: f64,
}

/// Bytes of a narrow and of a wide row, between which the cost of a byte is told apart from that of a row.
const ROW_BYTES: [usize; 2] = [64, 192];
/// Bytes of rows that are scattered: more than private caches hold.
const SCATTERED_BYTES: usize = 32 << 20;
/// Numbers of partitions.
const PARTITION_COUNTS: [usize; 4] = [1, 16, 64, 256];
/// Bytes of the chunk of a partition, which is filled again and again.
const CHUNK_BYTES: usize = 64 << 10;
/// Rows that are sorted: within the first two caches, and beyond them.
const SORTED_ROW_COUNTS: [usize; 3] = [1 << 12, 1 << 16, 1 << 20];
/// Bytes of the rows from which are gathered: within a private cache, and beyond.
const GATHERED_BYTES: [usize; 3] = [1 << 19, 1 << 23, 1 << 27];
/// Rows that are gathered in a run.
const GATHERED_ROWS: usize = 1 << 16;
/// Runs that are merged.
const RUN_COUNTS: [usize; 3] = [4, 32, 256];
/// Rows of all merged runs.
const MERGED_ROWS: usize = 1 << 18;
/// Keys that are compared, and their bytes.
const COMPARED_KEYS: usize = 1 << 14;
const COMPARED_KEY_BYTES: usize = 24;
/// Bytes that are copied.
const COPIED_BYTES: usize = 32 << 20;

pub(super) fn measure(effort: Effort) -> RowCosts {
    RowCosts {
        scatter: row_cost(&PARTITION_COUNTS, 2, |partitions, width| scatter(effort, partitions, width)),
        radix_sort: curve(&SORTED_ROW_COUNTS, |rows| radix(effort, effort.amount(rows))),
        comparison_ns: comparison(effort),
        gather: row_cost(&GATHERED_BYTES, 1, |bytes, width| gather(effort, effort.amount(bytes), width)),
        merge: curve(&RUN_COUNTS, |runs| merge(effort, runs)),
        copy_ns_per_byte: copy(effort),
    }
}

fn curve(sizes: &[usize], mut ns: impl FnMut(usize) -> f64) -> Curve {
    Curve::new(sizes.iter().map(|&size| CurvePoint { size: size as f64, ns: ns(size) }).collect())
}

/// The cost of narrow rows by size, and of a byte by wide rows of one size.
fn row_cost(sizes: &[usize], typical: usize, mut ns: impl FnMut(usize, usize) -> f64) -> RowCost {
    let narrow: Vec<f64> = sizes.iter().map(|&size| ns(size, ROW_BYTES[0])).collect();
    let wide = ns(sizes[typical], ROW_BYTES[1]);
    let (_, ns_per_byte) = split((ROW_BYTES[0] as f64, narrow[typical]), (ROW_BYTES[1] as f64, wide));
    let of_rows = |ns: &f64| (ns - ns_per_byte * ROW_BYTES[0] as f64).max(0.0);
    let points =
        sizes.iter().zip(&narrow).map(|(&size, ns)| CurvePoint { size: size as f64, ns: of_rows(ns) });
    RowCost { ns_per_row: Curve::new(points.collect()), ns_per_byte }
}

fn keys(count: usize, stream: u64) -> Vec<u64> {
    let mut random = generator(stream);
    // Two columns of 20 bits each, packed.
    (0..count).map(|_| random.next_u64() >> 24).collect()
}

/// Copies rows to the chunks of their partitions.
fn scatter(effort: Effort, partitions: usize, width: usize) -> f64 {
    let rows = effort.amount(SCATTERED_BYTES) / width + 1;
    let (keys, source) = (keys(rows, 1), vec![7u8; rows * width]);
    let mut chunks: Vec<(usize, Vec<u8>)> = vec![(0, vec![0; CHUNK_BYTES]); partitions];
    let splitters: Vec<u64> = (1..partitions as u64).map(|at| (at << 40) / partitions as u64).collect();
    effort.measure(rows, || {
        for (key, row) in keys.iter().zip(source.chunks_exact(width)) {
            let partition = splitters.partition_point(|splitter| splitter <= key);
            let (used, chunk) = &mut chunks[partition];
            if *used + width > CHUNK_BYTES {
                *used = 0;
            }
            chunk[*used..*used + width].copy_from_slice(row);
            *used += width;
        }
    })
}

/// A key and a reference to its row.
type Entry = (u64, u32);

/// Sorts entries, least significant digit first, and leaves out digits that are all the same.
pub(super) fn radix_sort(entries: &mut Vec<Entry>, other: &mut Vec<Entry>) {
    other.resize(entries.len(), (0, 0));
    for digit in 0..8 {
        let digit = |key: u64| (key >> (8 * digit)) as usize & 255;
        let mut counts = [0usize; 256];
        entries.iter().for_each(|entry| counts[digit(entry.0)] += 1);
        if counts.contains(&entries.len()) {
            continue;
        }
        let mut at = 0;
        for count in &mut counts {
            (*count, at) = (at, at + *count);
        }
        for entry in entries.iter() {
            let place = &mut counts[digit(entry.0)];
            other[*place] = *entry;
            *place += 1;
        }
        std::mem::swap(entries, other);
    }
}

fn radix(effort: Effort, rows: usize) -> f64 {
    let unsorted: Vec<Entry> = keys(rows, 2).into_iter().zip(0..).collect();
    let (mut entries, mut other) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    effort.measure(rows, || {
        entries.clear();
        entries.extend_from_slice(&unsorted);
        radix_sort(&mut entries, &mut other);
    })
}

/// Copies rows from all over some memory one after the other.
fn gather(effort: Effort, bytes: usize, width: usize) -> f64 {
    let rows = (bytes / width).max(1);
    let source = vec![3u8; rows * width];
    let mut random = generator(3);
    let order: Vec<usize> =
        (0..effort.amount(GATHERED_ROWS)).map(|_| (random.next_u64() % rows as u64) as usize).collect();
    let mut target = vec![0u8; CHUNK_BYTES / width * width];
    effort.measure(order.len(), || {
        for part in order.chunks(target.len() / width) {
            for (row, to) in part.iter().zip(target.chunks_exact_mut(width)) {
                to.copy_from_slice(&source[row * width..(row + 1) * width]);
            }
        }
        std::hint::black_box(&target);
    })
}

/// Merges sorted runs of keys by a loser tree.
fn merge(effort: Effort, runs: usize) -> f64 {
    let length = effort.amount(MERGED_ROWS) / runs + 1;
    let runs: Vec<Vec<u64>> = (0..runs as u64)
        .map(|run| {
            let mut keys = keys(length, 10 + run);
            keys.sort_unstable();
            keys
        })
        .collect();
    effort.measure(length * runs.len(), || {
        std::hint::black_box(merged(&runs));
    })
}

/// A checksum of the keys of sorted runs in their order: a tournament whose inner nodes hold the losers.
fn merged(runs: &[Vec<u64>]) -> u64 {
    let leaves = runs.len().next_power_of_two();
    let mut heads: Vec<std::slice::Iter<'_, u64>> = runs.iter().map(|run| run.iter()).collect();
    let mut next = |run: usize| heads.get_mut(run).and_then(Iterator::next).map_or(u64::MAX, |&key| key);
    // The winners of all games first, then the losers of the final tree.
    let mut winners: Vec<(u64, usize)> = vec![(u64::MAX, 0); leaves];
    winners.extend((0..leaves).map(|run| (next(run), run)));
    let mut losers = winners.clone();
    for node in (1..leaves).rev() {
        let (a, b) = (winners[2 * node], winners[2 * node + 1]);
        (winners[node], losers[node]) = (a.min(b), a.max(b));
    }
    let mut winner = winners[if leaves > 1 { 1 } else { leaves }];
    let (mut sum, mut rank) = (0u64, 0u64);
    while winner.0 != u64::MAX {
        rank += 1;
        sum = sum.wrapping_add(winner.0.wrapping_mul(rank));
        let mut node = (leaves + winner.1) / 2;
        winner.0 = next(winner.1);
        while node > 0 {
            if losers[node] < winner {
                std::mem::swap(&mut losers[node], &mut winner);
            }
            node /= 2;
        }
    }
    sum
}

/// Compares whole keys, as ties of prefixes do.
fn comparison(effort: Effort) -> f64 {
    let count = effort.amount(COMPARED_KEYS);
    let mut bytes = vec![b'k'; count * COMPARED_KEY_BYTES];
    for (key, number) in bytes.chunks_exact_mut(COMPARED_KEY_BYTES).zip(keys(count, 4)) {
        key[COMPARED_KEY_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    }
    let key = |at: u32| &bytes[at as usize * COMPARED_KEY_BYTES..][..COMPARED_KEY_BYTES];
    let mut order: Vec<u32> = Vec::with_capacity(count);
    let comparisons = count as f64 * (count as f64).log2();
    let sorted = effort.measure(1, || {
        order.clear();
        order.extend(0..count as u32);
        order.sort_unstable_by(|&a, &b| key(a).cmp(key(b)));
    });
    sorted / comparisons
}

fn copy(effort: Effort) -> f64 {
    let source = vec![5u8; effort.amount(COPIED_BYTES)];
    let mut target = vec![0u8; source.len()];
    effort.measure(source.len(), || {
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&target);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted() {
        let mut entries: Vec<Entry> = keys(5000, 9).into_iter().zip(0..).collect();
        let mut expected = entries.clone();
        expected.sort();
        radix_sort(&mut entries, &mut Vec::new());
        assert_eq!(entries, expected);
    }

    #[test]
    fn runs_are_merged_in_order() {
        for count in [1, 2, 3, 5, 8] {
            let mut runs: Vec<Vec<u64>> = (0..count).map(|run| keys(run as usize * 3, 20 + run)).collect();
            runs.iter_mut().for_each(|run| run.sort_unstable());
            let mut all: Vec<u64> = runs.concat();
            all.sort_unstable();
            let expected =
                (1u64..).zip(&all).fold(0u64, |sum, (rank, key)| sum.wrapping_add(key.wrapping_mul(rank)));
            assert_eq!(merged(&runs), expected, "{count} runs");
        }
    }
}
