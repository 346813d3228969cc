//! From events of the kernel to a recording: which span of each thread's time was spent on what.
//!
//! A thread that leaves its core is preempted, or sleeps in its last system call or page fault. A read reports the file
//! only after it has waited, an access to a mapping before; other calls name a descriptor. So the reason of a sleep is
//! decided when the next event of the thread is known.

pub(crate) mod reason;
mod thread;

use std::collections::HashMap;

use sakiyomi_model::Nanos;
use sakiyomi_os::tracefs::{Activity, ActivityKind, FileRange};

use crate::recording::{FileIndex, RecordedFile, RecordedThread, ThreadIndex};
use reason::Target;
use thread::Thread;

/// Spans and accesses that a recording holds, about 200 MB. The recording ends where it is full.
const ENTRIES_MAX: usize = 2_000_000;

/// The meaning of a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A regular file.
    File {
        /// The file system's device.
        device: u64,
        /// The inode number.
        inode: u64,
    },
    /// A pipe, a socket, a terminal or another descriptor that is not of a file.
    Other,
    /// It could not be found, for example because it is closed.
    Unknown,
}

/// Resolves the file descriptors of the recorded threads.
pub trait Descriptors {
    /// Returns the meaning of a descriptor of a thread.
    fn meaning(&mut self, thread: u32, descriptor: u32) -> Meaning;

    /// Handles that a thread closes a descriptor.
    fn closed(&mut self, thread: u32, descriptor: u32);

    /// Handles the first use of a file, whose name can be found as long as the thread has it open.
    fn used(&mut self, thread: u32, device: u64, inode: u64);
}

/// Builds the timeline of threads from their events.
#[derive(Debug)]
pub struct Timeline {
    begun: u64,
    threads: Vec<Thread>,
    index: HashMap<u32, usize>,
    files: Files,
    entries: usize,
    /// The time at which it became full.
    full: Option<u64>,
}

/// The files of a recording, by device and inode.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) files: Vec<RecordedFile>,
    index: HashMap<(u64, u64), FileIndex>,
}

impl Files {
    /// Returns the index of a file, and whether it is new.
    pub(crate) fn index(&mut self, device: u64, inode: u64) -> (FileIndex, bool) {
        let next = FileIndex(self.files.len());
        let index = *self.index.entry((device, inode)).or_insert(next);
        if index == next {
            self.files.push(RecordedFile { device, inode, ..RecordedFile::default() });
        }
        (index, index == next)
    }
}

impl Timeline {
    /// Creates a timeline that begins at this time of the kernel's clock with these running threads.
    #[must_use]
    pub fn new(begun: u64, threads: &[u32]) -> Timeline {
        let mut timeline = Timeline {
            begun,
            threads: Vec::new(),
            index: HashMap::new(),
            files: Files::default(),
            entries: 0,
            full: None,
        };
        threads.iter().for_each(|&thread| timeline.add(thread, begun, None));
        timeline
    }

    fn add(&mut self, id: u32, at: u64, parent: Option<ThreadIndex>) {
        // An ID that is used again belongs to a new thread.
        self.index.insert(id, self.threads.len());
        self.threads.push(Thread::new(id, at, parent));
    }

