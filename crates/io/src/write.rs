//! Files as streams of buffers that are written while the caller fills the next one; the write path of all crates
//! above.
//!
//! ```no_run
//! # fn main() -> Result<(), sakiyomi_io::Error> {
//! use std::sync::Arc;
//! use sakiyomi_io::{Access, Io, IoFile, IoOptions, WriteOptions, WriteStream};
//! let io = Io::open(&IoOptions::default())?;
//! let file = Arc::new(IoFile::create("data".as_ref(), Access::Direct)?);
//! let mut stream = WriteStream::shared(&io, &file, &WriteOptions::default())?;
//! let mut buffer = stream.buffer()?;
//! buffer.append(b"the first bytes");
//! stream.submit(buffer)?;
//! assert_eq!(stream.finish()?.bytes, 15);
//! # Ok(())
//! # }
//! ```
//!
//! A stream appends to one file. It has an engine of its own, or shares an engine and a memory budget with other
//! streams ([`Io`]). The caller takes an empty buffer, fills it and submits it, or uses the stream as
//! [`std::io::Write`].
//!
//! - **Back-pressure**: a caller that is faster than the device waits in [`WriteStream::buffer`]. Two buffers are
//!   guaranteed to each stream, so that it always makes progress, however much the others use. If only the caller
//!   itself can release memory, that is an error ([`Error::AllHeld`]), and the stream can continue after it has
//!   released some.
//! - **Errors**: the first write that fails, in file order, is the error of every call from then on. Without a sync,
//!   writes through the page cache can still fail later, without an error to the stream.
//! - **Direct writes** consist of whole aligned units. The unaligned end of the file goes through the page cache,
//!   after all others: a padded unit would have to be truncated again, for which file systems read it back.
//! - **An expected size** is worth giving: a full disk is then an error before anything is written.
//! - A file larger than `RLIMIT_FSIZE` would end the process with SIGXFSZ. Here it is an error (`EFBIG`).
//!
//! Short writes and interrupted calls are handled here once for all engines.

pub(crate) mod allocation;
mod destination;
mod options;
pub(crate) mod progress;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use crate::buffer::{Account, Buffer, BufferPool, StreamAccount};
use crate::engine::{self, Completion, Engine, Op};
use crate::error::same_error;
use crate::file::IoFile;
use crate::shared::{Grant, Io, Stream, Traits};
use crate::{EngineCpu, Error, IoStats};

use allocation::Allocation;
pub(crate) use destination::Destination;
pub use options::{OwnEngine, WriteOptions};

/// Smallest buffers of a stream when memory is short.
const BLOCK_MIN_BYTES: usize = crate::read::BLOCK_MIN;

/// A stream's guarantee: one buffer to fill while another is written.
const GUARANTEED_BUFFERS: usize = 2;

/// A stream's guarantee takes at most the unclaimed budget divided by this number, unless it is the smallest
/// possible.
const BUDGET_PARTS: usize = 4;

/// The outcome of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Bytes accepted from the caller, all of which are in the file.
    pub bytes: u64,
    /// Counters of the stream.
    pub stats: IoStats,
}

/// A write that failed.
struct Failure {
    offset: u64,
    length: usize,
    error: io::Error,
}

/// A stream that writes to a file. When [`WriteStream::finish`] has returned, all bytes given to it are in the file.
/// Dropping a stream waits for its writes in flight, and discards bytes that were not yet submitted.
pub struct WriteStream {
    // Dropped before the account: operations in flight hold memory claimed from it.
    stream: Stream,
    account: StreamAccount,
    file: Arc<IoFile>,
    destination: Destination,
    /// Lengths and offsets of writes are multiples of this number of bytes.
    alignment: usize,
    block: usize,
    in_flight: usize,
    in_flight_max: usize,
    /// Bytes not yet submitted, because they are too few or not a multiple of the alignment.
    tail: Option<Buffer>,
    /// Bytes submitted in writes, completed or not.
    submitted: u64,
    options: WriteOptions,
    failure: Option<Failure>,
    /// Reused to avoid allocation.
    completions: Vec<Completion>,
    stats: IoStats,
}

