use super::first_not;

#[test]
fn the_first_row_for_which_a_condition_does_not_hold_is_found_wherever_it_is() {
    for end in 0..200 {
        for start in 0..=end {
            for first in start..=end {
                assert_eq!(first_not(start, end, |row| row < first), first);
            }
        }
    }
}
