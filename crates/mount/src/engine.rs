//! From an access to a file to its answer: the places on the drive, the drive's time, the backing I/O.
//!
//! An access has two sides that go on side by side: the drive, which takes its time, and the backing file, which holds
//! the content. It is answered when both have ended, by whichever thread ends last.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_model::{Bytes, Completion, Extent, Lba, Nanos, Op, Outcome, Sectors, StreamId};

use crate::layout::{BLOCK, FileId, Layout, Metadata, NoSpace, Part, Run, Work};
use crate::live::{Access, Live, Timeline};
use crate::watch::{Ended, Watch};
use crate::workers::Workers;

/// What stands behind all files.
#[derive(Debug)]
pub(crate) struct Engine {
    layout: Mutex<Layout>,
    /// None where names and attributes cost nothing.
    metadata: Option<Mutex<Metadata>>,
    sector: Bytes,
    /// None where only the backing directory's own time counts.
    live: Option<Live>,
    workers: Workers,
    timeline: Timeline,
    watch: Arc<Watch>,
}

/// Who asks for what.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) stream: StreamId,
    pub(crate) op: Op,
    /// Not complete before it is on the medium.
    pub(crate) fua: bool,
    pub(crate) extents: Vec<Extent>,
    /// Of the drive; without one, of the file.
    bytes: u64,
    begun: Begun,
}

/// When an access began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// In the trace.
    number: u64,
    at: Nanos,
}

/// How an access goes on, until both sides have ended.
struct Sides<T> {
    backing: Option<io::Result<T>>,
    /// The drive's ends, empty where there is nothing for it to do.
    device: Option<Vec<Completion>>,
    answer: Option<Box<dyn FnOnce(io::Result<T>) + Send>>,
}

struct Pending<T> {
    sides: Mutex<Sides<T>>,
    account: Account,
}

/// What is told of an access when it has been answered.
struct Account {
    wish: Wish,
    timeline: Timeline,
    watch: Arc<Watch>,
}

impl Engine {
    pub(crate) fn new(
        layout: Layout,
        metadata: Option<Metadata>,
        sector: Bytes,
        live: Option<Live>,
        timeline: Timeline,
        watch: Arc<Watch>,
        threads: usize,
    ) -> io::Result<Engine> {
        let workers = Workers::start(threads)?;
        let (layout, metadata) = (Mutex::new(layout), metadata.map(Mutex::new));
        Ok(Engine { layout, metadata, sector, live, workers, timeline, watch })
    }

