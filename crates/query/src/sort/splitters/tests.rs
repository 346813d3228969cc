use super::*;

#[test]
fn a_code_that_is_found_often_has_a_partition_of_its_own() {
    assert_eq!(quantiles(&[1, 2, 3, 4, 5, 6, 7, 8], 4), [3, 5, 7]);
    assert_eq!(quantiles(&[5, 5, 5, 5, 5, 5], 4), [5, 6]);
    assert_eq!(quantiles(&[1, 5, 5, 5, 5, 9], 6), [5, 6, 9]);
    assert_eq!(quantiles(&[u64::MAX; 4], 4), [u64::MAX]);
    assert_eq!(quantiles(&[], 4), [0_u64; 0]);
}
