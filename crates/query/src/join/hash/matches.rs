//! Bits of the probe rows that have matched, while the build side is joined in blocks.
//!
//! They are spilled as a run of batches beside those of the probe side: each pass over the probe side reads the bits of
//! the pass before, and writes its own. So they need no memory that grows with the probe side, whose rows nobody has
//! counted when the join reserves its memory; the blocks of both runs are within those of a thread that divides rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::memory::SpillMemory;
use crate::Error;
use crate::batch_spill::{BatchReader, BatchRun, BatchWriter};
use crate::spill::SpillFiles;

/// The bits of a pass over the probe side.
pub(super) struct Matches {
    /// Those of the pass before; `None` in the first one.
    before: Option<MatchReader>,
    writer: BatchWriter,
    schema: SchemaRef,
    /// Those of the current batch.
    bits: BooleanBufferBuilder,
}

impl Matches {
    /// Begins a pass after the one that wrote `before`.
    ///
    /// # Errors
    /// If the bits cannot be spilled.
    pub(super) fn begin(
        files: &SpillFiles,
        memory: &SpillMemory,
        before: Option<BatchRun>,
    ) -> Result<Matches, Error> {
        let schema = Arc::new(Schema::new(vec![Field::new("matched", DataType::Boolean, false)]));
        let writer = BatchWriter::create_with(files, &schema, &memory.account, memory.block)?;
        let before = before.map(|run| MatchReader::new(run, memory)).transpose()?;
        Ok(Matches { before, writer, schema, bits: BooleanBufferBuilder::new(0) })
    }

    /// Ends the current batch of the probe side, and begins the next one, of `rows` rows.
    ///
    /// # Errors
    /// If bits cannot be read or written.
    pub(super) fn begin_batch(&mut self, rows: usize) -> Result<(), Error> {
        self.end_batch()?;
        match &mut self.before {
            Some(before) => self.bits.append_buffer(&before.next(rows)?),
            None => self.bits.append_n(rows, false),
        }
        Ok(())
    }

    /// Records a match of a row of the current batch.
    pub(super) fn set(&mut self, row: usize) {
        self.bits.set_bit(row, true);
    }

    /// Ends the pass.
    ///
    /// # Errors
    /// If bits cannot be written.
    pub(super) fn end(mut self) -> Result<BatchRun, Error> {
        self.end_batch()?;
        self.writer.finish()
    }

    fn end_batch(&mut self) -> Result<(), Error> {
        if self.bits.is_empty() {
            return Ok(());
        }
        let bits = BooleanArray::new(self.bits.finish(), None);
        self.writer.write(&RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(bits)])?)
    }
}

/// Reader of the bits of a pass; frees their space.
pub(super) struct MatchReader(BatchReader);

impl MatchReader {
    /// # Errors
    /// If the bits cannot be read.
    pub(super) fn new(run: BatchRun, memory: &SpillMemory) -> Result<MatchReader, Error> {
        Ok(MatchReader(run.drain_within(&memory.account, memory.block)?))
    }

    /// Returns the bits of the next batch of the probe side, which has `rows` rows.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn next(&mut self, rows: usize) -> Result<BooleanBuffer, Error> {
        let batch = self.0.next()?.expect("bits of each batch of the probe side");
        assert_eq!(batch.num_rows(), rows, "a bit of each probe row");
        Ok(batch.column(0).as_boolean().values().clone())
    }
}
