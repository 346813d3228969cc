//! The tasks of a blocked read: those that bring blocks, and those that work on them.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sakiyomi_linux::blocks::Single;
use sakiyomi_linux::{Access, Blocks, Memory, MethodKind, MethodSpec, Options, Pool};

use super::gather::Gather;
use super::plan::{Plan, cut};
use super::records::{Cut, Joiner, TooLong};
use super::stream::{Bytes, fill};
use super::window::{Permit, Window};
use super::{AHEAD, BlockedRead, Error, IoThread, Report};
use crate::manager::{Caller, Device, Failure, Handle, Manager, Tasks};

/// What a thread maps at a time of a file that is in memory, at most.
const MAPPED_MAX: u64 = 16 << 20;
/// A file up to this size is read by the caller at once: starting threads would take longer.
const SMALL: u64 = 256 << 10;

/// What the tasks share.
pub(super) struct Work<'a, F, G> {
    read: &'a BlockedRead,
    map: &'a F,
    gather: &'a G,
    cut: Option<Cut>,
    joiner: Mutex<Joiner>,
    window: Window,
    /// Why it was stopped, if it was.
    stopped: Mutex<Option<Stop>>,
    pub(super) computing_ns: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// Why no more is read.
#[derive(Debug)]
pub(super) enum Stop {
    Io(sakiyomi_linux::Error),
    Stream(io::Error),
    LongRecord(u64),
    Write(io::Error),
    Panic(Failure),
}

impl From<sakiyomi_linux::Error> for Stop {
    fn from(error: sakiyomi_linux::Error) -> Stop {
        Stop::Io(error)
    }
}

impl From<TooLong> for Stop {
    fn from(TooLong(most): TooLong) -> Stop {
        Stop::LongRecord(most)
    }
}

impl<'a, F, G> Work<'a, F, G> {
    pub(super) fn new(
        read: &'a BlockedRead,
        map: &'a F,
        gather: &'a G,
        end: Option<u8>,
        start: u64,
    ) -> Work<'a, F, G> {
        let window = read.window();
        Work {
            read,
            map,
            gather,
            cut: end.map(Cut),
            joiner: Mutex::new(Joiner::new((window * read.block).max(AHEAD) as u64, start)),
            window: Window::new(window),
            stopped: Mutex::new(None),
            computing_ns: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    fn joiner(&self) -> MutexGuard<'_, Joiner> {
        self.joiner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self, stop: Stop) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(stop);
        self.window.close();
    }

    pub(super) fn error(&self, stop: Stop) -> Error {
        let path = self.read.path.clone();
        match stop {
            Stop::Io(error) => Error::Io(error),
            Stop::Stream(source) => Error::Stream { path, source },
            Stop::LongRecord(most) => Error::LongRecord { path, most },
            Stop::Write(error) => Error::Write(error),
            Stop::Panic(failure) => Error::Task(failure),
        }
    }

    fn method(&self) -> MethodSpec {
        let usual = if self.read.access == Access::Direct { MethodKind::Pread } else { MethodKind::Read };
        self.read.method.unwrap_or(MethodSpec::usual(usual))
    }

    fn own_method(&self) -> MethodKind {
        self.read.method.map_or(MethodKind::Pread, |method| method.kind)
    }
}

impl<F: Sync, G: Sync> Work<'_, F, G> {
    /// Has what `make` makes done; says whether the I/O thread had its priority.
    fn manage<'w>(&'w self, make: impl FnOnce(&Caller<'_, 'w>)) -> Result<bool, Error> {
        let run = Manager::new(self.read.threads).run(|tasks| {
            make(tasks);
            // The thread says so when it starts, and it has something to do.
            let last = tasks.task("end").on(Device::Io).spawn(|tasks| tasks.io_is_urgent());
            tasks.wait(last)
        });
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (stopped, run) {
            (Some(stop), _) => Err(self.error(stop)),
            (None, Err(failure) | Ok(Err(failure))) => Err(Error::Task(failure)),
            (None, Ok(Ok(urgent))) => Ok(urgent),
        }
    }
}

