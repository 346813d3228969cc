//! Writing a file while the caller makes the next block.
//!
//! The caller takes an empty [`Buffer`], fills it and hands it back; some threads write it with `pwrite` meanwhile. The
//! number of buffers is fixed, so that a caller who is faster than the device waits for one, and memory does not grow.
//!
//! - **A file appears under its name when it is whole**, at [`Writer::finish`]; before that it has no name, or a hidden
//!   one where the file system cannot do without. A writer that is dropped, or whose `finish` fails, leaves what was
//!   there before. A crash of the program leaves nothing either, or the hidden name.
//! - **No error is lost.** A write that failed is told at the next call and at every one after that, `finish` included.
//!   What only `fsync` tells is told if [`WriteOptions::sync`] is set: without it, writes through the page cache can
//!   still fail when nobody asks any more.
//! - **Direct writes** are of whole aligned blocks. The end of the file that is none goes through the page cache, after
//!   all others: a padded block would have to be cut off again, for which file systems read it back.
//! - **An expected size** is worth giving: a disk that is too small says so before anything is written.
//! - **Direct writes that make a file longer go one after the other** on ext4, whatever the depth; where blocks are
//!   allocated already they go side by side (Linux 6.18: of 8 writes, 1 and 8 were with the device). So a file that is
//!   written directly is allocated ahead of what is written, as far as is expected or else in growing steps, and cut to
//!   its length at the end.
//! - A file larger than `RLIMIT_FSIZE` would end the program with SIGXFSZ. Here it is an error (`EFBIG`).

mod target;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl, fstatvfs};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Resource, getrlimit};

use crate::buffer::{Buffer, BufferPool, Granted, Memory};
use crate::engine::{CALL_MAX, DEPTH_MAX};
use crate::file::direct_alignment;
use crate::thread_pool::{Call, Ended, ThreadPool};
use crate::{Access, Error};

use target::Target;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Through the page cache or around it.
    pub access: Access,
    /// What a buffer holds, in bytes.
    pub block: usize,
    /// How many writes are in flight, each on a thread of its own.
    pub depth: usize,
    /// What memory the buffers are made of.
    pub memory: Memory,
    /// How long the file will be, in bytes, if that is known. It may become longer or shorter.
    pub expected: Option<u64>,
    /// Whether all of it, its name included, is to be on the medium when [`Writer::finish`] returns.
    pub sync: bool,
}

impl Default for WriteOptions {
    /// Through the page cache, 4 blocks of 1 MiB in flight, on the medium when finished.
    fn default() -> WriteOptions {
        WriteOptions {
            access: Access::Buffered,
            block: 1 << 20,
            depth: 4,
            memory: Memory::Huge,
            expected: None,
            sync: true,
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The file's length.
    pub bytes: u64,
    /// The time that writes took, all added up: more than has passed if they went side by side.
    pub writing: Duration,
    /// How long the caller waited for writes before it finished.
    pub waited: Duration,
    /// How long it took to finish: the last writes, and the medium.
    pub finishing: Duration,
    /// What the buffers were made of.
    pub memory: Granted,
}

/// One try to write bytes at an offset; it says how many were taken.
type Pwrite = Arc<dyn Fn(&File, &[u8], u64) -> io::Result<usize> + Send + Sync>;

/// A buffer on its way to the file.
struct Job {
    buffer: Buffer,
    offset: u64,
    /// How much of it is in the file.
    written: usize,
}

/// A write that could not be done; of several, the one that comes first in the file.
struct Failure {
    offset: u64,
    length: usize,
    error: io::Error,
}

/// How far a file has been allocated ahead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Allocated {
    /// Up to here.
    To(u64),
    /// Somewhere, and no further: there is no room, or the file system cannot.
    Enough,
}

/// A file that is being written.
pub struct Writer {
    /// Ends before the file is given up.
    crew: ThreadPool<Job>,
    target: Target,
    pwrite: Pwrite,
    pool: BufferPool,
    /// What cannot be written yet, because it is no whole block.
    pending: Option<Buffer>,
    /// Where in the file what follows begins, `pending` first.
    offset: u64,
    /// What offsets and lengths of writes are multiples of.
    granule: usize,
    options: WriteOptions,
    /// Up to where the file has been made longer than what is written.
    allocated: Allocated,
    /// How long a file may be.
    limit: u64,
    failure: Option<Failure>,
    /// Empty but for its room.
    ended: Vec<Ended<Job>>,
    writing: Duration,
    waited: Duration,
}

impl Writer {
    /// Begins a file that will appear as `path`.
    ///
    /// # Errors
    /// If it cannot be created or has no room, if its file system does not write directly or not in such blocks, or if
    /// there is not enough memory.
    ///
    /// # Panics
    /// If a block has no bytes, or the depth is 0 or beyond [`DEPTH_MAX`].
    pub fn create(path: &Path, options: &WriteOptions) -> Result<Writer, Error> {
        Writer::with(path, options, Arc::new(|file, bytes, at| file.write_at(bytes, at)))
    }

