//! Sort-wide dictionaries: the distinct values of the dictionaries of all batches.

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
    /// Name of the column, for errors.
    column: String,
    values_type: DataType,
    /// Maximum number of values, limited by the width of codes and of the column's keys.
    capacity: usize,
}

#[derive(Debug, Default)]
struct Entries {
    codes: BTreeMap<Arc<[u8]>, u32>,
    values: Vec<Arc<[u8]>>,
    bytes: usize,
    reservation: Option<Reservation>,
    /// Cached array of the values; `None` after an insertion.
    array: Option<ArrayRef>,
}

/// Estimated overhead of an entry in bytes: two fat pointers, reference counts, a tree slot.
const ENTRY_OVERHEAD_BYTES: usize = 96;

impl Dictionary {
    /// Creates an empty dictionary for a dictionary column, with codes of `code_bytes`.
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

    /// Returns the codes of a batch's dictionary values, and adds new values. A null has code 0.
    ///
    /// # Errors
    /// If the number of values exceeds the capacity, or their bytes the memory limit.
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

    /// Returns all values so far, indexed by code; at least one, for the code of nulls.
    ///
    /// # Errors
    /// If the values cannot be cast to the column's type.
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
        // A panic leaves the entries consistent: the value is added last.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