    /// Returns whether no more is recorded.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full.is_some()
    }

    /// Processes the next event in order of time.
    pub fn process(&mut self, event: &Activity, descriptors: &mut dyn Descriptors) {
        if self.full.is_some() || event.time < self.begun {
            return;
        }
        let index = self.index.get(&event.thread).copied();
        match &event.kind {
            ActivityKind::Switched { is_asleep, is_ended, name, next, next_name } => {
                if let Some(index) = index {
                    let thread = &mut self.threads[index];
                    thread.name(name);
                    thread.leaves_core(event.time, *is_asleep);
                    if *is_ended {
                        self.end(index, event.time, descriptors);
                    }
                }
                if let Some(&next) = self.index.get(next) {
                    let thread = &mut self.threads[next];
                    thread.name(next_name);
                    thread.gets_core(event.time);
                }
            }
            ActivityKind::Wakes(woken) => {
                if let Some(&woken) = self.index.get(woken) {
                    let by = index.filter(|_| !event.is_interrupt).map(ThreadIndex);
                    self.threads[woken].is_woken(event.time, by, event.is_interrupt);
                }
            }
            ActivityKind::Starts(child) => {
                if let Some(parent) = index {
                    self.add(*child, event.time, Some(ThreadIndex(parent)));
                }
            }
            _ if event.is_interrupt => {}
            kind => {
                if let Some(index) = index {
                    self.act(index, event.time, kind, descriptors);
                }
            }
        }
        self.count(event.time);
    }

    /// Processes an event in a thread's own system call or page fault.
    fn act(&mut self, index: usize, time: u64, kind: &ActivityKind, descriptors: &mut dyn Descriptors) {
        let files = &mut self.files;
        let thread = &mut self.threads[index];
        let mut file_of = |range: &FileRange| {
            let (file, is_new) = files.index(range.device, range.inode);
            if is_new {
                descriptors.used(thread.id(), range.device, range.inode);
            }
            file
        };
        match kind {
            ActivityKind::Reads(range) => {
                let file = file_of(range);
                thread.reads(time, file, &range.bytes);
            }
            ActivityKind::Adds(range) => {
                let file = file_of(range);
                thread.adds(file, range.bytes.end - range.bytes.start);
            }
            ActivityKind::Faults(range) => {
                let file = file_of(range);
                self.decide(index, descriptors);
                self.threads[index].faults(time, file, &range.bytes);
            }
            ActivityKind::Calls(call) => {
                self.decide(index, descriptors);
                let thread = &mut self.threads[index];
                if let Some(descriptor) = thread.closes(call) {
                    descriptors.closed(thread.id(), descriptor);
                }
                thread.calls(time, call);
                if let Some(descriptor) = call.descriptor.filter(|_| call.is_sequential_advice)
                    && let Meaning::File { device, inode } = descriptors.meaning(thread.id(), descriptor)
                {
                    let file = self.files.index(device, inode).0;
                    self.files.files[file.0].is_sequential = true;
                }
            }
            ActivityKind::Throttled => thread.is_throttled(),
            ActivityKind::Switched { .. } | ActivityKind::Wakes(_) | ActivityKind::Starts(_) => {}
        }
    }

    /// Decides what a thread waited for in the call that has ended.
    fn decide(&mut self, index: usize, descriptors: &mut dyn Descriptors) {
        let thread = &mut self.threads[index];
        let file = thread.descriptor_to_resolve().map(|descriptor| {
            match descriptors.meaning(thread.id(), descriptor) {
                Meaning::File { device, inode } => Target::File(self.files.index(device, inode).0),
                Meaning::Other => Target::Other,
                Meaning::Unknown => Target::Unknown,
            }
        });
        thread.decide(file.unwrap_or(Target::Unknown));
    }

    fn end(&mut self, index: usize, time: u64, descriptors: &mut dyn Descriptors) {
        self.decide(index, descriptors);
        self.threads[index].end(time);
        self.index.remove(&self.threads[index].id());
    }

    fn count(&mut self, time: u64) {
        /// Events after which the entries are counted again.
        const COUNT_PERIOD: usize = 4096;
        self.entries += 1;
        if self.entries.is_multiple_of(COUNT_PERIOD)
            && self.threads.iter().map(Thread::entries).sum::<usize>() > ENTRIES_MAX
        {
            self.full = Some(time);
        }
    }

    /// Ends the timeline at this time of the kernel's clock; returns its duration, its files and its threads. It ends
    /// earlier if it was full before.
    pub fn finish(
        mut self,
        time: u64,
        descriptors: &mut dyn Descriptors,
    ) -> (Nanos, Vec<RecordedFile>, Vec<RecordedThread>) {
        let time = self.full.unwrap_or(time).max(self.begun);
        for index in 0..self.threads.len() {
            if !self.threads[index].is_ended() {
                self.decide(index, descriptors);
                self.threads[index].end(time);
            }
        }
        let begun = self.begun;
        let threads = self.threads.into_iter().map(|thread| thread.recorded(begun)).collect();
        (Nanos(time - begun), self.files.files, threads)
    }
}
