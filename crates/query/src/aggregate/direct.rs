//! Direct-mapped group lookup for one or two key columns of one byte each: dictionary codes, one-byte strings, small
//! integers. A table of all combinations has the group, so that keys are neither hashed nor compared.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ByteArrayType, Int8Type, Int16Type, Int32Type, UInt8Type, UInt16Type, UInt32Type,
    Utf8Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::DataType;

/// Maximum number of key columns: they have 65,536 combinations, of which few are touched.
pub(crate) const COLUMNS_MAX: usize = 2;
/// Number of codes of a column.
pub(crate) const COLUMN_CODES: usize = 256;
/// Marks a combination without a known group.
const UNKNOWN_GROUP: u32 = u32::MAX;

/// A map from combinations of codes to groups.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    /// The group of each combination.
    slots: Vec<u32>,
    /// The dictionaries that the codes belong to.
    dictionaries: [Option<ArrayRef>; COLUMNS_MAX],
    /// The codes of a batch for each column; buffers that are reused.
    codes: [Vec<u8>; COLUMNS_MAX],
}

impl Direct {
    /// Looks up the groups of rows, of which some may be unknown. Returns false if the keys have no codes.
    pub(crate) fn assign(&mut self, columns: &[ArrayRef], groups: &mut Vec<u32>) -> bool {
        if columns.is_empty() || columns.len() > COLUMNS_MAX {
            return false;
        }
        for (place, column) in columns.iter().enumerate() {
            let dictionary = dictionary(column);
            if !is_same(dictionary, self.dictionaries[place].as_ref()) {
                self.dictionaries[place] = dictionary.cloned();
                self.slots.clear();
            }
            if !read_codes(column, &mut self.codes[place]) {
                return false;
            }
        }
        self.slots.resize(COLUMN_CODES.pow(columns.len() as u32), UNKNOWN_GROUP);
        groups.clear();
        let slots = &self.slots[..];
        match columns.len() {
            1 => groups.extend(self.codes[0].iter().map(|&code| slots[usize::from(code)])),
            _ => {
                let pairs = self.codes[0].iter().zip(&self.codes[1]);
                groups.extend(pairs.map(|(&a, &b)| slots[usize::from(u16::from_be_bytes([a, b]))]));
            }
        }
        true
    }

    pub(crate) fn is_unknown(group: u32) -> bool {
        group == UNKNOWN_GROUP
    }

    /// Returns the group of a row, which may have been learned since [`Direct::assign`].
    pub(crate) fn group(&self, row: usize, columns: usize) -> u32 {
        self.slots[self.combination(row, columns)]
    }

    /// Sets the group of a row's combination.
    pub(crate) fn learn(&mut self, row: usize, columns: usize, group: u32) {
        let combination = self.combination(row, columns);
        self.slots[combination] = group;
    }

    fn combination(&self, row: usize, columns: usize) -> usize {
        match columns {
            1 => usize::from(self.codes[0][row]),
            _ => usize::from(u16::from_be_bytes([self.codes[0][row], self.codes[1][row]])),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }
}

fn dictionary(column: &ArrayRef) -> Option<&ArrayRef> {
    column.as_any_dictionary_opt().map(|dictionary| dictionary.values())
}

fn is_same(a: Option<&ArrayRef>, b: Option<&ArrayRef>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            a.to_data().ptr_eq(&b.to_data()) || a.len() <= COLUMN_CODES && a.to_data() == b.to_data()
        }
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Reads the codes of a column. Returns false if the column has no codes.
fn read_codes(column: &ArrayRef, codes: &mut Vec<u8>) -> bool {
    if column.null_count() > 0 {
        return false;
    }
    codes.clear();
    match column.data_type() {
        DataType::Int8 => {
            codes.extend(column.as_primitive::<Int8Type>().values().iter().map(|&value| value as u8))
        }
        DataType::UInt8 => codes.extend_from_slice(column.as_primitive::<UInt8Type>().values()),
        DataType::Boolean => codes.extend(column.as_boolean().values().iter().map(u8::from)),
        DataType::Utf8 => return read_strings::<Utf8Type>(column, codes),
        DataType::Utf8View => return read_views(column, codes),
        DataType::Dictionary(key, _) => {
            if dictionary(column).is_none_or(|values| values.len() > COLUMN_CODES || values.null_count() > 0)
            {
                return false;
            }
            match **key {
                DataType::Int8 => read_keys::<Int8Type>(column, codes, |key| key as u8),
                DataType::UInt8 => read_keys::<UInt8Type>(column, codes, |key| key),
                DataType::Int16 => read_keys::<Int16Type>(column, codes, |key| key as u8),
                DataType::UInt16 => read_keys::<UInt16Type>(column, codes, |key| key as u8),
                DataType::Int32 => read_keys::<Int32Type>(column, codes, |key| key as u8),
                DataType::UInt32 => read_keys::<UInt32Type>(column, codes, |key| key as u8),
                _ => return false,
            }
        }
        _ => return false,
    }
    true
}

fn read_keys<K: ArrowDictionaryKeyType>(
    column: &ArrayRef,
    codes: &mut Vec<u8>,
    code: impl Fn(<K as ArrowPrimitiveType>::Native) -> u8,
) {
    codes.extend(column.as_dictionary::<K>().keys().values().iter().map(|&key| code(key)));
}

/// Reads strings of one byte each.
fn read_strings<T: ByteArrayType<Offset = i32>>(column: &ArrayRef, codes: &mut Vec<u8>) -> bool {
    let strings = column.as_bytes::<T>();
    let offsets = strings.value_offsets();
    let first = offsets.first().copied().unwrap_or(0);
    let is_step =
        offsets.iter().zip(first..).fold(true, |is_step, (&offset, step)| is_step & (offset == step));
    let bytes = strings.value_data().get(first as usize..first as usize + strings.len());
    let Some(bytes) = bytes.filter(|_| is_step) else { return false };
    codes.extend_from_slice(bytes);
    true
}

/// Reads one-byte strings from views, which contain the length and bytes of short strings.
fn read_views(column: &ArrayRef, codes: &mut Vec<u8>) -> bool {
    let views = column.as_string_view().views();
    let is_one = views.iter().fold(true, |is_one, &view| is_one & (view as u32 == 1));
    codes.extend(views.iter().map(|&view| (view >> 32) as u8));
    is_one
}
