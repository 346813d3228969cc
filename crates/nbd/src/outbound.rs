//! Replies on their way to a client.
//!
//! The thread that completes a request sends its reply, if no other reply is being sent. A thread that must not wait, such
//! as that of the device, sends as much as the socket takes; the rest is left to the connection's writing thread. So a
//! client that reads slowly delays nobody else.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sakiyomi_io::{Buffer, Volume};
use sakiyomi_os::socket::{Wait, send};

use crate::address::Stream;
use crate::protocol::Head;
use crate::quota::Permit;

/// Largest reply that a thread sends which must not wait: copying more takes longer than waking another thread.
const UNWAITED_REPLY_MAX_BYTES: usize = 64 << 10;

/// Data of a reply.
#[derive(Debug)]
pub(crate) enum Body {
    None,
    /// The content of a buffer from an index on.
    Buffer(Buffer, usize),
    Bytes(Vec<u8>),
    /// A range of a volume in memory, sent without a copy.
    Range(Arc<Volume>, std::ops::Range<u64>),
}

impl Body {
    /// Returns the data, unless it is in a volume.
    fn bytes(&self) -> &[u8] {
        match self {
            Body::None | Body::Range(..) => &[],
            Body::Buffer(buffer, first) => &buffer[*first..],
            Body::Bytes(bytes) => bytes,
        }
    }
}

/// A reply. The order of the fields is that of their release: the permit covers the buffer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: Body,
    #[expect(dead_code, reason = "returned when it is dropped")]
    pub(crate) permit: Permit,
}

/// A reply of which some bytes have been sent.
#[derive(Debug)]
struct Partial {
    reply: Reply,
    sent: usize,
}

