//! Radix sort of codes with the places of their rows.
//!
//! LSD radix sort with digits of up to 11 bits; digits that are equal in all items are skipped. An array that exceeds
//! the cache is first divided by its most significant bits, so that each part is sorted in cache. Rows with equal codes
//! keep their order.

/// A code and the place of a row.
pub(crate) trait Item: Copy + Default + Ord {
    /// Returns the bits of the code selected by `shift` and `mask`.
    fn digit(self, shift: u32, mask: u64) -> usize;
}

/// A code and a place packed into 64 bits, the code in the upper bits.
impl Item for u64 {
    fn digit(self, shift: u32, mask: u64) -> usize {
        ((self >> shift) & mask) as usize
    }
}

/// A code and a place that do not fit into 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wide {
    pub(crate) code: u64,
    pub(crate) place: u32,
}

impl Item for Wide {
    fn digit(self, shift: u32, mask: u64) -> usize {
        ((self.code >> shift) & mask) as usize
    }
}

/// Number of items below which a comparison sort is faster.
const COMPARISON_SORT_MAX_ITEMS: usize = 256;

/// Maximum bits of a digit: 2,048 counters fit in the L1 cache.
const DIGIT_BITS_MAX: u32 = 11;

/// Number of items above which an array is divided first: two arrays of 2 MiB fit in a typical cache.
const CACHED_ITEMS: usize = 1 << 18;

/// Bits of the digit by which an array is divided.
const DIVISION_BITS: u32 = 8;

/// Sorts items by the `bits` bits above `shift`. Lower bits may break ties; higher bits must be equal.
pub(crate) fn sort<T: Item>(items: &mut [T], scratch: &mut Vec<T>, shift: u32, bits: u32) {
    if bits == 0 || items.len() < 2 {
        return;
    }
    if items.len() < COMPARISON_SORT_MAX_ITEMS {
        return items.sort_unstable();
    }
    scratch.clear();
    scratch.resize(items.len(), T::default());
    if items.len() > CACHED_ITEMS && bits > DIVISION_BITS {
        divide(items, scratch, shift, bits);
    } else {
        by_digits(items, scratch, shift, bits);
    }
}

/// Divides items by their upper bits, and sorts each part.
fn divide<T: Item>(items: &mut [T], scratch: &mut [T], shift: u32, bits: u32) {
    let rest = bits - DIVISION_BITS;
    let upper = shift + rest;
    let mut counts = [0_usize; 1 << DIVISION_BITS];
    let mask = (1 << DIVISION_BITS) - 1;
    items.iter().for_each(|item| counts[item.digit(upper, mask)] += 1);
    let mut ends = [0_usize; 1 << DIVISION_BITS];
    let mut sum = 0;
    for (end, count) in ends.iter_mut().zip(counts) {
        *end = sum;
        sum += count;
    }
    for item in &*items {
        let end = &mut ends[item.digit(upper, mask)];
        scratch[*end] = *item;
        *end += 1;
    }
    let (mut scratch, mut items) = (scratch, items);
    for count in counts {
        let (part, rest_of_scratch) = scratch.split_at_mut(count);
        let (target, rest_of_items) = items.split_at_mut(count);
        target.copy_from_slice(part);
        if count < COMPARISON_SORT_MAX_ITEMS {
            target.sort_unstable();
        } else if count > CACHED_ITEMS && rest > DIVISION_BITS {
            divide(target, part, shift, rest);
        } else {
            by_digits(target, part, shift, rest);
        }
        (scratch, items) = (rest_of_scratch, rest_of_items);
    }
}

/// Sorts with one pass for each digit; skips digits that are equal in all items.
fn by_digits<T: Item>(items: &mut [T], scratch: &mut [T], shift: u32, bits: u32) {
    if bits == 0 {
        return;
    }
    let passes = bits.div_ceil(DIGIT_BITS_MAX);
    let width = bits.div_ceil(passes);
    let mask = (1_u64 << width) - 1;
    let mut counts = [0_u32; 1 << DIGIT_BITS_MAX];
    let (mut from, mut to) = (&mut *items, &mut *scratch);
    let mut is_swapped = false;
    for pass in 0..passes {
        let at = shift + pass * width;
        // The last digit may have fewer bits.
        let mask = if pass + 1 == passes { (1_u64 << (bits - pass * width)) - 1 } else { mask };
        counts[..=mask as usize].fill(0);
        from.iter().for_each(|item| counts[item.digit(at, mask) & COUNTERS_MASK] += 1);
        if counts[..=mask as usize].iter().any(|&count| count as usize == from.len()) {
            continue;
        }
        let mut sum = 0;
        for count in &mut counts[..=mask as usize] {
            sum += std::mem::replace(count, sum);
        }
        for item in from.iter() {
            let next = &mut counts[item.digit(at, mask) & COUNTERS_MASK];
            to[*next as usize] = *item;
            *next += 1;
        }
        std::mem::swap(&mut from, &mut to);
        is_swapped = !is_swapped;
    }
    if is_swapped {
        items.copy_from_slice(scratch);
    }
}

/// Does not change a digit; shows the compiler that it is a valid counter index.
const COUNTERS_MASK: usize = (1 << DIGIT_BITS_MAX) - 1;

#[cfg(test)]
mod tests;
