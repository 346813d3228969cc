//! Computes several sums in one pass over the rows. With few groups, a single sum would depend on the previous row's
//! result. Several sums hide that latency, and the sums of a group share one cache line.

use super::layout::{Kind, Spec};
use super::state::{State, Values};

/// Maximum number of groups whose sums fit the L1 cache.
pub(crate) const GROUPS_MAX: usize = 256;
/// Sums per pass; the last slot of the cache line is for the row count.
const SUMS_MAX: usize = 7;

/// The sums and row count of a group on a batch.
type Sums = [i64; SUMS_MAX + 1];

/// Sums of a batch; buffers that are reused.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    sums: Vec<Sums>,
    fused: Vec<usize>,
}

/// Adds rows to the states that sum 64-bit values or count rows. Returns the indices of these states.
pub(crate) fn add<'a>(
    rows: &[u32],
    states: &mut [State],
    specs: &[Spec],
    values: &[Values<'_>],
    locals: &'a mut Locals,
) -> &'a [usize] {
    locals.fused.clear();
    let groups = states.iter().find_map(|state| match state {
        State::Count(counts) => Some(counts.len()),
        State::Sum(sums) => Some(sums.len()),
        _ => None,
    });
    let Some(groups) = groups.filter(|groups| *groups <= GROUPS_MAX) else { return &locals.fused };
    let summed: Vec<(usize, &[i64])> = specs
        .iter()
        .enumerate()
        .filter_map(|(place, spec)| Some((place, summable(*spec, values, rows.len())?)))
        .collect();
    let mut counts: Vec<usize> = Vec::new();
    for (place, spec) in specs.iter().enumerate() {
        if is_countable(*spec, values) {
            counts.push(place);
        }
    }
    for pass in summed.chunks(SUMS_MAX).chain(if summed.is_empty() { Some(&[][..]) } else { None }) {
        locals.sums.clear();
        locals.sums.resize(groups, [0; SUMS_MAX + 1]);
        sum(rows, pass, &mut locals.sums);
        for (column, (place, _)) in pass.iter().enumerate() {
            let sums = locals.sums.iter().enumerate();
            sums.for_each(|(group, sums)| states[*place].add_sum(group as u32, sums[column]));
        }
        for place in counts.drain(..) {
            let sums = locals.sums.iter().enumerate();
            sums.for_each(|(group, sums)| states[place].add_to(group as u32, sums[SUMS_MAX]));
            locals.fused.push(place);
        }
        locals.fused.extend(pass.iter().map(|(place, _)| *place));
    }
    &locals.fused
}

/// Returns the values of a sum, if adding up `rows` of them cannot overflow 64 bits.
pub(crate) fn summable<'a>(spec: Spec, values: &'a [Values<'_>], rows: usize) -> Option<&'a [i64]> {
    let Values::Narrow(narrow) = &values[spec.argument?] else { return None };
    let is_sum = matches!(spec.kind, Kind::Sum | Kind::WideSum);
    let bound = narrow.bound.checked_mul(rows as u64)?;
    let is_safe = is_sum && narrow.nulls.is_none() && bound <= i64::MAX as u64;
    is_safe.then_some(narrow.values)
}

/// Returns whether a state counts all rows.
pub(crate) fn is_countable(spec: Spec, values: &[Values<'_>]) -> bool {
    spec.kind == Kind::Count && spec.argument.is_none_or(|argument| has_no_nulls(&values[argument]))
}

fn has_no_nulls(values: &Values<'_>) -> bool {
    use arrow_array::Array;
    match values {
        Values::Narrow(narrow) => narrow.nulls.is_none(),
        Values::Array(array) => array.logical_null_count() == 0,
    }
}

fn sum(rows: &[u32], columns: &[(usize, &[i64])], sums: &mut [Sums]) {
    match columns.len() {
        0 => sum_of::<0>(rows, columns, sums),
        1 => sum_of::<1>(rows, columns, sums),
        2 => sum_of::<2>(rows, columns, sums),
        3 => sum_of::<3>(rows, columns, sums),
        4 => sum_of::<4>(rows, columns, sums),
        5 => sum_of::<5>(rows, columns, sums),
        6 => sum_of::<6>(rows, columns, sums),
        _ => sum_of::<SUMS_MAX>(rows, columns, sums),
    }
}

fn sum_of<const N: usize>(rows: &[u32], columns: &[(usize, &[i64])], sums: &mut [Sums]) {
    let columns: [&[i64]; N] = std::array::from_fn(|column| &columns[column].1[..rows.len()]);
    for (row, &group) in rows.iter().enumerate() {
        let sums = &mut sums[group as usize];
        for (sum, column) in sums.iter_mut().zip(&columns) {
            *sum += column[row];
        }
        sums[SUMS_MAX] += 1;
    }
}
