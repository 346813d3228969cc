//! Events as the kernel reports them, made by hand.

use sakiyomi_explain::Recording;
use sakiyomi_explain::recording::{Method, RECORDING_SCHEMA, RecordedMachine};
use sakiyomi_explain::timeline::{Descriptors, Meaning, Timeline};
use sakiyomi_os::system_call::{Call, CallKind};
use sakiyomi_os::tracefs::{Activity, ActivityKind, FileRange};

/// The file system of all files.
pub(crate) const DEVICE: u64 = 7;

/// Descriptor 3 is file 100, descriptor 4 file 101, descriptor 5 a pipe; others are not known.
pub(crate) struct Known;

impl Descriptors for Known {
    fn meaning(&mut self, _: u32, descriptor: u32) -> Meaning {
        match descriptor {
            3 | 4 => Meaning::File { device: DEVICE, inode: 97 + u64::from(descriptor) },
            5 => Meaning::Other,
            _ => Meaning::Unknown,
        }
    }

    fn closed(&mut self, _: u32, _: u32) {}

    fn used(&mut self, _: u32, _: u64, _: u64) {}
}

pub(crate) fn event(time: u64, thread: u32, kind: ActivityKind) -> Activity {
    Activity { time, thread, is_interrupt: false, kind }
}

pub(crate) fn call(kind: CallKind, descriptor: Option<u32>) -> ActivityKind {
    ActivityKind::Calls(Call { kind, descriptor, offset: None, length: 4096, is_sequential_advice: false })
}

/// `thread` leaves its core, which `next` gets.
pub(crate) fn switch(time: u64, thread: u32, is_asleep: bool, next: u32) -> Activity {
    let (name, next_name) = (name(thread), name(next));
    let is_ended = false;
    event(time, thread, ActivityKind::Switched { is_asleep, is_ended, name, next, next_name })
}

/// `thread` ends.
pub(crate) fn exit(time: u64, thread: u32) -> Activity {
    let (name, next_name) = (name(thread), name(0));
    event(time, thread, ActivityKind::Switched { is_asleep: true, is_ended: true, name, next: 0, next_name })
}

fn name(thread: u32) -> [u8; 16] {
    let mut name = [0; 16];
    let text = format!("thread{thread}");
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// `thread`, which an interrupt has woken.
pub(crate) fn interrupted(time: u64, woken: u32) -> Activity {
    Activity { time, thread: 0, is_interrupt: true, kind: ActivityKind::Wakes(woken) }
}

pub(crate) fn range(inode: u64, from: u64, to: u64) -> FileRange {
    FileRange { device: DEVICE, inode, bytes: from..to }
}

/// Returns the recording of these events of threads that ran at the begin, until `end`.
pub(crate) fn recorded(threads: &[u32], events: &[Activity], end: u64) -> Recording {
    let mut timeline = Timeline::new(0, threads);
    events.iter().for_each(|event| timeline.process(event, &mut Known));
    let (elapsed_ns, files, threads) = timeline.finish(end, &mut Known);
    Recording {
        schema: RECORDING_SCHEMA.to_owned(),
        program: vec!["program".to_owned()],
        elapsed_ns,
        method: Method::Traced,
        notes: Vec::new(),
        machine: RecordedMachine { cores: 2, memory_bytes: 1 << 30 },
        storage: None,
        files,
        threads,
    }
}
