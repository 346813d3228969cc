//! Group keys: maps rows to group numbers, and group numbers to key columns.
//!
//! | keys | stored as |
//! |---|---|
//! | none | nothing: one group |
//! | numbers, dates, booleans that fit 64 bits together | a word |
//! | others | bytes of Arrow's row format, concatenated |

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
    /// Whether the single group exists.
    None(bool),
    Packed(PackedKeys),
    Rows(RowKeys),
}

impl Keys {
    /// Makes a table for keys of the given types and nullability.
    pub(crate) fn new(types: &[(DataType, bool)]) -> Result<Keys, Error> {
        if types.is_empty() {
            return Ok(Keys::None(false));
        }
        Ok(match PackedKeys::new(types) {
            Some(packed) => Keys::Packed(packed),
            None => Keys::Rows(RowKeys::new(types)?),
        })
    }

    /// Makes a table for keys of bytes, which are only added by [`Keys::insert`].
    pub(crate) fn of_bytes() -> Result<Keys, Error> {
        Ok(Keys::Rows(RowKeys::new(&[])?))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Keys::None(is_there) => usize::from(*is_there),
            Keys::Packed(keys) => keys.len(),
            Keys::Rows(keys) => keys.len(),
        }
    }

    /// Finds the groups of rows and numbers new groups consecutively.
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

    /// Finds or adds the group of a key from [`Keys::write`] of a table with the same types.
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

    /// Returns the hash of a group's key, which does not depend on the table.
    pub(crate) fn hash(&self, group: u32) -> u64 {
        match self {
            Keys::None(_) => hash_bytes(&[]),
            Keys::Packed(keys) => keys.hash(group),
            Keys::Rows(keys) => hash_bytes(keys.bytes(group)),
        }
    }

    /// Returns the key columns of groups.
    pub(crate) fn columns(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Error> {
        match self {
            Keys::None(_) => Ok(Vec::new()),
            Keys::Packed(keys) => Ok(keys.columns(groups)?),
            Keys::Rows(keys) => keys.columns(groups),
        }
    }

    /// Returns the bytes per group, without the index and variable-length keys.
    pub(crate) fn bytes_per_group(&self) -> usize {
        match self {
            Keys::None(_) => 0,
            Keys::Packed(_) => size_of::<u64>(),
            Keys::Rows(_) => size_of::<usize>(),
        }
    }

    /// Returns the bytes of the index for a number of groups.
    pub(crate) fn index_bytes(&self, groups: usize) -> usize {
        match self {
            Keys::None(_) => 0,
            Keys::Packed(_) | Keys::Rows(_) => index::bytes_for(groups),
        }
    }

    /// Returns the bytes of variable-length keys.
    pub(crate) fn variable_bytes(&self) -> usize {
        match self {
            Keys::Rows(keys) => keys.arena_bytes(),
            _ => 0,
        }
    }

    pub(crate) fn reserve(&mut self, groups: usize) {
        match self {
            Keys::None(_) => {}
            Keys::Packed(keys) => keys.reserve(groups),
            Keys::Rows(keys) => keys.reserve(groups),
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Keys::None(is_there) => *is_there = false,
            Keys::Packed(keys) => keys.clear(),
            Keys::Rows(keys) => keys.clear(),
        }
    }
}
