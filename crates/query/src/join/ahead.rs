//! Read-ahead of streams on separate threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::phase::nanos;
use crate::{Batches, Error};

/// Capacity of the channel in batches: the streams compute the next ones while the reader processes one.
const AHEAD_BATCHES: usize = 2;

/// Total wait time of the readers, in nanoseconds. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Waited(Arc<AtomicU64>);

impl Waited {
    pub(super) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Several streams merged into one, each read by a separate thread. Batches of one stream stay in order.
pub(super) struct Ahead {
    schema: SchemaRef,
    /// `None` after the streams were stopped.
    batches: Option<Receiver<Message>>,
    threads: Vec<JoinHandle<()>>,
    running: usize,
    waited: Waited,
}

/// A batch or an error; `Ok(None)` at the end of a stream.
type Message = Result<Option<RecordBatch>, Error>;

impl Ahead {
    /// Starts a thread for each stream; all streams have the given schema.
    pub(super) fn start(streams: Vec<Box<dyn Batches>>, schema: SchemaRef, waited: &Waited) -> Ahead {
        let (sender, receiver) = sync_channel(AHEAD_BATCHES);
        let running = streams.len();
        let start = |stream| {
            let sender = sender.clone();
            thread::spawn(move || feed(stream, &sender))
        };
        let threads = streams.into_iter().map(start).collect();
        Ahead { schema, batches: Some(receiver), threads, running, waited: waited.clone() }
    }

    fn receive(&self) -> Option<Message> {
        let batches = self.batches.as_ref()?;
        match batches.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                let begun = Instant::now();
                let message = batches.recv().ok();
                self.waited.0.fetch_add(nanos(begun.elapsed()), Ordering::Relaxed);
                message
            }
        }
    }

    fn stop(&mut self) {
        // Disconnects the channel, which wakes blocked senders.
        self.batches = None;
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

fn feed(mut stream: Box<dyn Batches>, sender: &SyncSender<Message>) {
    loop {
        let message = stream.next();
        let is_last = !matches!(message, Ok(Some(_)));
        if is_last {
            // Frees the stream's memory before the reader continues.
            drop(stream);
            let _ = sender.send(message);
            return;
        }
        if sender.send(message).is_err() {
            return;
        }
    }
}

impl Batches for Ahead {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        while self.running > 0 {
            match self.receive() {
                Some(Ok(Some(batch))) => return Ok(Some(batch)),
                Some(Ok(None)) => self.running -= 1,
                Some(Err(error)) => {
                    self.running = 0;
                    self.stop();
                    return Err(error);
                }
                // A thread panicked; `stop` resumes its panic.
                None => self.running = 0,
            }
        }
        self.stop();
        Ok(None)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stop();
    }
}
