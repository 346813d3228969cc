//! Requests with their times, from events in order of time.
//!
//! Events are matched by device, operation and extent, because requests in flight may overlap: to a command of exactly
//! the event's extent, else (a completion in part) to one that begins there. If there is none, the block layer has split
//! or merged in between, and the event is about the commands that it overlaps, of which a completion is subtracted. The
//! first event of a command makes its record. Records leave in order of arrival: the oldest holds back later ones until
//! it is complete, or is given up.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use sakiyomi_model::{Nanos, Op};

use super::{BlockEvent, BlockStage};
use crate::order::HELD_RECORDS_MAX;
use crate::record::Record;

/// Commands in memory: the oldest without completion, and all that began after it, complete or not. Beyond it the oldest
/// is given up, at 300,000 commands per second after 3.5 s. About 150 MB.
const HELD_COMMANDS_MAX: usize = HELD_RECORDS_MAX;
/// Time after which a command without completion is given up: the kernel reports a task as hung after this.
const GIVE_UP_TIME: Nanos = Nanos(120 * Nanos::SECOND.0);

/// The event at which a command begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Commands are bios as programs and file systems submit them, before they are split and merged.
    Queued,
    /// Commands are those that the driver gets. They begin when they enter the queue of the I/O scheduler, or, without
    /// one, the driver; `started` is the time at which the driver got them.
    Inserted,
    /// Commands are those that the driver gets, and begin at that time.
    Issued,
}

/// Numbers of commands and events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Commands that were completed without an error.
    pub completed: u64,
    /// Commands that were completed with an error, all or a part. They have no response time: it would be that of the
    /// failure.
    pub failed: u64,
    /// Commands without completion at the end, or whose completion may have been lost.
    pub unfinished: u64,
    /// Commands that were given up, and so have no response time: without completion after 120 s, or while a million
    /// later ones began.
    pub given_up: u64,
    /// Completions of no known command, such as of those that began before the recording.
    pub unmatched: u64,
}

/// Pairs the events of requests.
#[derive(Debug)]
pub struct BlockRequests {
    arrival: Arrival,
    /// In order of arrival. The number of the first is `first`.
    commands: VecDeque<Command>,
    first: u64,
    /// Device, operation, first outstanding byte, and number of the commands that are neither complete nor given up.
    index: BTreeSet<(u32, u8, u64, u64)>,
    /// The longest command of each operation.
    length_max: [u64; OPERATIONS_COUNT],
    newest: Nanos,
    /// No command begins later.
    end: Nanos,
    counts: BlockCounts,
}

/// Number of operations.
const OPERATIONS_COUNT: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not in the driver.
    Waiting,
    /// Returned by the driver, and not inserted again.
    Returned,
    /// In the driver.
    Issued,
    Complete,
    /// It was merged into another request, or never became a command.
    Gone,
}

#[derive(Debug)]
struct Command {
    record: Record,
    state: State,
    /// The bytes that are not complete; empty for a flush.
    outstanding: Vec<Range<u64>>,
    /// Whether a part of it was completed with an error.
    is_failed: bool,
}

impl Command {
    fn key(&self, number: u64) -> (u32, u8, u64, u64) {
        (self.record.device, code(self.record.op), self.extent().start, number)
    }

    /// Returns the extent from the first to the last outstanding byte; empty for a flush.
    fn extent(&self) -> Range<u64> {
        let start = self.outstanding.first().map_or(0, |range| range.start);
        start..self.outstanding.last().map_or(start, |range| range.end)
    }

    fn is_partly_complete(&self) -> bool {
        self.record.op != Op::Flush && self.extent() != (self.record.offset.0..self.record.end().0)
    }

    /// Returns the time at which the driver got it, if that is known, else its arrival.
    fn issued(&self) -> Nanos {
        self.record.started.unwrap_or(self.record.time)
    }
}

/// Returns the extent of an event of this operation; empty for a flush.
fn extent(event: &BlockEvent, op: Op) -> Range<u64> {
    if op == Op::Flush { 0..0 } else { event.offset.0..event.end() }
}

fn code(op: Op) -> u8 {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
    }
}

/// Returns an extent as a list of its parts: none if it is empty.
fn parts(extent: Range<u64>) -> Vec<Range<u64>> {
    std::iter::once(extent).filter(|part| !part.is_empty()).collect()
}

