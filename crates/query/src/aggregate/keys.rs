//! The keys of groups: rows to group numbers, and group numbers back to columns.
//!
//! | keys | stored as |
//! |---|---|
//! | none | nothing: one group |
//! | numbers, dates, booleans that fit 64 bits together | a word |
//! | others | bytes of Arrow's row format, one after the other |

pub(crate) mod packed;
mod rows;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use crate::Error;

use super::index::{self, FIRST_GROUP, hash_bytes};
use packed::PackedKeys;
use rows::RowKeys;

/// The keys of a table.
#[derive(Debug)]
pub(crate) enum Keys {
    /// Whether the only group is there.
    None(bool),
    Packed(PackedKeys),
    Rows(RowKeys),
}

impl Keys {
    /// Keys of some types, and whether they may be null.
    pub(crate) fn new(types: &[(DataType, bool)]) -> Result<Keys, Error> {
        if types.is_empty() {
            return Ok(Keys::None(false));
        }
        Ok(match PackedKeys::new(types) {
            Some(packed) => Keys::Packed(packed),
            None => Keys::Rows(RowKeys::new(types)?),
        })
    }

    /// Keys of bytes that only [`Keys::insert`] brings.
    pub(crate) fn of_bytes() -> Result<Keys, Error> {
        Ok(Keys::Rows(RowKeys::new(&[])?))
    }

    /// The number of groups, which are numbered from 1.
    pub(crate) fn len(&self) -> usize {
        match self {
            Keys::None(is_there) => usize::from(*is_there),
            Keys::Packed(keys) => keys.len(),
            Keys::Rows(keys) => keys.len(),
        }
    }

    /// The groups of rows, of which new ones get the next numbers.
    pub(crate) fn assign(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        groups: &mut Vec<u32>,
    ) -> Result<(), Error> {
        groups.clear();
        match self {
            Keys::None(is_there) => {
                *is_there |= rows > 0;
                groups.resize(rows, FIRST_GROUP);
                Ok(())
            }
            Keys::Packed(keys) => keys.assign(columns, rows, groups),
            Keys::Rows(keys) => keys.assign(columns, groups),
        }
    }

    /// The group of a key that [`Keys::bytes`] gave, of this table or another with the same types.
    pub(crate) fn insert(&mut self, bytes: &[u8]) -> u32 {
        match self {
            Keys::None(is_there) => {
                *is_there = true;
                FIRST_GROUP
            }
            Keys::Packed(keys) => keys.insert(bytes),
            Keys::Rows(keys) => keys.insert(bytes),
        }
    }

    /// Appends the bytes of a group's key.
    pub(crate) fn write(&self, group: u32, bytes: &mut Vec<u8>) {
        match self {
            Keys::None(_) => {}
            Keys::Packed(keys) => keys.write(group, bytes),
            Keys::Rows(keys) => bytes.extend_from_slice(keys.bytes(group)),
        }
    }

    /// The hash of a group's key, which is the same in every table.
    pub(crate) fn hash(&self, group: u32) -> u64 {
        match self {
            Keys::None(_) => hash_bytes(&[]),
            Keys::Packed(keys) => keys.hash(group),
            Keys::Rows(keys) => hash_bytes(keys.bytes(group)),
        }
    }

    /// The columns of some groups.
    pub(crate) fn columns(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Error> {
        match self {
            Keys::None(_) => Ok(Vec::new()),
            Keys::Packed(keys) => Ok(keys.columns(groups)?),
            Keys::Rows(keys) => keys.columns(groups),
        }
    }

    /// Bytes of a group, but for the index and keys of bytes.
    pub(crate) fn bytes_per_group(&self) -> usize {
        match self {
            Keys::None(_) => 0,
            Keys::Packed(_) => size_of::<u64>(),
            Keys::Rows(_) => size_of::<usize>(),
        }
    }

    /// Bytes of the index of some groups.
    pub(crate) fn index_bytes(&self, groups: usize) -> usize {
        match self {
            Keys::None(_) => 0,
            Keys::Packed(_) | Keys::Rows(_) => index::bytes_for(groups),
        }
    }

    /// Bytes of keys of bytes.
    pub(crate) fn variable_bytes(&self) -> usize {
        match self {
            Keys::Rows(keys) => keys.arena_bytes(),
            _ => 0,
        }
    }

    /// Has room for some groups.
    pub(crate) fn reserve(&mut self, groups: usize) {
        match self {
            Keys::None(_) => {}
            Keys::Packed(keys) => keys.reserve(groups),
            Keys::Rows(keys) => keys.reserve(groups),
        }
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        match self {
            Keys::None(is_there) => *is_there = false,
            Keys::Packed(keys) => keys.clear(),
            Keys::Rows(keys) => keys.clear(),
        }
    }
}
