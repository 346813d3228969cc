//! From an access to a file to its answer: the places on the drive, the drive's time, the backing I/O.
//!
//! An access has two sides that go on side by side: the drive, which takes its time, and the backing file, which holds
//! the content. It is answered when both have ended, by whichever thread ends last.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sakiyomi_model::{Bytes, Completion, Extent, Lba, Nanos, Op, Outcome, Sectors, StreamId};

use crate::layout::{BLOCK, FileId, Layout, Metadata, NoSpace, Part, Run, Work};
use crate::live::{Access, Question, RealtimeDevice, Stopped, Timeline};
use crate::watch::{Ended, Watch};
use crate::workers::Workers;

/// What stands behind all files.
#[derive(Debug)]
pub(crate) struct Engine {
    layout: Mutex<Layout>,
    /// None where names and attributes cost nothing.
    metadata: Option<Mutex<Metadata>>,
    sector: Bytes,
    /// None where only the backing directory's own time counts, and nobody has a rate.
    live: Option<RealtimeDevice>,
    /// What is live is a drive, and not the backing directory itself.
    emulated: bool,
    workers: Arc<Workers>,
    timeline: Timeline,
    watch: Arc<Watch>,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// The process, for a trace.
    pub(crate) process: StreamId,
    /// Whose rate counts.
    pub(crate) owner: StreamId,
}

/// Who asks for what.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) asker: Asker,
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
    emulated: bool,
    timeline: Timeline,
    watch: Arc<Watch>,
}

impl Engine {
    pub(crate) fn new(
        layout: Layout,
        metadata: Option<Metadata>,
        sector: Bytes,
        (live, emulated): (Option<RealtimeDevice>, bool),
        timeline: Timeline,
        watch: Arc<Watch>,
        workers: Arc<Workers>,
    ) -> Engine {
        let (layout, metadata) = (Mutex::new(layout), metadata.map(Mutex::new));
        Engine { layout, metadata, sector, live, emulated, workers, timeline, watch }
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

    /// How long the drive was busy; nothing where that is not known.
    pub(crate) fn busy(&self) -> Option<Nanos> {
        self.live.as_ref().map(RealtimeDevice::busy)
    }

    /// Whether accesses take a drive's time, or else only the backing file's.
    pub(crate) fn has_drive(&self) -> bool {
        self.emulated
    }

    /// Whether accesses are answered when it is their time, and not as soon as can be.
    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Asks what keeps the rates.
    pub(crate) fn ask(&self, question: Question) -> Result<(), Stopped> {
        self.live.as_ref().ok_or(Stopped)?.ask(question)
    }

    /// An access begins now.
    pub(crate) fn begin(&self) -> Begun {
        // A drive's time begins with what it is first asked.
        let at = if self.has_drive() { self.timeline.now() } else { self.timeline.begin() };
        Begun { number: self.watch.begin(), at }
    }

    /// What a read is for the drive.
    pub(crate) fn read(&self, begun: Begun, asker: Asker, file: FileId, offset: u64, length: u64) -> Wish {
        // Without a drive only a trace says where it was.
        let places = self.has_drive() || self.watch.is_recording();
        let extents =
            if places { self.layout().extents(file, offset, length, self.sector) } else { Vec::new() };
        Wish { asker, op: Op::Read, fua: false, bytes: self.bytes(&extents, length), extents, begun }
    }

    /// What a write is for the drive; blocks without a place get one.
    pub(crate) fn write(
        &self,
        asker: Asker,
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
        Ok(Wish { asker, op: Op::Write, fua: false, extents, bytes, begun: self.begin() })
    }

    /// What a flush is for the drive.
    pub(crate) fn flush(&self, asker: Asker) -> Wish {
        let nowhere = Extent::new(Lba(0), Sectors(0));
        Wish { asker, op: Op::Flush, fua: false, extents: vec![nowhere], bytes: 0, begun: self.begin() }
    }

    /// What reading or writing blocks is for the drive.
    fn blocks(&self, asker: Asker, op: Op, runs: &[Run]) -> Wish {
        let sectors = BLOCK / self.sector.0;
        let extent = |run: &Run| Extent::new(Lba(run.start * sectors), Sectors(run.blocks * sectors));
        let bytes = runs.iter().map(|run| run.blocks * BLOCK).sum();
        let extents = runs.iter().map(extent).collect();
        Wish { asker, op, fua: false, extents, bytes, begun: self.begin() }
    }

    fn bytes(&self, extents: &[Extent], length: u64) -> u64 {
        if !self.has_drive() {
            return length;
        }
        extents.iter().map(|extent| extent.sectors.to_bytes(self.sector).0).sum()
    }

    /// Does both sides, `backing` on a thread of its own, and has it answered. `backing` is told whether what it writes
    /// must be on the medium when it ends although nobody has asked for that.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        wish: Wish,
        backing: impl FnOnce(bool) -> io::Result<T> + Send + 'static,
        answer: impl FnOnce(io::Result<T>) + Send + 'static,
    ) {
        let pending = self.pending(wish, None, answer);
        if self.is_live() && !self.has_drive() {
            return self.run_in_turn(&pending, backing);
        }
        self.ask_device(&pending);
        self.workers.run(Box::new(move || {
            let result = backing(false);
            pending.end(|sides| sides.backing = Some(result));
        }));
    }

