//! Requests with their times, from events in order of time.
//!
//! Events are matched by device, operation and extent. The first event of a command makes its record; a completion is
//! subtracted from what is outstanding of the oldest commands that it overlaps, since the block layer splits and merges
//! between any two stages. Records leave in order of arrival: the oldest holds back later ones until it is complete, or
//! is given up.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use sakiyomi_model::{Nanos, Op, StreamId};

use super::{BlockEvent, BlockStage};
use crate::record::Record;

/// Commands that are held for the completion of the oldest: more than any device has outstanding.
const HELD_COMMANDS_MAX: usize = 1 << 16;
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
    /// Commands that were completed.
    pub completed: u64,
    /// Commands without completion.
    pub unfinished: u64,
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
}

impl Command {
    fn key(&self, number: u64) -> (u32, u8, u64, u64) {
        let start = self.outstanding.first().map_or(0, |range| range.start);
        (self.record.device, code(self.record.op), start, number)
    }

    fn end(&self) -> u64 {
        self.record.end().0
    }
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
                    BlockStage::Inserted => self.add(event.record(op), State::Waiting),
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
            if command.state == State::Waiting && self.arrival != Arrival::Queued {
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
            let is_open = matches!(front.state, State::Waiting | State::Issued);
            let is_late = self.newest.saturating_sub(front.record.time) > GIVE_UP_TIME;
            if is_open && !is_late && self.commands.len() <= HELD_COMMANDS_MAX {
                return None;
            }
            if let Some(record) = self.take_front() {
                return Some(record);
            }
        }
    }

    /// Returns the next command in order of arrival, complete or not, after the last event.
    pub fn pop_rest(&mut self) -> Option<Record> {
        while !self.commands.is_empty() {
            if let Some(record) = self.take_front() {
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

    /// Removes the oldest command; returns its record if it is one.
    fn take_front(&mut self) -> Option<Record> {
        let command = self.commands.pop_front()?;
        let number = self.first;
        self.first += 1;
        match command.state {
            State::Complete => Some(command.record),
            State::Gone => None,
            State::Waiting | State::Issued => {
                self.index.remove(&command.key(number));
                // It never reached the driver, which is what commands are counted by.
                if command.state == State::Waiting && self.arrival == Arrival::Issued {
                    return None;
                }
                self.counts.unfinished += 1;
                Some(command.record)
            }
        }
    }

    fn add(&mut self, record: Record, state: State) {
        // A request that waits or was returned has begun before, whenever it is issued.
        if record.time > self.end {
            return;
        }
        let number = self.first + self.commands.len() as u64;
        let outstanding = parts(record.offset.0..record.end().0);
        let length_max = &mut self.length_max[usize::from(code(record.op))];
        *length_max = record.length.0.max(*length_max);
        let command = Command { record, state, outstanding };
        self.index.insert(command.key(number));
        self.commands.push_back(command);
    }

    fn command(&mut self, number: u64) -> &mut Command {
        &mut self.commands[(number - self.first) as usize]
    }

    /// Returns the numbers of open commands that may overlap the event, oldest first.
    fn candidates(&self, event: &BlockEvent, op: Op) -> Vec<u64> {
        let (device, code) = (event.device, code(op));
        let bounds = if op == Op::Flush {
            (device, code, 0, 0)..(device, code, 0, u64::MAX)
        } else {
            let from = event.offset.0.saturating_sub(self.length_max[usize::from(code)]);
            (device, code, from, 0)..(device, code, event.end(), 0)
        };
        let mut numbers: Vec<u64> = self.index.range(bounds).map(|&(_, _, _, number)| number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The driver gets a request: one that waits, or several that were merged into it.
    fn issue(&mut self, event: &BlockEvent, op: Op) {
        let (start, end) = (event.offset.0, event.end());
        let mut taken: Vec<Range<u64>> = Vec::new();
        let mut head = None;
        for number in self.candidates(event, op) {
            let command = self.command(number);
            let extent = command.record.offset.0..command.end();
            let is_inside = op == Op::Flush || start <= extent.start && extent.end <= end;
            let is_other = taken.iter().any(|part| part.start < extent.end && extent.start < part.end);
            if command.state != State::Waiting || !is_inside || is_other || op == Op::Flush && head.is_some()
            {
                continue;
            }
            taken.push(extent);
            if head.is_none() {
                head = Some(number);
            } else {
                self.remove(number);
            }
        }
        let waited = head.map(|number| {
            self.remove(number);
            (number, self.command(number).record)
        });
        let issued = event.record(op);
        // The process that issues may be a worker of the kernel; that which inserted is mostly the one that asks.
        let stream = waited.map_or(StreamId(event.process), |(_, record)| record.stream);
        match (waited, self.arrival) {
            (Some((number, record)), Arrival::Inserted) => {
                let (time, line) = (record.time, record.line);
                let record = Record { time, line, stream, started: Some(event.time), ..issued };
                let length_max = &mut self.length_max[usize::from(code(op))];
                *length_max = record.length.0.max(*length_max);
                let outstanding = parts(issued.offset.0..issued.end().0);
                let command = Command { record, state: State::Issued, outstanding };
                self.index.insert(command.key(number));
                *self.command(number) = command;
            }
            (None, Arrival::Inserted) => {
                self.add(Record { started: Some(event.time), ..issued }, State::Issued);
            }
            _ => {
                self.add(Record { stream, ..issued }, State::Issued);
            }
        }
    }

    /// Takes an open command out of the index, merged into another.
    fn remove(&mut self, number: u64) {
        let key = self.command(number).key(number);
        self.index.remove(&key);
        self.command(number).state = State::Gone;
    }

    /// The driver has returned the request that it got last.
    fn requeue(&mut self, event: &BlockEvent, op: Op) {
        for number in self.candidates(event, op).into_iter().rev() {
            let command = self.command(number);
            let is_same =
                op == Op::Flush || command.outstanding.first().map(|part| part.start) == Some(event.offset.0);
            if command.state == State::Issued && is_same {
                command.state = State::Waiting;
                return;
            }
        }
    }

    /// Completes the bytes of the event in the oldest commands in one of these states.
    fn complete(&mut self, event: &BlockEvent, op: Op, states: &[State]) {
        let mut rest = parts(event.offset.0..event.end());
        let mut is_matched = false;
        for number in self.candidates(event, op) {
            let command = self.command(number);
            if !states.contains(&command.state) {
                continue;
            }
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
        command.record.response = Some(time.saturating_sub(command.record.time));
        self.counts.completed += 1;
    }

    /// A request to flush was issued, which is for all flushes that were submitted before.
    fn start_flushes(&mut self, device: u32) {
        for number in self.flushes(device) {
            self.command(number).state = State::Issued;
        }
    }

    fn complete_flushes(&mut self, event: &BlockEvent) {
        let numbers = self.flushes(event.device);
        let started = |number: &u64| self.commands[(number - self.first) as usize].state == State::Issued;
        let mut done: Vec<u64> = numbers.iter().copied().filter(started).collect();
        if done.is_empty() {
            // The trace has no event of its issue.
            done.extend(numbers.first());
        }
        self.counts.unmatched += u64::from(done.is_empty() && event.time <= self.end);
        for number in done {
            let key = self.command(number).key(number);
            self.index.remove(&key);
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
