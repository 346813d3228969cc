//! `uring:N` and `uring-sqpoll:N`: io_uring with N operations in flight, with registered files and buffers if
//! possible.
//!
//! Operations are submitted together when the caller reaps, in one system call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use io_uring::types::{CancelBuilder, Fd, Fixed, FsyncFlags};
use io_uring::{IoUring, opcode, squeue};

use super::slots::Slots;
use super::{Completion, EARLY_SUBMIT_OPS, Engine, EngineThreads, Op, OpKind, Opened};
use crate::IoFile;
use crate::buffer::BufferPool;

/// User data of a cancellation request.
const CANCEL_USER_DATA: u64 = u64::MAX;

/// Idle time after which the polling kernel thread sleeps, in milliseconds.
const SQPOLL_IDLE_MS: u32 = 20;

/// One queued operation per this many slots may wait for others to be submitted with it, while the caller does not
/// wait.
const SLOTS_PER_QUEUED: usize = 16;

/// Size of the table of registered files.
const FILES_MAX: u32 = 64;

/// Largest buffer that the kernel registers.
const REGISTERED_MAX_BYTES: usize = 1 << 30;

struct Uring {
    ring: IoUring,
    slots: Slots,
    /// Entries in the submission queue that are not yet submitted.
    queued: usize,
    files: FileTable,
    /// For each slot the index in the file table that its operation uses.
    places: Vec<Option<usize>>,
    /// Table indices that completed operations have used. Reused to avoid allocation.
    released: Vec<usize>,
    /// The pool with registered buffers; its memory must outlive the ring.
    pool: Option<BufferPool>,
}

pub(super) fn open(depth: usize, pool: Option<&BufferPool>, sqpoll: bool) -> io::Result<Opened> {
    let ring = ring(depth, sqpoll)?;
    let files = FileTable::new(&ring);
    let pool = pool.filter(|pool| register(&ring, pool)).cloned();
    let registered = pool.is_some();
    let uring = Uring {
        ring,
        slots: Slots::new(depth),
        queued: 0,
        files,
        places: vec![None; depth],
        released: Vec::with_capacity(depth),
        pool,
    };
    Ok(Opened { engine: Box::new(uring), registered })
}

fn ring(depth: usize, sqpoll: bool) -> io::Result<IoUring> {
    let entries = u32::try_from(depth).expect("a depth is small").next_power_of_two();
    if sqpoll {
        return IoUring::builder().setup_sqpoll(SQPOLL_IDLE_MS).build(entries);
    }
    // Completions are reaped when the caller waits, so the kernel need not interrupt the thread (Linux 5.19).
    let quiet = IoUring::builder().setup_coop_taskrun().build(entries);
    match quiet {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        other => other,
    }
}

/// Registers all buffers, so that the kernel need not look up their pages for each operation. Returns false if the
/// kernel refuses, because they are too many or exceed `RLIMIT_MEMLOCK`; they are then used unregistered.
fn register(ring: &IoUring, pool: &BufferPool) -> bool {
    let areas: Vec<libc::iovec> = pool.areas().collect();
    if areas.iter().any(|area| area.iov_len > REGISTERED_MAX_BYTES) {
        return false;
    }
    // SAFETY: the areas are the pool's memory, which outlives the ring: `Uring` owns both and drops the ring first.
    unsafe { ring.submitter().register_buffers(&areas) }.is_ok()
}

/// Registered files, by their index in the kernel's table. A file stays there while it is attached or an operation
/// uses its index: the kernel resolves the index when it takes the operation from the queue.
struct FileTable {
    /// Each file with its number of users: attachments and operations. Empty if the kernel does not support the
    /// table.
    places: Vec<Option<(Arc<IoFile>, usize)>>,
}

impl FileTable {
    fn new(ring: &IoUring) -> FileTable {
        // Linux 5.19.
        let has_table = ring.submitter().register_files_sparse(FILES_MAX).is_ok();
        FileTable { places: if has_table { vec![None; FILES_MAX as usize] } else { Vec::new() } }
    }

