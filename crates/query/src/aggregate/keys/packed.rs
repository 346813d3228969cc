//! Fixed-width keys packed into a 64-bit word, with a validity bit for each nullable column. A single 64-bit key has no
//! room for that bit; its null is a separate group.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use crate::Error;
use crate::aggregate::index::{FIRST_GROUP, Index, NO_GROUP, hash_bytes, hash_word};
use crate::aggregate::types::canonical;

/// A column of a key.
#[derive(Debug)]
struct Column {
    data_type: DataType,
    /// The position of the lowest bit in the word.
    shift: u32,
    bits: u32,
    /// The validity bit; `None` if the column is not nullable, or if nulls have a separate group.
    valid_bit: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct PackedKeys {
    columns: Vec<Column>,
    index: Index,
    /// The words of groups, from [`FIRST_GROUP`].
    words: Vec<u64>,
    null_group: Option<u32>,
    /// The words of a batch; a buffer that is reused.
    scratch: Vec<u64>,
}

/// Returns the width in bits of a type; `None` if it exceeds a word.
fn bits(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Interval(_) => None,
        other => other.primitive_width().and_then(|bytes| (bytes <= 8).then_some(bytes as u32 * 8)),
    }
}

impl PackedKeys {
    /// Returns `None` if the keys do not fit a word.
    pub(super) fn new(types: &[(DataType, bool)]) -> Option<PackedKeys> {
        let mut columns = Vec::new();
        let mut shift = 0;
        for (data_type, nullable) in types {
            let bits = bits(data_type)?;
            let is_alone = types.len() == 1 && bits == u64::BITS;
            let has_bit = *nullable && !is_alone;
            let valid_bit = has_bit.then_some(shift + bits);
            columns.push(Column { data_type: data_type.clone(), shift, bits, valid_bit });
            shift += bits + u32::from(has_bit);
        }
        let (index, words, scratch) = (Index::default(), Vec::new(), Vec::new());
        (shift <= u64::BITS).then_some(PackedKeys { columns, index, words, null_group: None, scratch })
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) fn assign(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        groups: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let mut words = std::mem::take(&mut self.scratch);
        words.clear();
        words.resize(rows, 0);
        for (column, array) in self.columns.iter().zip(columns) {
            column.pack(&canonical(array)?, &mut words)?;
        }
        let has_null_group = self.columns.len() == 1 && self.columns[0].valid_bit.is_none();
        let nulls = columns[0].logical_nulls().filter(|nulls| has_null_group && nulls.null_count() > 0);
        match nulls {
            Some(nulls) => groups.extend(words.iter().enumerate().map(|(row, &word)| {
                if nulls.is_valid(row) { self.insert_word(word) } else { self.insert_null() }
            })),
            None => self.assign_words(&words, groups),
        }
        self.scratch = words;
        Ok(())
    }

    /// Finds the groups of words. Equal keys are often adjacent, so that the last group is tried first.
    fn assign_words(&mut self, words: &[u64], groups: &mut Vec<u32>) {
        let Some(&first) = words.first() else { return };
        let mut last = (first, self.insert_word(first));
        groups.extend(words.iter().map(|&word| {
            if word != last.0 {
                last = (word, self.insert_word(word));
            }
            last.1
        }));
    }

    fn insert_word(&mut self, word: u64) -> u32 {
        let PackedKeys { index, words, null_group, .. } = self;
        let new = words.len() as u32 + FIRST_GROUP;
        let null_group = null_group.unwrap_or(NO_GROUP);
        let group = index.find_or_insert(hash_word(word), new, |group| {
            words[(group - FIRST_GROUP) as usize] == word && group != null_group
        });
        if group == new {
            words.push(word);
        }
        group
    }

    fn insert_null(&mut self) -> u32 {
        *self.null_group.get_or_insert_with(|| {
            self.words.push(0);
            self.words.len() as u32
        })
    }

    pub(super) fn insert(&mut self, bytes: &[u8]) -> u32 {
        match <[u8; 8]>::try_from(bytes) {
            Ok(word) => self.insert_word(u64::from_le_bytes(word)),
            Err(_) => self.insert_null(),
        }
    }

