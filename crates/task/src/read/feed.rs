//! What the I/O thread does: it opens files one after the other, somewhat ahead, and has their blocks worked on.
//!
//! It goes on with the next file as soon as the last block of one is read, while others work on what there is; and it has
//! the kernel fetch the beginnings of the files that come next, so that a device which is slow to answer is asked for
//! many at the same time.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::iter::Peekable;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::vec;

use sakiyomi_linux::blocks::Single;
use sakiyomi_linux::{Blocks, Memory, MethodKind, Options, Pool, page_cache};

use super::plan::{Plan, cut};
use super::stream::{Bytes, fill_buffer};
use super::work::{Fetch, Hold, SMALL, Work};
use super::{Error, IoThread};
use crate::manager::{Device, Handle, Tasks};

/// What a thread maps at a time of a file that is in memory, at most.
const MAPPED_MAX: u64 = 16 << 20;
/// Bytes that are fetched of files that are opened ahead: of all, and of each.
const FETCHED: u64 = 8 << 20;
const FETCHED_OF_ONE: u64 = 4 << 20;
const FETCHED_AT_A_TIME: u64 = 1 << 20;

/// What is read.
pub(super) enum Input<'f> {
    Path(&'f Path),
    /// Of what is called so.
    Stream(&'f Path, Box<dyn Read + Send + 'f>),
}

impl<'f> Input<'f> {
    fn path(&self) -> &'f Path {
        match self {
            Input::Path(path) | Input::Stream(path, _) => path,
        }
    }
}

/// A file that is opened, and what of it was in memory then.
struct Opened {
    file: File,
    metadata: Metadata,
    plan: Option<Plan>,
    fetched: u64,
}

/// What is to be brought when what is resident has been worked on.
struct Later<'w> {
    before: Handle<'w, ()>,
    single: Arc<Single>,
    cold: Vec<Range<u64>>,
}

pub(super) struct Feeder<'w, 'g, T> {
    work: &'w Work<'g, T>,
    inputs: Peekable<vec::IntoIter<Input<'w>>>,
    /// How many of them were begun.
    begun: usize,
    ahead: VecDeque<(&'w Path, Opened)>,
    fetched: u64,
    /// The device that was asked last how much it fetches at a time, and how much that is, in bytes.
    device: Option<(u64, u64)>,
    /// Buffers for those who read what they work on.
    pool: Option<(usize, Pool)>,
}

impl<'w, 'g, T: Send> Feeder<'w, 'g, T> {
    pub(super) fn new(work: &'w Work<'g, T>, inputs: Vec<Input<'w>>) -> Feeder<'w, 'g, T> {
        let inputs = inputs.into_iter().peekable();
        Feeder { work, inputs, begun: 0, ahead: VecDeque::new(), fetched: 0, device: None, pool: None }
    }

    /// Hands out the blocks of all files.
    pub(super) fn feed(mut self, tasks: &Tasks<'w>) {
        while !self.ahead.is_empty() || self.inputs.peek().is_some() {
            let Some(permit) = self.work.files.permit() else { return };
            self.look_ahead();
            let (path, input) = match self.ahead.pop_front() {
                Some((path, opened)) => {
                    self.fetched -= opened.fetched;
                    (path, Ok(opened))
                }
                None => {
                    let input = self.inputs.next().expect("looked at above");
                    (input.path(), Err(input))
                }
            };
            let file = self.work.file(self.begun, path, permit);
            self.begun += 1;
            let rest = match input {
                Err(Input::Stream(_, mut from)) => self.take_in(tasks, &file, &mut *from),
                // It was not opened ahead, so it may wait for somebody, as a FIFO does; perhaps it need not be read at
                // all. Or those before it have the descriptors that it needs.
                Err(Input::Path(_)) if !self.work.files.wait_for_others() => return,
                Err(Input::Path(path)) => match self.open(path) {
                    Ok(opened) => self.hand_out(tasks, &file, opened),
                    Err(source) => Err(Error::Open { path: path.to_owned(), source }),
                },
                Ok(opened) => self.hand_out(tasks, &file, opened),
            };
            match rest {
                Ok(None) => {}
                Err(error) => file.fail(error),
                Ok(Some(Later { before, single, cold })) => {
                    let bring = move |tasks: &Tasks<'w>| {
                        file.fail_if(self.bring(tasks, &file, &single, cold));
                        drop(file);
                        self.feed(tasks);
                    };
                    tasks.task("read").on(Device::Io).wait_for(&before).spawn(bring).forget();
                    return;
                }
            }
        }
    }

