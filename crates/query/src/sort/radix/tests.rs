use proptest::prelude::*;

use super::*;

fn check(codes: &[u64], bits: u32) {
    let mut wide: Vec<Wide> = codes.iter().zip(0..).map(|(&code, place)| Wide { code, place }).collect();
    let mut expected = wide.clone();
    expected.sort();
    sort(&mut wide, &mut Vec::new(), 0, bits);
    assert!(wide == expected, "{} items of {bits} bits", codes.len());
    if bits <= 40 {
        let mut narrow: Vec<u64> = codes.iter().zip(0..).map(|(&code, place)| code << 24 | place).collect();
        let mut expected = narrow.clone();
        expected.sort_unstable();
        sort(&mut narrow, &mut vec![9; 3], 24, bits);
        assert!(narrow == expected, "{} packed items of {bits} bits", codes.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn items_are_sorted_and_equal_ones_keep_their_order(
        codes in prop::collection::vec(any::<u64>(), 0..3000),
        bits in 1..=64_u32,
        different in 1..5000_u64,
    ) {
        let mask = u64::MAX >> (64 - bits);
        check(&codes.iter().map(|code| code & mask).collect::<Vec<_>>(), bits);
        check(&codes.iter().map(|code| (code % different) & mask).collect::<Vec<_>>(), bits);
    }
}

#[test]
fn an_array_that_exceeds_a_cache_is_divided_first() {
    let count = CACHED_ITEMS as u64 + 12_345;
    let spread: Vec<u64> = (0..count).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34).collect();
    check(&spread, 30);
    let skewed: Vec<u64> = (0..count).map(|n| if n % 100 == 0 { n << 9 } else { n % 500 }).collect();
    check(&skewed, 30);
}