    fn place_of(&self, file: &Arc<IoFile>) -> Option<usize> {
        let holds = |place: &Option<(Arc<IoFile>, usize)>| {
            place.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, file))
        };
        self.places.iter().position(holds)
    }

    fn attach(&mut self, ring: &IoUring, file: &Arc<IoFile>) {
        if let Some(place) = self.place_of(file) {
            self.places[place].as_mut().expect("just found").1 += 1;
            return;
        }
        let Some(free) = self.places.iter().position(Option::is_none) else { return };
        if set_place(ring, free, file.file().as_raw_fd()).is_ok() {
            self.places[free] = Some((Arc::clone(file), 1));
        }
    }

    fn detach(&mut self, ring: &IoUring, file: &Arc<IoFile>) {
        if let Some(place) = self.place_of(file) {
            self.release(ring, place);
        }
    }

    /// Returns the table index of a file, for an operation that uses it until [`release`](FileTable::release).
    fn hold(&mut self, file: &Arc<IoFile>) -> Option<usize> {
        let place = self.place_of(file)?;
        self.places[place].as_mut().expect("just found").1 += 1;
        Some(place)
    }

    /// Ends one use of a table index.
    fn release(&mut self, ring: &IoUring, place: usize) {
        let users = &mut self.places[place].as_mut().expect("a place in use").1;
        *users -= 1;
        // If the kernel refuses, its table keeps the file open until another file takes the index.
        if *users == 0 {
            let _ = set_place(ring, place, NO_DESCRIPTOR);
            self.places[place] = None;
        }
    }
}

/// The descriptor that clears a table entry.
const NO_DESCRIPTOR: i32 = -1;

fn set_place(ring: &IoUring, place: usize, descriptor: i32) -> io::Result<()> {
    let place = u32::try_from(place).expect("a small table");
    ring.submitter().register_files_update(place, &[descriptor]).map(drop)
}

impl Uring {
    fn entry(&mut self, slot: usize) -> squeue::Entry {
        let op = self.slots.op_mut(slot);
        let place = self.files.hold(&op.file);
        self.places[slot] = place;
        let place = place.map(|place| Fixed(place as u32));
        let descriptor = Fd(op.file.file().as_raw_fd());
        // The constructors of io-uring are generic over the two kinds of descriptors.
        if op.kind == OpKind::Sync {
            macro_rules! sync {
                ($file:expr) => {
                    opcode::Fsync::new($file).flags(FsyncFlags::DATASYNC).build()
                };
            }
            let entry = match place {
                Some(place) => sync!(place),
                None => sync!(descriptor),
            };
            return entry.user_data(slot as u64);
        }
        let (range, offset, kind) = (op.next_call(), op.offset + op.done as u64, op.kind);
        let length = range.len() as u32;
        let buffer = op.payload.buffer();
        let registered = self.pool.as_ref().filter(|pool| pool.owns(buffer));
        let index =
            registered.map(|_| u16::try_from(buffer.index()).expect("the kernel has taken all buffers"));
        // `length` bytes from here on are within the buffer.
        let start = buffer.space()[range].as_mut_ptr();
        macro_rules! transfer {
            ($file:expr) => {
                match (kind, index) {
                    (OpKind::Write, Some(index)) => {
                        opcode::WriteFixed::new($file, start, length, index).offset(offset).build()
                    }
                    (OpKind::Write, None) => opcode::Write::new($file, start, length).offset(offset).build(),
                    (_, Some(index)) => {
                        opcode::ReadFixed::new($file, start, length, index).offset(offset).build()
                    }
                    (_, None) => opcode::Read::new($file, start, length).offset(offset).build(),
                }
            };
        }
        let entry = match place {
            Some(place) => transfer!(place),
            None => transfer!(descriptor),
        };
        entry.user_data(slot as u64)
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the memory that the entry names is a buffer in `slots`, which is released when the operation has
        // completed; the operation keeps its file open.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("the queue has an entry for each slot");
        self.queued += 1;
    }

