//! Dictionaries of a whole sort: the values of the dictionaries of all batches, each once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};

use crate::Error;
use crate::job::{Job, Reservation};

/// The dictionary of one column.
#[derive(Debug)]
pub(crate) struct Dictionary {
    entries: Mutex<Entries>,
    job: Job,
    /// The name of the column, for errors.
    column: String,
    values_type: DataType,
    /// Values that a code, and a key of the column's type, can tell apart.
    capacity: usize,
}

#[derive(Debug, Default)]
struct Entries {
    codes: BTreeMap<Arc<[u8]>, u32>,
    values: Vec<Arc<[u8]>>,
    bytes: usize,
    reservation: Option<Reservation>,
    /// The values as an array, if no value came since it was made.
    array: Option<ArrayRef>,
}

/// Bytes of an entry beside its value, about: two pointers with lengths, a count, a place in a tree.
const ENTRY_OVERHEAD_BYTES: usize = 96;

impl Dictionary {
    /// An empty dictionary for a column of some type of dictionary, with codes of some bytes.
    pub(crate) fn new(
        job: &Job,
        column: &str,
        keys: &DataType,
        values: &DataType,
        code_bytes: usize,
    ) -> Dictionary {
        let key_bits = 8 * keys.primitive_width().unwrap_or(code_bytes);
        let key_bits = if keys.is_signed_integer() { key_bits - 1 } else { key_bits };
        let bits = key_bits.min(8 * code_bytes);
        Dictionary {
            entries: Mutex::default(),
            job: job.clone(),
            column: column.to_owned(),
            values_type: values.clone(),
            capacity: 1 << bits,
        }
    }

    /// The codes of the values of a batch's dictionary, which are added where they are new. A null has code 0.
    ///
    /// # Errors
    /// If there are more values than keys, or the memory limit has no room for them.
    pub(crate) fn codes(&self, values: &ArrayRef) -> Result<Vec<u32>, Error> {
        let values = cast(values, &DataType::Binary)?;
        let values: &BinaryArray = values.as_binary();
        let mut entries = self.lock();
        let codes: Result<Vec<u32>, Error> =
            values.iter().map(|value| value.map_or(Ok(0), |value| self.code(&mut entries, value))).collect();
        codes
    }

    fn code(&self, entries: &mut Entries, value: &[u8]) -> Result<u32, Error> {
        if let Some(&code) = entries.codes.get(value) {
            return Ok(code);
        }
        if entries.values.len() == self.capacity {
            return Err(Error::Query(format!(
                "column {:?} has more than {} different values, too many for a dictionary; cast it to {} with --select",
                self.column, self.capacity, self.values_type
            )));
        }
        entries.bytes += value.len() + ENTRY_OVERHEAD_BYTES;
        let what = "the dictionary of a column";
        match &mut entries.reservation {
            Some(reservation) => reservation.resize(entries.bytes, what)?,
            None => entries.reservation = Some(self.job.reserve(entries.bytes, what)?),
        }
        let (code, value) = (entries.values.len() as u32, Arc::<[u8]>::from(value));
        entries.codes.insert(Arc::clone(&value), code);
        entries.values.push(value);
        entries.array = None;
        Ok(code)
    }

    /// All values so far, by their codes; at least one, so that a null has one.
    ///
    /// # Errors
    /// If they are not of the column's type.
    pub(crate) fn values(&self) -> Result<ArrayRef, ArrowError> {
        let mut entries = self.lock();
        if let Some(array) = &entries.array {
            return Ok(Arc::clone(array));
        }
        let values: Vec<&[u8]> = match entries.values.is_empty() {
            true => vec![&[]],
            false => entries.values.iter().map(|value| &**value).collect(),
        };
        let array = cast(&(Arc::new(BinaryArray::from(values)) as ArrayRef), &self.values_type)?;
        entries.array = Some(Arc::clone(&array));
        Ok(array)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // An entry is added last of all.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
