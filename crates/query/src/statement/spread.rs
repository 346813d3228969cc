//! One stream of rows, encoded on several threads.
//!
//! A single-threaded operator, such as a merge join, would otherwise also wait for the encoder.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;

use super::sink::Sink;
use crate::workers;
use crate::{Batches, Error, Job};

/// Maximum groups queued for an encoder; each takes as much memory as one being encoded.
const WAITING_GROUPS_MAX: usize = 1;

/// A group with its sequence number.
type Numbered = (usize, Vec<RecordBatch>);

/// The work of one thread.
enum Role<'a> {
    /// Reads the stream and cuts it into groups.
    Source(&'a mut dyn Batches, SyncSender<Numbered>),
    /// Encodes groups.
    Encoder(Arc<Mutex<Receiver<Numbered>>>),
}

/// Writes the rows of a stream to a sink in order.
pub(super) fn spread(job: &Job, stream: &mut dyn Batches, sink: &Sink) -> Result<(), Error> {
    let threads = job.options().threads.max(1);
    if threads == 1 {
        let mut part = sink.part(0);
        while let Some(batch) = stream.next()? {
            part.push(batch)?;
        }
        return part.finish();
    }
    let (sender, receiver) = sync_channel::<Numbered>(WAITING_GROUPS_MAX);
    // The last encoder drops the receiver, so that the source never waits for failed encoders.
    let receiver = Arc::new(Mutex::new(receiver));
    let encode = |receiver: Arc<Mutex<Receiver<Numbered>>>| {
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // The stream has ended, or failed.
            let Ok((index, batches)) = next else { return Ok(()) };
            let mut part = sink.part(index);
            batches.into_iter().try_for_each(|batch| part.push(batch))?;
            part.finish()?;
        }
    };
    let mut roles = vec![Role::Source(stream, sender)];
    roles.extend((0..threads).map(|_| Role::Encoder(Arc::clone(&receiver))));
    drop(receiver);
    workers::each(job, roles, |_, role| match role {
        Role::Source(stream, sender) => {
            let mut groups = sink.grouping();
            let mut index = 0;
            let mut send = |group: Vec<RecordBatch>| {
                index += 1;
                // A closed channel means that all encoders failed; their error takes precedence.
                if group.is_empty() {
                    Ok(())
                } else {
                    sender.send((index - 1, group)).map_err(|_| Error::Cancelled)
                }
            };
            while let Some(batch) = stream.next()? {
                if let Some(group) = groups.add(batch) {
                    send(group)?;
                }
            }
            send(groups.rest())
        }
        Role::Encoder(receiver) => encode(receiver),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int64Array;
    use arrow_schema::{DataType, Field, Schema, SchemaRef};

    use super::*;
    use crate::JobOptions;
    use crate::statement::Destination;

    /// An endless stream.
    struct Endless(SchemaRef);

    impl Batches for Endless {
        fn schema(&self) -> SchemaRef {
            Arc::clone(&self.0)
        }

        fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
            let numbers = Int64Array::from_iter_values(0..1000);
            Ok(Some(RecordBatch::try_new(self.schema(), vec![Arc::new(numbers)])?))
        }
    }

    #[test]
    fn a_stream_does_not_wait_for_encoders_that_have_failed() {
        for threads in [1, 3] {
            let job = Job::new(JobOptions { threads, ..JobOptions::default() }).unwrap();
            let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
            let sink = Sink::open(&job, &schema, &Destination::Preview { rows_max: 1 }).unwrap();
            drop(sink.part(0));
            spread(&job, &mut Endless(schema), &sink).unwrap_err();
        }
    }
}
