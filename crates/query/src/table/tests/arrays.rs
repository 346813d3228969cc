//! Random arrays of all types.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, MapBuilder, StringBuilder};
use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Fields};
use rand_core::Rng;
use rand_pcg::Pcg64;

/// A source of values.
pub(super) struct Random(Pcg64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(Pcg64::new(u128::from(seed), 7))
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }

    fn number(&mut self) -> i64 {
        let bits = self.below(64);
        (self.0.next_u64() >> bits).cast_signed()
    }

    /// Whether a value is valid: one in five is null.
    fn optional<T>(&mut self, value: impl FnOnce(&mut Random) -> T) -> Option<T> {
        (self.below(5) > 0).then(|| value(self))
    }

    fn text(&mut self) -> String {
        let length = self.below(30);
        (0..length).map(|_| ['a', 'b', 'ü', '"', ',', '\n', '0'][self.below(7) as usize]).collect()
    }

    fn primitive<T: ArrowPrimitiveType>(
        &mut self,
        rows: usize,
        value: impl Fn(&mut Random) -> T::Native,
    ) -> PrimitiveArray<T> {
        (0..rows).map(|_| self.optional(|random| value(random))).collect()
    }

    fn strings(&mut self, rows: usize) -> Vec<Option<String>> {
        (0..rows).map(|_| self.optional(Random::text)).collect()
    }

    fn offsets(&mut self, rows: usize) -> OffsetBuffer<i32> {
        OffsetBuffer::from_lengths((0..rows).map(|_| self.below(4) as usize).collect::<Vec<_>>())
    }

    fn nulls(&mut self, rows: usize) -> Option<NullBuffer> {
        Some(NullBuffer::new(BooleanBuffer::from_iter((0..rows).map(|_| self.below(5) > 0))))
    }
}

/// Columns of types that Parquet and Arrow IPC support.
pub(super) fn common(random: &mut Random, rows: usize) -> RecordBatch {
    let mut columns = numbers(random, rows);
    columns.extend(strings(random, rows));
    columns.extend(nested(random, rows));
    batch(columns)
}

/// Columns of types that only Arrow IPC supports.
pub(super) fn arrow_only(random: &mut Random, rows: usize) -> RecordBatch {
    let mut columns: Vec<ArrayRef> = Vec::new();
    columns.push(Arc::new(random.primitive::<IntervalMonthDayNanoType>(rows, |random| {
        IntervalMonthDayNano::new(random.number() as i32, 3, random.number())
    })));
    let ends = (1..=rows as i32).collect::<Vec<_>>();
    let values = random.primitive::<Int64Type>(rows, Random::number);
    if rows > 0 {
        columns.push(Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), &values).unwrap()));
    }
    let kinds = (0..rows).map(|row| (row % 2) as i8).collect::<Vec<_>>();
    let fields = [(0, Field::new("i", DataType::Int64, true)), (1, Field::new("s", DataType::Utf8, true))];
    let fields = arrow_schema::UnionFields::from_iter(fields.map(|(id, field)| (id, Arc::new(field))));
    let texts: ArrayRef = Arc::new(StringArray::from(random.strings(rows)));
    let children = vec![Arc::new(random.primitive::<Int64Type>(rows, Random::number)) as ArrayRef, texts];
    columns.push(Arc::new(UnionArray::try_new(fields, kinds.into(), None, children).unwrap()));
    columns.push(Arc::new(random.primitive::<Int8Type>(rows, |random| random.number() as i8)));
    batch(columns)
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = (0..columns.len()).map(|at| format!("c{at}"));
    RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn numbers(random: &mut Random, rows: usize) -> Vec<ArrayRef> {
    let decimal = random.primitive::<Decimal128Type>(rows, |random| i128::from(random.number() / 1000));
    let wide =
        random.primitive::<Decimal256Type>(rows, |random| i256::from_i128(i128::from(random.number())));
    vec![
        Arc::new(random.primitive::<Int64Type>(rows, Random::number)),
        Arc::new(random.primitive::<Int32Type>(rows, |random| random.number() as i32)),
        Arc::new(random.primitive::<Int16Type>(rows, |random| random.number() as i16)),
        Arc::new(random.primitive::<UInt8Type>(rows, |random| random.number() as u8)),
        Arc::new(random.primitive::<UInt64Type>(rows, |random| random.number() as u64)),
        Arc::new(random.primitive::<Float64Type>(rows, |random| random.number() as f64 / 3.0)),
        Arc::new(random.primitive::<Float32Type>(rows, |random| random.number() as f32)),
        Arc::new(random.primitive::<Float16Type>(rows, |random| {
            <Float16Type as ArrowPrimitiveType>::Native::from_f32(random.number() as f32)
        })),
        Arc::new(random.primitive::<Date32Type>(rows, |random| random.number() as i32)),
        Arc::new(
            random.primitive::<Time64MicrosecondType>(rows, |random| random.below(86_400_000_000) as i64),
        ),
        Arc::new(random.primitive::<TimestampMicrosecondType>(rows, Random::number)),
        Arc::new(random.primitive::<TimestampNanosecondType>(rows, Random::number).with_timezone("+01:00")),
        Arc::new(random.primitive::<DurationMillisecondType>(rows, Random::number)),
        Arc::new(decimal.with_precision_and_scale(18, 2).unwrap()),
        Arc::new(wide.with_precision_and_scale(60, 5).unwrap()),
        Arc::new((0..rows).map(|_| random.optional(|random| random.below(2) == 0)).collect::<BooleanArray>()),
        Arc::new(NullArray::new(rows)),
    ]
}

