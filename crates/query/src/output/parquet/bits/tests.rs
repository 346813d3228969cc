use arrow_buffer::BooleanBuffer;
use proptest::prelude::*;

use super::*;

/// Reference decoder after Encodings.md.
fn decode(bytes: &[u8], width: u32, count: usize) -> Vec<u16> {
    let (mut at, mut codes) = (0, Vec::new());
    while codes.len() < count {
        let (mut header, mut shift) = (0_u64, 0);
        loop {
            let byte = bytes[at];
            at += 1;
            header |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        if header & 1 == 0 {
            let length = width.div_ceil(8) as usize;
            let mut value = [0; 2];
            value[..length].copy_from_slice(&bytes[at..at + length]);
            at += length;
            codes.extend(std::iter::repeat_n(u16::from_le_bytes(value), (header >> 1) as usize));
        } else {
            let bits = (header >> 1) as usize * 8 * width as usize;
            let bit = |place: usize| u16::from(bytes[at + place / 8] >> (place % 8) & 1);
            for first in (0..bits).step_by(width as usize) {
                codes.push((0..width as usize).map(|place| bit(first + place) << place).sum());
            }
            at += bits / 8;
        }
    }
    assert_eq!(at, bytes.len(), "nothing is left");
    assert!(codes[count..].iter().all(|&code| code == 0), "a group is filled with zeros");
    codes.truncate(count);
    codes
}

proptest! {
    #[test]
    fn codes_are_those_of_the_plain_decoder(
        runs in proptest::collection::vec((any::<u16>(), 1_usize..100), 0..30), width in 1_u32..17,
    ) {
        let mask = u16::MAX >> (16 - width);
        let codes: Vec<u16> = runs
            .iter()
            .flat_map(|&(code, count)| {
                // Long runs and distinct values.
                (0..count).map(move |place| if count > 50 { code } else { code.wrapping_add(place as u16) })
            })
            .map(|code| code & mask)
            .collect();
        let mut out = Buf::default();
        append_codes(&mut out, &codes, width);
        prop_assert_eq!(decode(out.as_slice(), width, codes.len()), codes);
    }

    #[test]
    fn bitmaps_are_joined_bit_by_bit(
        parts in proptest::collection::vec((proptest::collection::vec(any::<bool>(), 0..200), 0_usize..70), 0..6),
    ) {
        let (mut bitmap, mut expected) = (Bitmap::default(), Vec::new());
        for (bits, ones) in &parts {
            // A bitmap that starts within a byte.
            let longer: Vec<bool> = [true, false, true].into_iter().chain(bits.iter().copied()).collect();
            bitmap.append(&BooleanBuffer::from(longer).slice(3, bits.len()));
            bitmap.append_ones(*ones);
            expected.extend_from_slice(bits);
            expected.extend(std::iter::repeat_n(true, *ones));
        }
        prop_assert_eq!(bitmap.len(), expected.len());
        for from in 0..expected.len() {
            let bits = expected[from..].iter().take(64).enumerate();
            let word = bits.fold(0, |word, (place, &bit)| word | u64::from(bit) << place);
            prop_assert_eq!(bitmap.word(from), word);
            let ones = expected[from..].iter().filter(|&&bit| bit).count();
            prop_assert_eq!(bitmap.ones(from..expected.len()), ones);
        }
    }
}

#[test]
fn a_constant_page_is_one_run() {
    let mut out = Buf::default();
    append_codes(&mut out, &[3; 20_480], 2);
    assert_eq!(out.as_slice(), [0x80, 0xc0, 0x02, 3]);
}

#[test]
fn widths_are_those_that_the_largest_code_needs() {
    let widths = [0, 1, 2, 255, 256, 65_535].map(width_of);
    assert_eq!(widths, [1, 1, 2, 8, 9, 16]);
}
