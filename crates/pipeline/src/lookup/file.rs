//! Tables that stay in their files, with an index in memory: for each row the hash of its key and the place of its record,
//! 24 bytes.
//!
//! The index is sorted by the hash. A record that has been read is compared with the key that is looked for, because two
//! keys may have one hash. When the index is made, two rows with one hash are read and compared: they have one key, which is
//! an error, or another seed gives all rows of the table other hashes.
//!
//! The records of CSV are read where they stand. A row of Arrow IPC does not stand in one place: the rows of such a table
//! are written one after another to a file without a name.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use sakiyomi_io::file::create_unnamed;
use sakiyomi_io::{Access, IoFile, RandomReader};
use sakiyomi_stream::{Decode, Decoder, Encode};

use super::{HeaderOrder, duplicate, is_arrow, parser, scan};
use crate::Error;
use crate::input::Named;
use crate::parse::Parser;
use crate::row::{Block, Cells, Row, RowBuilder};
use crate::spec::{LookupTable, TableAccess};
use crate::step::write_key;

/// Seeds that are tried: of ten million rows, two keys have one hash with a probability of 3 in a million for each.
const SEEDS_MAX: u64 = 8;

/// Bytes of a record that can be read for a row: buffers for as many as are in flight have this size.
const RECORD_MAX_BYTES: u64 = 1 << 20;

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    hash: u64,
    /// In bytes.
    pub(crate) offset: u64,
    /// In bytes.
    pub(crate) length: u32,
}

/// A table in a file, and its index.
pub(crate) struct FileTable {
    /// Sorted by hash, each of which is there once.
    index: Vec<Place>,
    seed: u64,
    /// Columns of the key.
    keys: Vec<usize>,
    form: Form,
    file: Arc<IoFile>,
    length_max: usize,
    access: TableAccess,
    named: Named,
}

/// How records are written.
#[derive(Clone)]
enum Form {
    Csv(SchemaRef, HeaderOrder),
    /// The encoding of rows in the state of operators.
    Rows,
}

impl std::fmt::Debug for FileTable {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "a table of {} rows in {}", self.index.len(), self.named.target)
    }
}

impl FileTable {
    /// Makes the index of a table with these columns as its key.
    ///
    /// # Errors
    /// If the table cannot be read, two rows have one key, or a record is longer than 1 MiB.
    pub(crate) fn read(
        spec: &LookupTable,
        access: TableAccess,
        name: &str,
        schema: SchemaRef,
        keys: Vec<usize>,
    ) -> Result<FileTable, Error> {
        let named = Named::new(name, &spec.path.value.display().to_string());
        if is_arrow(&spec.path.value) && access.is_direct {
            return Err(spec.path.error(
                "the rows of a table in Arrow IPC are copied before they are read, and not with direct = true; \
                 write the table as CSV",
            ));
        }
        for seed in 0..SEEDS_MAX {
            let (index, form, file) = scanned(spec, &named, &schema, &keys, seed)?;
            let mut table = TableRecords { form: form.clone(), file: &file };
            let same_hash = index.windows(2).filter(|pair| pair[0].hash == pair[1].hash);
            let mut has_collision = false;
            for pair in same_hash {
                let rows = [table.row(pair[0], &named)?, table.row(pair[1], &named)?];
                let key = |row: &Row| {
                    let mut key = Vec::new();
                    write_key(row, &keys, &mut key);
                    key
                };
                if key(&rows[0]) == key(&rows[1]) {
                    return Err(duplicate(spec, &rows[1], &keys));
                }
                has_collision = true;
            }
            if has_collision {
                continue;
            }
            let length_max = index.iter().map(|place| place.length).max().unwrap_or(0) as usize;
            let opened = match &form {
                Form::Csv(..) => {
                    let access = if access.is_direct { Access::Direct } else { Access::Buffered };
                    IoFile::open(&spec.path.value, access)
                }
                Form::Rows => IoFile::from_file(file, &spec.path.value, Access::Buffered),
            };
            let file = Arc::new(opened.map_err(|error| named.error("open", io::Error::from(error)))?);
            return Ok(FileTable { index, seed, keys, form, file, length_max, access, named });
        }
        Err(spec.path.error("several keys have the same hash with every seed; write table = \"memory\""))
    }

    /// Opens the file for reads at random places; `ready` is called when some have ended.
    ///
    /// # Errors
    /// If the system does not offer the method, or does not have the memory for its buffers.
    pub(crate) fn open(&self, ready: impl Fn() + Send + 'static) -> Result<RandomReader, Error> {
        let reader = RandomReader::open(Arc::clone(&self.file), self.access.method, self.length_max, ready);
        reader.map_err(|error| self.named.error("open", io::Error::from(error)))
    }

    /// Returns the rows that may be in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.access.in_flight
    }

    /// Returns the place of the record of a key, or of another one with the same hash.
    fn place(&self, key: &[u8]) -> Option<Place> {
        let hash = hash(self.seed, key);
        let at = self.index.partition_point(|place| place.hash < hash);
        self.index.get(at).copied().filter(|place| place.hash == hash)
    }
}

/// Returns the hash of a key, as written by [`write_key`] (SipHash-1-3).
fn hash(seed: u64, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    hasher.write(key);
    hasher.finish()
}

