//! Dictionaries of Arrow IPC files: found when a file is opened, and loaded by a scan that reads their columns, within the
//! memory of its job.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::Buffer;
use arrow_ipc::Message;
use arrow_ipc::reader::read_dictionary;
use arrow_schema::{DataType, SchemaRef};

use sakiyomi_io::{IoFile, Order, ReadStream, SharedOptions};

use super::column::{Dictionaries, decompressed_bytes};
use super::message;
use crate::batch_bytes::column_bytes;
use crate::job::Reservation;
use crate::table::fetch::READ_PHASE_NAME;
use crate::table::guard::{catch_panics, name_file};
use crate::table::source::Source;
use crate::{Error, Job};

/// Maximum size of a dictionary in bytes: it stays in memory during a scan.
const DICTIONARY_MAX_BYTES: u64 = 1 << 30;

/// Bytes of a dictionary that are read at once into the job's buffers, and then copied.
const READ_BYTES: u64 = 256 << 10;

/// Purpose that errors about memory name.
const PURPOSE: &str = "keeping the dictionaries of a table";

/// A dictionary message of a file.
#[derive(Debug)]
pub(super) struct DictionaryPlace {
    pub(super) header: Vec<u8>,
    /// File offset of the body, and its bytes.
    pub(super) body: u64,
    pub(super) length: u64,
    /// The dictionary of which it has all values or more of them.
    pub(super) id: i64,
}

/// The dictionaries of a file in memory.
#[derive(Debug, Default)]
pub(in crate::table) struct Loaded {
    /// By the number of messages with dictionaries before a record batch.
    versions: BTreeMap<usize, Arc<Dictionaries>>,
}

impl Loaded {
    /// Returns the dictionaries in effect for a record batch with `before` messages with dictionaries before it.
    pub(super) fn of(&self, before: usize) -> Arc<Dictionaries> {
        self.versions.get(&before).cloned().unwrap_or_default()
    }
}

/// The bytes of the dictionaries of all versions and of the current ones, counted as they are loaded.
#[derive(Default)]
struct Count {
    bytes: usize,
    /// Bytes of the current dictionaries that are in no version, by id: they go when they are replaced.
    replaceable: BTreeMap<i64, usize>,
}

impl Count {
    /// Counts a dictionary that replaces another.
    fn replace(&mut self, id: i64, values: &ArrayRef) {
        let bytes = column_bytes(values);
        let replaced = self.replaceable.insert(id, bytes).unwrap_or(0);
        self.bytes = self.bytes - replaced + bytes;
    }

    /// The current dictionaries are those of a version.
    fn keep(&mut self) {
        self.replaceable.clear();
    }
}

/// The dictionaries of a file that are needed, and where they are.
pub(super) struct Needed<'a> {
    pub(super) source: &'a Source,
    pub(super) schema: &'a SchemaRef,
    pub(super) places: &'a [DictionaryPlace],
    /// For each record batch, the number of messages with dictionaries before it.
    pub(super) used: BTreeSet<usize>,
    /// The columns that are read.
    pub(super) columns: &'a [usize],
}

impl Needed<'_> {
    /// Loads the dictionaries, and adds their bytes to `memory`.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job does not have the memory; errors of reading and decoding.
    pub(super) fn load(&self, job: &Job, memory: &mut Reservation) -> Result<Loaded, Error> {
        let (mut loaded, mut current) = (Loaded::default(), Arc::<Dictionaries>::default());
        if self.places.is_empty() {
            return Ok(loaded);
        }
        let (path, before) = (&self.source.path, memory.bytes());
        let (file, ids) = (self.source.io_file()?, self.ids());
        let mut count = Count::default();
        for (number, place) in self.places.iter().enumerate() {
            job.check()?;
            if self.used.contains(&number) {
                loaded.versions.insert(number, Arc::clone(&current));
                count.keep();
            }
            if ids.as_ref().is_some_and(|ids| !ids.contains(&place.id)) {
                continue;
            }
            let held = memory.bytes();
            let mut reserve = |bytes: u64| {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                memory.resize(held.saturating_add(bytes), PURPOSE)
            };
            reserve(place.length)?;
            let body = read(job, &file, place.body..place.body + place.length)?;
            catch_panics(path, || {
                let header = message::parse(&place.header).map_err(Error::Query)?;
                let more = |bytes: u64| reserve(place.length.saturating_add(bytes));
                load_dictionary(&header, body, self.schema, Arc::make_mut(&mut current), more)
            })
            .map_err(name_file(path))?;
            if let Some(values) = current.get(&place.id) {
                count.replace(place.id, values);
            }
            memory.resize(before + count.bytes, PURPOSE)?;
        }
        loaded.versions.insert(self.places.len(), current);
        Ok(loaded)
    }

    /// Returns the ids of the dictionaries of the columns; `None` if all may be needed, because a column is nested.
    fn ids(&self) -> Option<BTreeSet<i64>> {
        let mut ids = BTreeSet::new();
        for &column in self.columns {
            let field = self.schema.field(column);
            match field.data_type() {
                DataType::Dictionary(_, values) if !values.is_nested() => {
                    #[expect(deprecated, reason = "the only way to the number of a field's dictionary")]
                    ids.extend(field.dict_id());
                }
                DataType::RunEndEncoded(..) => return None,
                data_type if data_type.is_nested() => return None,
                _ => {}
            }
        }
        Some(ids)
    }
}

