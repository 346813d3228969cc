//! Commands in the drive, and where their time goes.

use std::ops::{Index, IndexMut};

use sakiyomi_model::{Breakdown, Class, Completion, Detail, Nanos, Outcome, Request};

use crate::spec::Before;

/// A command that was accepted and is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) request: Request,
    pub(super) submitted: Nanos,
    pub(super) class: Class,
    pub(super) breakdown: Breakdown,
    /// The command before it: processing may take another time after it.
    pub(super) before: Before,
    /// What the write cache would have numbered its data at that time: dirty data below it is older.
    pub(super) sequence: u64,
    /// From when on its first data can go to the host.
    pub(super) data_from: Nanos,
    /// Of a read: how many of its sectors come from the medium, and from when on.
    pub(super) missing: (u64, Nanos),
}

impl Command {
    pub(super) fn new(request: Request, now: Nanos, before: Before, sequence: u64) -> Command {
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

    /// The first sector.
    pub(super) fn start(&self) -> u64 {
        self.request.extent.start.0
    }

    /// The first sector after the last one.
    pub(super) fn end(&self) -> u64 {
        self.request.extent.end().0
    }

    /// The medium brings a read's sectors from `missing` on, from the instant `from` on. With `immediate`, what was
    /// cached before them goes to the host as soon as the command is processed.
    pub(super) fn brings(&mut self, missing: u64, from: Nanos, immediate: bool) {
        self.missing = (self.end() - missing, from);
        let partial = missing > self.start() && immediate;
        self.data_from = if partial { self.submitted + self.breakdown.overhead } else { from };
    }

    /// The command, over. Its time that is not accounted for was spent waiting.
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
