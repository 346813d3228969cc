//! Inputs: a thread reads each one and hands whole records over, so that no worker of the stream waits for a file or a
//! socket.
//!
//! ```text
//! file, standard input, socket ─► thread: read, cut after the last line end, check UTF-8 ─► queue ─► source: parse
//! ```
//!
//! The queue is bounded: a source that pauses stops the thread, and with it the sender of a pipe or socket. A thread that
//! waits for the standard input cannot be interrupted, and is left to end with its input or the process; all others look
//! several times a second whether they are to end.

mod arrow;
mod extent;
mod lines;
mod open;
mod reader;
mod tail;
mod waiting;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Instant;

use sakiyomi_stream::Wakeup;

use crate::Error;
use crate::row::{Block, Row};

use extent::ExtentMap;

pub(crate) use arrow::schema_of_file;
pub(crate) use extent::FilePosition;
pub(crate) use lines::Cut;
pub(crate) use open::{Content, Start, open};
pub(crate) use tail::candidates;

/// Messages in the queue between a thread and its source: enough that either may be late by a time slice of the kernel
/// at a gigabyte a second, and few enough for the caches.
const QUEUE_MESSAGES: usize = 8;

/// Records and when they were read.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) records: Records,
    pub(crate) read_at: Instant,
}

/// Records of an input.
#[derive(Debug)]
pub(crate) enum Records {
    /// Whole lines.
    Lines(Block),
    /// Rows that need no parsing.
    Rows(Vec<Row>),
}

/// A message from the thread of an input.
#[derive(Debug)]
enum Message {
    Batch(Batch),
    Failed(Error),
    End,
}

/// The end of the queue that the thread has.
#[derive(Debug)]
pub(crate) struct Sender {
    messages: SyncSender<Message>,
    /// Wakes the worker of the source.
    wakeup: Wakeup,
}

/// The end of the queue that the source has.
#[derive(Debug)]
pub(crate) struct Queue {
    receiver: Receiver<Message>,
    is_ended: bool,
    /// The input, for the error of a thread that has panicked.
    named: Named,
    /// The files of a tail.
    extents: Option<ExtentMap>,
}

/// Current contents of a queue.
#[derive(Debug)]
pub(crate) enum Taken {
    Batch(Batch),
    /// Nothing yet.
    Empty,
    /// Nothing, and nothing will come; with the error that ended the input.
    End(Option<Error>),
}

/// Returns a queue between a thread and a source.
pub(crate) fn queue(named: &Named, wakeup: &Wakeup) -> (Sender, Queue) {
    let (messages, receiver) = sync_channel(QUEUE_MESSAGES);
    let queue = Queue { receiver, is_ended: false, named: named.clone(), extents: None };
    (Sender { messages, wakeup: wakeup.clone() }, queue)
}

impl Sender {
    /// Hands records over; waits for room. Whether there is still a source.
    fn send(&self, records: Records) -> bool {
        let is_sent = self.messages.send(Message::Batch(Batch { records, read_at: Instant::now() })).is_ok();
        self.wakeup.notify();
        is_sent
    }

    /// Ends the input.
    fn end(&self, result: Result<(), Error>) {
        // Without a source, no error has to be reported.
        let _ = self.messages.send(result.map_or_else(Message::Failed, |()| Message::End));
        self.wakeup.notify();
    }

    /// Ends the input of a pipeline that is to stop, without waiting: a source with a full queue does not take the end.
    fn stop(&self) {
        let _ = self.messages.try_send(Message::End);
        self.wakeup.notify();
    }

    /// Another end for the same queue.
    fn another(&self) -> Sender {
        Sender { messages: self.messages.clone(), wakeup: self.wakeup.clone() }
    }
}

impl Queue {
    /// Returns whether the input is a tail.
    pub(crate) fn is_tail(&self) -> bool {
        self.extents.is_some()
    }

    /// Returns the position in its file of the byte that a tail gave at this offset.
    pub(crate) fn position_in_file(&self, at: u64) -> Option<FilePosition> {
        self.extents.as_ref()?.position(at)
    }

    /// Waits for records or the end.
    pub(crate) fn wait(&mut self) -> Taken {
        if self.is_ended {
            return Taken::End(None);
        }
        let message = self.receiver.recv().unwrap_or_else(|_| self.lost());
        self.taken(message)
    }

    /// Takes what is there, without waiting.
    pub(crate) fn take(&mut self) -> Taken {
        if self.is_ended {
            return Taken::End(None);
        }
        match self.receiver.try_recv() {
            Ok(message) => self.taken(message),
            Err(TryRecvError::Empty) => Taken::Empty,
            Err(TryRecvError::Disconnected) => {
                let message = self.lost();
                self.taken(message)
            }
        }
    }

    /// Returns the last message in place of a thread that has panicked and dropped its end without one.
    fn lost(&self) -> Message {
        Message::Failed(
            self.named.error("read", std::io::Error::other("its thread has ended without a result")),
        )
    }

    fn taken(&mut self, message: Message) -> Taken {
        let error = match message {
            Message::Batch(batch) => return Taken::Batch(batch),
            Message::Failed(error) => Some(error),
            Message::End => None,
        };
        self.is_ended = true;
        Taken::End(error)
    }
}

/// The name and the target of an input or output, for its errors.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// `source.log`.
    pub(crate) name: Arc<str>,
    /// The file or address.
    pub(crate) target: Arc<str>,
}

impl Named {
    pub(crate) fn new(name: &str, target: &str) -> Named {
        Named { name: name.into(), target: target.into() }
    }

    /// Returns an error of the system.
    pub(crate) fn error(&self, action: &'static str, source: std::io::Error) -> Error {
        // The error of `sakiyomi-io` says "cannot open" and the path once more.
        let source = match source.downcast::<sakiyomi_io::Error>() {
            Ok(sakiyomi_io::Error::Open { source, .. }) if action == "open" => source,
            Ok(other) => other.into(),
            Err(source) => source,
        };
        Error::Io { name: self.name.to_string(), action, target: self.target.to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_ends_without_a_result_is_an_error_once() {
        let take: [fn(&mut Queue) -> Taken; 2] = [Queue::wait, Queue::take];
        for take in take {
            let (sender, mut queue) = queue(&Named::new("source.in", "log"), &Wakeup::new());
            assert!(sender.send(Records::Rows(Vec::new())));
            drop(sender);
            assert!(matches!(take(&mut queue), Taken::Batch(_)));
            let Taken::End(Some(error)) = take(&mut queue) else { panic!() };
            assert_eq!(
                error.to_string(),
                "source.in: cannot read log: its thread has ended without a result"
            );
            assert!(matches!(take(&mut queue), Taken::End(None)));
        }
    }
}
