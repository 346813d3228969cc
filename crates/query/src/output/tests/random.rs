//! Random tables, for tests of all formats.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, StringDictionaryBuilder};
use arrow_array::types::{ArrowPrimitiveType, UInt8Type, UInt16Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, Float32Array, Float64Array, Int32Array, LargeStringArray,
    ListArray, PrimitiveArray, StringArray, StringViewArray,
};
use arrow_schema::DataType;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Distribution of a column's values.
#[derive(Clone, Copy, Debug)]
enum Spread {
    Constant,
    Few,
    Range,
    Ascending,
    Any,
}

/// A source of random tables.
pub(super) struct Random(Pcg64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Pcg64::seed_from_u64(seed))
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.0.next_u64() >> 11) as usize % limit.max(1)
    }

    fn values(&mut self, rows: usize) -> Vec<u64> {
        let spreads = [Spread::Constant, Spread::Few, Spread::Range, Spread::Ascending, Spread::Any];
        let spread = spreads[self.below(spreads.len())];
        let base = if self.below(2) == 0 { self.0.next_u64() } else { 0 };
        (0..rows)
            .map(|row| match spread {
                Spread::Constant => base,
                Spread::Few => base.wrapping_add((self.below(3) as u64) << 20),
                Spread::Range => base.wrapping_add(self.below(1000) as u64),
                Spread::Ascending => base.wrapping_add(row as u64 / 7),
                Spread::Any => self.0.next_u64(),
            })
            .collect()
    }

    /// Random validity: all rows, none, or some.
    fn validity(&mut self, rows: usize, is_nullable: bool) -> Vec<bool> {
        let kind = if is_nullable { self.below(5) } else { 0 };
        (0..rows)
            .map(|row| match kind {
                0 => true,
                1 => self.below(10) > 0,
                2 => self.below(10) == 0,
                3 => false,
                _ => row * 2 < rows,
            })
            .collect()
    }

    fn options<T>(&mut self, rows: usize, is_nullable: bool, value: impl Fn(u64) -> T) -> Vec<Option<T>> {
        let validity = self.validity(rows, is_nullable);
        self.values(rows)
            .into_iter()
            .zip(validity)
            .map(|(bits, is_valid)| is_valid.then(|| value(bits)))
            .collect()
    }

    fn numbers<T: ArrowPrimitiveType>(
        &mut self,
        rows: usize,
        is_nullable: bool,
        value: impl Fn(u64) -> T::Native,
    ) -> PrimitiveArray<T> {
        PrimitiveArray::from_iter(self.options(rows, is_nullable, value))
    }

    fn strings(&mut self, rows: usize, is_nullable: bool) -> Vec<Option<String>> {
        self.options(rows, is_nullable, text_of)
    }

    /// A random column.
    pub(super) fn column(&mut self, rows: usize, is_nullable: bool) -> ArrayRef {
        use arrow_array::types::{
            Date32Type, Date64Type, Decimal64Type, DurationNanosecondType, Int8Type, Int16Type, Int64Type,
            Time32SecondType, TimestampMicrosecondType, UInt32Type, UInt64Type,
        };
        const TYPES: usize = 25;
        match self.below(TYPES) {
            0 => Arc::new(self.numbers::<Int8Type>(rows, is_nullable, |bits| bits as i8)),
            1 => Arc::new(self.numbers::<Int16Type>(rows, is_nullable, |bits| bits as i16)),
            2 | 3 => {
                Arc::new(self.numbers::<arrow_array::types::Int32Type>(rows, is_nullable, |bits| bits as i32))
            }
            4 | 5 => Arc::new(self.numbers::<Int64Type>(rows, is_nullable, |bits| bits as i64)),
            6 => Arc::new(self.numbers::<UInt8Type>(rows, is_nullable, |bits| bits as u8)),
            7 => Arc::new(self.numbers::<UInt16Type>(rows, is_nullable, |bits| bits as u16)),
            8 => Arc::new(self.numbers::<UInt32Type>(rows, is_nullable, |bits| bits as u32)),
            9 => Arc::new(self.numbers::<UInt64Type>(rows, is_nullable, |bits| bits)),
            10 => Arc::new(Float32Array::from(self.options(rows, is_nullable, |bits| float_of(bits) as f32))),
            11 => Arc::new(Float64Array::from(self.options(rows, is_nullable, float_of))),
            12 => Arc::new(self.numbers::<Date32Type>(rows, is_nullable, |bits| bits as i32)),
            // Whole days, as which Parquet has them.
            13 => Arc::new(
                self.numbers::<Date64Type>(rows, is_nullable, |bits| i64::from(bits as i32) * 86_400_000),
            ),
            14 => {
                Arc::new(self.numbers::<Time32SecondType>(rows, is_nullable, |bits| (bits % 86_400) as i32))
            }
            15 => Arc::new(self.numbers::<TimestampMicrosecondType>(rows, is_nullable, |bits| bits as i64)),
            16 => Arc::new(self.numbers::<DurationNanosecondType>(rows, is_nullable, |bits| bits as i64)),
            17 => {
                let decimals = self.numbers::<Decimal64Type>(rows, is_nullable, |bits| bits as i64 % 100_000);
                Arc::new(decimals.with_precision_and_scale(7, 2).unwrap())
            }
            18 => {
                let limit = 10_i128.pow(25);
                let wide = |bits: u64| (i128::from(bits as i64) << 30 | i128::from(bits)) % limit;
                let decimals = Decimal128Array::from_iter(self.options(rows, is_nullable, wide));
                Arc::new(decimals.with_precision_and_scale(25, 3).unwrap())
            }
            19 => self.booleans(rows, is_nullable),
            20 => Arc::new(LargeStringArray::from_iter(self.strings(rows, is_nullable))),
            21 => Arc::new(StringViewArray::from_iter(self.strings(rows, is_nullable))),
            22 => Arc::new(BinaryArray::from_iter(
                self.options(rows, is_nullable, |bits| bits.to_be_bytes()[..(bits % 9) as usize].to_vec()),
            )),
            23 => self.dictionary(rows, is_nullable),
            _ => Arc::new(StringArray::from_iter(self.strings(rows, is_nullable))),
        }
    }

    fn booleans(&mut self, rows: usize, is_nullable: bool) -> ArrayRef {
        let mut builder = BooleanBuilder::new();
        self.options(rows, is_nullable, |bits| bits % 2 == 1)
            .into_iter()
            .for_each(|value| builder.append_option(value));
        Arc::new(builder.finish())
    }

    /// Strings in the array types of scans.
    fn dictionary(&mut self, rows: usize, is_nullable: bool) -> ArrayRef {
        let mut builder = StringDictionaryBuilder::<UInt16Type>::new();
        for text in self.strings(rows, is_nullable) {
            builder.append_option(text);
        }
        Arc::new(builder.finish())
    }

    /// A random column of lists.
    pub(super) fn lists(&mut self, rows: usize) -> ArrayRef {
        let values = Int32Array::from_iter(self.options(rows * 2, true, |bits| bits as i32));
        let offsets = arrow_buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(2, rows));
        let field = Arc::new(arrow_schema::Field::new_list_field(DataType::Int32, true));
        Arc::new(ListArray::new(field, offsets, Arc::new(values), None))
    }
}

/// Floating-point numbers of all kinds.
fn float_of(bits: u64) -> f64 {
    match bits % 9 {
        0 => f64::NAN,
        1 => -0.0,
        2 => 0.0,
        3 => f64::INFINITY,
        4 => f64::NEG_INFINITY,
        _ => f64::from(bits as u32 as i32) / 8.0,
    }
}

/// Texts of all lengths, with long common prefixes and multi-byte characters.
fn text_of(bits: u64) -> String {
    match bits % 8 {
        0 => String::new(),
        1 => "ä".repeat((bits % 70) as usize) + &bits.to_string(),
        2 => {
            "the same beginning, longer than statistics have it: 1234567890123456".to_owned()
                + &bits.to_string()
        }
        3 => char::from_u32((bits % 0xd800) as u32).unwrap().to_string(),
        4 => "\u{10ffff}".repeat(20),
        _ => bits.to_string(),
    }
}

/// The array cut into batches of at most `rows` rows.
pub(super) fn cut(array: &ArrayRef, rows: usize) -> Vec<ArrayRef> {
    let starts = (0..array.len()).step_by(rows.max(1));
    starts.map(|start| array.slice(start, rows.max(1).min(array.len() - start))).collect()
}