    pub(super) fn write(&self, group: u32, bytes: &mut Vec<u8>) {
        if self.null_group != Some(group) {
            bytes.extend_from_slice(&self.word(group).to_le_bytes());
        }
    }

    fn word(&self, group: u32) -> u64 {
        self.words[(group - FIRST_GROUP) as usize]
    }

    pub(super) fn hash(&self, group: u32) -> u64 {
        if self.null_group == Some(group) { hash_bytes(&[]) } else { hash_word(self.word(group)) }
    }

    pub(super) fn columns(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, ArrowError> {
        let words: Vec<u64> = groups.iter().map(|&group| self.word(group)).collect();
        let null_group = self.null_group;
        let is_valid = |row: usize| Some(groups[row]) != null_group;
        self.columns.iter().map(|column| column.unpack(&words, is_valid)).collect()
    }

    pub(super) fn reserve(&mut self, groups: usize) {
        self.words.reserve_exact(groups.saturating_sub(self.words.len()));
        self.index.reserve(groups);
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.words.clear();
        self.null_group = None;
    }
}

impl Column {
    /// Sets the bits of a column in the words of rows.
    fn pack(&self, array: &ArrayRef, words: &mut [u64]) -> Result<(), Error> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        match &nulls {
            Some(nulls) => self.pack_values(array, words, |row| nulls.is_valid(row))?,
            None => self.pack_values(array, words, |_| true)?,
        }
        let Some(bit) = self.valid_bit else { return Ok(()) };
        for (row, word) in words.iter_mut().enumerate() {
            *word |= u64::from(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))) << bit;
        }
        Ok(())
    }

    fn pack_values(
        &self,
        array: &ArrayRef,
        words: &mut [u64],
        is_valid: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let shift = self.shift;
        let add =
            |row: usize, word: &mut u64, value: u64| *word |= if is_valid(row) { value << shift } else { 0 };
        if let Some(values) = array.as_boolean_opt() {
            for (row, word) in words.iter_mut().enumerate() {
                add(row, word, values.value(row).into());
            }
            return Ok(());
        }
        let data = array.to_data();
        let width = (self.bits / 8) as usize;
        let bytes = data.buffers().first().and_then(|buffer| buffer.get(data.offset() * width..));
        let bytes = bytes.filter(|bytes| bytes.len() >= width * words.len());
        let Some(bytes) = bytes else { return Err(Error::Query("a key has fewer values than rows".into())) };
        let rows = words.iter_mut().enumerate();
        match self.bits {
            8 => rows.zip(bytes).for_each(|((row, word), &value)| add(row, word, value.into())),
            16 => rows.zip(bytes.as_chunks().0).for_each(|((row, word), &value)| {
                add(row, word, u16::from_le_bytes(value).into());
            }),
            32 => rows.zip(bytes.as_chunks().0).for_each(|((row, word), &value)| {
                add(row, word, u32::from_le_bytes(value).into());
            }),
            _ => rows.zip(bytes.as_chunks().0).for_each(|((row, word), &value)| {
                add(row, word, u64::from_le_bytes(value));
            }),
        }
        Ok(())
    }

    fn unpack(&self, words: &[u64], is_valid: impl Fn(usize) -> bool) -> Result<ArrayRef, ArrowError> {
        let mask = u64::MAX >> (u64::BITS - self.bits);
        let values = words.iter().map(|word| (word >> self.shift) & mask);
        let valid = BooleanBuffer::collect_bool(words.len(), |row| {
            is_valid(row) && self.valid_bit.is_none_or(|bit| words[row] >> bit & 1 == 1)
        });
        let nulls = Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0);
        let buffer = match self.bits {
            1 => {
                let values: BooleanBuffer = values.map(|value| value == 1).collect();
                return Ok(Arc::new(BooleanArray::new(values, nulls)));
            }
            8 => Buffer::from_iter(values.map(|value| value as u8)),
            16 => Buffer::from_iter(values.map(|value| value as u16)),
            32 => Buffer::from_iter(values.map(|value| value as u32)),
            _ => Buffer::from_iter(values),
        };
        let data =
            ArrayData::builder(self.data_type.clone()).len(words.len()).add_buffer(buffer).nulls(nulls);
        Ok(make_array(data.build()?))
    }
}
