//! What the I/O thread does: it goes through the files, and has their blocks worked on.
//!
//! It goes on with the next file as soon as the last block of one is brought, while others work on what there is.

use std::fs::Metadata;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::sync::Arc;

use sakiyomi_io::EngineKind;
use sakiyomi_io::read::Single;

use super::ahead::Devices;
use super::builder::IoThread;
use super::choice::Way;
use super::error::Error;
use super::fetch::{Buffers, Fetch};
use super::look_ahead::{Input, LookAhead, Opened};
use super::plan::{Plan, cut, piece_max, tapered};
use super::stream::Stream;
use super::work::{Hold, SMALL, Work};
use crate::manager::{Device, Handle, Manager, Tasks};

/// What a thread maps at a time of a file that is in memory, at most; and at its beginning and its end.
const MAPPED_MAX: u64 = 16 << 20;
const MAPPED_AT_ENDS: u64 = 1 << 20;

/// Reads all of the inputs; says whether the I/O thread had its priority.
pub(super) fn all<T: Send>(work: Work<'_, T>, inputs: Vec<Input<'_>>) -> Result<bool, Error> {
    let run = {
        let (work, inputs) = (&work, inputs);
        Manager::new(work.read.threads).run(move |tasks| {
            let feeder = Feeder::new(work, inputs);
            tasks.task("read").on(Device::Io).spawn(move |tasks| feeder.feed(tasks)).forget();
            // The thread says so when it starts, and it has something to do.
            let last = tasks.task("end").on(Device::Io).spawn(|tasks| tasks.io_is_urgent());
            tasks.wait(last)
        })
    };
    work.into_stopped()?;
    Ok(run??)
}

/// What is to be brought when what is resident has been worked on.
struct Later<'w> {
    before: Handle<'w, ()>,
    fetch: Arc<Fetch>,
    cold: Vec<Range<u64>>,
}

pub(super) struct Feeder<'w, 'g, T> {
    pub(super) work: &'w Work<'g, T>,
    files: LookAhead<'w>,
    /// How many of them were begun.
    begun: usize,
    pub(super) devices: Devices,
    buffers: Buffers,
}

impl<'w, 'g, T: Send> Feeder<'w, 'g, T> {
    fn new(work: &'w Work<'g, T>, inputs: Vec<Input<'w>>) -> Feeder<'w, 'g, T> {
        let (files, buffers) = (LookAhead::new(inputs), Buffers::new(work.read.threads));
        Feeder { work, files, begun: 0, devices: Devices::default(), buffers }
    }