    fn with(path: &Path, options: &WriteOptions, pwrite: Pwrite) -> Result<Writer, Error> {
        assert!((1..=DEPTH_MAX).contains(&options.depth), "a depth of {}", options.depth);
        let target = Target::create(path, options.access)?;
        let granule = granule(&target, options)?;
        let limit = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        let allocated = reserve(&target, options.expected.unwrap_or(0), limit)?;
        // One for the caller, one that is not full, and one that waits for a thread so that no thread waits.
        let pool = BufferPool::fixed(options.depth + 3, options.block, options.memory)?;
        let crew = crew(&target.file, options.depth, granule, &pwrite)
            .map_err(|source| Error::System { what: "start threads for writing".into(), source })?;
        Ok(Writer {
            crew,
            target,
            pwrite,
            pool,
            pending: None,
            offset: 0,
            granule,
            options: *options,
            allocated,
            limit,
            failure: None,
            ended: Vec::new(),
            writing: Duration::ZERO,
            waited: Duration::ZERO,
        })
    }

    /// The path under which the file will appear.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.target.path
    }

    /// How many bytes were taken on so far, written or not.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.offset + self.pending.as_ref().map_or(0, |buffer| buffer.len() as u64)
    }

    /// Whether no byte was taken on so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An empty buffer to fill. Waits for one if all are being written.
    ///
    /// # Errors
    /// That of a write that has failed; or if the caller holds all buffers.
    pub fn buffer(&mut self) -> Result<Buffer, Error> {
        loop {
            self.collect(0);
            self.check()?;
            if let Some(buffer) = self.pool.take() {
                return Ok(buffer);
            }
            if self.crew.in_flight() == 0 {
                return Err(Error::AllHeld { budget: self.pool.budget() as u64 });
            }
            self.wait();
        }
    }

    /// Appends what a buffer holds.
    ///
    /// It is written as it is if it holds a multiple of what direct writes need, or any number of bytes if it goes
    /// through the page cache. Otherwise what follows is copied, until blocks fit again.
    ///
    /// # Errors
    /// That of a write that has failed, this one or another before it.
    ///
    /// # Panics
    /// If the buffer is not one of this writer's.
    pub fn write(&mut self, mut buffer: Buffer) -> Result<(), Error> {
        assert!(self.pool.owns(&buffer), "a buffer of another");
        self.collect(0);
        self.check()?;
        if let Some(mut pending) = self.pending.take() {
            let taken = pending.append(&buffer);
            if pending.len() < pending.capacity() {
                self.pending = Some(pending);
                return Ok(());
            }
            self.submit(pending)?;
            let left = buffer.len() - taken;
            buffer.space().copy_within(taken..taken + left, 0);
            buffer.set_len(left);
        }
        if buffer.len().is_multiple_of(self.granule) {
            return self.submit(buffer);
        }
        self.pending = Some(buffer);
        Ok(())
    }

    /// Has a thread write a buffer.
    fn submit(&mut self, buffer: Buffer) -> Result<(), Error> {
        if buffer.is_empty() {
            return Ok(());
        }
        self.check_limit(buffer.len())?;
        while self.crew.room() == 0 {
            self.wait();
        }
        self.check()?;
        let offset = self.offset;
        self.offset += buffer.len() as u64;
        self.allocate_ahead();
        self.crew.start(Job { buffer, offset, written: 0 });
        Ok(())
    }

    /// Keeps writes side by side that would otherwise make the file longer. It is not needed for anything else: if there
    /// is no room, a write will say so.
    fn allocate_ahead(&mut self) {
        let Allocated::To(from) = self.allocated else { return };
        if self.granule == 1 || self.options.depth == 1 || self.offset <= from {
            return;
        }
        let ahead = self.offset.clamp(AHEAD_MIN, AHEAD_MAX);
        let to = self.offset.saturating_add(ahead).min(self.limit);
        let file = &self.target.file;
        // What is short must not be kept from others.
        let is_plenty = free_bytes(file).is_none_or(|free| free / 16 > ahead);
        let is_done = is_plenty && allocate(file, from, to - from).is_ok();
        self.allocated = if is_done { Allocated::To(to) } else { Allocated::Enough };
    }

    /// Refuses what would bring the signal.
    fn check_limit(&mut self, length: usize) -> Result<(), Error> {
        if self.offset + length as u64 > self.limit {
            let error = io::Error::from_raw_os_error(libc::EFBIG);
            self.fail(Failure { offset: self.offset, length, error });
        }
        self.check()
    }

    /// Waits until a write has ended.
    fn wait(&mut self) {
        let begun = Instant::now();
        self.collect(1);
        self.waited += begun.elapsed();
    }

    /// Takes back the buffers of writes that have ended, of `at_least` so many, and sees how they have ended. If one has
    /// failed, all are waited for: others may have failed before it in the file.
    fn collect(&mut self, at_least: usize) {
        self.crew.finish(at_least, &mut self.ended);
        while let Some(Ended { job, result, took }) = self.ended.pop() {
            self.writing += took;
            if let Err(error) = result {
                let offset = job.offset + job.written as u64;
                self.fail(Failure { offset, length: job.buffer.len() - job.written, error });
            }
        }
        if self.failure.is_some() && self.crew.in_flight() > 0 {
            self.collect(self.crew.in_flight());
        }
    }

    fn fail(&mut self, failure: Failure) {
        if self.failure.as_ref().is_none_or(|known| failure.offset < known.offset) {
            self.failure = Some(failure);
        }
    }

    /// Tells of the first write that failed, as often as it is asked.
    fn check(&self) -> Result<(), Error> {
        let Some(Failure { offset, length, error }) = &self.failure else { return Ok(()) };
        let (path, offset, length) = (self.target.path.to_owned(), *offset, *length);
        if error.raw_os_error() == Some(libc::ENOSPC) {
            let needed = self.options.expected.unwrap_or(0).saturating_sub(offset).max(length as u64);
            let free = free_bytes(&self.target.file).unwrap_or(0);
            return Err(Error::Full { path, offset, needed, free });
        }
        let source = match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        Err(Error::Write { path, offset, length, source })
    }

    /// Writes what is left, waits for all, and gives the file its length and its name.
    ///
    /// # Errors
    /// That of any write that has failed, or of what is done here. The file then does not appear, with one exception: if
    /// it is only the directory that cannot be brought onto the medium, it has.
    pub fn finish(mut self) -> Result<Written, Error> {
        let begun = Instant::now();
        let rest = self.pending.take();
        let rest = rest.as_deref().unwrap_or_default();
        let (whole, tail) = rest.split_at(rest.len() - rest.len() % self.granule);
        self.write_here(whole, self.granule)?;
        self.collect(self.crew.in_flight());
        self.check()?;
        if !tail.is_empty() {
            self.go_through_page_cache()?;
            self.write_here(tail, 1)?;
        }
        self.set_length()?;
        let Writer { target, options, offset: bytes, writing, waited, pool, crew, .. } = self;
        drop(crew);
        if options.sync {
            let path = target.path.to_owned();
            target.file.sync_data().map_err(|source| Error::Sync { path, source })?;
        }
        target.publish(options.sync)?;
        Ok(Written {
            bytes,
            writing,
            waited,
            finishing: begun.elapsed(),
            memory: pool.granted().expect("a fixed pool"),
        })
    }

    /// Writes at the end, on the caller's thread.
    fn write_here(&mut self, bytes: &[u8], granule: usize) -> Result<(), Error> {
        self.check_limit(bytes.len())?;
        let begun = Instant::now();
        let mut written = 0;
        let result = write_whole(&self.pwrite, &self.target.file, bytes, self.offset, granule, &mut written);
        self.writing += begun.elapsed();
        self.offset += written as u64;
        if let Err(error) = result {
            let length = bytes.len() - written;
            self.fail(Failure { offset: self.offset, length, error });
        }
        self.check()
    }

    fn go_through_page_cache(&self) -> Result<(), Error> {
        let file = &self.target.file;
        fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags - OFlags::DIRECT)).map_err(|error| {
            let what = format!("write the last bytes of {} through the page cache", self.path().display());
            Error::System { what, source: error.into() }
        })
    }

    /// Takes away what was allocated beyond the end.
    fn set_length(&self) -> Result<(), Error> {
        if self.allocated == Allocated::To(0) {
            return Ok(());
        }
        self.target.file.set_len(self.offset).map_err(|source| Error::System {
            what: format!("set the length of {} to {} bytes", self.path().display(), self.offset),
            source,
        })
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut buffer = self.pending.take().map_or_else(|| self.buffer(), Ok).map_err(into_io)?;
        let taken = buffer.append(bytes);
        if buffer.len() < buffer.capacity() {
            self.pending = Some(buffer);
        } else {
            self.submit(buffer).map_err(into_io)?;
        }
        Ok(taken)
    }

    /// Waits until all is with the kernel, but for the end that is no whole block of a file that is written directly.
    fn flush(&mut self) -> io::Result<()> {
        if self.granule == 1
            && let Some(buffer) = self.pending.take()
        {
            self.submit(buffer).map_err(into_io)?;
        }
        let begun = Instant::now();
        self.collect(self.crew.in_flight());
        self.waited += begun.elapsed();
        self.check().map_err(into_io)
    }
}

