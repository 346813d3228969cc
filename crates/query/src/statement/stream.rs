//! The rows of a result as a stream of record batches, which another thread reads while they are computed.

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow_array::{RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, SchemaRef};

use crate::Error;
use crate::batch_bytes::compact;
use crate::output::check_types;
use crate::output::plain::{find_in, plain_batch, plain_schema};

/// Record batches that wait for their reader: one, so that the next is computed while the reader works on the last.
const WAITING_BATCHES_MAX: usize = 1;

/// An item of a stream: first the schema, then batches.
#[derive(Clone, Debug)]
pub enum Streamed {
    /// Names and types of the result, once its statement was bound to its tables.
    Schema(SchemaRef),
    /// The next rows.
    Batch(RecordBatch),
}

/// The end of a stream that a statement writes to.
#[derive(Clone)]
pub struct BatchSender(SyncSender<Streamed>);

impl fmt::Debug for BatchSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BatchSender")
    }
}

/// Creates a stream for [`super::Destination::Stream`]. The statement waits while nobody receives; when the receiver is
/// dropped, it ends with [`Error::Cancelled`].
///
/// Batches have the types of result files, and memory of their own: a receiver may keep them.
#[must_use]
pub fn batch_stream() -> (BatchSender, Receiver<Streamed>) {
    let (sender, receiver) = sync_channel(WAITING_BATCHES_MAX);
    (BatchSender(sender), receiver)
}

impl BatchSender {
    /// Begins a result; returns the schema of its batches.
    pub(super) fn begin(&self, schema: &SchemaRef) -> Result<SchemaRef, Error> {
        check_types(schema)?;
        let schema = SchemaRef::new(plain_schema(schema, |_| false));
        self.send(Streamed::Schema(SchemaRef::clone(&schema)))?;
        Ok(schema)
    }

    /// Waits until the batch is received, or may wait for its receiver.
    pub(super) fn batch(&self, batch: RecordBatch) -> Result<(), Error> {
        self.send(Streamed::Batch(batch))
    }

    fn send(&self, streamed: Streamed) -> Result<(), Error> {
        self.0.send(streamed).map_err(|_| Error::Cancelled)
    }
}

/// Returns a batch in the types of a result. With `is_shared`, its memory may be that of the job's buffers, for which a scan
/// would wait while the receiver keeps it, and is copied.
pub(super) fn result_batch(
    batch: &RecordBatch,
    schema: &SchemaRef,
    is_shared: bool,
) -> Result<RecordBatch, Error> {
    if is_shared { plain_batch(&own(batch)?, schema) } else { plain_batch(batch, schema) }
}

fn own(batch: &RecordBatch) -> Result<RecordBatch, Error> {
    let batch = compact(batch)?;
    let columns = batch.columns().iter().map(|column| {
        let data = column.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len())?;
        let copy = copy.freeze();
        Ok(make_array(if has_views(copy.data_type()) { with_own_buffers(copy) } else { copy }))
    });
    let columns = columns.collect::<Result<_, Error>>()?;
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &rows)?)
}

/// Returns whether arrays of a type refer to values in other buffers, which copies share.
fn has_views(data_type: &DataType) -> bool {
    find_in(data_type, |data_type| matches!(data_type, DataType::Utf8View | DataType::BinaryView)).is_some()
}