    /// Appends the completions in the queue.
    fn reap_ring(&mut self, completions: &mut Vec<Completion>) {
        let entries = self.ring.completion();
        if entries.is_empty() {
            return;
        }
        let now = Instant::now();
        for entry in entries {
            if entry.user_data() != CANCEL_USER_DATA {
                let (slot, result) = (entry.user_data() as usize, interrupted_if_orphaned(entry.result()));
                completions.push(self.slots.complete(slot, i64::from(result), now));
                self.released.extend(self.places[slot].take());
            }
        }
        self.released.drain(..).for_each(|place| self.files.release(&self.ring, place));
    }

    /// Submits the queued operations, and waits until `at_least` have completed.
    fn enter(&mut self, at_least: usize) -> io::Result<()> {
        match self.ring.submit_and_wait(at_least) {
            Ok(_) => {
                // Entries that the kernel did not consume are still in the queue.
                self.queued = self.ring.submission().len();
                Ok(())
            }
            // A signal, or the kernel is short of memory: the caller reaps the completions and retries.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels all operations and waits until the kernel has released their memory.
    fn drain(&mut self) -> io::Result<()> {
        if self.slots.in_flight() > 0 {
            // A submission makes room in a full queue.
            self.enter(0)?;
            let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(CANCEL_USER_DATA);
            // SAFETY: a cancellation refers to no memory.
            let _ = unsafe { self.ring.submission().push(&cancel) };
        }
        let mut completions = Vec::new();
        while self.slots.in_flight() > 0 {
            self.enter(1)?;
            self.reap_ring(&mut completions);
        }
        Ok(())
    }
}

/// Returns `-EINTR` for the errors with which the kernel completes an operation whose submitting thread has ended; any
/// other result is returned unchanged. Nothing else here can cause these errors: the memory is ours, and only a
/// dropped ring cancels.
fn interrupted_if_orphaned(result: i32) -> i32 {
    if matches!(-result, libc::ECANCELED | libc::EFAULT) { -libc::EINTR } else { result }
}

impl Engine for Uring {
    fn free_slots(&self) -> usize {
        self.slots.free()
    }

    fn submit(&mut self, op: Op) {
        let slot = self.slots.put(op);
        let entry = self.entry(slot);
        self.push(&entry);
        if self.queued >= EARLY_SUBMIT_OPS && !self.ring.params().is_setup_sqpoll() {
            // A persistent failure is returned again by `reap`.
            let _ = self.enter(0);
        }
    }

    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let before = completions.len();
        let at_least = at_least.min(self.slots.in_flight());
        self.reap_ring(completions);
        let needs_call = !self.ring.params().is_setup_sqpoll();
        if needs_call && at_least == 0 && self.queued <= self.slots.count() / SLOTS_PER_QUEUED {
            // They are submitted with the next ones; enough others are in flight meanwhile. A polling kernel thread
            // takes them without a call, and may post a completion before it frees the queue's entry: with it the
            // queue must be seen empty here.
            return Ok(());
        }
        while self.queued > 0 || completions.len() - before < at_least {
            self.enter(at_least.saturating_sub(completions.len() - before))?;
            self.reap_ring(completions);
        }
        Ok(())
    }

    fn attach(&mut self, file: &Arc<IoFile>) {
        self.files.attach(&self.ring, file);
    }

    fn detach(&mut self, file: &Arc<IoFile>) {
        self.files.detach(&self.ring, file);
    }

    fn threads(&self) -> EngineThreads {
        if self.ring.params().is_setup_sqpoll() {
            EngineThreads::of_ring(self.ring.as_raw_fd())
        } else {
            EngineThreads::default()
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.drain().is_err() {
            self.slots.leak();
        }
    }
}