    /// Opens the files that come next, as long as they are regular ones: others may wait for somebody.
    fn look_ahead(&mut self) {
        while self.ahead.len() < self.work.files.most() && self.fetched < FETCHED {
            let Some(&Input::Path(path)) = self.inputs.peek() else { return };
            if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
                return;
            }
            let Ok(mut opened) = self.open(path) else { return };
            self.inputs.next();
            self.fetch_beginning(&mut opened);
            self.fetched += opened.fetched;
            self.ahead.push_back((path, opened));
        }
    }

    fn open(&self, path: &Path) -> io::Result<Opened> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let plan = (self.work.is_usual() && metadata.is_file()).then(|| {
            let range = &self.work.read.range;
            Plan::of(&file, range.start.min(metadata.len())..range.end.min(metadata.len()))
        });
        Ok(Opened { file, metadata, plan, fetched: 0 })
    }

    /// Has the kernel fetch what will be read first.
    fn fetch_beginning(&mut self, opened: &mut Opened) {
        let Some(first) = opened.plan.as_ref().and_then(|plan| plan.cold.first()) else { return };
        let piece = self.piece(&opened.file, &opened.metadata);
        let range = first.start..first.end.min(first.start + FETCHED_OF_ONE);
        opened.fetched = range.end - range.start;
        // What is refused here is read all the same.
        let _ = page_cache::fetch_in_pieces(&opened.file, range, piece);
    }

    /// How much the kernel fetches at a time from a file's device, in bytes.
    fn piece(&mut self, file: &File, metadata: &Metadata) -> u64 {
        let device = metadata.dev();
        let piece = match self.device {
            Some((asked, piece)) if asked == device => piece,
            _ => page_cache::piece(file).unwrap_or(128 << 10),
        };
        self.device = Some((device, piece));
        piece
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
            return self.take_in(tasks, file, &mut from);
        }
        if kind.is_file() && metadata.len() < SMALL as u64 && self.work.takes_small() {
            let resident = plan.map_or(0, |plan| plan.resident_bytes());
            file.note_plan(resident, (resident < metadata.len()).then(|| self.work.method()));
            let Some(permit) = self.work.window.permit() else { return Ok(None) };
            let file = file.clone();
            tasks.task("block").spawn(move |_| file.read_small(&mut from, Some(permit))).forget();
            return Ok(None);
        }
        self.hand_out_large(tasks, file, plan)
    }
}

impl<'w, 'g, T: Send> Feeder<'w, 'g, T> {
    fn hand_out_large(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        plan: Option<Plan>,
    ) -> Result<Option<Later<'w>>, Error> {
        let read = self.work.read;
        let single = Arc::new(Single::open(file.path, read.access)?);
        let size = single.source().size();
        let range = read.range.start.min(size)..read.range.end.min(size);
        if range.is_empty() {
            return Ok(None);
        }
        // It may have changed since it was opened; and a block device is looked at here.
        let plan = plan.filter(|plan| plan.covers(&range));
        let plan = match plan {
            None if self.work.is_usual() => Plan::of(single.source().file(), range.clone()),
            None => Plan::all_cold(range.clone()),
            Some(plan) => plan,
        };
        let plan = if self.work.in_order && !plan.cold.is_empty() { Plan::all_cold(range) } else { plan };
        let by_whom = read.io == IoThread::Dedicated && !plan.cold.is_empty();
        file.note_plan(plan.resident_bytes(), by_whom.then(|| self.work.method()));
        match read.io {
            IoThread::Shared => self.hand_out_shared(tasks, file, single, plan).map(|()| None),
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
    ) -> Result<(), Error> {
        let read = self.work.read;
        let fetch = match read.method.map_or(MethodKind::Pread, |method| method.kind) {
            MethodKind::Mmap | MethodKind::Populate => Fetch::Map(single),
            _ => {
                // A direct transfer is widened to the alignment at both ends.
                let size = read.block + 2 * single.source().alignment().offset;
                let pool = match self.pool.take().filter(|&(had, _)| had >= size) {
                    Some((_, pool)) => pool,
                    None => Pool::new(read.threads + 1, size, Memory::Huge)?,
                };
                self.pool = Some((size, pool.clone()));
                Fetch::Read(single, pool)
            }
        };
        let block = read.block as u64;
        let ranges = plan.resident.into_iter().chain(plan.cold);
        let pieces = ranges.flat_map(move |range| cut(range, block));
        if self.work.in_order {
            self.one_by_one(tasks, file, pieces, fetch);
        } else {
            self.side_by_side(tasks, file, pieces, fetch).forget();
        }
        Ok(())
    }