impl WriteStream {
    /// Appends to a file with an engine and a budget shared with other streams.
    ///
    /// # Errors
    /// [`Error::Budget`] if the budget has no room for another stream, [`Error::NoRoom`] if the disk has no room for
    /// the expected size.
    ///
    /// # Panics
    /// If the block size or the number in flight is 0, or the start offset is not aligned.
    pub fn shared(io: &Io, file: &Arc<IoFile>, options: &WriteOptions) -> Result<WriteStream, Error> {
        WriteStream::at(io, None, file, WriteStream::append(file, options)?, options)
    }

    /// Appends to a destination of a shared file.
    pub(crate) fn at(
        io: &Io,
        account: Option<&Arc<Account>>,
        file: &Arc<IoFile>,
        destination: Destination,
        options: &WriteOptions,
    ) -> Result<WriteStream, Error> {
        let alignment = destination.alignment(file);
        let pool = io.pool();
        let mut block = options.block.next_multiple_of(alignment);
        if let Some(account) = account {
            let account = StreamAccount::Shared(Arc::clone(account));
            return Ok(WriteStream::new(io.stream(), account, file, destination, block, options));
        }
        let share = pool.unclaimed() / BUDGET_PARTS / GUARANTEED_BUFFERS;
        while block > share && block > BLOCK_MIN_BYTES {
            block = (block / 2).max(BLOCK_MIN_BYTES).next_multiple_of(alignment);
        }
        let account = StreamAccount::Own(pool.account_for(GUARANTEED_BUFFERS, block)?);
        Ok(WriteStream::new(io.stream(), account, file, destination, block, options))
    }

    /// Appends to a file with an engine of its own.
    ///
    /// # Errors
    /// If the block size does not suit direct I/O, there is not enough memory, the disk has no room for the expected
    /// size, or the system does not support the engine.
    ///
    /// # Panics
    /// Like [`WriteStream::shared`].
    pub fn open(file: &Arc<IoFile>, own: &OwnEngine, options: &WriteOptions) -> Result<WriteStream, Error> {
        assert!(options.block > 0, "a block of no bytes");
        let alignment = file.alignment().offset;
        if !options.block.is_multiple_of(alignment) {
            let path = file.path().to_owned();
            return Err(Error::Unaligned { path, block: options.block, alignment });
        }
        let destination = WriteStream::append(file, options)?;
        let ahead = own.spec.ahead(options.block);
        // One of these buffers may be the tail.
        let pool = BufferPool::fixed(ahead + own.hold + 1, options.block, own.memory)?;
        let opened = engine::open(own.spec, options.block, Some(&pool).filter(|_| own.register))?;
        let account = StreamAccount::Own(pool.account(0)?);
        let stream = Stream::alone(opened.engine, pool, Traits::of(own.spec, opened.registered));
        let options = WriteOptions { in_flight: ahead, ..*options };
        Ok(WriteStream::new(stream, account, file, destination, options.block, &options))
    }

    /// Creates a stream as the only user of any engine, such as one over files in memory ([`crate::fake`]).
    ///
    /// # Errors
    /// If the pool does not have two buffers.
    ///
    /// # Panics
    /// Like [`WriteStream::shared`].
    pub fn over(
        engine: Box<dyn Engine>,
        pool: BufferPool,
        file: &Arc<IoFile>,
        options: &WriteOptions,
    ) -> Result<WriteStream, Error> {
        let destination = WriteStream::append(file, options)?;
        let block = options.block.next_multiple_of(file.alignment().offset);
        let account = StreamAccount::Own(pool.account_for(GUARANTEED_BUFFERS, block)?);
        let options = WriteOptions { in_flight: options.in_flight.min(engine.free_slots()), ..*options };
        let stream = Stream::alone(engine, pool, Traits::UNKNOWN);
        Ok(WriteStream::new(stream, account, file, destination, block, &options))
    }

    fn append(file: &IoFile, options: &WriteOptions) -> Result<Destination, Error> {
        let at = options.from;
        assert!(at.is_multiple_of(file.alignment().offset as u64), "an unaligned beginning at {at}");
        let allocation = match options.expected {
            Some(bytes) if bytes > 0 => Allocation::expecting(file, at, bytes)?,
            _ => Allocation::none(),
        };
        Ok(Destination::Append { at, allocation })
    }