    /// Hands out the blocks of all files.
    fn feed(mut self, tasks: &Tasks<'w>) {
        while !self.files.is_at_end() {
            let Some(permit) = self.work.files.permit() else { return };
            self.files.look(self.work, &mut self.devices);
            let (path, input) = self.files.next();
            let file = self.work.file(self.begun, path, permit);
            self.begun += 1;
            let rest = match input {
                Err(Input::Stream(_, mut from)) => self.take_in(tasks, &file, &mut from).map(|()| None),
                // It was not opened ahead, so it may wait for somebody, as a FIFO does; perhaps it need not be read at
                // all. Or those before it have the descriptors that it needs.
                Err(Input::Path(_)) if !self.work.files.wait_for_others() => return,
                Err(Input::Path(path)) => match Opened::open(self.work, path) {
                    Ok(opened) => self.hand_out(tasks, &file, opened),
                    Err(source) => Err(Error::Open { path: path.to_owned(), source }),
                },
                Ok(opened) => self.hand_out(tasks, &file, opened),
            };
            match rest {
                Ok(None) => {}
                Err(error) => file.fail(error),
                Ok(Some(Later { before, fetch, cold })) => {
                    let bring = move |tasks: &Tasks<'w>| {
                        file.fail_if(self.bring(tasks, &file, &fetch, cold));
                        drop(file);
                        self.feed(tasks);
                    };
                    tasks.task("read").on(Device::Io).wait_for(&before).spawn(bring).forget();
                    return;
                }
            }
        }
    }

    /// Has a file's blocks worked on, or gives what is to be brought when others are done with.
    fn hand_out(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        opened: Opened,
    ) -> Result<Option<Later<'w>>, Error> {
        let Opened { file: mut from, metadata, plan, .. } = opened;
        let kind = metadata.file_type();
        if kind.is_dir() {
            // The system says so in its own words.
            let refused = from.read(&mut [0]).err();
            let source = refused.unwrap_or_else(|| io::ErrorKind::IsADirectory.into());
            return Err(Error::Stream { path: file.path.to_owned(), source });
        }
        if !kind.is_file() && !kind.is_block_device() {
            let mut from = Stream::of_file(from, self.work.in_order);
            return self.take_in(tasks, file, &mut from).map(|()| None);
        }
        if is_small(&metadata) && self.work.takes_small() {
            let resident = plan.map_or(0, |plan| plan.resident_bytes());
            file.note_plan(resident, (resident < metadata.len()).then(|| self.work.method()));
            let Some(permit) = self.work.window.permit() else { return Ok(None) };
            let file = file.clone();
            tasks.task("block").spawn(move |_| file.read_small(&mut from, Some(permit))).forget();
            return Ok(None);
        }
        self.hand_out_large(tasks, file, plan)
    }

    fn hand_out_large(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        plan: Option<Plan>,
    ) -> Result<Option<Later<'w>>, Error> {
        let read = self.work.read;
        let single = Arc::new(Single::open(file.path, read.access)?);
        let size = single.file().size();
        let range = read.range.start.min(size)..read.range.end.min(size);
        if range.is_empty() {
            return Ok(None);
        }
        // It may have changed since it was opened; and a block device is looked at here.
        let plan = plan.filter(|plan| plan.covers(&range));
        let plan = match plan {
            None if self.work.is_usual() => Plan::of(single.file().file(), range.clone()),
            None => Plan::all_cold(range.clone()),
            Some(plan) => plan,
        };
        let plan = if self.work.in_order && !plan.cold.is_empty() { Plan::all_cold(range) } else { plan };
        let by_whom = read.io == IoThread::Dedicated && !plan.cold.is_empty();
        file.note_plan(plan.resident_bytes(), by_whom.then(|| self.work.method()));
        match read.io {
            IoThread::Shared => {
                self.hand_out_shared(tasks, file, single, plan);
                Ok(None)
            }
            IoThread::Dedicated => self.hand_out_dedicated(tasks, file, single, plan),
        }
    }

    /// Each thread brings what it works on.
    fn hand_out_shared(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        single: Arc<Single>,
        plan: Plan,
    ) {
        let read = self.work.read;
        let way = match read.method.map_or(EngineKind::Pread, |method| method.kind) {
            EngineKind::Mmap | EngineKind::Populate => Way::Map,
            _ => Way::Copy,
        };
        let fetch = Arc::new(Fetch::only(single, way, read.block, self.buffers.clone()));
        let block = read.block as u64;
        let ranges = plan.resident.into_iter().chain(plan.cold);
        let pieces = ranges.flat_map(move |range| cut(range, block));
        if self.work.in_order {
            self.one_by_one(tasks, file, pieces, &fetch);
        } else {
            self.side_by_side(tasks, file, pieces, fetch).forget();
        }
    }

    /// What is resident is fetched by those who compute, and what is not comes by this thread.
    fn hand_out_dedicated(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        single: Arc<Single>,
        plan: Plan,
    ) -> Result<Option<Later<'w>>, Error> {
        let (read, bytes) = (self.work.read, plan.resident_bytes());
        let fetch = Fetch::faster(single, plan.bytes(), read.block, self.buffers.clone());
        let fetch = Arc::new(fetch);
        let Plan { resident, cold, is_too_large } = plan;
        let room = if self.work.in_order { read.bytes_ahead() } else { u64::MAX };
        let most = piece_max(bytes, room, read.threads).min(MAPPED_MAX);
        let sizes = most.min(MAPPED_AT_ENDS)..most;
        let pieces = resident.into_iter().flat_map(move |range| tapered(range, sizes.clone()));
        if self.work.in_order && bytes > 0 {
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
        self.bring(tasks, file, &fetch, cold).map(|()| None)
    }

    /// Has pieces fetched and worked on by those who compute, as many as there is room for.
    fn one_by_one(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        pieces: impl Iterator<Item = Range<u64>>,
        fetch: &Arc<Fetch>,
    ) {
        for piece in pieces {
            if !self.hand_over(tasks, file, piece, fetch) {
                return;
            }
        }
    }

    /// Has a piece fetched and worked on when there is room for it; says whether more is wanted.
    pub(super) fn hand_over(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
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

    /// Has each piece fetched and worked on by those who compute; ends when they have.
    fn side_by_side(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
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

/// Whether a file is read at once by who works on it.
pub(super) fn is_small(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.len() < SMALL as u64
}
