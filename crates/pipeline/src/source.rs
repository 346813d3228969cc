//! Sources of rows.

mod clock;
mod generator;
mod mark;
mod replay;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sakiyomi_stream::{Decode, Encode, Frame, Next, Overload, SaveState, Source, StateError, Wakeup};

use crate::Error;
use crate::control::Control;
use crate::input::{Batch, FilePosition, Named, Queue, Records, Taken};
use crate::parse::{Bad, Parser};
use crate::row::{Handles, Row, RowBuilder};
use crate::spec::OnBad;

use clock::Verdict;
pub(crate) use clock::{EventClock, event_ns, unit_ns};
pub(crate) use generator::GeneratorSource;
pub(crate) use mark::Mark;
use replay::Position;
pub(crate) use replay::Replay;

/// The longest time after which an idle source looks whether the event time is to continue with the clock: 50 looks a
/// second, with the polling before and after them, take 0.3 % of a core.
const IDLE_POLL_MAX_NS: u64 = 20_000_000;

/// Such a source waits at most this part of the time for which it has been idle: an eighth delays a watermark little, and
/// leaves polling within a millisecond.
const IDLE_DIVISOR: u64 = 8;

/// Time after which a source looks again whether the outputs have caught up.
const PAUSE_NS: u64 = 200_000;

/// Records that a source did not emit. They can be read while the stream runs.
#[derive(Debug, Default)]
pub struct SourceCounts {
    bad: AtomicU64,
    late: AtomicU64,
    first_bad: Mutex<Option<String>>,
}

impl SourceCounts {
    /// Records that could not be read.
    #[must_use]
    pub fn bad(&self) -> u64 {
        self.bad.load(Ordering::Relaxed)
    }

    /// Returns the rows that were dropped because they came after the watermark.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Returns the first record that could not be read: its offset and its fault.
    #[must_use]
    pub fn first_bad(&self) -> Option<String> {
        self.first_bad.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn add_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    fn add_bad(&self, text: impl FnOnce() -> String) {
        if self.bad.fetch_add(1, Ordering::Relaxed) == 0 {
            *self.first_bad.lock().unwrap_or_else(PoisonError::into_inner) = Some(text());
        }
    }
}

/// Parts of a source of records.
pub(crate) struct RecordSource {
    queue: Queue,
    /// None if the input has rows.
    parser: Option<Parser>,
    clock: Option<EventClock>,
    overload: Overload,
    bad: OnBad,
    named: Named,
    control: Arc<Control>,
    wakeup: Wakeup,
    counts: Arc<SourceCounts>,
    current: Current,
    /// Offset of the first record, in bytes.
    begin: u64,
    /// Rows of an input that needs no parsing that were taken.
    rows: u64,
    /// None of inputs that cannot be read again.
    replay: Option<Replay>,
    out: RowBuilder,
    /// When the current records were read, in nanoseconds of the stream's clock.
    arrival_ns: u64,
    /// The begin of the stream's clock.
    started: Option<Instant>,
    idle_since_ns: Option<u64>,
}

/// The records that are being emitted.
enum Current {
    Nothing,
    Lines { handles: Handles, at: usize },
    Rows(std::vec::IntoIter<Row>),
}

/// Layout of the saved state of a source of records.
const FRAME: Frame = Frame { kind: "a source of records", version: 2 };

/// The policies and the place of a source.
pub(crate) struct SourceSettings {
    pub(crate) clock: Option<EventClock>,
    pub(crate) overload: Overload,
    pub(crate) bad: OnBad,
    pub(crate) named: Named,
    pub(crate) control: Arc<Control>,
    /// By which the thread of its input wakes it.
    pub(crate) wakeup: Wakeup,
    pub(crate) counts: Arc<SourceCounts>,
}

impl RecordSource {
    pub(crate) fn new(queue: Queue, parser: Option<Parser>, settings: SourceSettings) -> RecordSource {
        let SourceSettings { clock, overload, bad, named, control, wakeup, counts } = settings;
        control.wake_at_stop(wakeup.clone());
        RecordSource {
            queue,
            parser,
            clock,
            overload,
            bad,
            named,
            control,
            wakeup,
            counts,
            current: Current::Nothing,
            begin: 0,
            rows: 0,
            replay: None,
            out: RowBuilder::default(),
            arrival_ns: 0,
            started: None,
            idle_since_ns: None,
        }
    }

    /// Returns the source, with an input that can be read again.
    pub(crate) fn with_replay(self, replay: Option<Replay>) -> RecordSource {
        RecordSource { replay, ..self }
    }

