//! Commands in the drive, and their time breakdown.

use std::ops::{Index, IndexMut};

use sakiyomi_model::{Breakdown, Class, Completion, Detail, Nanos, Outcome, Request};

use crate::spec::PreviousCommand;

/// An accepted command that has not finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) request: Request,
    pub(super) submitted: Nanos,
    pub(super) class: Class,
    pub(super) breakdown: Breakdown,
    /// The previous command, on which the processing time may depend.
    pub(super) before: PreviousCommand,
    /// Sequence number of the next write at arrival: dirty data with a smaller one is older than this command.
    pub(super) sequence: u64,
    /// Earliest time at which its first data can go to the host.
    pub(super) data_from: Nanos,
    /// For a read: the number of sectors read from the medium, and the time from which they arrive.
    pub(super) missing: (u64, Nanos),
}

impl Command {
    pub(super) fn new(request: Request, now: Nanos, before: PreviousCommand, sequence: u64) -> Command {
        Command {
            request,
            submitted: now,
            class: Class::Refused,
            breakdown: Breakdown::default(),
            before,
            sequence,
            data_from: now,
            missing: (0, now),
        }
    }

    /// Returns the first sector.
    pub(super) fn start(&self) -> u64 {
        self.request.extent.start.0
    }

    /// Returns the first sector after the last one.
    pub(super) fn end(&self) -> u64 {
        self.request.extent.end().0
    }

    /// Records that a read's sectors from `missing` on come from the medium, beginning at `from`. With `immediate`, the
    /// cached sectors before them go to the host as soon as the command is processed.
    pub(super) fn brings(&mut self, missing: u64, from: Nanos, immediate: bool) {
        self.missing = (self.end() - missing, from);
        let partial = missing > self.start() && immediate;
        self.data_from = if partial { self.submitted + self.breakdown.overhead } else { from };
    }

    /// Returns the completion. Time not attributed to another part was spent waiting.
    pub(super) fn completion(mut self, finish: Nanos, outcome: Outcome) -> Completion {
        let known = &mut self.breakdown;
        let mut left = finish - self.submitted;
        for part in [&mut known.overhead, &mut known.seek, &mut known.rotation, &mut known.transfer] {
            *part = (*part).min(left);
            left -= *part;
        }
        known.queue = left;
        Completion {
            request: self.request,
            submitted: self.submitted,
            finish,
            outcome,
            detail: Some(Detail { class: self.class, breakdown: self.breakdown }),
        }
    }
}

/// Slots for commands, reused.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    slots: Vec<Option<Command>>,
    free: Vec<usize>,
}

impl Commands {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, command: Command) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(command);
            return slot;
        }
        self.slots.push(Some(command));
        self.slots.len() - 1
    }

    pub(super) fn remove(&mut self, slot: usize) -> Command {
        self.free.push(slot);
        self.slots[slot].take().expect("a command is over once")
    }
}

impl Index<usize> for Commands {
    type Output = Command;
    fn index(&self, slot: usize) -> &Command {
        self.slots[slot].as_ref().expect("a command in the drive")
    }
}

impl IndexMut<usize> for Commands {
    fn index_mut(&mut self, slot: usize) -> &mut Command {
        self.slots[slot].as_mut().expect("a command in the drive")
    }
}
