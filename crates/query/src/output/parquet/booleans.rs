//! Boolean columns: one bit per value.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_buffer::BooleanBufferBuilder;
use parquet::basic::Encoding;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::chunk::{Chunk, ChunkWriter, boundary_order};
use super::validity::Validity;
use crate::Error;

/// Writes a column chunk of booleans.
pub(super) fn encode(
    mut chunk: ChunkWriter<'_>,
    arrays: &[ArrayRef],
    validity: &Validity,
) -> Result<Chunk, Error> {
    let mut values = BooleanBufferBuilder::new(validity.values());
    for array in arrays {
        let array = array.as_boolean();
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => values.append_buffer(array.values()),
            Some(nulls) => {
                for (from, to) in nulls.valid_slices() {
                    values.append_buffer(&array.values().slice(from, to - from));
                }
            }
        }
    }
    let values = values.finish();
    let mut ordered = Vec::new();
    for (rows, range) in validity.pages() {
        let page = values.slice(range.start, range.len());
        let trues = page.count_set_bits();
        let bounds = (!page.is_empty()).then_some((trues == page.len(), trues > 0));
        ordered.extend(bounds);
        let bounds = bounds.map(|(least, greatest)| (vec![u8::from(least)], vec![u8::from(greatest)]));
        let bytes = page.len().div_ceil(8);
        chunk.data_page(&rows, Encoding::PLAIN, bytes, |out| {
            let space = out.space(bytes);
            let chunks = page.bit_chunks();
            for (part, word) in space.chunks_mut(size_of::<u64>()).zip(chunks.iter_padded()) {
                part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
            }
            bounds
        })?;
    }
    let order = boundary_order(&ordered, |one, other| !one & other);
    let least = ordered.iter().map(|page| page.0).min();
    let greatest = ordered.iter().map(|page| page.1).max();
    let nulls = Some(validity.nulls() as u64);
    let statistics = ValueStatistics::new(least, greatest, None, nulls, false);
    let statistics = Statistics::Boolean(statistics.with_backwards_compatible_min_max(false));
    chunk.finish(statistics, order)
}