/// Removes `cut` from `ranges`.
fn subtract(ranges: &mut Vec<Range<u64>>, cut: &Range<u64>) {
    if ranges.iter().all(|range| range.end <= cut.start || cut.end <= range.start) {
        return;
    }
    let rest = ranges
        .iter()
        .flat_map(|range| [range.start..range.end.min(cut.start), range.start.max(cut.end)..range.end]);
    *ranges = rest.filter(|part| !part.is_empty()).collect();
}

impl BlockRequests {
    /// Creates an empty one.
    #[must_use]
    pub fn new(arrival: Arrival) -> BlockRequests {
        BlockRequests {
            arrival,
            commands: VecDeque::new(),
            first: 0,
            index: BTreeSet::new(),
            length_max: [0; OPERATIONS_COUNT],
            newest: Nanos::ZERO,
            end: Nanos::MAX,
            counts: BlockCounts::default(),
        }
    }

    /// Ignores commands that begin later than this; those that began before can still be completed.
    pub fn end_at(&mut self, time: Nanos) {
        self.end = time;
    }

    /// Processes an event, which is not older than those before.
    pub fn event(&mut self, event: &BlockEvent) {
        self.newest = self.newest.max(event.time);
        let op = event.op.op.filter(|_| event.length.0 > 0);
        match event.stage {
            BlockStage::Queued if self.arrival == Arrival::Queued => {
                if event.op.preflush {
                    self.add(event.record(Op::Flush), State::Waiting);
                }
                if let Some(op) = op {
                    self.add(event.record(op), State::Waiting);
                }
            }
            BlockStage::Queued => {}
            _ if self.arrival == Arrival::Queued => match (event.stage, op) {
                (BlockStage::Issued, None) if event.op.is_flush() => self.start_flushes(event.device),
                (BlockStage::Completed, None) if event.op.is_flush() => self.complete_flushes(event),
                (BlockStage::Completed, Some(op)) => self.complete(event, op, &[State::Waiting]),
                _ => {}
            },
            // The driver gets a flush as a request of its own.
            stage => match op.or(event.op.is_flush().then_some(Op::Flush)) {
                None => {}
                Some(op) => match stage {
                    BlockStage::Inserted => self.insert(event, op),
                    BlockStage::Issued => self.issue(event, op),
                    BlockStage::Requeued => self.requeue(event, op),
                    _ => self.complete(event, op, &[State::Issued]),
                },
            },
        }
    }

    /// Gives up all outstanding commands: events were lost, and the next completions may be those of others.
    pub fn lost(&mut self) {
        let first = self.first;
        for &(_, _, _, number) in &self.index {
            let command = &mut self.commands[(number - first) as usize];
            if command.state != State::Issued && self.arrival != Arrival::Queued {
                // Its issue, if it was not lost, will be the first that is known of it.
                command.state = State::Gone;
            } else {
                // It stays a command of which the completion is not known.
                command.state = State::Complete;
                self.counts.unfinished += 1;
            }
        }
        self.index.clear();
    }

    /// Returns the next command in order of arrival, if it is complete or was given up.
    pub fn pop(&mut self) -> Option<Record> {
        loop {
            let front = self.commands.front()?;
            let is_open = !matches!(front.state, State::Complete | State::Gone);
            let is_late = self.newest.saturating_sub(front.record.time) > GIVE_UP_TIME;
            if is_open && !is_late && self.commands.len() < HELD_COMMANDS_MAX {
                return None;
            }
            if let Some(record) = self.take_front(true) {
                return Some(record);
            }
        }
    }

    /// Returns the next command in order of arrival, complete or not, after the last event.
    pub fn pop_rest(&mut self) -> Option<Record> {
        while !self.commands.is_empty() {
            if let Some(record) = self.take_front(false) {
                return Some(record);
            }
        }
        None
    }

