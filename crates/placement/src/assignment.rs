//! The assignment problem: assigns rows to distinct columns with the maximum sum of weights (Kuhn, Naval Research
//! Logistics 2, 1955; here by shortest augmenting paths with potentials, in `O(rows^2 columns)`).

/// Returns the column of each row. Deterministic: among equal sums the first found is returned.
///
/// # Panics
/// If there are more rows than columns, or rows of different length.
pub(crate) fn greatest_sum(weights: &[Vec<i64>], columns: usize) -> Vec<usize> {
    assert!(weights.len() <= columns && weights.iter().all(|row| row.len() == columns));
    // Column 0 is the root of each augmenting path; columns and rows are numbered from 1.
    let mut row_potential = vec![0; weights.len() + 1];
    let mut column_potential = vec![0; columns + 1];
    let mut row_of = vec![0; columns + 1];
    for row in 1..=weights.len() {
        row_of[0] = row;
        let mut column = 0;
        let mut slack = vec![i64::MAX; columns + 1];
        let mut before = vec![0; columns + 1];
        let mut is_visited = vec![false; columns + 1];
        while row_of[column] != 0 {
            is_visited[column] = true;
            let from = row_of[column];
            let mut next = (i64::MAX, 0);
            for to in (1..=columns).filter(|&to| !is_visited[to]) {
                let cost = -weights[from - 1][to - 1] - row_potential[from] - column_potential[to];
                if cost < slack[to] {
                    (slack[to], before[to]) = (cost, column);
                }
                next = next.min((slack[to], to));
            }
            for to in 0..=columns {
                if is_visited[to] {
                    row_potential[row_of[to]] += next.0;
                    column_potential[to] -= next.0;
                } else if slack[to] < i64::MAX {
                    slack[to] -= next.0;
                }
            }
            column = next.1;
        }
        while column != 0 {
            row_of[column] = row_of[before[column]];
            column = before[column];
        }
    }
    let mut assigned = vec![0; weights.len()];
    for column in 1..=columns {
        if row_of[column] > 0 {
            assigned[row_of[column] - 1] = column - 1;
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use rand_core::Rng;
    use rand_pcg::Pcg64;

    use super::*;

    /// Returns the maximum sum of the rows from `row` on, over unused columns: the oracle.
    fn by_trial(weights: &[Vec<i64>], row: usize, used: &mut Vec<bool>) -> i64 {
        if row == weights.len() {
            return 0;
        }
        let mut best = i64::MIN;
        for column in 0..used.len() {
            if !used[column] {
                used[column] = true;
                best = best.max(weights[row][column] + by_trial(weights, row + 1, used));
                used[column] = false;
            }
        }
        best
    }

    #[test]
    fn no_assignment_has_a_greater_sum() {
        let mut random = Pcg64::new(1, 3);
        let mut below = |bound: u64| random.next_u64() % bound;
        for case in 0..500 {
            let columns = 1 + below(6) as usize;
            let rows = below(columns as u64 + 1) as usize;
            let weights: Vec<Vec<i64>> =
                (0..rows).map(|_| (0..columns).map(|_| below(5) as i64 - 1).collect()).collect();
            let assigned = greatest_sum(&weights, columns);
            let mut different = assigned.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), rows, "case {case}: {assigned:?} of {weights:?}");
            let sum: i64 = assigned.iter().zip(&weights).map(|(&column, row)| row[column]).sum();
            let best = by_trial(&weights, 0, &mut vec![false; columns]);
            assert_eq!(sum, best, "case {case}: {assigned:?} of {weights:?}");
        }
    }
}
