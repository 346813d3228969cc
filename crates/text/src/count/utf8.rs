//! UTF-8 as decoded by glibc: sequences of up to six bytes, without overlong ones and surrogates.

/// The first character of a byte string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A character and its length in bytes.
    Character(u32, usize),
    /// A byte that belongs to no character.
    Invalid,
    /// The beginning of a character that is cut off by the end.
    Cut,
}

/// Length of the longest sequence without its first byte.
pub(super) const FOLLOWING_MAX_BYTES: usize = 5;

pub(super) fn is_following(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Decodes the first character of `bytes`, which must not be empty.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    let bits = |byte: u8, mask: u8| u32::from(byte & mask);
    match *bytes {
        // The most frequent characters beyond ASCII.
        [first @ 0xc2..=0xdf, second, ..] if is_following(second) => {
            Decoded::Character(bits(first, 0x1f) << 6 | bits(second, 0x3f), 2)
        }
        [first @ 0xe1..=0xec, second, third, ..] if is_following(second) & is_following(third) => {
            let code = bits(first, 0x0f) << 12 | bits(second, 0x3f) << 6 | bits(third, 0x3f);
            Decoded::Character(code, 3)
        }
        _ => decode_any(bytes),
    }
}

/// Decodes as [`decode`] does; handles sequences of every length.
fn decode_any(bytes: &[u8]) -> Decoded {
    let first = bytes[0];
    let (length, bits) = match first {
        0..=0x7f => return Decoded::Character(u32::from(first), 1),
        0xc2..=0xdf => (2, first & 0x1f),
        0xe0..=0xef => (3, first & 0x0f),
        0xf0..=0xf7 => (4, first & 0x07),
        0xf8..=0xfb => (5, first & 0x03),
        0xfc..=0xfd => (6, first & 0x01),
        _ => return Decoded::Invalid,
    };
    let there = &bytes[1..length.min(bytes.len())];
    if !there.iter().all(|&byte| is_following(byte)) {
        return Decoded::Invalid;
    }
    if bytes.len() < length {
        return Decoded::Cut;
    }
    let code = there.iter().fold(u32::from(bits), |code, &byte| code << 6 | u32::from(byte & 0x3f));
    let overlong = length > 2 && code >> (5 * length - 4) == 0;
    if overlong || (0xd800..0xe000).contains(&code) {
        return Decoded::Invalid;
    }
    Decoded::Character(code, length)
}

/// Returns the number of bytes at the end that begin an incomplete character.
pub(super) fn cut_off(bytes: &[u8]) -> usize {
    let last = bytes.len().saturating_sub(FOLLOWING_MAX_BYTES);
    let first = (last..bytes.len()).rev().find(|&at| !is_following(bytes[at]));
    first.filter(|&at| decode(&bytes[at..]) == Decoded::Cut).map_or(0, |at| bytes.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_decoded_quickly_is_decoded_rightly() {
        for first in 0x80..=0xff {
            for second in 0..=0xff {
                for bytes in [
                    &[first, second][..],
                    &[first, second, 0x80],
                    &[first, second, 0xbf, b'a'],
                    &[first, second, b'a'],
                ] {
                    assert_eq!(decode(bytes), decode_any(bytes), "{bytes:x?}");
                }
            }
        }
    }
}
