//! Walk through numbers that are stored as differences, without decoding them. Pure.
//!
//! The format: <https://parquet.apache.org/docs/file-format/data-pages/encodings/#DELTAENC>.

/// Maximum bytes of a variable-length integer of 64 bits.
const VARINT_MAX_BYTES: usize = 10;

/// Returns the number of values of each of the `streams` at the start of `bytes`; `None` if one is damaged or cut
/// off.
pub(super) fn counts(bytes: &[u8], streams: usize) -> Option<Vec<u64>> {
    let mut walker = Walker { rest: bytes };
    (0..streams).map(|_| walker.stream()).collect()
}

struct Walker<'a> {
    rest: &'a [u8],
}

impl Walker<'_> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for at in 0..VARINT_MAX_BYTES {
            let byte = *self.rest.get(at)?;
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[at + 1..];
                return Some(value);
            }
        }
        None
    }

    /// Skips a stream and returns the number of its values.
    fn stream(&mut self) -> Option<u64> {
        let (block_values, parts, count) = (self.varint()?, self.varint()?, self.varint()?);
        // The first value.
        self.varint()?;
        let part_values = block_values.checked_div(parts).filter(|&values| values > 0)?;
        let mut left = count.saturating_sub(1);
        while left > 0 {
            // The minimum of the block's differences, and the bits of a difference in each part.
            self.varint()?;
            let (bits, rest) = self.rest.split_at_checked(usize::try_from(parts).ok()?)?;
            let mut bytes = 0u64;
            for &bits in bits {
                // Parts without a value have no bytes, whatever their bits.
                if left > 0 {
                    bytes = bytes.checked_add(u64::from(bits).checked_mul(part_values)?)?;
                }
                left = left.saturating_sub(part_values);
            }
            self.rest = rest.get(usize::try_from(bytes / 8).ok()?..)?;
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 values in a block of 128 and 4 parts: 7, 5, 3; the example of the format's description.
    const STREAM: &[u8] = &[0x80, 1, 4, 3, 14, 3, 0, 0, 0, 0];

    #[test]
    fn streams_are_counted_and_cut_ones_are_not() {
        assert_eq!(counts(&[STREAM, STREAM, b"texts"].concat(), 2), Some(vec![3, 3]));
        assert_eq!(counts(&[0x80, 1, 4, 1, 14], 1), Some(vec![1]), "a single value has no block");
        for length in 0..STREAM.len() {
            assert_eq!(counts(&STREAM[..length], 1), None, "{length}");
        }
        assert_eq!(counts(&[0x80, 1, 0, 3, 14, 3, 0, 0, 0, 0], 1), None, "blocks of no parts");
        // Two parts of 32 values, of 3 bits each; the bits of the others are arbitrary.
        let long = [&[0x80, 1, 4, 50, 0, 0, 3, 3, 99, 99][..], &[0; 24]].concat();
        assert_eq!(counts(&long, 1), Some(vec![50]));
        assert_eq!(counts(&long[..33], 1), None);
    }
}