/// Returns the index of a table, sorted by hash; how its records are written; and the file with them.
fn scanned(
    spec: &LookupTable,
    named: &Named,
    schema: &SchemaRef,
    keys: &[usize],
    seed: u64,
) -> Result<(Vec<Place>, Form, File), Error> {
    let path = &spec.path.value;
    let mut rows = match is_arrow(path) {
        true => Some(RowFile::create().map_err(|error| named.error("copy the rows of", error))?),
        false => None,
    };
    let (mut index, mut key) = (Vec::new(), Vec::new());
    let order = scan(spec, &named.name, schema, |row, range| {
        write_key(&row, keys, &mut key);
        let written = rows.as_mut().map(|rows| rows.write(&row));
        let range = written.unwrap_or(Ok(range)).map_err(|error| named.error("copy the rows of", error))?;
        let length = range.end - range.start;
        if length > RECORD_MAX_BYTES {
            return Err(spec.path.error(format!(
                "a row has {length} bytes, and look-ups in the file read {RECORD_MAX_BYTES} at most; \
                 write table = \"memory\""
            )));
        }
        index.push(Place { hash: hash(seed, &key), offset: range.start, length: length as u32 });
        Ok(())
    })?;
    index.sort_unstable_by_key(|place| (place.hash, place.offset));
    let (form, file) = match rows {
        Some(rows) => (Form::Rows, rows.finish().map_err(|error| named.error("copy the rows of", error))?),
        None => (
            Form::Csv(Arc::clone(schema), order),
            File::open(path).map_err(|error| named.error("open", error))?,
        ),
    };
    Ok((index, form, file))
}

/// Rows one after another in a file without a name, in the directory of temporary files.
struct RowFile {
    file: BufWriter<File>,
    end: u64,
    bytes: Vec<u8>,
}

impl RowFile {
    fn create() -> io::Result<RowFile> {
        let file = create_unnamed(&std::env::temp_dir(), Access::Buffered)?;
        Ok(RowFile { file: BufWriter::new(file), end: 0, bytes: Vec::new() })
    }

    /// Adds a row. Where its bytes are.
    fn write(&mut self, row: &Row) -> io::Result<Range<u64>> {
        self.bytes.clear();
        row.encode(&mut self.bytes);
        self.file.write_all(&self.bytes)?;
        let start = self.end;
        self.end += self.bytes.len() as u64;
        Ok(start..self.end)
    }

    fn finish(self) -> io::Result<File> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

/// Records of a table that are read one by one while its index is made.
struct TableRecords<'f> {
    form: Form,
    file: &'f File,
}

impl TableRecords<'_> {
    fn row(&mut self, place: Place, named: &Named) -> Result<Row, Error> {
        let mut bytes = vec![0; place.length as usize];
        let read = self.file.read_exact_at(&mut bytes, place.offset);
        let row = read.and_then(|()| {
            Records::new(&self.form)
                .row(bytes)
                .map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))
        });
        row.map_err(|error| named.error("read", error))
    }
}

/// Result of a read for a key.
pub(crate) enum Found {
    Row(Row),
    /// The row of another key with the same hash: the table does not have the key.
    OtherKey,
    /// Not what was there when the index was made; the reason.
    Changed(String),
}

/// Finds the records of a table, and makes rows of them.
pub(crate) struct TableReader {
    table: Arc<FileTable>,
    records: Records,
    key: Vec<u8>,
}

impl TableReader {
    pub(crate) fn new(table: &Arc<FileTable>) -> TableReader {
        let records = Records::new(&table.form);
        TableReader { table: Arc::clone(table), records, key: Vec::new() }
    }

    /// Returns where to read for a key; none if the table does not have it.
    pub(crate) fn place(&self, key: &[u8]) -> Option<Place> {
        self.table.place(key)
    }

    /// Returns the row of a key in the bytes that were read at its place.
    pub(crate) fn row(&mut self, bytes: Vec<u8>, key: &[u8]) -> Found {
        let changed = |reason: &str| {
            let target = &self.table.named.target;
            Found::Changed(format!("{target} has changed since its index was made: {reason}"))
        };
        let row = match self.records.row(bytes) {
            Ok(row) => row,
            Err(reason) => return changed(&reason),
        };
        write_key(&row, &self.table.keys, &mut self.key);
        if self.key == key {
            Found::Row(row)
        } else if hash(self.table.seed, &self.key) == hash(self.table.seed, key) {
            Found::OtherKey
        } else {
            changed("the row has another key")
        }
    }
}

/// Makes rows of records.
struct Records {
    /// None of rows that need no parsing.
    parser: Option<Parser>,
    out: RowBuilder,
}

impl Records {
    fn new(form: &Form) -> Records {
        let parser = match form {
            Form::Rows => None,
            Form::Csv(schema, order) => {
                let mut parser = parser(schema);
                parser.set_header_order(order.clone());
                Some(parser)
            }
        };
        Records { parser, out: RowBuilder::default() }
    }

    /// # Errors
    /// A reason, if the bytes are not a record.
    fn row(&mut self, bytes: Vec<u8>) -> Result<Row, String> {
        let Some(parser) = &mut self.parser else {
            let mut from = Decoder::new(&bytes);
            return Row::decode(&mut from).map_err(|error| error.to_string());
        };
        let text = String::from_utf8(bytes).map_err(|_| "the record is not UTF-8".to_owned())?;
        let block = Arc::new(Block::own(text));
        match parser.parse(&block, 0..block.text().len(), &mut self.out) {
            Ok(true) => Ok(self.out.finish_from(Row::new(Cells::new(), Some(block)))),
            Ok(false) => Err("the record is empty".to_owned()),
            Err(bad) => Err(parser.explain(bad)),
        }
    }
}
