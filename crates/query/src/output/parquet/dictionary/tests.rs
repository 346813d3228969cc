use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn equal_values_have_equal_codes_and_others_do_not(
        values in proptest::collection::vec(proptest::collection::vec(0_u8..3, 0..40), 0..2000),
    ) {
        let (mut table, mut seen, mut distinct) = (Table::default(), HashMap::new(), Vec::new());
        table.clear();
        for value in &values {
            // Surrounded by bytes that are not part of the key.
            let source = [&[7; 5][..], value, &[9; 30]].concat();
            let key = key_of(&source, 5, value.len());
            prop_assert_eq!(key, key_of(value, 0, value.len()));
            let is_same = |code: u32| is_exact(key) || distinct[code as usize] == *value;
            let (code, is_new) = table.code_of(key, is_same).unwrap();
            prop_assert_eq!(is_new, !seen.contains_key(value));
            if is_new {
                distinct.push(value.clone());
            }
            prop_assert_eq!(*seen.entry(value.clone()).or_insert(code), code);
        }
        prop_assert_eq!(table.len(), distinct.len());
    }
}

#[test]
fn a_table_holds_as_many_as_codes_can_tell_apart() {
    let mut table = Table::default();
    table.clear();
    for value in 0..1 << 16 {
        assert_eq!(table.code_of(value, |_| true), Some((value as u16, true)));
    }
    assert_eq!(table.code_of(1 << 16, |_| true), None);
    assert_eq!(table.code_of(77, |_| true), Some((77, false)));
}

#[test]
fn values_that_somebody_made_collide_end_the_dictionary_early() {
    let mut table = Table::default();
    table.clear();
    // The lower half of the product is zero for all of them.
    let collide = |value: u64| u128::from(value) << 64 | u128::from(MIX_LOW);
    let codes: Vec<_> = (0..1000).map(|value| table.code_of(collide(value), |_| true)).collect();
    assert!(codes[PROBES_MAX + 1].is_none());
}

#[test]
fn unique_values_are_given_up_at_the_first_question_and_some_repeated_ones_never() {
    assert!(is_promising(4000, 4000));
    assert!(!is_promising(CHECK_VALUES, CHECK_VALUES));
    let distinct = 10_000_f64;
    for values in (CHECK_VALUES..122_880).step_by(CHECK_VALUES) {
        let seen = distinct * (1.0 - (-(values as f64) / distinct).exp());
        assert!(is_promising(values, seen as usize), "{values}");
    }
}