/// Copies all buffers of an array.
fn with_own_buffers(data: ArrayData) -> ArrayData {
    let buffers = data.buffers().iter().map(|buffer| Buffer::from_slice_ref(buffer.as_slice()));
    let children = data.child_data().iter().cloned().map(with_own_buffers);
    let (buffers, children) = (buffers.collect(), children.collect());
    let builder = data.into_builder().buffers(buffers).child_data(children);
    // Its contents are those of an array that was valid.
    builder.build().expect("a copy of a valid array")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{ListBuilder, StringViewBuilder};
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{Array, ArrayRef, Int64Array, StringArray};
    use sakiyomi_testing::Scratch;

    use super::*;
    use crate::Job;
    use crate::batches::InMemory;
    use crate::statement::tests::{job, key, rows};
    use crate::statement::{Destination, Input, Outcome, Sort, sort};
    use crate::table::{OpenOptions, Table};

    #[test]
    fn a_shared_batch_is_copied_whole_and_a_slice_without_the_other_rows() {
        let long = |row: i64| format!("a text of more than twelve bytes {row}");
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for row in 0..100 {
            lists.append_value([Some(long(row)), None, Some(long(-row))]);
        }
        let columns: [(&str, ArrayRef); 3] = [
            ("n", Arc::new(Int64Array::from_iter((0..100).map(|row| (row % 7 > 0).then_some(row))))),
            ("s", Arc::new(StringArray::from_iter_values((0..100).map(long)))),
            ("l", Arc::new(lists.finish())),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
        let batch = batch.unwrap().slice(20, 50);
        let copy = result_batch(&batch, &batch.schema(), true).unwrap();
        assert_eq!(copy, batch);
        let pointers = |batch: &RecordBatch| -> Vec<*const u8> {
            fn of(data: &ArrayData) -> Vec<*const u8> {
                let own = data
                    .buffers()
                    .iter()
                    .filter(|buffer| !buffer.is_empty())
                    .map(|buffer| buffer.data_ptr().as_ptr().cast_const());
                let nulls = data.nulls().map(|nulls| nulls.buffer().data_ptr().as_ptr().cast_const());
                own.chain(nulls).chain(data.child_data().iter().flat_map(of)).collect()
            }
            batch.columns().iter().flat_map(|column| of(&column.to_data())).collect()
        };
        let (before, after) = (pointers(&batch), pointers(&copy));
        assert!(after.iter().all(|pointer| !before.contains(pointer)), "{before:?} {after:?}");
        assert!(copy.column(1).get_array_memory_size() < batch.column(1).get_array_memory_size());
    }

    /// Sorts record batches into a stream, on another thread; returns what was received until `enough` batches.
    fn streamed(
        job: &Job,
        batches: Vec<RecordBatch>,
        enough: usize,
    ) -> (Vec<Streamed>, Result<Outcome, Error>) {
        let (sender, receiver) = batch_stream();
        let given = InMemory::new(batches[0].schema(), batches);
        let table = Table::of_batches(Box::new(given), &OpenOptions::default()).unwrap();
        let by = Sort { by: "k".to_owned(), limit: None, stable: false };
        std::thread::scope(|scope| {
            let run =
                scope.spawn(move || sort(job, Input::all(table), &by, &Destination::Stream(sender), None));
            let received = receiver.iter().take(enough).collect();
            drop(receiver);
            (received, run.join().unwrap())
        })
    }

    #[test]
    fn rows_are_streamed_in_order_behind_their_schema_and_spill_if_need_be() {
        let scratch = Scratch::new("streamed");
        for (memory, spills) in [(256 << 20, false), (12 << 20, true)] {
            let batches: Vec<RecordBatch> = (0..10)
                .map(|at| rows(20_000, |row| key(row + 20_000 * at), |row| format!("{row:060}")))
                .collect();
            let job = job(scratch.root(), memory, 2);
            let (received, outcome) = streamed(&job, batches, usize::MAX);
            let outcome = outcome.unwrap();
            assert_eq!((outcome.input_rows, outcome.output_rows), (200_000, 200_000));
            assert_eq!(outcome.spilled_bytes > 0, spills, "{memory}");
            let Streamed::Schema(schema) = &received[0] else { panic!("no schema") };
            let keys: Vec<i64> = received[1..]
                .iter()
                .flat_map(|streamed| {
                    let Streamed::Batch(batch) = streamed else { panic!("a second schema") };
                    assert_eq!(batch.schema(), *schema);
                    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
                })
                .collect();
            assert!(keys.len() == 200_000 && keys.is_sorted());
        }
    }

    #[test]
    fn a_receiver_that_leaves_ends_the_statement() {
        let scratch = Scratch::new("left");
        for threads in [1, 2] {
            for enough in [0, 1, 2] {
                let batches = vec![rows(100_000, key, |row| format!("{row:060}"))];
                let job = job(scratch.root(), 32 << 20, threads);
                let (received, outcome) = streamed(&job, batches, enough);
                assert_eq!(received.len(), enough);
                assert!(matches!(outcome, Err(Error::Cancelled)), "{outcome:?}");
            }
        }
    }
}