impl<F: Sync, G: Sync> Work<'_, F, G> {
    /// Reads what the path names, whatever it is.
    pub(super) fn of_path<T: Send>(&self, in_order: bool) -> Result<Report, Error>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let path = &self.read.path;
        let failed = |source| Error::Stream { path: path.clone(), source };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let kind = metadata.file_type();
        let is_small = metadata.is_file() && metadata.len() < SMALL;
        let has_offsets = metadata.is_file() || std::os::unix::fs::FileTypeExt::is_block_device(&kind);
        let usual = self.read.method.is_none() && self.read.access == Access::Buffered;
        if has_offsets && !(is_small && usual && self.read.range == (0..u64::MAX)) {
            return self.of_file(in_order);
        }
        // Some files, as those in /proc, have more in them than their size says: a small one is read to its end.
        self.of_stream(Box::new(File::open(path).map_err(failed)?))
    }

    /// Reads a file that has offsets.
    fn of_file<T: Send>(&self, in_order: bool) -> Result<Report, Error>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let read = self.read;
        let single = Single::open(&read.path, read.access)?;
        let size = single.source().size();
        let range = read.range.start.min(size)..read.range.end.min(size);
        if range.is_empty() {
            return Ok(Report::default());
        }
        let mut plan = Plan::all_cold(range.clone());
        if read.method.is_none() && read.access == Access::Buffered {
            let found = Plan::of(single.source(), range);
            if !in_order || found.cold.is_empty() {
                plan = found;
            }
        }
        let mut report = Report { resident_bytes: plan.resident_bytes(), ..Report::default() };
        let urgent = match read.io {
            IoThread::Shared => self.shared(&single, plan, in_order)?,
            IoThread::Dedicated => {
                report.method = (!plan.cold.is_empty()).then(|| self.method());
                self.dedicated(&single, plan, in_order)?
            }
        };
        report.io_is_urgent = (read.io == IoThread::Dedicated).then_some(urgent);
        Ok(report)
    }

    /// Each thread brings what it works on.
    fn shared<T: Send>(&self, single: &Single, plan: Plan, in_order: bool) -> Result<bool, Error>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let pool = match self.own_method() {
            MethodKind::Mmap | MethodKind::Populate => None,
            _ => {
                // A direct transfer is widened to the alignment at both ends.
                let size = self.read.block + 2 * single.source().alignment().offset;
                Some(Pool::new(self.read.threads + 1, size, Memory::Huge)?)
            }
        };
        let ranges = plan.resident.into_iter().chain(plan.cold);
        let block = self.read.block as u64;
        let pieces = ranges.flat_map(move |range| cut(range, block));
        let fetch = |range: Range<u64>| match &pool {
            None => single.map(range),
            Some(pool) => single.read(range, pool.take().expect("one for each thread")),
        };
        self.manage(|tasks| {
            if in_order {
                let fetch = &fetch;
                tasks
                    .task("read")
                    .on(Device::Io)
                    .spawn(move |tasks| self.hand_out(tasks, pieces, fetch))
                    .forget();
            } else {
                self.each(tasks, pieces, &fetch).forget();
            }
        })
    }

    /// What is resident is mapped by those who compute, and what is not comes by the I/O thread.
    fn dedicated<T: Send>(&self, single: &Single, plan: Plan, in_order: bool) -> Result<bool, Error>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let Plan { resident, cold, is_too_large } = plan;
        let bytes: u64 = resident.iter().map(|range| range.end - range.start).sum();
        // Some for each thread, so that they end together; but a block is too small to be worth mapping.
        let some = (bytes / (16 * self.read.threads as u64)).next_multiple_of(64 << 10);
        let size = some.clamp(SMALL, MAPPED_MAX);
        let pieces = resident.into_iter().flat_map(move |range| cut(range, size));
        let fetch = move |range| single.map(range);
        let fetch = &fetch;
        self.manage(|tasks| {
            if in_order && bytes > 0 {
                tasks
                    .task("map")
                    .on(Device::Io)
                    .spawn(move |tasks| self.hand_out(tasks, pieces, fetch))
                    .forget();
                return;
            }
            let mapped = (bytes > 0).then(|| self.each(tasks, pieces, fetch));
            let mut bring = tasks.task("read").on(Device::Io);
            if let Some(mapped) = mapped.as_ref().filter(|_| is_too_large) {
                bring = bring.wait_for(mapped);
            }
            bring.spawn(move |tasks| self.bring(tasks, cold)).forget();
        })
    }
}