    pub(crate) fn layout(&self) -> MutexGuard<'_, Layout> {
        // What can panic in there is a bug that has been told; the places stay usable.
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What names and attributes cost; nothing where that is not asked for.
    pub(crate) fn metadata<R>(&self, work: impl FnOnce(&mut Metadata) -> R) -> Option<R> {
        let metadata = self.metadata.as_ref()?;
        Some(work(&mut metadata.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// How long the drive was busy; nothing where there is none.
    pub(crate) fn busy(&self) -> Option<Nanos> {
        self.live.as_ref().map(Live::busy)
    }

    /// Whether accesses take a drive's time, or else only the backing file's.
    pub(crate) fn has_drive(&self) -> bool {
        self.live.is_some()
    }

    /// An access begins now.
    pub(crate) fn begin(&self) -> Begun {
        // A drive's time begins with what it is first asked.
        let at = if self.has_drive() { self.timeline.now() } else { self.timeline.begin() };
        Begun { number: self.watch.begin(), at }
    }

    /// What a read is for the drive.
    pub(crate) fn read(
        &self,
        begun: Begun,
        stream: StreamId,
        file: FileId,
        offset: u64,
        length: u64,
    ) -> Wish {
        // Without a drive only a trace says where it was.
        let places = self.has_drive() || self.watch.is_recording();
        let extents =
            if places { self.layout().extents(file, offset, length, self.sector) } else { Vec::new() };
        Wish { stream, op: Op::Read, fua: false, bytes: self.bytes(&extents, length), extents, begun }
    }

    /// What a write is for the drive; blocks without a place get one.
    pub(crate) fn write(
        &self,
        stream: StreamId,
        file: FileId,
        offset: u64,
        length: u64,
    ) -> Result<Wish, NoSpace> {
        let mut layout = self.layout();
        let changes = self.metadata.is_some() && !layout.has(file, offset, length);
        layout.place(file, offset, length)?;
        let extents = layout.extents(file, offset, length, self.sector);
        drop(layout);
        if changes {
            self.metadata(|metadata| metadata.mark(&[Part::Inode(file)]));
        }
        let bytes = self.bytes(&extents, length);
        Ok(Wish { stream, op: Op::Write, fua: false, extents, bytes, begun: self.begin() })
    }

    /// What a flush is for the drive.
    pub(crate) fn flush(&self, stream: StreamId) -> Wish {
        let nowhere = Extent::new(Lba(0), Sectors(0));
        Wish { stream, op: Op::Flush, fua: false, extents: vec![nowhere], bytes: 0, begun: self.begin() }
    }

    /// What reading or writing blocks is for the drive.
    fn blocks(&self, stream: StreamId, op: Op, runs: &[Run]) -> Wish {
        let sectors = BLOCK / self.sector.0;
        let extent = |run: &Run| Extent::new(Lba(run.start * sectors), Sectors(run.blocks * sectors));
        let bytes = runs.iter().map(|run| run.blocks * BLOCK).sum();
        let extents = runs.iter().map(extent).collect();
        Wish { stream, op, fua: false, extents, bytes, begun: self.begin() }
    }

    fn bytes(&self, extents: &[Extent], length: u64) -> u64 {
        if !self.has_drive() {
            return length;
        }
        extents.iter().map(|extent| extent.sectors.to_bytes(self.sector).0).sum()
    }

    /// Does both sides, `backing` on a thread of its own, and has it answered.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        wish: Wish,
        backing: impl FnOnce() -> io::Result<T> + Send + 'static,
        answer: impl FnOnce(io::Result<T>) + Send + 'static,
    ) {
        let pending = self.pending(wish, None, answer);
        self.ask_device(&pending);
        self.workers.run(Box::new(move || {
            let result = backing();
            pending.end(|sides| sides.backing = Some(result));
        }));
    }

    /// The same where the backing file's side has ended already.
    pub(crate) fn run_ready<T: Send + 'static>(
        &self,
        wish: Wish,
        result: T,
        answer: impl FnOnce(io::Result<T>) + Send + 'static,
    ) {
        let pending = self.pending(wish, Some(Ok(result)), answer);
        self.ask_device(&pending);
    }

    /// Has the drive do what metadata costs, and then `answer` called; should the drive refuse, it is dropped, which is
    /// an input/output error to who waits.
    pub(crate) fn charge(
        self: &Arc<Engine>,
        stream: StreamId,
        work: Work,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let (engine, Work { reads, writes }) = (Arc::clone(self), work);
        self.charge_runs(stream, Op::Read, &reads, move || {
            engine.charge_runs(stream, Op::Write, &writes, answer);
        });
    }

    fn charge_runs(&self, stream: StreamId, op: Op, runs: &[Run], answer: impl FnOnce() + Send + 'static) {
        if runs.is_empty() {
            return answer();
        }
        self.run_ready(self.blocks(stream, op, runs), (), move |done| {
            if done.is_ok() {
                answer();
            }
        });
    }

    /// Tells of an access that was answered by who took it, without a drive.
    pub(crate) fn answered(&self, wish: &Wish) {
        self.watch.end(&wish.ended(&[], self.timeline.now()));
    }

    fn pending<T: Send + 'static>(
        &self,
        wish: Wish,
        backing: Option<io::Result<T>>,
        answer: impl FnOnce(io::Result<T>) + Send + 'static,
    ) -> Arc<Pending<T>> {
        let sides = Sides { backing, device: None, answer: Some(Box::new(answer)) };
        Arc::new(Pending { sides: Mutex::new(sides), account: self.account(wish) })
    }

    fn account(&self, wish: Wish) -> Account {
        Account { wish, timeline: self.timeline.clone(), watch: Arc::clone(&self.watch) }
    }

    fn ask_device<T: Send + 'static>(&self, pending: &Arc<Pending<T>>) {
        let Wish { stream, op, fua, extents, .. } = pending.account.wish.clone();
        let Some(live) = self.live.as_ref().filter(|_| !extents.is_empty()) else {
            return pending.end(|sides| sides.device = Some(Vec::new()));
        };
        let ended = Arc::clone(pending);
        let answer = move |ends: &[Completion]| ended.end(|sides| sides.device = Some(ends.to_vec()));
        // Should the model have stopped, what is asked of it is never answered but by the error of a reply that is
        // dropped: an input/output error.
        let _ = live.submit(Access { stream, op, fua, extents }, Box::new(answer));
    }
}

impl<T> Pending<T> {
    /// One side has ended; the last one answers.
    fn end(&self, end: impl FnOnce(&mut Sides<T>)) {
        let mut sides = self.sides.lock().unwrap_or_else(PoisonError::into_inner);
        end(&mut sides);
        if sides.backing.is_none() || sides.device.is_none() {
            return;
        }
        let (backing, device, answer) = (sides.backing.take(), sides.device.take(), sides.answer.take());
        drop(sides);
        if let (Some(result), Some(ends), Some(answer)) = (backing, device, answer) {
            let failed = ends.iter().any(|end| end.outcome != Outcome::Done);
            answer(if failed { Err(io::Error::other("the drive has refused it")) } else { result });
            self.account.tell(&ends);
        }
    }
}

impl Account {
    fn tell(&self, ends: &[Completion]) {
        self.watch.end(&self.wish.ended(ends, self.timeline.now()));
    }
}

impl Wish {
    fn ended<'a>(&'a self, ends: &'a [Completion], answered: Nanos) -> Ended<'a> {
        let Wish { stream, op, ref extents, bytes, begun, .. } = *self;
        let arrival = ends.first().map_or(begun.at, |end| end.request.arrival);
        Ended { number: begun.number, stream, op, extents, bytes, ends, arrival, answered }
    }
}