/// The kind stays, for callers that look at it.
fn into_io(error: Error) -> io::Error {
    let kind = match &error {
        Error::Full { .. } | Error::NoRoom { .. } => io::ErrorKind::StorageFull,
        Error::Write { source, .. } => source.kind(),
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// What offsets and lengths of the writes must be multiples of.
fn granule(target: &Target, options: &WriteOptions) -> Result<usize, Error> {
    if options.access == Access::Buffered {
        return Ok(1);
    }
    let path = target.path.to_owned();
    let Some(alignment) = direct_alignment(&target.file) else { return Err(Error::NoDirect { path }) };
    if !options.block.is_multiple_of(alignment.offset) {
        return Err(Error::Unaligned { path, block: options.block, alignment: alignment.offset });
    }
    Ok(alignment.offset)
}

/// By how much a file is allocated ahead, in bytes: as much again as it has, within these bounds.
const AHEAD_MIN: u64 = 16 << 20;
const AHEAD_MAX: u64 = 256 << 20;

/// Makes the file as long as it will be, with room for all of it, if its file system can do that.
fn reserve(target: &Target, bytes: u64, limit: u64) -> Result<Allocated, Error> {
    if bytes == 0 {
        return Ok(Allocated::To(0));
    }
    let (file, path) = (&target.file, || target.path.to_owned());
    let no_room = |free| Error::NoRoom { path: path(), needed: bytes, free };
    if let Some(free) = free_bytes(file).filter(|&free| free < bytes) {
        return Err(no_room(free));
    }
    let allocated = if bytes > limit { Err(Errno::FBIG) } else { allocate(file, 0, bytes) };
    match allocated {
        Ok(()) => Ok(Allocated::To(bytes)),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Allocated::Enough),
        Err(Errno::NOSPC) => Err(no_room(free_bytes(file).unwrap_or(0))),
        Err(error) => {
            let length = usize::try_from(bytes).unwrap_or(usize::MAX);
            Err(Error::Write { path: path(), offset: 0, length, source: error.into() })
        }
    }
}

fn allocate(file: &File, from: u64, length: u64) -> Result<(), Errno> {
    retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, length))
}