/// Reads a range of a file.
fn read(job: &Job, file: &Arc<IoFile>, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
    let (file, end) = (Arc::clone(file), range.end);
    let starts = range.step_by(READ_BYTES as usize);
    let pieces = starts.map(move |start| (Arc::clone(&file), start..end.min(start + READ_BYTES)));
    let options = SharedOptions { gap: 0, order: Order::File, ..SharedOptions::default() };
    let mut stream = ReadStream::ranges_within(job.io(), None, pieces, &options)?;
    while let Some(block) = stream.next().transpose()? {
        bytes.extend_from_slice(&block);
    }
    job.phases().add_io(READ_PHASE_NAME, stream.stats());
    Ok(bytes)
}

/// Refuses a dictionary of too many bytes, before memory is allocated for them.
pub(super) fn check_dictionary(bytes: u64) -> Result<(), Error> {
    if bytes > DICTIONARY_MAX_BYTES {
        return Err(Error::Query(format!("a dictionary has {bytes} bytes, and at most 1 GiB is supported")));
    }
    Ok(())
}

/// Checks the header of a dictionary message with a body of `length` bytes; returns the dictionary's id.
pub(super) fn dictionary_id(header: &Message<'_>, length: u64) -> Result<i64, Error> {
    check_dictionary(length)?;
    let batch = header.header_as_dictionary_batch();
    let batch = batch.ok_or_else(|| Error::Query("a dictionary has no header".into()))?;
    let data = batch.data().ok_or_else(|| Error::Query("a dictionary has no values".into()))?;
    message::check_batch(&data, length).map_err(Error::Query)?;
    Ok(batch.id())
}

/// Adds the values of a dictionary message. `reserve` is given the bytes of decompressed values before memory is allocated
/// for them.
pub(super) fn load_dictionary(
    header: &Message<'_>,
    body: Vec<u8>,
    schema: &SchemaRef,
    dictionaries: &mut Dictionaries,
    reserve: impl FnOnce(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    dictionary_id(header, body.len() as u64)?;
    let batch = header.header_as_dictionary_batch().expect("checked");
    let data = batch.data().expect("checked");
    let count = data.buffers().map_or(0, |buffers| buffers.len());
    let bytes = decompressed_bytes(&data, 0..count, &body, 0).map_err(Error::Query)?;
    check_dictionary(bytes)?;
    reserve(bytes)?;
    let body = Buffer::from_vec(body);
    Ok(read_dictionary(&body, batch, schema, dictionaries, &header.version())?)
}

#[cfg(test)]
mod tests {
    use arrow_array::StringArray;
    use rand_core::{Rng, SeedableRng};

    use super::*;

    /// Bytes of all versions and of `current`, counted again.
    fn bytes_of(loaded: &Loaded, current: &Arc<Dictionaries>) -> usize {
        let mut known = BTreeSet::new();
        let all = loaded.versions.values().chain([current]).flat_map(|dictionaries| dictionaries.values());
        // Most versions share most dictionaries.
        let each = all.filter(|values| known.insert(Arc::as_ptr(values).cast::<()>()));
        each.map(column_bytes).sum()
    }

    #[test]
    fn the_bytes_of_thousands_of_replaced_dictionaries_are_those_of_all_that_are_held() {
        let mut random = rand_pcg::Pcg64::seed_from_u64(18);
        for version_of in [2, 30] {
            let (mut loaded, mut current) = (Loaded::default(), Arc::<Dictionaries>::default());
            let mut count = Count::default();
            for number in 0..4000 {
                if random.next_u64() % version_of == 0 {
                    loaded.versions.insert(number, Arc::clone(&current));
                    count.keep();
                }
                let (id, length) = ((random.next_u64() % 5) as i64, (random.next_u64() % 100) as usize);
                let values: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(length)]));
                Arc::make_mut(&mut current).insert(id, Arc::clone(&values));
                count.replace(id, &values);
                if number % 50 == 49 {
                    assert_eq!(count.bytes, bytes_of(&loaded, &current), "after {number}");
                }
            }
        }
    }
}
