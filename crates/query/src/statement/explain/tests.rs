use sakiyomi_testing::Scratch;

use super::*;
use crate::aggregate::Function;
use crate::cost::tests::machines::{DeviceSpec, MIB, operators};
use crate::statement::tests::{job, key, rows, to_file, write};

/// Rows of the table.
const ROWS: i64 = 50_000;

/// Explains a statement on a table of `k`, a number that is different in each row, and `t`, a text with four values.
fn explained(
    name: &str,
    select: Option<&str>,
    explain: impl FnOnce(&Job, Input, &Destination, Calibrated<'_>) -> Result<Explanation, Error>,
) -> Explanation {
    let scratch = Scratch::new(name);
    let table = write(scratch.path("t"), &rows(ROWS, key, |row| format!("{:060}", row % 4)));
    let input = Input { table, filter: None, select: select.map(str::to_owned) };
    let (device, operators) = (DeviceSpec::fast().calibrated(), operators(2, &mut || 1.0));
    let calibrated = Calibrated {
        storage: Storage::one(&device, 1),
        operators: &operators,
        cached_ratios: vec![0.0],
        limits: Limits::new(64 * MIB, 64 * MIB, 2, 2),
    };
    let job = job(scratch.root(), 128 << 20, 2);
    explain(&job, input, &to_file(scratch.path("o")), calibrated).unwrap()
}

fn sort(limit: Option<u64>, select: Option<&str>) -> Explanation {
    explained("explain-sort", select, |job, input, destination, calibrated| {
        let sort = Sort { by: "k".to_owned(), limit, stable: false };
        explain_sort(job, input, &sort, destination, calibrated)
    })
}

fn groups(by: &str, select: Option<&str>) -> u64 {
    let explanation = explained("explain-groups", select, |job, input, destination, calibrated| {
        let aggregate = Aggregate { by: Some(by.to_owned()), functions: Vec::new(), count: true };
        explain_aggregate(job, input, &aggregate, destination, calibrated)
    });
    explanation.tree.rows.unwrap()
}

#[test]
fn groups_are_those_of_the_columns_that_a_projection_makes() {
    assert_eq!(groups("a", Some("t as a, k as b")), 4);
    assert_eq!(groups("b", Some("t as a, k + 1 as b")), ROWS as u64);
    assert_eq!((groups("t", None), groups("k", None)), (4, ROWS as u64));
}

#[test]
fn a_result_has_the_bytes_of_the_rows_and_the_columns_that_are_written() {
    let written = |limit, select| sort(limit, select).tree.bytes;
    let all = written(None, None);
    assert!(all > 60 * ROWS as u64, "{all}");
    assert!(written(Some(ROWS as u64 / 100), None) <= all / 90);
    assert!(written(None, Some("k as k")) < all / 5);
}

/// The key and the states of groups.
fn group_shapes(by: &str, functions: &[(Function, &str)]) -> (GroupKeyShape, StateShape) {
    let select = Some("k, t, substring(t, 60) as c, k % 1000 as v");
    let explanation = explained("explain-shapes", select, |job, input, destination, calibrated| {
        let functions = functions.iter().map(|&(function, text)| (function, text.to_owned())).collect();
        let aggregate = Aggregate { by: Some(by.to_owned()), functions, count: true };
        explain_aggregate(job, input, &aggregate, destination, calibrated)
    });
    match explanation.task.operator {
        Operator::Aggregate { key, states, .. } => (key, states),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_of_codes_and_states_that_one_pass_updates_are_known() {
    use Function::{Avg, CountDistinct, Max, Sum};
    let codes = GroupKeyShape { texts: 0, codes: 1 };
    let (key, states) = group_shapes("c", &[(Sum, "v"), (Avg, "v"), (Max, "k")]);
    // The average shares the sum.
    assert_eq!((key, states.sums, states.others), (codes, 1, 1));
    assert!(states.counts > 0);
    let (key, states) = group_shapes("c", &[(CountDistinct, "k"), (Sum, "v / 2.5")]);
    assert_eq!((key, states.sums, states.others), (codes, 0, 2));
    assert_eq!(group_shapes("k", &[]).0, GroupKeyShape { texts: 0, codes: 0 });
    assert_eq!(group_shapes("c,t", &[]).0, GroupKeyShape { texts: 2, codes: 0 });
}