/// What is free for everybody, where the file system tells.
fn free_bytes(file: &File) -> Option<u64> {
    let found = fstatvfs(file).ok()?;
    // A tmpfs without a limit has no blocks at all.
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
}

fn crew(file: &Arc<File>, depth: usize, granule: usize, pwrite: &Pwrite) -> io::Result<ThreadPool<Job>> {
    let calls = (0..depth).map(|_| {
        let (file, pwrite) = (Arc::clone(file), Arc::clone(pwrite));
        Box::new(move |job: &mut Job| {
            write_whole(&pwrite, &file, &job.buffer, job.offset, granule, &mut job.written)?;
            Ok(job.written)
        }) as Call<Job>
    });
    let ahead = 2 * calls.len();
    ThreadPool::new("sakiyomi-write", calls.collect(), None, ahead)
}

/// How often in a row the kernel may take nothing.
const TRIES_MAX: usize = 8;

/// Writes all bytes, in several calls if the kernel takes a part; `written` says how many are in the file.
fn write_whole(
    pwrite: &Pwrite,
    file: &File,
    bytes: &[u8],
    at: u64,
    granule: usize,
    written: &mut usize,
) -> io::Result<()> {
    let most = CALL_MAX - CALL_MAX % granule;
    let mut tries = 0;
    while *written < bytes.len() {
        let end = bytes.len().min(*written + most);
        match pwrite(file, &bytes[*written..end], at + *written as u64) {
            // The next write must be aligned again, and writes part of this one once more.
            Ok(count) if count >= granule => {
                *written += count - count % granule;
                tries = 0;
            }
            Ok(_) if tries < TRIES_MAX => tries += 1,
            Ok(_) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