impl<F: Sync, G: Sync> Work<'_, F, G> {
    /// Reads what has no offsets.
    pub(super) fn of_stream<'f, T: Send>(&self, mut from: Box<dyn Read + Send + 'f>) -> Result<Report, Error>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let mut first = Vec::new();
        let count = from.by_ref().take(SMALL).read_to_end(&mut first);
        let count = count.map_err(|error| self.error(Stop::Stream(error)))?;
        if (count as u64) < SMALL {
            if count > 0 {
                self.pieces_of(first).map_err(|stop| self.error(stop))?;
            }
            return Ok(Report::default());
        }
        let mut from = io::Cursor::new(first).chain(from);
        // One more than may be worked on: the one that is being filled.
        let pool = Pool::new(self.read.window() + 1, self.read.block, Memory::Huge)?;
        let from = &mut from;
        let urgent = self.manage(|tasks| {
            tasks.task("read").on(Device::Io).spawn(move |tasks| self.take_in(tasks, &pool, from)).forget();
        })?;
        let method = Some(MethodSpec::usual(MethodKind::Read));
        Ok(Report { method, io_is_urgent: Some(urgent), ..Report::default() })
    }

    /// Works on a small file here and now.
    fn pieces_of<T: Send>(&self, bytes: Vec<u8>) -> Result<(), Stop>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let worked = catch_unwind(AssertUnwindSafe(|| self.piece(0, Bytes::Small(bytes), None)));
        worked.unwrap_or_else(|panic| Err(Stop::Panic(Failure::of_panic("block", &*panic))))
    }

    /// On the I/O thread: reads a stream, and makes a task of each block.
    fn take_in<'w, T: Send>(&'w self, tasks: &Tasks<'w>, pool: &Pool, from: &mut (dyn Read + Send))
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let mut offset = 0;
        while let Some(permit) = self.window.permit() {
            let mut buffer = pool.take().expect("no more are lent than permitted");
            if let Err(error) = fill(from, &mut buffer) {
                return self.stop(Stop::Stream(error));
            }
            if buffer.is_empty() {
                return;
            }
            let length = buffer.len() as u64;
            self.spawn(tasks, offset, Bytes::Buffer(buffer), permit);
            offset += length;
        }
    }

    /// On the I/O thread: reads parts of a file, and makes a task of each block.
    fn bring<'w, T: Send>(&'w self, tasks: &Tasks<'w>, parts: Vec<Range<u64>>)
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        for range in parts {
            let options = Options {
                method: self.method(),
                access: self.read.access,
                block: self.read.block,
                range: Some(range),
                hold: self.read.window() + 1,
                ..Options::default()
            };
            let mut blocks = match Blocks::open(&self.read.path, &options) {
                Ok(blocks) => blocks,
                Err(error) => return self.stop(error.into()),
            };
            loop {
                let Some(permit) = self.window.permit() else { return };
                match blocks.next() {
                    None => break,
                    Some(Err(error)) => return self.stop(error.into()),
                    Some(Ok(block)) => self.spawn(tasks, block.offset(), Bytes::Block(block), permit),
                }
            }
        }
    }

    fn spawn<'w, T: Send>(&'w self, tasks: &Tasks<'w>, offset: u64, bytes: Bytes, permit: Permit)
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let work = move |_: &Tasks<'w>| {
            if let Err(stop) = self.piece(offset, bytes, Some(permit)) {
                self.stop(stop);
            }
        };
        tasks.task("block").spawn(work).forget();
    }

    /// On the I/O thread: has pieces fetched and worked on by those who compute, as many as there is room for.
    fn hand_out<'w, T: Send>(
        &'w self,
        tasks: &Tasks<'w>,
        pieces: impl Iterator<Item = Range<u64>>,
        fetch: &'w (impl Fn(Range<u64>) -> Result<sakiyomi_linux::Block, sakiyomi_linux::Error> + Sync),
    ) where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        for piece in pieces {
            let Some(permit) = self.window.permit() else { return };
            let work = move |_: &Tasks<'w>| {
                if let Err(stop) = self.fetched(piece, fetch, Some(permit)) {
                    self.stop(stop);
                }
            };
            tasks.task("block").spawn(work).forget();
        }
    }

    /// Has each piece fetched and worked on by those who compute.
    fn each<'w, T: Send>(
        &'w self,
        tasks: &Tasks<'w>,
        pieces: impl Iterator<Item = Range<u64>> + Send + 'w,
        fetch: &'w (impl Fn(Range<u64>) -> Result<sakiyomi_linux::Block, sakiyomi_linux::Error> + Sync),
    ) -> Handle<'w, ()>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        tasks.each("block", self.read.threads, pieces, move |piece, _| {
            self.fetched(piece, fetch, None).map_err(|stop| {
                self.stop(stop);
                Stopped
            })
        })
    }

    fn fetched<T: Send>(
        &self,
        piece: Range<u64>,
        fetch: &impl Fn(Range<u64>) -> Result<sakiyomi_linux::Block, sakiyomi_linux::Error>,
        permit: Option<Permit>,
    ) -> Result<(), Stop>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        if self.window.is_closed() {
            return Ok(());
        }
        let block = fetch(piece)?;
        self.piece(block.offset(), Bytes::Block(block), permit)
    }

    /// Works on a block, of more than no bytes, and on the records that are whole by it.
    fn piece<T: Send>(&self, offset: u64, bytes: Bytes, permit: Option<Permit>) -> Result<(), Stop>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let (start, end) = (offset, offset + bytes.len() as u64);
        self.bytes.fetch_add(end - start, Ordering::Relaxed);
        // At each boundary there are two places: that of the record that it cuts, and that of what follows.
        let (place, result, joined) = match self.cut.map(|cut| cut.split(&bytes)) {
            None => (2 * start..2 * end, Some(self.mapped(&bytes)), Vec::new()),
            Some(None) => (2 * start..2 * end, None, self.joiner().add(start..end, &bytes, None)?),
            Some(Some((head, body, tail))) => {
                let joined = self.joiner().add(start..end, head, Some(tail))?;
                let result = (!body.is_empty()).then(|| self.mapped(body));
                (2 * start + 1..2 * end, result, joined)
            }
        };
        bytes.intact()?;
        // The buffer is free before the permit is.
        drop(bytes);
        self.gather.put(place, result, permit).map_err(Stop::Write)?;
        joined.into_iter().try_for_each(|joined| self.joined(joined))
    }

    /// Works on a record that was put together.
    fn joined<T>(&self, (at, record): (u64, Vec<u8>)) -> Result<(), Stop>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let result = (!record.is_empty()).then(|| self.mapped(&record));
        self.gather.put(2 * at..2 * at + 1, result, None).map_err(Stop::Write)
    }

    /// The records at the ends of the file, once all blocks have come.
    pub(super) fn last_records<T>(&self) -> Result<(), Stop>
    where
        F: Fn(&[u8]) -> T,
        G: Gather<T>,
    {
        let last = if self.cut.is_some() { self.joiner().finish() } else { Vec::new() };
        last.into_iter().try_for_each(|joined| self.joined(joined))
    }

    fn mapped<T>(&self, bytes: &[u8]) -> T
    where
        F: Fn(&[u8]) -> T,
    {
        let begun = Instant::now();
        let result = (self.map)(bytes);
        self.computing_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}

/// A series of tasks ends; why is known elsewhere.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
struct Stopped;
