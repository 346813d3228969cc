//! The key of a sort as the cost model sees it: how many rows have the same 64-bit code ([`crate::sort`]), by a sample.
//!
//! A sort finds the ranges of the keys in each partition, so codes are those of parts of the sorted sample.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::Error;
use crate::cost::KeyShape;
use crate::cost::operators::ValueKind;
use crate::describe;

use super::shape::{distinct, encoded};

/// Parts of the sample, about as many as a sort has partitions.
const SAMPLE_PARTS: usize = 16;
/// Bits of a code.
const CODE_BITS: u32 = 64;
/// Values of a column in a code besides those in its range.
const EXTRA_CODES: u128 = 3;
/// Bytes of a text in a code, with and without its length.
const SHORT_BYTES: usize = 7;
const LONG_BYTES: usize = 8;

/// The values of a key column.
enum Values {
    /// Numbers in the order of the values.
    Numbers(Vec<u128>),
    Texts(Vec<Vec<u8>>),
}

/// Returns the shape of a key from the sampled values of its columns, the most significant first.
///
/// # Errors
/// If a column cannot be ordered.
pub(super) fn key(columns: &[ArrayRef], rows: u64, sampled_ratio: f64) -> Result<KeyShape, Error> {
    let mut order: Vec<(Vec<u8>, usize)> = encoded(columns)?.into_iter().zip(0..).collect();
    order.sort_unstable();
    let values: Vec<Values> = columns.iter().map(values).collect::<Result<_, _>>()?;
    let places: Vec<usize> = order.into_iter().map(|(_, place)| place).collect();
    let mut texts = 0;
    let mut rows_per_code = |part_rows: usize| {
        let (mut codes, mut is_lossless) = (Vec::with_capacity(places.len()), true);
        for (number, part) in places.chunks(part_rows.max(1)).enumerate() {
            let found = of_part(&values, part);
            texts = texts.max(found.texts);
            is_lossless &= found.is_lossless;
            codes.extend(found.codes.into_iter().map(|code| (number, code)));
        }
        let codes = if is_lossless { rows as f64 } else { distinct(codes, rows as f64) };
        (rows as f64 / codes.max(1.0)).max(1.0)
    };
    let [rows_per_code, rows_per_run_code] =
        [places.len().div_ceil(SAMPLE_PARTS), places.len()].map(&mut rows_per_code);
    Ok(KeyShape { rows_per_code, rows_per_run_code, texts: texts as f64, sampled_ratio })
}

fn values(column: &ArrayRef) -> Result<Values, Error> {
    let (kind, _) = describe::sampled(column);
    let rows = encoded(std::slice::from_ref(column))?;
    Ok(match kind {
        // Sorts have the texts of codes in their keys.
        ValueKind::Text | ValueKind::Code => {
            let texts = cast(column, &DataType::LargeUtf8).unwrap_or_else(|_| column.clone());
            let Ok(texts) = cast(&texts, &DataType::LargeBinary) else { return Ok(Values::Texts(rows)) };
            let texts = texts.as_binary::<i64>();
            let text = |row| if texts.is_null(row) { Vec::new() } else { texts.value(row).to_vec() };
            Values::Texts((0..texts.len()).map(text).collect())
        }
        // The row format has a byte for nulls before the number.
        _ => Values::Numbers(rows.iter().map(|row| number(row.get(1..).unwrap_or_default())).collect()),
    })
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// The codes of a part of the sample.
struct Coded {
    codes: Vec<u128>,
    /// Texts that the codes have bits of.
    texts: usize,
    is_lossless: bool,
}

fn of_part(columns: &[Values], places: &[usize]) -> Coded {
    let mut coded = Coded { codes: vec![0; places.len()], texts: 0, is_lossless: true };
    let mut left = CODE_BITS;
    for column in columns {
        if !coded.is_lossless || left == 0 {
            coded.is_lossless = false;
            break;
        }
        let (digits, is_whole) = match column {
            Values::Numbers(numbers) => (places.iter().map(|&place| numbers[place]).collect(), true),
            Values::Texts(texts) => {
                coded.texts += 1;
                digits_of_texts(&places.iter().map(|&place| &texts[place][..]).collect::<Vec<_>>())
            }
        };
        let (least, most) = digits.iter().fold((u128::MAX, 0), |(a, b), &digit| (a.min(digit), b.max(digit)));
        let span = most.saturating_sub(least);
        let bits = u128::BITS - span.saturating_add(EXTRA_CODES).leading_zeros();
        let dropped = bits.saturating_sub(left);
        for (code, digit) in coded.codes.iter_mut().zip(digits) {
            *code = *code << (bits - dropped) | (digit - least) >> dropped;
        }
        left -= bits - dropped;
        coded.is_lossless = is_whole && dropped == 0;
    }
    coded
}

/// Returns the bytes of texts after their common prefix, and whether they are all of them.
fn digits_of_texts(texts: &[&[u8]]) -> (Vec<u128>, bool) {
    let Some(first) = texts.first() else { return (Vec::new(), true) };
    let same = |text: &&[u8]| first.iter().zip(*text).take_while(|(a, b)| a == b).count();
    let common = texts.iter().map(same).min().unwrap_or(0);
    let is_short = texts.iter().all(|text| text.len() - common <= SHORT_BYTES);
    let digit = |text: &&[u8]| {
        let mut bytes = [0; LONG_BYTES];
        let rest = &text[common..];
        let count = rest.len().min(if is_short { SHORT_BYTES } else { LONG_BYTES });
        bytes[..count].copy_from_slice(&rest[..count]);
        if is_short {
            bytes[SHORT_BYTES] = count as u8;
        }
        number(&bytes)
    };
    (texts.iter().map(digit).collect(), is_short)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, StringArray};

    use super::*;

    const ROWS: u64 = 16_000;

    fn texts(text: impl Fn(u64) -> String) -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..ROWS).map(text)))
    }

    #[test]
    fn numbers_that_fit_into_a_code_have_no_equal_codes() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|row| row * 7)));
        let found = key(&[numbers.clone(), numbers], 1_000_000, 0.5).unwrap();
        assert_eq!(found, KeyShape { sampled_ratio: 0.5, ..KeyShape::EXACT });
    }

    #[test]
    fn long_texts_with_a_common_prefix_are_told_apart_by_what_follows_it() {
        let found = key(&[texts(|row| format!("a common prefix {row:08} and more"))], ROWS, 1.0).unwrap();
        assert!(found.rows_per_code < 1.5 && found.texts == 1.0, "{found:?}");
    }

    #[test]
    fn rows_of_few_long_texts_are_compared_beyond_their_codes() {
        let few = texts(|row| format!("{:04} of a few texts", row % 500));
        let found = key(&[few, texts(|row| format!("{row:020}"))], 100 * ROWS, 1.0).unwrap();
        let expected = 100.0 * ROWS as f64 / 500.0;
        assert!((found.rows_per_code / expected - 1.0).abs() < 0.2, "{found:?}");
    }
}
