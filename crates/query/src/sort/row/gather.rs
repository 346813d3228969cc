//! Rows → columns: gathers rows at given places into batches.
//!
//! The fixed parts of a block of rows are first copied to contiguous memory. This is the only random access, and the
//! processor overlaps many of its cache misses. Columns are then built from the copy, which is in cache.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_schema::{ArrowError, DataType};

use super::builder::Builder;
use super::dictionary::Dictionary;
use super::layout::{Form, Layout};
use super::nulls::NullBlock;
use super::{BLOCK_ROWS, u32_at};

/// Rows in memory, addressed by places: the upper bits of a place are a block index, the lower bits the offset in it.
pub(crate) struct Rows<'a, B> {
    pub(crate) blocks: &'a [B],
    /// Number of offset bits in a place.
    pub(crate) shift: u32,
}

impl<B> Clone for Rows<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Rows<'_, B> {}

impl<'a, B: AsRef<[u8]>> Rows<'a, B> {
    /// Returns the bytes of a block from a place on.
    pub(crate) fn at(&self, place: u32) -> &'a [u8] {
        let block = self.blocks[(place >> self.shift) as usize].as_ref();
        &block[(place & ((1 << self.shift) - 1)) as usize..]
    }
}

/// Gathers rows into batches.
#[derive(Debug)]
pub(crate) struct Gatherer {
    layout: Arc<Layout>,
    dictionaries: Arc<[Dictionary]>,
    fixed: Vec<u8>,
    nulls: NullBlock,
    /// Offset of the next variable value in each row of the block.
    cursors: Vec<usize>,
}

impl Gatherer {
    /// Creates a gatherer for rows of a layout.
    pub(crate) fn new(layout: &Arc<Layout>, dictionaries: &Arc<[Dictionary]>) -> Gatherer {
        Gatherer {
            layout: Arc::clone(layout),
            dictionaries: Arc::clone(dictionaries),
            fixed: Vec::new(),
            nulls: NullBlock::default(),
            cursors: Vec::new(),
        }
    }

    /// Gathers the first rows of `places` into a batch: at most `rows_max`, fewer once they have
    /// [`BATCH_VARIABLE_BYTES`]. Returns the batch and its number of rows, at least one.
    ///
    /// # Errors
    /// If the rows do not form a valid batch.
    pub(crate) fn batch<B: AsRef<[u8]>>(
        &mut self,
        rows: Rows<'_, B>,
        places: &[u32],
        rows_max: usize,
    ) -> Result<(RecordBatch, usize), ArrowError> {
        let layout = Arc::clone(&self.layout);
        let capacity = places.len().min(rows_max);
        let mut builders: Vec<Builder> =
            layout.columns.iter().map(|column| Builder::new(column, capacity)).collect();
        let (mut done, mut variable_bytes) = (0, 0);
        while done < capacity && variable_bytes < BATCH_VARIABLE_BYTES {
            let places = &places[done..capacity.min(done + layout.block_rows)];
            let (taken, bytes) = self.block(&layout, rows, places, &mut builders);
            done += taken;
            variable_bytes += bytes;
        }
        Ok((self.finish(&layout, builders, done)?, done))
    }

    /// Appends rows until they have [`BATCH_VARIABLE_BYTES`]. Returns the number of rows and of variable bytes.
    fn block<B: AsRef<[u8]>>(
        &mut self,
        layout: &Layout,
        rows: Rows<'_, B>,
        places: &[u32],
        builders: &mut [Builder],
    ) -> (usize, usize) {
        let stride = layout.stride;
        let mut found: [&[u8]; BLOCK_ROWS] = [&[]; BLOCK_ROWS];
        self.fixed.clear();
        let (mut count, mut variable_bytes) = (0, 0);
        for (&place, slot) in places.iter().zip(&mut found) {
            let row = rows.at(place);
            self.fixed.extend_from_slice(&row[..stride]);
            *slot = row;
            count += 1;
            for &offset in &layout.lengths {
                variable_bytes += u32_at(row, offset) as usize;
            }
            if variable_bytes >= BATCH_VARIABLE_BYTES {
                break;
            }
        }
        let found = &found[..count];
        self.cursors.clear();
        self.cursors.resize(count, stride);
        self.nulls.start(count, layout.null_bytes);
        self.nulls.read(&self.fixed, stride);
        for (column, builder) in layout.columns.iter().zip(builders) {
            builder.extend(column, &self.fixed, stride);
            builder.extend_nulls(column, &self.nulls);
            if matches!(column.form, Form::Bytes(_) | Form::Encoded(..)) {
                let lengths = self.fixed.chunks_exact(stride).map(|row| u32_at(row, column.offset) as usize);
                let total = lengths.clone().sum();
                let values =
                    found.iter().zip(&mut self.cursors).zip(lengths).map(|((row, cursor), length)| {
                        let rest = &row[*cursor..];
                        *cursor += length;
                        (rest, length)
                    });
                builder.extend_values(total, values);
            }
        }
        (count, variable_bytes)
    }

    fn finish(
        &self,
        layout: &Layout,
        builders: Vec<Builder>,
        rows: usize,
    ) -> Result<RecordBatch, ArrowError> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(builders.len());
        for ((builder, column), field) in
            builders.into_iter().zip(&layout.columns).zip(layout.schema.fields())
        {
            let array = match (&column.form, field.data_type()) {
                (Form::Code { dictionary, .. }, DataType::Dictionary(keys, _)) => {
                    let values = self.dictionaries[*dictionary].values()?;
                    make_array(builder.dictionary(keys, field.data_type(), rows, &values)?)
                }
                (Form::Encoded(_, converter), _) => builder.decode(converter)?,
                _ => make_array(builder.finish(&column.packed_type, rows)?),
            };
            arrays.push(as_type(array, field.data_type())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(layout.schema.clone(), arrays, &options)
    }
}

/// Casts values that were packed in another type than their column's.
fn as_type(array: ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == data_type {
        return Ok(array);
    }
    let array = arrow_cast::cast(&array, data_type)?;
    if array.data_type() == data_type {
        return Ok(array);
    }
    // The library gives the children of run-end encoded arrays other names.
    Ok(make_array(array.to_data().into_builder().data_type(data_type.clone()).build()?))
}

/// Bytes of variable values after which a batch ends, so that long rows form small batches.
pub(crate) const BATCH_VARIABLE_BYTES: usize = 4 << 20;