impl Partial {
    /// Sends the rest; returns whether all has been sent.
    fn send(&mut self, socket: &Stream, wait: Wait) -> io::Result<bool> {
        loop {
            let (head, body) = (self.reply.head.bytes(), self.reply.body.bytes());
            let from_head = self.sent.min(head.len());
            let body_rest = body.get(self.sent - from_head..).unwrap_or_default();
            let head_rest = &head[from_head..];
            if head_rest.is_empty() && body_rest.is_empty() {
                return self.send_range(socket, wait);
            }
            match send(socket, &[IoSlice::new(head_rest), IoSlice::new(body_rest)], wait) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && wait == Wait::Never => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Partial {
    /// Sends the rest of a range of a volume, after the head; returns whether all has been sent.
    fn send_range(&mut self, socket: &Stream, wait: Wait) -> io::Result<bool> {
        let Body::Range(volume, range) = &self.reply.body else { return Ok(true) };
        loop {
            let start = range.start + (self.sent - self.reply.head.bytes().len()) as u64;
            if start >= range.end {
                return Ok(true);
            }
            if wait == Wait::Never {
                return Ok(false);
            }
            self.sent += volume.send(socket, start, (range.end - start) as usize)?;
        }
    }
}

thread_local! {
    /// Whether this thread belongs to a connection, and may wait for its client.
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// Declares that this thread belongs to a connection: it may wait for its client.
pub(crate) fn may_wait() {
    MAY_WAIT.set(true);
}

/// The replies of a connection. Their number is bounded by its quota.
#[derive(Debug)]
pub(crate) struct Outbound {
    socket: Arc<Stream>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Partial>,
    /// A thread is sending; it has taken its reply out of the queue.
    is_sending: bool,
    /// The client is gone: replies are dropped.
    is_broken: bool,
    /// No more replies come.
    is_closing: bool,
}

impl Outbound {
    pub(crate) fn new(socket: Arc<Stream>) -> Outbound {
        Outbound { socket, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No operation under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a reply, or queues it.
    pub(crate) fn send(&self, reply: Reply) {
        let wait = if MAY_WAIT.get() { Wait::Allowed } else { Wait::Never };
        let partial = Partial { reply, sent: 0 };
        let mut state = self.lock();
        if state.is_broken {
            return;
        }
        let is_large = wait == Wait::Never && partial.reply.body.bytes().len() > UNWAITED_REPLY_MAX_BYTES;
        if state.is_sending || is_large || !state.queue.is_empty() {
            state.queue.push_back(partial);
            drop(state);
            self.changed.notify_one();
            return;
        }
        state.is_sending = true;
        drop(state);
        self.send_from(partial, wait);
    }

    /// Sends a reply that was taken out, then those that were queued meanwhile if this thread may wait.
    fn send_from(&self, mut partial: Partial, wait: Wait) {
        loop {
            let sent = partial.send(&self.socket, wait);
            let mut state = self.lock();
            match sent {
                Ok(true) => {}
                Ok(false) => state.queue.push_front(partial),
                Err(_) => {
                    state.is_broken = true;
                    let dropped = std::mem::take(&mut state.queue);
                    state.is_sending = false;
                    drop(state);
                    drop(dropped);
                    // Ends the thread that receives, too.
                    self.socket.shutdown();
                    self.changed.notify_one();
                    return;
                }
            }
            let next = if wait == Wait::Allowed { state.queue.pop_front() } else { None };
            let Some(next) = next else {
                state.is_sending = false;
                let is_left = !state.queue.is_empty() || state.is_closing;
                drop(state);
                if is_left {
                    self.changed.notify_one();
                }
                return;
            };
            drop(state);
            partial = next;
        }
    }

    /// Sends what other threads leave, until [`Outbound::close`].
    pub(crate) fn run(&self) {
        may_wait();
        let mut state = self.lock();
        loop {
            if state.is_sending || state.queue.is_empty() && !state.is_closing && !state.is_broken {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(partial) = state.queue.pop_front() else {
                if state.is_closing {
                    return;
                }
                // Broken: nothing is queued any more.
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            state.is_sending = true;
            drop(state);
            self.send_from(partial, Wait::Allowed);
            state = self.lock();
        }
    }

    /// Lets [`Outbound::run`] end when all has been sent.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;
    use crate::protocol::simple_reply;
    use crate::quota::Quota;

    fn reply(quota: &Arc<Quota>, cookie: u64, bytes: usize) -> Reply {
        let body = Body::Bytes(vec![cookie as u8; bytes]);
        Reply { head: simple_reply(cookie, None), body, permit: quota.acquire(bytes) }
    }

    #[test]
    fn replies_of_many_threads_arrive_whole_and_no_thread_waits_for_a_slow_client() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (outbound, quota) = (Outbound::new(Arc::new(Stream::Unix(ours))), Quota::new(1 << 30));
        let sizes = |thread: usize| (0..60).map(move |index| (index * 7919 * (thread + 1)) % 150_000);
        thread::scope(|scope| {
            let writer = scope.spawn(|| outbound.run());
            let senders: Vec<_> = (0..3)
                .map(|thread| {
                    let (outbound, quota) = (&outbound, &quota);
                    scope.spawn(move || {
                        for bytes in sizes(thread) {
                            outbound.send(reply(quota, bytes as u64, bytes));
                        }
                    })
                })
                .collect();
            // The client has not read a byte.
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            outbound.close();
            for _ in 0..180 {
                let mut head = [0; 16];
                theirs.read_exact(&mut head).unwrap();
                let bytes = u64::from_be_bytes(head[8..].try_into().unwrap());
                let mut body = vec![0; bytes as usize];
                theirs.read_exact(&mut body).unwrap();
                assert!(body.iter().all(|&byte| byte == bytes as u8), "replies are not mixed");
            }
            writer.join().unwrap();
        });
        quota.wait_until_unused();
    }

    #[test]
    fn replies_to_a_client_that_is_gone_are_dropped() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (outbound, quota) = (Outbound::new(Arc::new(Stream::Unix(ours))), Quota::new(1 << 30));
        thread::scope(|scope| {
            scope.spawn(|| outbound.run());
            for round in 0..20 {
                outbound.send(reply(&quota, round, 100_000));
            }
            drop(theirs);
            outbound.send(reply(&quota, 99, 10));
            quota.wait_until_unused();
            outbound.close();
        });
    }
}