    fn new(
        mut stream: Stream,
        account: StreamAccount,
        file: &Arc<IoFile>,
        destination: Destination,
        block: usize,
        options: &WriteOptions,
    ) -> WriteStream {
        assert!(options.block > 0 && options.in_flight > 0, "a stream that cannot write");
        stream.attach(file);
        WriteStream {
            stream,
            account,
            file: Arc::clone(file),
            alignment: destination.alignment(file),
            destination,
            block,
            in_flight: 0,
            in_flight_max: options.in_flight,
            tail: None,
            submitted: 0,
            options: *options,
            failure: None,
            completions: Vec::with_capacity(options.in_flight),
            stats: IoStats::default(),
        }
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &Arc<IoFile> {
        &self.file
    }

    /// Returns the number of bytes accepted so far, written or not.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.submitted + self.tail.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    /// Returns whether no byte was accepted so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counters of its writes so far.
    #[must_use]
    pub fn stats(&self) -> IoStats {
        self.stats
    }

    /// Returns the CPU time so far of the threads of its engine, which other streams may share.
    #[must_use]
    pub fn engine_cpu(&self) -> EngineCpu {
        self.stream.engine_cpu()
    }

    /// Returns which part of the requested memory and registration was granted.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.stream.grant()
    }

    /// Returns an empty buffer to fill. Waits until memory for it is released.
    ///
    /// # Errors
    /// The error of a failed write; [`Error::AllHeld`] if only the caller can release memory.
    pub fn buffer(&mut self) -> Result<Buffer, Error> {
        loop {
            self.check()?;
            match self.account.get().take(self.block) {
                Ok(taken) => {
                    return taken
                        .map_err(|source| Error::System { what: "get memory for buffers".into(), source });
                }
                Err(_) if self.in_flight > 0 => self.wait()?,
                Err(released) => {
                    let begun = Instant::now();
                    let own = self.account.own();
                    let outcome = self.stream.wait_for_memory(released, own, &mut self.completions);
                    self.stats.waiting += begun.elapsed();
                    self.take_all(outcome)?;
                }
            }
        }
    }

    /// Appends the bytes of a buffer.
    ///
    /// The buffer is written without a copy if its length is a multiple of the file's alignment. Otherwise the bytes
    /// after it are copied, until buffers are aligned again.
    ///
    /// # Errors
    /// The error of a failed write, of this one or an earlier one.
    ///
    /// # Panics
    /// If the buffer is of another pool, or its capacity is not a multiple of the alignment.
    pub fn submit(&mut self, mut buffer: Buffer) -> Result<(), Error> {
        self.check_buffer(&buffer);
        self.check()?;
        if let Some(mut tail) = self.tail.take() {
            let taken = tail.append(&buffer);
            if tail.len() < tail.capacity() {
                self.tail = Some(tail);
                return Ok(());
            }
            self.write_next(tail)?;
            let left = buffer.len() - taken;
            buffer.space().copy_within(taken..taken + left, 0);
            buffer.set_len(left);
        }
        if buffer.len().is_multiple_of(self.alignment) {
            return self.write_next(buffer);
        }
        self.tail = Some(buffer);
        Ok(())
    }

    /// Writes a buffer at a given offset, for a caller that overwrites a file in any order. The offset of appended
    /// bytes does not change.
    ///
    /// # Errors
    /// Returns the errors of [`WriteStream::submit`].
    ///
    /// # Panics
    /// If the offset or the length is not aligned, or as [`WriteStream::submit`].
    pub fn submit_at(&mut self, offset: u64, buffer: Buffer) -> Result<(), Error> {
        self.check_buffer(&buffer);
        let is_aligned = |value: u64| value.is_multiple_of(self.alignment as u64);
        assert!(is_aligned(offset) && is_aligned(buffer.len() as u64), "an unaligned write at {offset}");
        self.await_slot()?;
        if let Destination::Append { allocation, .. } = &self.destination
            && let Err(error) = allocation.check_limit(offset.saturating_add(buffer.len() as u64))
        {
            self.fail(Failure { offset, length: buffer.len(), error });
            return self.check();
        }
        self.write(offset, buffer)
    }

    fn check_buffer(&self, buffer: &Buffer) {
        assert!(self.stream.pool().owns(buffer), "a buffer of another pool");
        assert!(buffer.capacity().is_multiple_of(self.alignment), "a buffer for unaligned writes");
    }