    /// Returns the next row of the current records that is to be emitted; none at their end, or if the pipeline is to
    /// end.
    fn row(&mut self) -> Option<Row> {
        loop {
            let row = match &mut self.current {
                Current::Nothing => return None,
                Current::Rows(rows) => {
                    let row = rows.next()?;
                    self.rows += 1;
                    row
                }
                Current::Lines { handles, at } => {
                    let parser = self.parser.as_mut()?;
                    let (record, next) = parser.record(handles.text(), *at)?;
                    let start = record.start;
                    *at = next;
                    match parser.parse(handles.block(), record, &mut self.out) {
                        Ok(true) => self.out.finish(Some(handles)),
                        Ok(false) => continue,
                        Err(bad) => {
                            let offset = handles.block().offset() + start as u64;
                            let reason = parser.explain(bad);
                            self.refuse(offset, reason, matches!(bad, Bad::Header(_)))?;
                            continue;
                        }
                    }
                }
            };
            let Some(clock) = &mut self.clock else { return Some(row) };
            match clock.note(&row) {
                Verdict::OnTime => return Some(row),
                Verdict::Late => self.counts.add_late(),
                Verdict::NoTime => {
                    let reason = "the record has no event time, or one before 1970 or after 2554".to_owned();
                    self.refuse(self.offset(), reason, false)?;
                }
            }
        }
    }

    /// The end of the last record in its input, in bytes.
    fn offset(&self) -> u64 {
        match &self.current {
            Current::Lines { handles, at } => handles.block().offset() + *at as u64,
            _ => self.begin,
        }
    }

    /// Returns where it continues after the last record. None of a tail whose file does not exist yet.
    fn position(&self) -> Option<Position> {
        if self.parser.is_none() {
            return Some(Position { at: self.rows, inode: None });
        }
        if !self.queue.is_tail() {
            return Some(Position { at: self.offset(), inode: None });
        }
        let FilePosition { inode, offset, .. } = self.queue.position_in_file(self.offset())?;
        Some(Position { at: offset, inode: Some(inode) })
    }

    /// Checksums of its input before the position. The bytes of text that was not UTF-8 are no longer known.
    fn mark(&self) -> Mark {
        let mark = self.replay.as_ref().map_or_else(Mark::default, |replay| replay.mark);
        match &self.current {
            Current::Lines { handles, at } if handles.block().is_intact() => {
                let before = &handles.text().as_bytes()[..*at];
                let file = self.queue.position_in_file(self.offset());
                // Bytes that a tail read of an earlier file are not before the position.
                let read = file.map_or(before.len(), |file| before.len().min(file.read as usize));
                mark.at(&before[before.len() - read..])
            }
            Current::Lines { .. } => mark.at(&[]),
            Current::Nothing | Current::Rows(_) => mark,
        }
    }

    /// Treats a record that cannot be read. None if the pipeline ends.
    #[cold]
    fn refuse(&mut self, offset: u64, reason: String, is_fatal: bool) -> Option<()> {
        if self.bad == OnBad::Skip && !is_fatal {
            self.counts.add_bad(|| format!("at byte {offset}: {reason}"));
            return Some(());
        }
        let (name, target) = (self.named.name.to_string(), self.named.target.to_string());
        self.control.fail(Error::Record { name, target, offset, reason });
        None
    }

    fn begin(&mut self, batch: Batch, now_ns: u64) {
        let started = *self.started.get_or_insert_with(|| {
            Instant::now().checked_sub(Duration::from_nanos(now_ns)).unwrap_or(batch.read_at)
        });
        let arrival = batch.read_at.saturating_duration_since(started).as_nanos();
        self.arrival_ns = u64::try_from(arrival).unwrap_or(u64::MAX).min(now_ns);
        self.idle_since_ns = None;
        if let (Some(replay), Records::Lines(block)) = (&mut self.replay, &batch.records)
            && block.offset() == 0
            && block.is_intact()
            && !self.queue.is_tail()
        {
            replay.mark.set_head(block.text().as_bytes());
        }
        self.current = match (batch.records, std::mem::replace(&mut self.current, Current::Nothing)) {
            (Records::Lines(block), Current::Lines { mut handles, .. }) => {
                handles.replace(Arc::new(block));
                Current::Lines { handles, at: 0 }
            }
            (Records::Lines(block), _) => Current::Lines { handles: Handles::new(Arc::new(block)), at: 0 },
            (Records::Rows(rows), _) => Current::Rows(rows.into_iter()),
        };
    }

