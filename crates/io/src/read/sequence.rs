//! The blocks of a range of a file, in order or shuffled, once or for ever.

use std::ops::Range;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::Pattern;

/// The blocks of a range of a file, each once, or over and over.
#[derive(Debug)]
pub(super) struct Sequence {
    range: Range<u64>,
    block: u64,
    /// Blocks that the range touches. Blocks begin at multiples of their size, so the first one may be shorter.
    count: u64,
    index: u64,
    /// How many times all blocks were read.
    pass: u64,
    pattern: Pattern,
    shuffle: Option<Shuffle>,
    endless: bool,
}

impl Sequence {
    pub(super) fn new(range: Range<u64>, block: u64, pattern: Pattern, endless: bool) -> Sequence {
        let count = if range.is_empty() { 0 } else { range.end.div_ceil(block) - range.start / block };
        let mut sequence =
            Sequence { range, block, count, index: 0, pass: 0, pattern, shuffle: None, endless };
        sequence.shuffle = sequence.shuffled();
        sequence
    }

    /// Whether there is nothing more to ask for.
    pub(super) fn is_at_end(&self) -> bool {
        self.count == 0 || self.index == self.count && !self.endless
    }

    fn shuffled(&self) -> Option<Shuffle> {
        match self.pattern {
            Pattern::Sequential => None,
            Pattern::Random { seed } => Some(Shuffle::new(self.count, seed.wrapping_add(self.pass))),
        }
    }
}

impl Iterator for Sequence {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        if self.is_at_end() {
            return None;
        }
        if self.index == self.count {
            (self.index, self.pass) = (0, self.pass + 1);
            self.shuffle = self.shuffled();
        }
        let index = self.shuffle.as_ref().map_or(self.index, |shuffle| shuffle.at(self.index));
        self.index += 1;
        let start = (self.range.start / self.block + index) * self.block;
        Some(start.max(self.range.start)..(start + self.block).min(self.range.end))
    }
}

/// The numbers below `count`, each once, without a list of them: a Feistel network over the next power of four, whose
/// results beyond `count` are sent through again (cycle walking; Black & Rogaway 2002).
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

/// The finaliser of SplitMix64 (Steele, Lea & Flood 2014).
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
        fn every_byte_is_read_once(start in 0u64..500, length in 0u64..5000, block in 1u64..300, seed: u64, shuffled: bool) {
            let pattern = if shuffled { Pattern::Random { seed } } else { Pattern::Sequential };
            let mut ranges: Vec<Range<u64>> = Sequence::new(start..start + length, block, pattern, false).collect();
            ranges.sort_by_key(|range| range.start);
            let mut at = start;
            for range in ranges {
                prop_assert!(range.start == at && range.end - range.start <= block);
                prop_assert!(range.start == start || range.start.is_multiple_of(block));
                at = range.end;
            }
            prop_assert_eq!(at, start + length);
        }

        #[test]
        fn an_endless_sequence_begins_again(blocks in 1u64..40, seed: u64) {
            let sequence = Sequence::new(0..blocks * 10, 10, Pattern::Random { seed }, true);
            let starts: Vec<u64> = sequence.take(3 * blocks as usize).map(|range| range.start).collect();
            for pass in starts.chunks(blocks as usize) {
                let mut pass = pass.to_vec();
                pass.sort_unstable();
                prop_assert!(pass.into_iter().eq((0..blocks).map(|block| block * 10)));
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
