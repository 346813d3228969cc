use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sorted_sequences_are_merged_and_equal_heads_come_in_the_order_of_the_sequences(
        mut sequences in prop::collection::vec(prop::collection::vec(0..50_u32, 0..20), 1..40),
    ) {
        sequences.iter_mut().for_each(|sequence| sequence.sort_unstable());
        let mut expected: Vec<(u32, usize)> = Vec::new();
        for (number, sequence) in sequences.iter().enumerate() {
            expected.extend(sequence.iter().map(|&value| (value, number)));
        }
        expected.sort_unstable();
        let mut at = vec![0; sequences.len()];
        let is_before = |at: &[usize], a: usize, b: usize| match (sequences[a].get(at[a]), sequences[b].get(at[b])) {
            (Some(left), Some(right)) => (left, a) < (right, b),
            (left, right) => left.is_some() || (right.is_none() && a < b),
        };
        let mut tree = LoserTree::new(sequences.len(), |a, b| is_before(&at, a, b));
        let mut merged = Vec::new();
        while let Some(&value) = sequences[tree.winner()].get(at[tree.winner()]) {
            merged.push((value, tree.winner()));
            at[tree.winner()] += 1;
            tree.replay(|a, b| is_before(&at, a, b));
        }
        prop_assert_eq!(merged, expected);
    }
}