    /// Returns when to look again, unless the thread of the input wakes it before.
    fn idle(&mut self, now_ns: u64) -> u64 {
        if !self.clock.as_ref().is_some_and(EventClock::goes_on) {
            return u64::MAX;
        }
        let since_ns = *self.idle_since_ns.get_or_insert(now_ns);
        now_ns + (now_ns.saturating_sub(since_ns) / IDLE_DIVISOR).min(IDLE_POLL_MAX_NS)
    }
}

impl Source for RecordSource {
    type Out = Row;

    fn next(&mut self, now_ns: u64) -> Next<Row> {
        loop {
            if self.control.is_stopped() {
                return Next::End;
            }
            if self.control.is_halted() {
                return Next::At(now_ns + PAUSE_NS);
            }
            if let Some(time_ns) = self.clock.as_mut().and_then(EventClock::due) {
                return Next::Watermark(time_ns);
            }
            if let Some(value) = self.row() {
                return Next::Value { value, arrival_ns: self.arrival_ns };
            }
            if let Some(time_ns) = self.clock.as_mut().and_then(EventClock::flush) {
                return Next::Watermark(time_ns);
            }
            if self.control.is_paused() {
                return Next::At(now_ns + PAUSE_NS);
            }
            match self.queue.take() {
                Taken::Batch(batch) => self.begin(batch, now_ns),
                Taken::Empty => {
                    let due_ns = self.idle(now_ns);
                    let silence_ns = now_ns - self.idle_since_ns.unwrap_or(now_ns).min(now_ns);
                    if let Some(time_ns) = self.clock.as_mut().and_then(|clock| clock.idle(silence_ns)) {
                        return Next::Watermark(time_ns);
                    }
                    return Next::At(due_ns);
                }
                Taken::End(error) => {
                    error.into_iter().for_each(|error| self.control.fail(error));
                    return Next::End;
                }
            }
        }
    }

    fn wakeup(&self) -> Option<Wakeup> {
        Some(self.wakeup.clone())
    }

    fn overload(&self) -> Overload {
        self.overload
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        self.replay.is_some().then_some(self as &mut dyn SaveState)
    }
}

/// The saved state of a source of records, for an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedSource {
    /// Bytes that have been read; rows of an input in Arrow IPC.
    pub(crate) offset: u64,
    /// The latest event time and the last watermark, in nanoseconds.
    pub(crate) clock: Option<(u64, u64)>,
    /// For each field of a record its number among those of the description; none before the header.
    pub(crate) header: Option<Vec<Option<usize>>>,
}

impl SavedSource {
    /// # Errors
    /// If the bytes are damaged, or not those of a source of records.
    pub(crate) fn load(bytes: &[u8]) -> Result<SavedSource, StateError> {
        let ((position, clock, header), _): (Saved, Mark) = FRAME.load(bytes, Decode::decode)?;
        Ok(SavedSource { offset: position.map_or(0, |(at, _)| at), clock, header })
    }
}

/// Position with the number of the file, clock and header.
type Saved = (Option<(u64, Option<u64>)>, Option<(u64, u64)>, Option<Vec<Option<usize>>>);

impl SaveState for RecordSource {
    fn save(&self, out: &mut Vec<u8>) {
        let clock = self.clock.as_ref().map(EventClock::position);
        let header = self.parser.as_ref().and_then(Parser::header_order);
        let position = self.position().map(|Position { at, inode }| (at, inode));
        FRAME.save(out, |body| {
            (position, clock, header).encode(body);
            self.mark().encode(body);
        });
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let ((position, clock, header), mark): (Saved, Mark) = FRAME.load(bytes, Decode::decode)?;
        let position = position.map(|(at, inode)| Position { at, inode });
        let is_text = self.parser.is_some();
        if let Some(replay) = &mut self.replay {
            let stale = |difference| format!("{difference}; restore the file, or start from the beginning");
            let start = replay.start(position, mark, is_text);
            let start = start.map_err(|difference| StateError::Stale(stale(difference)))?;
            self.queue = (replay.reopen)(start).map_err(|error| StateError::Stale(error.to_string()))?;
            replay.mark = mark;
        }
        let at = position.map_or(0, |position| position.at);
        match (is_text, self.queue.is_tail()) {
            (false, _) => self.rows = at,
            (true, false) => self.begin = at,
            // A tail counts what it gives from now on.
            (true, true) => self.begin = 0,
        }
        self.current = Current::Nothing;
        if let (Some(own), Some(saved)) = (&mut self.clock, clock) {
            own.set_position(saved);
        }
        if let Some(parser) = &mut self.parser {
            parser.set_header_order(header);
        }
        Ok(())
    }
}
