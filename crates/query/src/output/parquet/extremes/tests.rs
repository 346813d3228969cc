use proptest::prelude::*;

use super::*;

fn extremes_of(values: &[Vec<u8>]) -> Extremes {
    let mut extremes = Extremes::default();
    for value in values {
        let source = [&[7; 3][..], value, &[0xff; 20]].concat();
        extremes.update(&source, 3, value.len());
    }
    extremes
}

proptest! {
    #[test]
    fn bounds_hold_for_all_values_and_are_short(
        values in proptest::collection::vec(proptest::collection::vec(prop_oneof![0_u8..2, 0xfe_u8..=0xff], 0..80), 1..20),
    ) {
        let extremes = extremes_of(&values);
        let (least, greatest) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        if let Some((lower, upper)) = extremes.bounds(false) {
            prop_assert!(lower <= *least && *greatest <= upper);
            prop_assert!(lower.len() <= BOUND_MAX_BYTES && upper.len() <= BOUND_MAX_BYTES);
            prop_assert_eq!(least.len() <= BOUND_MAX_BYTES, lower == *least);
            prop_assert_eq!(greatest.len() <= BOUND_MAX_BYTES, upper == *greatest);
        } else {
            prop_assert!(greatest[..BOUND_MAX_BYTES].iter().all(|&byte| byte == 0xff));
        }
    }

    #[test]
    fn bounds_of_text_are_text(values in proptest::collection::vec("[aé€\u{10ffff}\u{d7ff}]{0,40}", 1..20)) {
        let bytes: Vec<Vec<u8>> = values.iter().map(|value| value.clone().into_bytes()).collect();
        if let Some((lower, upper)) = extremes_of(&bytes).bounds(true) {
            let (lower, upper) = (String::from_utf8(lower).unwrap(), String::from_utf8(upper).unwrap());
            prop_assert!(lower <= *values.iter().min().unwrap() && *values.iter().max().unwrap() <= upper);
        }
    }

    #[test]
    fn merged_pages_have_the_extremes_of_their_chunk(
        pages in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(0_u8..3, 0..70), 0..5), 0..5),
    ) {
        let mut merged = Extremes::default();
        pages.iter().for_each(|page| merged.merge(&extremes_of(page)));
        prop_assert_eq!(merged.bounds(false), extremes_of(&pages.concat()).bounds(false));
    }
}
