//! `uring:N` and `uring-sqpoll:N`: io_uring with N reads in flight, the file and if possible the buffers registered.
//!
//! Reads are handed over together when the caller waits or leaves, one system call for all of them.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use io_uring::types::{CancelBuilder, Fixed};
use io_uring::{IoUring, opcode, squeue};

use super::slots::Slots;
use super::{CALL_MAX, Done, Method, Opened, Read};
use crate::Source;
use crate::buffer::Pool;

/// Marks the end of a cancellation, which is no read.
const CANCELLED: u64 = u64::MAX;

/// How long the kernel's thread looks for work before it sleeps, in milliseconds.
const SQPOLL_IDLE_MS: u32 = 20;

/// Of how many reads in flight one may wait for others to be handed over with it, when nobody waits for it.
const FEW: usize = 16;

/// The kernel takes no larger registered buffers.
const REGISTERED_MAX: usize = 1 << 30;

struct Uring {
    ring: IoUring,
    slots: Slots,
    registered: bool,
    /// In the submission queue, and not yet handed over.
    queued: usize,
    /// The ring knows it as file 0.
    _source: Arc<Source>,
    /// Registered memory must stay while the ring lives.
    _pool: Option<Pool>,
}

pub(super) fn open(
    source: &Arc<Source>,
    depth: usize,
    pool: Option<&Pool>,
    sqpoll: bool,
) -> io::Result<Opened> {
    let ring = ring(depth, sqpoll)?;
    ring.submitter().register_files(&[source.file().as_raw_fd()])?;
    let registered = pool.is_some_and(|pool| register(&ring, pool));
    let uring = Uring {
        ring,
        slots: Slots::new(depth),
        registered,
        queued: 0,
        _source: Arc::clone(source),
        _pool: pool.filter(|_| registered).cloned(),
    };
    Ok(Opened { method: Box::new(uring), registered })
}

fn ring(depth: usize, sqpoll: bool) -> io::Result<IoUring> {
    let entries = u32::try_from(depth).expect("a depth is small").next_power_of_two();
    if sqpoll {
        return IoUring::builder().setup_sqpoll(SQPOLL_IDLE_MS).build(entries);
    }
    // Ends are looked at when we wait for them: nobody need be interrupted for one (Linux 5.19).
    let quiet = IoUring::builder().setup_coop_taskrun().build(entries);
    match quiet {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        other => other,
    }
}

/// Tells the kernel of all buffers, so that it need not look up their pages for each read. It refuses if they are too
/// many, or more than may be locked in memory; then they are used as others are.
fn register(ring: &IoUring, pool: &Pool) -> bool {
    let areas: Vec<libc::iovec> = pool.areas().collect();
    if areas.iter().any(|area| area.iov_len > REGISTERED_MAX) {
        return false;
    }
    // SAFETY: the areas are the pool's memory, which lives as long as the ring: both go with `Uring`, the ring first.
    unsafe { ring.submitter().register_buffers(&areas) }.is_ok()
}

impl Uring {
    fn entry(&mut self, slot: usize) -> squeue::Entry {
        let registered = self.registered;
        let read = self.slots.read_mut(slot);
        let buffer = read.content.buffer();
        let (filled, index) = (buffer.len(), buffer.index());
        let length = (read.length - filled).min(CALL_MAX) as u32;
        // `length` bytes from here on are within the buffer.
        let start = buffer.space()[filled..].as_mut_ptr();
        let offset = read.offset + filled as u64;
        let entry = if registered {
            let index = u16::try_from(index).expect("the kernel has taken all buffers");
            opcode::ReadFixed::new(Fixed(0), start, length, index).offset(offset).build()
        } else {
            opcode::Read::new(Fixed(0), start, length).offset(offset).build()
        };
        entry.user_data(slot as u64)
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory that the entry names is a buffer in `slots`, which is let go when the read has ended, and
        // the file is registered while the ring lives.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the queue has an entry for each slot");
        self.queued += 1;
    }

    /// Takes what has ended.
    fn reap(&mut self, done: &mut Vec<Done>) {
        let ended = self.ring.completion();
        if ended.is_empty() {
            return;
        }
        let now = Instant::now();
        for entry in ended {
            if entry.user_data() != CANCELLED {
                let result = begun_again_if_orphaned(entry.result());
                done.push(self.slots.end(entry.user_data() as usize, i64::from(result), now));
            }
        }
    }

    /// Hands over what is queued, and sleeps until `at_least` have ended.
    fn enter(&mut self, at_least: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(at_least) {
            Ok(_) => {
                // What the kernel did not take is still in the queue.
                self.queued = self.ring.submission().len();
                Ok(())
            }
            // A signal, or the kernel is short of memory: what has ended is to be taken, and then it goes on.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Has the kernel give back all memory.
    fn drain(&mut self) -> io::Result<()> {
        if self.slots.in_flight() > 0 {
            // Full queues make room by being handed over.
            self.enter(0)?;
            let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(CANCELLED);
            // SAFETY: a cancellation names no memory.
            let _ = unsafe { self.ring.submission().push(&cancel) };
        }
        let mut ended = Vec::new();
        while self.slots.in_flight() > 0 {
            self.enter(1)?;
            self.reap(&mut ended);
        }
        Ok(())
    }
}

/// When the thread that handed over a read has ended, the kernel ends the read with one of these, of which nothing else
/// here can be the reason: the memory is ours, and only a dropped ring cancels. The read is as good as interrupted.
fn begun_again_if_orphaned(result: i32) -> i32 {
    if matches!(-result, libc::ECANCELED | libc::EFAULT) { -libc::EINTR } else { result }
}

impl Method for Uring {
    fn room(&self) -> usize {
        self.slots.free()
    }

    fn start(&mut self, read: Read) {
        let slot = self.slots.put(read);
        let entry = self.entry(slot);
        self.push(&entry);
    }

    fn finish(&mut self, at_least: usize, done: &mut Vec<Done>) -> io::Result<()> {
        let before = done.len();
        let at_least = at_least.min(self.slots.in_flight());
        self.reap(done);
        let needs_call = !self.ring.params().is_setup_sqpoll();
        if needs_call && at_least == 0 && self.queued <= self.slots.count() / FEW {
            // They go with the next ones; enough others are under way meanwhile. The kernel's own thread takes them without
            // a call, and may tell of an end before it frees the queue's entry: for it the queue must be seen empty here.
            return Ok(());
        }
        while self.queued > 0 || done.len() - before < at_least {
            self.enter(at_least.saturating_sub(done.len() - before))?;
            self.reap(done);
        }
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.drain().is_err() {
            self.slots.abandon();
        }
    }
}
