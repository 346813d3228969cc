//! One stream of rows, encoded on several threads.
//!
//! An operator whose rows come one after the other, such as a merge join, would otherwise also wait for its encoder.

use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;

use super::sink::Sink;
use super::workers;
use crate::{Batches, Error, Job};

/// Groups that wait for an encoder, at most: each is as large as one that is encoded.
const WAITING_GROUPS_MAX: usize = 1;

/// Rows of a group, in the order in which groups were made.
type Numbered = (usize, Vec<RecordBatch>);

/// Gives the rows of a stream to a sink, in their order.
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
    let receiver = Mutex::new(receiver);
    let encode = || {
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            // The stream has ended, or failed.
            let Ok((index, batches)) = next else { return Ok(()) };
            let mut part = sink.part(index);
            batches.into_iter().try_for_each(|batch| part.push(batch))?;
            part.finish()?;
        }
    };
    let mut source = Some((stream, sender));
    let roles: Vec<_> = (0..=threads).map(|_| source.take()).collect();
    workers::each(job, roles, |_, role| match role {
        Some((stream, sender)) => {
            let mut groups = sink.grouping();
            let mut index = 0;
            let mut send = |group: Vec<RecordBatch>| {
                index += 1;
                // Encoders that are gone have failed, and said why.
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
        None => encode(),
    })?;
    Ok(())
}
