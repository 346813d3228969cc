//! Keys of any types, as bytes of Arrow's row format.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::DataType;

use crate::Error;
use crate::aggregate::index::{FIRST_GROUP, Index, hash_bytes};
use crate::aggregate::types::canonical;

#[derive(Debug)]
pub(crate) struct RowKeys {
    converter: RowConverter,
    /// The keys of a batch; a buffer that is reused.
    rows: Rows,
    index: Index,
    /// All keys, concatenated.
    arena: Vec<u8>,
    /// The start of the first key, then the end of each key in `arena`.
    ends: Vec<usize>,
}

impl RowKeys {
    pub(super) fn new(types: &[(DataType, bool)]) -> Result<RowKeys, Error> {
        let fields = types.iter().map(|(data_type, _)| SortField::new(data_type.clone()));
        let converter = RowConverter::new(fields.collect())?;
        let rows = converter.empty_rows(0, 0);
        Ok(RowKeys { converter, rows, index: Index::default(), arena: Vec::new(), ends: vec![0] })
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len() - 1
    }

    pub(super) fn bytes(&self, group: u32) -> &[u8] {
        bytes_of(&self.arena, &self.ends, group)
    }

    pub(super) fn assign(&mut self, columns: &[ArrayRef], groups: &mut Vec<u32>) -> Result<(), Error> {
        let columns = columns.iter().map(canonical).collect::<Result<Vec<ArrayRef>, _>>()?;
        let mut rows = std::mem::replace(&mut self.rows, self.converter.empty_rows(0, 0));
        rows.clear();
        self.converter.append(&mut rows, &columns)?;
        groups.extend(rows.iter().map(|row| self.insert(row.data())));
        self.rows = rows;
        Ok(())
    }

    pub(super) fn insert(&mut self, bytes: &[u8]) -> u32 {
        let RowKeys { index, arena, ends, .. } = self;
        let new = ends.len() as u32;
        let group =
            index.find_or_insert(hash_bytes(bytes), new, |group| bytes_of(arena, ends, group) == bytes);
        if group == new {
            self.arena.extend_from_slice(bytes);
            self.ends.push(self.arena.len());
        }
        group
    }

    pub(super) fn columns(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Error> {
        let parser = self.converter.parser();
        Ok(self.converter.convert_rows(groups.iter().map(|&group| parser.parse(self.bytes(group))))?)
    }

    /// Returns the bytes of the keys, doubled because the allocation grows by doubling.
    pub(super) fn arena_bytes(&self) -> usize {
        self.arena.len() * 2
    }

    pub(super) fn reserve(&mut self, groups: usize) {
        self.ends.reserve_exact((groups + 1).saturating_sub(self.ends.len()));
        self.index.reserve(groups);
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.arena.clear();
        self.ends.truncate(1);
    }
}

fn bytes_of<'a>(arena: &'a [u8], ends: &[usize], group: u32) -> &'a [u8] {
    let place = (group - FIRST_GROUP) as usize;
    &arena[ends[place]..ends[place + 1]]
}
