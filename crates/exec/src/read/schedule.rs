//! The I/O thread's main task: iterates over the files, and dispatches their blocks to the compute threads.
//!
//! It starts the next file as soon as the last block of one is loaded, while the blocks loaded so far are processed.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::sync::Arc;

use sakiyomi_io::read::Single;
use sakiyomi_io::{EngineKind, Io};

use super::ahead::Devices;
use super::builder::IoThread;
use super::decode::{BEGINNING_BYTES, Format};
use super::error::Error;
use super::fetch::{Buffers, Fetch};
use super::file_job::FileGuard;
use super::look_ahead::{Input, LookAhead, Opened};
use super::plan::{Plan, piece_max};
use super::report::Report;
use super::stream::Stream;
use super::tuner::Transfer;
use super::work::{SMALL_FILE_MAX, Work};
use crate::executor::{Handle, Lane, Tasks, Threads};

/// Bytes of a resident file that a thread maps at a time.
const MAPPED_MAX_BYTES: u64 = 16 << 20;
/// Bytes that a thread maps at a time at the beginning and the end of a resident file.
const MAPPED_AT_ENDS_BYTES: u64 = 1 << 20;

/// Reads all inputs.
pub(super) fn all<T: Send>(work: Work<'_, T>, inputs: Vec<Input<'_>>) -> Result<Report, Error> {
    let run = {
        let (work, inputs) = (&work, inputs);
        Threads::new(work.read.threads).run(move |tasks| {
            let scheduler = Scheduler::new(work, inputs);
            tasks.task("read").on(Lane::Io(0)).spawn(move |tasks| scheduler.schedule(tasks)).forget();
            // The thread sets this when it starts, which requires a task.
            let last = tasks.task("end").on(Lane::Io(0)).spawn(|tasks| tasks.io_is_urgent());
            tasks.wait(last)
        })
    };
    let report = work.into_report()?;
    Ok(Report { io_is_urgent: Some(run??), ..report })
}

/// Parts to load after the resident ones have been processed.
struct Later<'w> {
    before: Handle<'w, ()>,
    fetch: Arc<Fetch>,
    cold: Vec<Range<u64>>,
}

pub(super) struct Scheduler<'w, 'g, T> {
    pub(super) work: &'w Work<'g, T>,
    pub(super) files: LookAhead<'w>,
    /// Number of files begun.
    begun: usize,
    pub(super) devices: Devices,
    buffers: Buffers,
    /// The engine that all files share, opened when the first one is read into buffers.
    pub(super) io: Option<Io>,
}

impl<'w, 'g, T: Send> Scheduler<'w, 'g, T> {
    fn new(work: &'w Work<'g, T>, inputs: Vec<Input<'w>>) -> Scheduler<'w, 'g, T> {
        let (files, buffers) = (LookAhead::new(inputs), Buffers::new(work.read.threads));
        Scheduler { work, files, begun: 0, devices: Devices::default(), buffers, io: None }
    }