    /// Submits a write of the next bytes.
    fn write_next(&mut self, buffer: Buffer) -> Result<(), Error> {
        if buffer.is_empty() {
            return Ok(());
        }
        self.await_slot()?;
        let length = buffer.len();
        match self.destination.place(&self.file, length, self.in_flight_max > 1) {
            Ok(offset) => {
                self.submitted += length as u64;
                self.write(offset, buffer)
            }
            Err((offset, error)) => {
                self.fail(Failure { offset, length, error });
                self.check()
            }
        }
    }

    fn await_slot(&mut self) -> Result<(), Error> {
        while self.in_flight >= self.in_flight_max {
            self.wait()?;
        }
        self.check()
    }

    fn write(&mut self, offset: u64, buffer: Buffer) -> Result<(), Error> {
        self.in_flight += 1;
        self.stream.submit(Op::write(0, Arc::clone(&self.file), offset, buffer));
        // Starts the write, so that it is in flight while the caller computes.
        let outcome = self.stream.poll(&mut self.completions);
        self.take_all(outcome)?;
        self.check()
    }

    /// Waits until an operation of any stream has completed.
    fn wait(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        let outcome = self.stream.wait(&mut self.completions).map(drop);
        self.stats.waiting += begun.elapsed();
        self.take_all(outcome)
    }

    /// Waits for all writes in flight.
    pub(crate) fn wait_for_all(&mut self) -> Result<(), Error> {
        while self.in_flight > 0 {
            self.wait()?;
        }
        self.check()
    }

    /// Processes the completions. If one has failed, waits for all: others may have failed at a lower offset.
    fn take_all(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        let mut completions = std::mem::take(&mut self.completions);
        completions.drain(..).for_each(|completion| self.take(completion));
        self.completions = completions;
        outcome?;
        if self.failure.is_some() && self.in_flight > 0 {
            return self.wait();
        }
        Ok(())
    }

    fn take(&mut self, completion: Completion) {
        let Completion { op, result, .. } = completion;
        self.in_flight -= 1;
        self.stats.calls += u64::from(op.earlier.count);
        self.stats.service += op.earlier.service();
        match result {
            Ok(_) => {
                self.stats.bytes += op.length as u64;
                self.file.grow_to(op.offset + op.length as u64);
            }
            Err(error) => {
                let offset = op.offset + op.done as u64;
                self.fail(Failure { offset, length: op.length - op.done, error });
            }
        }
    }

    fn fail(&mut self, failure: Failure) {
        if self.failure.as_ref().is_none_or(|known| failure.offset < known.offset) {
            self.failure = Some(failure);
        }
    }

    /// Returns the error of the first failed write, at every call.
    fn check(&self) -> Result<(), Error> {
        let Some(Failure { offset, length, error }) = &self.failure else { return Ok(()) };
        let (path, offset, length) = (self.file.path().to_owned(), *offset, *length);
        if error.raw_os_error() == Some(libc::ENOSPC) {
            let end = self.options.from.saturating_add(self.options.expected.unwrap_or(0));
            let needed = end.saturating_sub(offset).max(length as u64);
            let free = self.file.free_bytes().unwrap_or(0);
            return Err(Error::Full { path, offset, needed, free });
        }
        Err(Error::Write { path, offset, length, source: same_error(error) })
    }

