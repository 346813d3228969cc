//! Splits whose bytes are in the page cache.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sakiyomi_io::buffer::Account;
use sakiyomi_io::page_cache::residency;
use sakiyomi_io::read::Single;
use sakiyomi_io::{Access, IoFile};

use super::SCAN_MEMORY;
use crate::Error;

/// Returns whether the file is read through the page cache, which has all pages of the ranges.
pub(super) fn is_resident(file: &IoFile, ranges: &[Range<u64>]) -> bool {
    file.access() == Access::Buffered
        && ranges.iter().all(|range| {
            let found = residency(file.file(), range.clone());
            range.end <= file.size() && found.is_ok_and(|found| found.is_whole())
        })
}

/// Copies the ranges of a file into buffers of the account; `None` if it has no memory left for one of them.
pub(super) fn copy(
    file: &Arc<IoFile>,
    ranges: Vec<Range<u64>>,
    account: &Account,
) -> Result<Option<Vec<Bytes>>, Error> {
    let single = Single::of(Arc::clone(file));
    let mut parts = Vec::with_capacity(ranges.len());
    for range in ranges {
        let length = (range.end - range.start) as usize;
        if length == 0 {
            parts.push(Bytes::new());
            continue;
        }
        let Ok(buffer) = account.take(length) else { return Ok(None) };
        let buffer = buffer.map_err(|_| Error::Memory {
            what: SCAN_MEMORY.into(),
            needed: length as u64,
            available: account.guarantee() as u64,
        })?;
        parts.push(Bytes::from_owner(single.read(range, buffer)?));
    }
    Ok(Some(parts))
}