    /// Dispatches the blocks of all files.
    fn schedule(mut self, tasks: &Tasks<'w>) {
        while !self.files.is_at_end() {
            let Some(permit) = self.work.files.permit() else { return };
            self.files.open_next(self.work, &mut self.devices);
            let (path, input) = self.files.next();
            let file = self.work.file(self.begun, path, permit);
            self.begun += 1;
            let rest = match input {
                Err(Input::Stream(_, from)) => self.load_stream(tasks, &file, from).map(|()| None),
                // The input was not opened ahead. Opening it may block, as with a FIFO, so all earlier files must end
                // first: the caller may then want no more, or they hold the descriptors that it needs.
                Err(Input::Path(_)) if !self.work.files.wait_for_others() => return,
                Err(Input::Path(path)) => match Opened::open(self.work, path) {
                    Ok(opened) => self.dispatch(tasks, &file, opened),
                    Err(source) => Err(Error::Open { path: path.to_owned(), source }),
                },
                Ok(opened) => self.dispatch(tasks, &file, opened),
            };
            match rest {
                Ok(None) => {}
                Err(error) => file.fail(error),
                Ok(Some(Later { before, fetch, cold })) => {
                    let load = move |tasks: &Tasks<'w>| {
                        file.fail_if(self.load(tasks, &file, &fetch, cold));
                        drop(file);
                        self.schedule(tasks);
                    };
                    tasks.task("read").on(Lane::Io(0)).wait_for(&before).spawn(load).forget();
                    return;
                }
            }
        }
    }

    /// Dispatches a file's blocks; returns the parts to load after the resident ones.
    fn dispatch(
        &mut self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        opened: Opened,
    ) -> Result<Option<Later<'w>>, Error> {
        let Opened { file: mut from, metadata, plan, .. } = opened;
        let kind = metadata.file_type();
        if kind.is_dir() {
            // Reading it yields the system's own error.
            let refused = from.read(&mut [0]).err();
            let source = refused.unwrap_or_else(|| io::ErrorKind::IsADirectory.into());
            return Err(Error::Stream { path: file.path.to_owned(), source });
        }
        if !kind.is_file() && !kind.is_block_device() {
            let from = Stream::of_file(from, self.work.in_order);
            return self.load_stream(tasks, file, from).map(|()| None);
        }
        if is_small(&metadata) && self.work.takes_small() {
            let resident = plan.map_or(0, |plan| plan.resident_bytes());
            file.note_plan(resident, (resident < metadata.len()).then(|| self.work.method()));
            let Some(permit) = self.work.blocks.permit() else { return Ok(None) };
            let file = file.clone();
            tasks.task("block").spawn(move |_| file.read_small(from, Some(permit))).forget();
            return Ok(None);
        }
        if let Some(format) = self.format(&from).map_err(|source| file.unreadable(source))? {
            let start = self.work.read.range.start;
            let at = if start > 0 { format.seek(&mut from, file.path, start) } else { Ok(0) };
            let at = at.map_err(|source| file.unreadable(source))?;
            return self.load_units(tasks, file, format.units(Box::new(from)), at).map(|()| None);
        }
        self.dispatch_large(tasks, file, plan)
    }

    /// Returns the format of a file, if it is compressed and to be decoded.
    fn format(&self, from: &File) -> io::Result<Option<&'static dyn Format>> {
        let mut beginning = [0; BEGINNING_BYTES];
        if self.work.read.decoder.is_none() {
            return Ok(None);
        }
        let filled = from.read_at(&mut beginning, 0)?;
        Ok(self.work.format(&beginning[..filled]))
    }

    fn dispatch_large(
        &mut self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        plan: Option<Plan>,
    ) -> Result<Option<Later<'w>>, Error> {
        let read = self.work.read;
        let single = Arc::new(Single::open(file.path, read.access)?);
        let size = single.file().size();
        let range = read.range.start.min(size)..read.range.end.min(size);
        if range.is_empty() {
            return Ok(None);
        }
        // The file may have changed since it was opened; and a block device has no plan yet.
        let plan = plan.filter(|plan| plan.covers(&range));
        let plan = match plan {
            None if self.work.is_usual() => Plan::of(single.file().file(), range.clone()),
            None => Plan::all_cold(range.clone()),
            Some(plan) => plan,
        };
        file.note_end(range.end);
        let is_sequential = self.work.is_sequential();
        let plan = if is_sequential && !plan.cold.is_empty() { Plan::all_cold(range) } else { plan };
        let by_whom = read.io == IoThread::Dedicated && !plan.cold.is_empty();
        file.note_plan(plan.resident_bytes(), by_whom.then(|| self.work.method()));
        match read.io {
            IoThread::Shared => {
                self.dispatch_shared(tasks, file, single, plan);
                Ok(None)
            }
            IoThread::Dedicated => self.dispatch_dedicated(tasks, file, single, plan),
        }
    }

    /// Makes each thread load the blocks that it processes.
    fn dispatch_shared(
        &mut self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        single: Arc<Single>,
        plan: Plan,
    ) {
        let read = self.work.read;
        let transfer = match read.method.map_or(EngineKind::Pread, |method| method.kind) {
            EngineKind::Mmap | EngineKind::Populate => Transfer::Mmap,
            _ => Transfer::Copy,
        };
        let (grid, block) = (self.work.shape.grid, read.io_block());
        let fetch = Arc::new(Fetch::only(single, transfer, grid, block, self.buffers.clone()));
        let ranges = plan.resident.into_iter().chain(plan.cold);
        let pieces = ranges.flat_map(move |range| grid.cut(range, block as u64));
        if self.work.is_sequential() {
            self.one_by_one(tasks, file, pieces, &fetch);
        } else {
            self.side_by_side(tasks, file, pieces, fetch).forget();
        }
    }

    /// Makes compute threads fetch the resident parts; this thread loads the cold ones.
    fn dispatch_dedicated(
        &mut self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        single: Arc<Single>,
        plan: Plan,
    ) -> Result<Option<Later<'w>>, Error> {
        let (read, bytes) = (self.work.read, plan.resident_bytes());
        let grid = self.work.shape.grid;
        let fetch = Fetch::faster(single, plan.bytes(), grid, read.io_block(), self.buffers.clone());
        let fetch = Arc::new(fetch);
        let Plan { resident, cold, is_too_large } = plan;
        let room = if self.work.is_sequential() { read.bytes_ahead() } else { u64::MAX };
        let most = piece_max(bytes, room, read.threads).min(MAPPED_MAX_BYTES);
        let sizes = self.work.sizes(most.min(MAPPED_AT_ENDS_BYTES)..most);
        let pieces = resident.into_iter().flat_map(move |range| grid.tapered(range, sizes.clone()));
        if self.work.is_sequential() && bytes > 0 {
            self.one_by_one(tasks, file, pieces, &fetch);
            return Ok(None);
        }
        if bytes > 0 {
            let mapped = self.side_by_side(tasks, file, pieces, Arc::clone(&fetch));
            if is_too_large {
                return Ok(Some(Later { before: mapped, fetch, cold }));
            }
            mapped.forget();
        }
        self.load(tasks, file, &fetch, cold).map(|()| None)
    }

    /// Dispatches pieces, limited by permits.
    fn one_by_one(
        &self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        pieces: impl Iterator<Item = Range<u64>>,
        fetch: &Arc<Fetch>,
    ) {
        for piece in pieces {
            if !self.dispatch_piece(tasks, file, piece, fetch) {
                return;
            }
        }
    }

    /// Dispatches a piece as soon as there are permits for it; returns whether more is wanted.
    pub(super) fn dispatch_piece(
        &self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        piece: Range<u64>,
        fetch: &Arc<Fetch>,
    ) -> bool {
        let Some(permit) = self.work.room_for(piece.end - piece.start).filter(|_| !file.is_over()) else {
            return false;
        };
        let (file, fetch) = (file.clone(), Arc::clone(fetch));
        tasks.task("block").spawn(move |_| file.fetched(piece, &fetch, Some(permit))).forget();
        true
    }

    /// Dispatches pieces to all threads, each when the previous one has been processed; the returned task ends with
    /// the last of them.
    fn side_by_side(
        &self,
        tasks: &Tasks<'w>,
        file: &FileGuard<'w, 'g, T>,
        pieces: impl Iterator<Item = Range<u64>> + Send + 'w,
        fetch: Arc<Fetch>,
    ) -> Handle<'w, ()> {
        let file = file.clone();
        tasks.each("block", self.work.read.threads, pieces, move |piece, _| {
            file.fetched(piece, &fetch, None);
            Ok::<(), std::convert::Infallible>(())
        })
    }
}

/// Returns whether a file is read at once by the thread that processes it.
pub(super) fn is_small(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() < SMALL_FILE_MAX as u64
}