    /// Does `backing` when it is its turn.
    fn run_in_turn<T: Send + 'static>(
        &self,
        pending: &Arc<Pending<T>>,
        backing: impl FnOnce(bool) -> io::Result<T> + Send + 'static,
    ) {
        let Wish { asker, op, bytes, .. } = pending.account.wish;
        let sectors = Bytes(bytes.next_multiple_of(self.sector.0)).0 / self.sector.0;
        // Where the file lies is not known, and not asked for.
        let extents = vec![Extent::new(Lba(0), Sectors(sectors))];
        let access = Access { stream: asker.owner, op, fua: false, extents };
        let done = Arc::clone(pending);
        let job = move |forced| {
            let result = backing(forced);
            let well = result.is_ok();
            done.end(|sides| sides.backing = Some(result));
            well
        };
        let ended = Arc::clone(pending);
        let answer = move |ends: &[Completion]| ended.end(|sides| sides.device = Some(ends.to_vec()));
        if let Some(live) = &self.live {
            // What a thread that has stopped was asked for is let go, which is an error to who waits.
            let _ = live.submit_job(access, Box::new(job), Box::new(answer));
        }
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
        asker: Asker,
        work: Work,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let (engine, Work { reads, writes }) = (Arc::clone(self), work);
        self.charge_runs(asker, Op::Read, &reads, move || {
            engine.charge_runs(asker, Op::Write, &writes, answer);
        });
    }

    fn charge_runs(&self, asker: Asker, op: Op, runs: &[Run], answer: impl FnOnce() + Send + 'static) {
        if runs.is_empty() {
            return answer();
        }
        self.run_ready(self.blocks(asker, op, runs), (), move |done| {
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
        let emulated = self.emulated;
        Account { wish, emulated, timeline: self.timeline.clone(), watch: Arc::clone(&self.watch) }
    }

    fn ask_device<T: Send + 'static>(&self, pending: &Arc<Pending<T>>) {
        let Wish { asker, op, fua, extents, .. } = pending.account.wish.clone();
        let Some(live) = self.live.as_ref().filter(|_| self.emulated && !extents.is_empty()) else {
            return pending.end(|sides| sides.device = Some(Vec::new()));
        };
        let ended = Arc::clone(pending);
        let answer = move |ends: &[Completion]| ended.end(|sides| sides.device = Some(ends.to_vec()));
        // Should the model have stopped, what is asked of it is never answered but by the error of a reply that is
        // dropped: an input/output error.
        let _ = live.submit(Access { stream: asker.owner, op, fua, extents }, Box::new(answer));
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
            let refused = || io::Error::other("the drive has refused it");
            answer(if failed { result.and_then(|_| Err(refused())) } else { result });
            self.account.tell(&ends);
        }
    }
}

impl Account {
    fn tell(&self, ends: &[Completion]) {
        // Of the backing directory nothing is known but when it has answered.
        let ends = if self.emulated { ends } else { &[] };
        self.watch.end(&self.wish.ended(ends, self.timeline.now()));
    }
}

impl Wish {
    fn ended<'a>(&'a self, ends: &'a [Completion], answered: Nanos) -> Ended<'a> {
        let Wish { asker, op, ref extents, bytes, begun, .. } = *self;
        let arrival = ends.first().map_or(begun.at, |end| end.request.arrival);
        Ended { number: begun.number, stream: asker.process, op, extents, bytes, ends, arrival, answered }
    }
}