    /// Makes the written bytes durable, except an unaligned end of a file with direct I/O.
    ///
    /// # Errors
    /// The error of a failed write, or of the sync.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.submit_tail()?;
        self.wait_for_all()?;
        self.stream.submit(Op::sync(0, Arc::clone(&self.file)));
        loop {
            let begun = Instant::now();
            self.stream.wait(&mut self.completions)?;
            self.stats.waiting += begun.elapsed();
            let Some(Completion { result, service, .. }) = self.completions.pop() else { continue };
            self.stats.calls += 1;
            self.stats.service += service;
            let path = || self.file.path().to_owned();
            match result {
                Err(error) if progress::is_interruption(&error) => {
                    self.stream.submit(Op::sync(0, Arc::clone(&self.file)));
                }
                other => return other.map(drop).map_err(|source| Error::Sync { path: path(), source }),
            }
        }
    }

    /// Submits the tail if its length is aligned.
    fn submit_tail(&mut self) -> Result<(), Error> {
        match self.tail.take() {
            Some(buffer) if buffer.len().is_multiple_of(self.alignment) => self.write_next(buffer),
            other => {
                self.tail = other;
                Ok(())
            }
        }
    }

    /// Submits all remaining bytes of a stream to a spill without waiting. No bytes may be appended afterwards.
    pub(crate) fn submit_rest(&mut self) -> Result<(), Error> {
        assert!(matches!(self.destination, Destination::Spill(_)), "a file's end may need another write");
        self.submit_tail()?;
        self.tail.take().map_or(Ok(()), |rest| self.write_unaligned(rest))
    }

    /// Writes the rest, waits for all writes, and sets the file's length.
    ///
    /// # Errors
    /// The error of any failed write, or of the sync.
    pub fn finish(mut self) -> Result<Written, Error> {
        self.finish_writes()?;
        Ok(Written { bytes: self.submitted, stats: self.stats })
    }

    /// Like [`WriteStream::finish`]; also returns the destination.
    pub(crate) fn finish_into(mut self) -> Result<(Written, Destination), Error> {
        self.finish_writes()?;
        let written = Written { bytes: self.submitted, stats: self.stats };
        let nowhere = Destination::Append { at: 0, allocation: Allocation::none() };
        Ok((written, std::mem::replace(&mut self.destination, nowhere)))
    }

    fn finish_writes(&mut self) -> Result<(), Error> {
        self.submit_tail()?;
        if let Some(rest) = self.tail.take() {
            self.write_unaligned(rest)?;
        }
        self.wait_for_all()?;
        if let Destination::Append { allocation, .. } = &mut self.destination {
            let (path, size) = (self.file.path().display(), self.file.size());
            allocation.trim(&self.file).map_err(|source| Error::System {
                what: format!("set the length of {path} to {size} bytes"),
                source,
            })?;
        }
        if self.options.sync { self.sync() } else { Ok(()) }
    }

    /// Writes the last bytes, whose end is not aligned.
    fn write_unaligned(&mut self, mut rest: Buffer) -> Result<(), Error> {
        let (whole, bytes) = (rest.len() - rest.len() % self.alignment, rest.len());
        if matches!(self.destination, Destination::Spill(_)) {
            // The padding is visible only to the run's reader, which knows the run's length.
            let padded = bytes.next_multiple_of(self.alignment);
            rest.space()[bytes..padded].fill(0);
            rest.set_len(padded);
            self.write_next(rest)?;
            self.submitted -= (padded - bytes) as u64;
            return Ok(());
        }
        let end = rest[whole..].to_vec();
        rest.set_len(whole);
        self.write_next(rest)?;
        self.wait_for_all()?;
        let mut buffer = self.buffer()?;
        buffer.append(&end);
        let path = self.file.path().display();
        let what = format!("write the last bytes of {path} through the page cache");
        self.file.set_direct(false).map_err(|source| Error::System { what, source })?;
        let outcome = self.write_next(buffer).and_then(|()| self.wait_for_all());
        let restored = self.file.set_direct(true);
        outcome?;
        restored.map_err(|source| Error::System { what: "turn direct I/O on again".into(), source })
    }
}

impl Drop for WriteStream {
    fn drop(&mut self) {
        // A write that completes later could overwrite bytes that others have written there.
        while self.in_flight > 0 && self.wait().is_ok() {}
        if let Destination::Append { allocation, .. } = &mut self.destination {
            // A failure only wastes space.
            let _ = allocation.trim(&self.file);
        }
    }
}

impl io::Write for WriteStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut buffer = match self.tail.take() {
            Some(tail) => tail,
            None => self.buffer()?,
        };
        let taken = buffer.append(bytes);
        if buffer.len() < buffer.capacity() {
            self.check()?;
            self.tail = Some(buffer);
        } else {
            self.write_next(buffer)?;
        }
        Ok(taken)
    }

    /// Waits until the kernel has the bytes, except an unaligned end of a file with direct I/O.
    fn flush(&mut self) -> io::Result<()> {
        self.submit_tail()?;
        Ok(self.wait_for_all()?)
    }
}