    /// Returns the number of commands in the driver (bios: in the kernel).
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.index.len()
    }

    /// Returns the numbers of commands so far.
    #[must_use]
    pub fn counts(&self) -> BlockCounts {
        self.counts
    }

    /// Removes the oldest command; returns its record if it is one. `gives_up` is whether others follow.
    fn take_front(&mut self, gives_up: bool) -> Option<Record> {
        let command = self.commands.pop_front()?;
        let number = self.first;
        self.first += 1;
        match command.state {
            State::Complete => return Some(command.record),
            State::Gone => return None,
            State::Waiting | State::Returned | State::Issued => {}
        }
        self.index.remove(&command.key(number));
        // The driver is what commands are counted by, and may still get it, as the first that is known of it.
        let is_in_driver = self.arrival == Arrival::Queued || command.state == State::Issued;
        if !is_in_driver && (gives_up || self.arrival == Arrival::Issued) {
            return None;
        }
        *(if gives_up { &mut self.counts.given_up } else { &mut self.counts.unfinished }) += 1;
        Some(command.record)
    }

    /// A request enters the queue of the scheduler: a new one, or one that the driver has returned
    /// (`blk_mq_requeue_work`).
    fn insert(&mut self, event: &BlockEvent, op: Op) {
        let returned = self.candidates(event, op, &[State::Returned]);
        match self.oldest_of_extent(&returned, &extent(event, op)) {
            Some(number) => self.command(number).state = State::Waiting,
            None => self.add(event.record(op), State::Waiting),
        }
    }

    fn add(&mut self, record: Record, state: State) {
        // A request that waits or was returned has begun before, whenever it is issued.
        if record.time > self.end {
            return;
        }
        let number = self.first + self.commands.len() as u64;
        let command = self.new_command(record, state);
        self.index.insert(command.key(number));
        self.commands.push_back(command);
    }

    fn new_command(&mut self, record: Record, state: State) -> Command {
        let outstanding = parts(record.offset.0..record.end().0);
        let length_max = &mut self.length_max[usize::from(code(record.op))];
        *length_max = record.length.0.max(*length_max);
        Command { record, state, outstanding, is_failed: false }
    }

    fn command(&mut self, number: u64) -> &mut Command {
        &mut self.commands[(number - self.first) as usize]
    }

    /// Returns the numbers of commands in one of these states that may overlap the event, oldest first.
    fn candidates(&self, event: &BlockEvent, op: Op, states: &[State]) -> Vec<u64> {
        let (device, code) = (event.device, code(op));
        let bounds = if op == Op::Flush {
            (device, code, 0, 0)..(device, code, 0, u64::MAX)
        } else {
            let from = event.offset.0.saturating_sub(self.length_max[usize::from(code)]);
            (device, code, from, 0)..(device, code, event.end(), 0)
        };
        let numbers = self.index.range(bounds).map(|&(_, _, _, number)| number);
        let mut numbers: Vec<u64> =
            numbers.filter(|&number| states.contains(&self.get(number).state)).collect();
        numbers.sort_unstable();
        numbers
    }

    fn get(&self, number: u64) -> &Command {
        &self.commands[(number - self.first) as usize]
    }

    /// Returns the first of the candidates with exactly this extent.
    fn oldest_of_extent(&self, candidates: &[u64], extent: &Range<u64>) -> Option<u64> {
        candidates.iter().copied().find(|&number| self.get(number).extent() == *extent)
    }

    /// The driver gets a request: one that waits or was returned, or several that were merged into it.
    fn issue(&mut self, event: &BlockEvent, op: Op) {
        let merged = self.merged(event, op);
        let Some(&head) = merged.iter().min() else {
            let started = (self.arrival == Arrival::Inserted).then_some(event.time);
            return self.add(Record { started, ..event.record(op) }, State::Issued);
        };
        if merged.len() == 1 && self.get(head).is_partly_complete() {
            // It was returned before it was complete; its record tells of all of it.
            let is_inserted = self.arrival == Arrival::Inserted;
            let command = self.command(head);
            command.state = State::Issued;
            if is_inserted {
                command.record.started = Some(event.time);
            }
            return;
        }
        merged.iter().for_each(|&number| self.remove(number));
        // The process that issues may be a worker of the kernel; that which inserted is mostly the one that asks.
        let Record { time, line, stream, .. } = self.get(head).record;
        let issued = Record { stream, ..event.record(op) };
        if self.arrival == Arrival::Inserted {
            let record = Record { time, line, started: Some(event.time), ..issued };
            let command = self.new_command(record, State::Issued);
            self.index.insert(command.key(head));
            *self.command(head) = command;
        } else {
            self.add(issued, State::Issued);
        }
    }

    /// Returns the commands outside the driver that an issued request consists of.
    fn merged(&self, event: &BlockEvent, op: Op) -> Vec<u64> {
        let mut candidates = self.candidates(event, op, &[State::Waiting, State::Returned]);
        let whole = extent(event, op);
        if let Some(number) = self.oldest_of_extent(&candidates, &whole) {
            return vec![number];
        }
        // Those inside that do not overlap each other. There may be gaps, of bios that were merged without an event.
        candidates.sort_by_key(|&number| (self.get(number).extent().start, number));
        let mut end = whole.start;
        candidates.retain(|&number| {
            let part = self.get(number).extent();
            let is_part = end <= part.start && part.end <= whole.end;
            if is_part {
                end = part.end;
            }
            is_part
        });
        candidates
    }

    /// Takes an open command out of the index, merged into another.
    fn remove(&mut self, number: u64) {
        let key = self.command(number).key(number);
        self.index.remove(&key);
        self.command(number).state = State::Gone;
    }

    /// The driver has returned a request: of several of this extent the one that it got last.
    fn requeue(&mut self, event: &BlockEvent, op: Op) {
        let extent = extent(event, op);
        let candidates = self.candidates(event, op, &[State::Issued]);
        let newest = |has: &dyn Fn(Range<u64>) -> bool| {
            let all = candidates.iter().copied().filter(|&number| has(self.get(number).extent()));
            all.max_by_key(|&number| (self.get(number).issued(), number))
        };
        let returned =
            newest(&|found| found == extent).or_else(|| newest(&|found| found.start == extent.start));
        if let Some(number) = returned {
            self.command(number).state = State::Returned;
        }
    }

    /// Completes the bytes of the event in a command in one of these states: one of that extent, else one that begins
    /// there and is complete in part. If there is none, requests were split or merged: in all that overlap.
    fn complete(&mut self, event: &BlockEvent, op: Op, states: &[State]) {
        let extent = extent(event, op);
        let mut candidates = self.candidates(event, op, states);
        candidates.sort_by_key(|&number| (self.get(number).issued(), number));
        let exact = self.oldest_of_extent(&candidates, &extent).or_else(|| {
            let begins_there = |of: Range<u64>| of.start == extent.start && extent.end <= of.end;
            candidates.iter().copied().find(|&number| begins_there(self.get(number).extent()))
        });
        if let Some(number) = exact {
            candidates = vec![number];
        }
        let mut rest = parts(extent);
        let mut is_matched = false;
        for number in candidates {
            let command = self.command(number);
            let key = command.key(number);
            if op != Op::Flush {
                let before = command.outstanding.clone();
                rest.iter().for_each(|cut| subtract(&mut command.outstanding, cut));
                if command.outstanding == before {
                    continue;
                }
                before.iter().for_each(|part| subtract(&mut rest, part));
            }
            is_matched = true;
            self.index.remove(&key);
            let command = self.command(number);
            command.is_failed |= event.is_failed;
            if command.outstanding.is_empty() {
                self.finish(number, event.time);
            } else {
                let key = command.key(number);
                self.index.insert(key);
            }
            if rest.is_empty() {
                break;
            }
        }
        self.counts.unmatched += u64::from(!is_matched && event.time <= self.end);
    }

    fn finish(&mut self, number: u64, time: Nanos) {
        let command = self.command(number);
        command.state = State::Complete;
        if command.is_failed {
            self.counts.failed += 1;
        } else {
            command.record.response = Some(time.saturating_sub(command.record.time));
            self.counts.completed += 1;
        }
    }

    /// A request to flush was issued, which is for all flushes that were submitted before.
    fn start_flushes(&mut self, device: u32) {
        for number in self.flushes(device) {
            self.command(number).state = State::Issued;
        }
    }

    fn complete_flushes(&mut self, event: &BlockEvent) {
        let numbers = self.flushes(event.device);
        let started = |number: &u64| self.get(*number).state == State::Issued;
        let mut done: Vec<u64> = numbers.iter().copied().filter(started).collect();
        if done.is_empty() {
            // The trace has no event of its issue.
            done.extend(numbers.first());
        }
        self.counts.unmatched += u64::from(done.is_empty() && event.time <= self.end);
        for number in done {
            let key = self.command(number).key(number);
            self.index.remove(&key);
            self.command(number).is_failed = event.is_failed;
            self.finish(number, event.time);
        }
    }

    fn flushes(&self, device: u32) -> Vec<u64> {
        let code = code(Op::Flush);
        let range = self.index.range((device, code, 0, 0)..(device, code, 0, u64::MAX));
        range.map(|&(_, _, _, number)| number).collect()
    }
}

#[cfg(test)]
mod tests;