fn strings(random: &mut Random, rows: usize) -> Vec<ArrayRef> {
    // All batches have equal values: the library's IPC file writer cannot replace dictionaries.
    let keys = random.primitive::<Int32Type>(rows, |random| random.below(3) as i32);
    let few = DictionaryArray::new(keys, Arc::new(StringArray::from(vec!["A", "N", "R"])));
    let fixed = (0..rows).map(|_| random.optional(|random| random.number().to_le_bytes()));
    let fixed = fixed.collect::<Vec<_>>();
    vec![
        Arc::new(StringArray::from(random.strings(rows))),
        Arc::new(LargeStringArray::from(random.strings(rows))),
        Arc::new(StringViewArray::from_iter(random.strings(rows))),
        Arc::new(
            random
                .strings(rows)
                .iter()
                .map(|text| text.as_ref().map(String::as_bytes))
                .collect::<BinaryArray>(),
        ),
        Arc::new(BinaryViewArray::from_iter(random.strings(rows).iter().map(|text| text.as_deref()))),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed.into_iter(), 8).unwrap()),
        Arc::new(few),
    ]
}

fn nested(random: &mut Random, rows: usize) -> Vec<ArrayRef> {
    let offsets = random.offsets(rows);
    let items =
        random.primitive::<Int32Type>(*offsets.last().unwrap() as usize, |random| random.number() as i32);
    let field = Arc::new(Field::new_list_field(DataType::Int32, true));
    let list = ListArray::new(field, offsets, Arc::new(items), random.nulls(rows));
    let fields = Fields::from(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("list", list.data_type().clone(), true),
    ]);
    let children: Vec<ArrayRef> =
        vec![Arc::new(random.primitive::<Int64Type>(rows, Random::number)), Arc::new(list.clone())];
    let structure = StructArray::new(fields, children, random.nulls(rows));
    let pairs = random.primitive::<Float64Type>(2 * rows, |random| random.number() as f64);
    let field = Arc::new(Field::new_list_field(DataType::Float64, true));
    let fixed = FixedSizeListArray::new(field, 2, Arc::new(pairs), random.nulls(rows));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for _ in 0..rows {
        for key in 0..random.below(3) {
            map.keys().append_value(format!("k{key}"));
            map.values().append_value(random.number() as i32);
        }
        map.append(random.below(5) > 0).unwrap();
    }
    vec![Arc::new(list), Arc::new(structure), Arc::new(fixed), Arc::new(map.finish())]
}
