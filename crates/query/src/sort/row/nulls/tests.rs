use arrow_array::BooleanArray;
use proptest::prelude::*;

use super::*;

fn bit(column: usize) -> NullBit {
    NullBit { byte: column / 8, mask: 1 << (column % 8) }
}

/// Validity of a row in a column; a column of kind 0 has no nulls, one of kind 1 only nulls.
fn is_valid(kind: u8, seed: u64, row: usize, column: usize) -> bool {
    let mixed = (seed ^ (row as u64) << 20 ^ column as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    kind == 0 || kind > 1 && !mixed.is_multiple_of(u64::from(kind))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn null_bits_of_rows_are_those_of_the_columns(
        rows in 0..=BLOCK_ROWS,
        kinds in prop::collection::vec(0_u8..6, 0..20),
        from in 0..70_usize,
        more in 0..20_usize,
        seed in any::<u64>(),
    ) {
        let null_bytes = kinds.len().div_ceil(8);
        let stride = (null_bytes + more).max(1);
        let mut fixed = vec![0xff; rows * stride];
        let mut block = NullBlock::default();
        // A previous block leaves nothing.
        block.start(BLOCK_ROWS, null_bytes);
        block.read(&vec![0xff; BLOCK_ROWS * stride], stride);
        block.start(rows, null_bytes);
        for (column, &kind) in kinds.iter().enumerate() {
            let valid: BooleanArray =
                (0..from + rows).map(|row| Some(is_valid(kind, seed, row, column))).collect();
            if kind > 0 {
                block.set(bit(column), &NullBuffer::new(valid.values().clone()), from);
            }
        }
        block.write(&mut fixed, stride);
        for (row, bytes) in fixed.chunks_exact(stride).enumerate() {
            for (column, &kind) in kinds.iter().enumerate() {
                prop_assert_eq!(!bit(column).is_set(bytes), is_valid(kind, seed, from + row, column));
            }
            prop_assert!(bytes[null_bytes..].iter().all(|&byte| byte == 0xff));
        }
        let mut block = NullBlock::default();
        block.start(rows, null_bytes);
        block.read(&fixed, stride);
        for (column, &kind) in kinds.iter().enumerate() {
            let valid: Vec<bool> = (from..from + rows).map(|row| is_valid(kind, seed, row, column)).collect();
            match block.get(bit(column)) {
                Some(nulls) => prop_assert_eq!(nulls.iter().collect::<Vec<bool>>(), valid),
                None => prop_assert!(!valid.contains(&false)),
            }
        }
    }
}