    /// What is resident is mapped by those who compute, and what is not comes by this thread.
    fn hand_out_dedicated(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        single: Arc<Single>,
        plan: Plan,
    ) -> Result<Option<Later<'w>>, Error> {
        let bytes = plan.resident_bytes();
        let Plan { resident, cold, is_too_large } = plan;
        // Some for each thread, so that they end together; but a block is too small to be worth mapping.
        let some = (bytes / (16 * self.work.read.threads as u64)).next_multiple_of(64 << 10);
        let size = some.clamp(SMALL as u64, MAPPED_MAX);
        let pieces = resident.into_iter().flat_map(move |range| cut(range, size));
        let fetch = Fetch::Map(Arc::clone(&single));
        if self.work.in_order && bytes > 0 {
            self.one_by_one(tasks, file, pieces, fetch);
            return Ok(None);
        }
        if bytes > 0 {
            let mapped = self.side_by_side(tasks, file, pieces, fetch);
            if is_too_large {
                return Ok(Some(Later { before: mapped, single, cold }));
            }
            mapped.forget();
        }
        self.bring(tasks, file, &single, cold).map(|()| None)
    }

    /// Has pieces fetched and worked on by those who compute, as many as there is room for.
    fn one_by_one(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        pieces: impl Iterator<Item = Range<u64>>,
        fetch: Fetch,
    ) {
        let fetch = Arc::new(fetch);
        for piece in pieces {
            let Some(permit) = self.work.window.permit().filter(|_| !file.is_over()) else { return };
            let (file, fetch) = (file.clone(), Arc::clone(&fetch));
            tasks.task("block").spawn(move |_| file.fetched(piece, &fetch, Some(permit))).forget();
        }
    }

    /// Has each piece fetched and worked on by those who compute; ends when they have.
    fn side_by_side(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        pieces: impl Iterator<Item = Range<u64>> + Send + 'w,
        fetch: Fetch,
    ) -> Handle<'w, ()> {
        let file = file.clone();
        tasks.each("block", self.work.read.threads, pieces, move |piece, _| {
            file.fetched(piece, &fetch, None);
            Ok::<(), std::convert::Infallible>(())
        })
    }

    /// Reads parts of a file, and makes a task of each block.
    fn bring(
        &mut self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        single: &Single,
        parts: Vec<Range<u64>>,
    ) -> Result<(), Error> {
        let read = self.work.read;
        let from = single.source().file();
        let piece = match from.metadata() {
            Ok(metadata) if self.work.is_usual() && metadata.is_file() => Some(self.piece(from, &metadata)),
            _ => None,
        };
        for range in parts {
            let mut ahead = piece.map(|piece| Ahead { file: from, piece, rest: range.clone() });
            ahead.iter_mut().for_each(|ahead| ahead.keep(range.start));
            let blocks = (range.end - range.start).div_ceil(read.block as u64);
            let options = Options {
                method: self.work.method(),
                access: read.access,
                block: read.block,
                hold: (read.window() + 1)
                    .min(usize::try_from(blocks).unwrap_or(usize::MAX).saturating_add(1)),
                range: Some(range),
                ..Options::default()
            };
            let mut blocks = Blocks::open(file.path, &options)?;
            loop {
                let Some(permit) = self.work.window.permit().filter(|_| !file.is_over()) else {
                    return Ok(());
                };
                let Some(block) = blocks.next() else { break };
                let block = block?;
                ahead.iter_mut().for_each(|ahead| ahead.keep(block.offset()));
                let file = file.clone();
                let work = move |_: &Tasks<'w>| file.piece(block.offset(), Bytes::Block(block), Some(permit));
                tasks.task("block").spawn(work).forget();
            }
        }
        Ok(())
    }

    /// Reads what has no offsets, and makes a task of each block.
    fn take_in(
        &self,
        tasks: &Tasks<'w>,
        file: &Hold<'w, 'g, T>,
        from: &mut (dyn Read + Send + '_),
    ) -> Result<Option<Later<'w>>, Error> {
        file.note_plan(0, Some(sakiyomi_linux::MethodSpec::usual(MethodKind::Read)));
        let read = self.work.read;
        let pool = Pool::new(read.window() + 1, read.block, Memory::Huge)?;
        let mut offset = 0;
        while let Some(permit) = self.work.window.permit().filter(|_| !file.is_over()) {
            let mut buffer = pool.take().expect("no more are lent than permitted");
            let filled = fill_buffer(from, &mut buffer);
            filled.map_err(|source| Error::Stream { path: file.path.to_owned(), source })?;
            if buffer.is_empty() {
                break;
            }
            let (length, file) = (buffer.len() as u64, file.clone());
            let work = move |_: &Tasks<'w>| file.piece(offset, Bytes::Buffer(buffer), Some(permit));
            tasks.task("block").spawn(work).forget();
            offset += length;
        }
        Ok(None)
    }
}

/// Has the kernel fetch what is read soon. By itself it asks for no more than its device's read-ahead, which is too little
/// for one that is slow to answer.
struct Ahead<'f> {
    file: &'f File,
    piece: u64,
    /// Not yet fetched.
    rest: Range<u64>,
}

impl Ahead<'_> {
    /// What is read is here now.
    fn keep(&mut self, at: u64) {
        let to = (at + FETCHED).min(self.rest.end);
        if to == self.rest.end || to >= self.rest.start + FETCHED_AT_A_TIME {
            let range = self.rest.start..to;
            // What is refused here is read all the same.
            if !range.is_empty() && page_cache::fetch_in_pieces(self.file, range, self.piece).is_err() {
                self.rest.start = self.rest.end;
            }
            self.rest.start = self.rest.start.max(to);
        }
    }
}
