//! Splitter keys from a sample, which divide rows into partitions of similar size.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::context::Context;
use super::in_memory::Coder;
use super::key::Keys;
use super::key::digit::{self, Digits, Prefix};
use super::key::packing::Packing;
use super::key::range::Range;
use super::row::layout::Layout;
use super::row::stage::Stage;
use super::row::view::Viewer;
use super::row::{BLOCK_ROWS, RowView};
use crate::order::SortKey;
use crate::{Error, Job};

/// Codes at which partitions begin, and the packing of these codes.
#[derive(Clone, Debug)]
pub(crate) struct Splitters {
    packing: Packing,
    /// Ascending codes. Partition 0 precedes the first one.
    codes: Vec<u64>,
}

impl Splitters {
    /// Computes splitters for at most `partitions` partitions. The sample has the key columns only, in key order; it is
    /// cast to `types`. A very frequent key gets a separate partition.
    ///
    /// # Errors
    /// If the sample has another number of columns or cannot be cast.
    pub(crate) fn new(
        job: &Job,
        sample: &RecordBatch,
        types: &[DataType],
        keys: &[SortKey],
        partitions: usize,
    ) -> Result<Splitters, Error> {
        // Each column once, as in the keys of the sort.
        let is_new =
            |&(place, key): &(usize, &SortKey)| !keys[..place].iter().any(|known| known.column == key.column);
        let columns = keys.iter().enumerate().filter(is_new);
        let keys: Vec<SortKey> =
            columns.map(|(column, key)| SortKey { column, options: key.options }).collect();
        let sample = converted(sample, types)?;
        let (layout, keys, dictionaries) = Context::rows(job, &sample.schema(), &keys, false)?;
        let view = Viewer::new(&layout, &dictionaries).view(&sample)?;
        let mut ranges = vec![Range::none(); keys.columns.len()];
        let mut stage = Stage::new(&layout);
        let mut each_block = |take: &mut dyn FnMut(&[RowView<'_>])| {
            for from in (0..view.rows).step_by(layout.block_rows) {
                stage.fill(&view, from, layout.block_rows.min(view.rows - from), 0);
                let mut views = [RowView::default(); BLOCK_ROWS];
                stage.rows().zip(&mut views).for_each(|(row, view)| *view = row);
                take(&views[..stage.len()]);
            }
        };
        each_block(&mut |views| add_ranges(&layout, &keys, views, &mut ranges));
        let packing = Packing::new(&keys, &ranges, true);
        let (mut coder, mut codes) = (Coder::default(), Vec::with_capacity(view.rows));
        each_block(&mut |views| coder.codes(&layout, &keys, &packing, views, &mut codes));
        codes.sort_unstable();
        Ok(Splitters { packing, codes: quantiles(&codes, partitions) })
    }

    /// Returns the packing of the codes.
    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }

    /// Returns the number of partitions.
    pub(crate) fn partitions(&self) -> usize {
        self.codes.len() + 1
    }

    /// Returns the partition of a code.
    pub(crate) fn partition(&self, code: u64) -> usize {
        self.codes.partition_point(|&splitter| splitter <= code)
    }

    /// Returns whether all rows that can be in a partition have equal keys.
    pub(crate) fn is_single(&self, keys: &Keys, partition: usize) -> bool {
        let begin = partition.checked_sub(1).map(|before| self.codes[before]);
        let end = self.codes.get(partition);
        match (begin, end) {
            (Some(begin), Some(&end)) => end - begin == 1 && self.packing.is_single(keys, begin),
            _ => false,
        }
    }
}

/// Casts the columns of a sample to `types`.
fn converted(sample: &RecordBatch, types: &[DataType]) -> Result<RecordBatch, Error> {
    if sample.num_columns() != types.len() {
        let (has, needs) = (sample.num_columns(), types.len());
        return Err(Error::Query(format!("the sample has {has} columns, but the sort has {needs} keys")));
    }
    let columns = sample.columns().iter().zip(types).map(|(column, wanted)| cast(column, wanted));
    let fields = types.iter().map(|wanted| Field::new("key", wanted.clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(sample.num_rows()));
    let columns = columns.collect::<Result<_, ArrowError>>()?;
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

fn add_ranges(layout: &Arc<Layout>, keys: &Keys, views: &[RowView<'_>], ranges: &mut [Range]) {
    let mut digits = Digits::default();
    for (column, range) in keys.columns.iter().zip(ranges) {
        digits.clear();
        digit::extend(layout, column, &Prefix::default(), views.iter().copied(), &mut digits);
        range.add(column, &digits);
        range.add_bytes(layout, column, views.iter().copied());
    }
}

/// Returns the quantiles of sorted codes. A code at several quantiles gets a separate part.
fn quantiles(codes: &[u64], parts: usize) -> Vec<u64> {
    let mut splitters: Vec<u64> = Vec::with_capacity(parts);
    for part in 1..parts {
        let Some(&code) = codes.get(part * codes.len() / parts) else { break };
        match splitters.last() {
            Some(&last) if last == code => splitters.extend(code.checked_add(1)),
            Some(&last) if last > code => {}
            _ => splitters.push(code),
        }
    }
    splitters
}

#[cfg(test)]
mod tests;
