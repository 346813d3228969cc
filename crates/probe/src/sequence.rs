//! The blocks of a file, in order or shuffled, once or endlessly.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// The offsets of a file's whole blocks, each once per pass.
#[derive(Debug)]
pub(crate) struct Sequence {
    block: u64,
    count: u64,
    index: u64,
    /// Number of completed passes over all blocks.
    pass: u64,
    /// Seed of the order of the first pass, if the blocks are shuffled.
    seed: Option<u64>,
    shuffle: Option<Shuffle>,
    is_endless: bool,
}

impl Sequence {
    /// Creates a sequence of the blocks of `block` bytes of a file of `size` bytes: in order, or in an order
    /// determined by a seed, which differs between passes.
    pub(crate) fn new(size: u64, block: u64, seed: Option<u64>, is_endless: bool) -> Sequence {
        let count = size / block;
        let mut sequence = Sequence { block, count, index: 0, pass: 0, seed, shuffle: None, is_endless };
        sequence.shuffle = sequence.shuffled();
        sequence
    }

    fn shuffled(&self) -> Option<Shuffle> {
        self.seed.map(|seed| Shuffle::new(self.count, seed.wrapping_add(self.pass)))
    }
}

impl Iterator for Sequence {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.index == self.count {
            if self.count == 0 || !self.is_endless {
                return None;
            }
            (self.index, self.pass) = (0, self.pass + 1);
            self.shuffle = self.shuffled();
        }
        let index = self.shuffle.as_ref().map_or(self.index, |shuffle| shuffle.at(self.index));
        self.index += 1;
        Some(index * self.block)
    }
}

/// A pseudorandom permutation of the numbers below `count` without a table: a Feistel network over the next power of
/// four, applied again to results beyond `count` (cycle walking; Black & Rogaway 2002).
#[derive(Debug)]
struct Shuffle {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Shuffle {
    fn new(count: u64, seed: u64) -> Shuffle {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let mut random = Pcg64::seed_from_u64(seed);
        Shuffle {
            count,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| random.next_u64()),
        }
    }

    fn at(&self, index: u64) -> u64 {
        let mut value = self.permuted(index);
        // On average fewer than four times.
        while value >= self.count {
            value = self.permuted(value);
        }
        value
    }

    fn permuted(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ mixed(right ^ key) & mask);
        }
        left << self.half_bits | right
    }
}

/// Applies the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
fn mixed(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_whole_block_comes_once_in_each_pass(size in 0u64..5000, block in 1u64..300, seed: Option<u64>) {
            let count = (size / block) as usize;
            let once: Vec<u64> = Sequence::new(size, block, seed, false).collect();
            prop_assert_eq!(once.len(), count);
            let offsets: Vec<u64> = Sequence::new(size, block, seed, true).take(3 * count).collect();
            for pass in offsets.chunks(count.max(1)) {
                let mut pass = pass.to_vec();
                pass.sort_unstable();
                prop_assert!(pass.into_iter().eq((0..count as u64).map(|index| index * block)));
            }
        }
    }

    #[test]
    fn random_places_are_spread() {
        let shuffle = Shuffle::new(10_000, 1);
        let near =
            (1..10_000).filter(|&index| shuffle.at(index).abs_diff(shuffle.at(index - 1)) < 100).count();
        assert!(near < 400, "{near} of 10,000 steps are below 1 % of the range; 2 % are expected");
    }
}
