//! Activity of the threads of a program over time: when they run, sleep and are woken, which system calls they make, and
//! which pages of files they use, from the kernel's tracepoints.
//!
//! | event | is recorded when |
//! |---|---|
//! | `sched/sched_switch`, `sched_waking` | a thread leaves or gets a core; is woken, and by which thread |
//! | `sched/sched_process_fork` | a thread starts another |
//! | `raw_syscalls/sys_enter` | a thread makes a system call |
//! | `filemap/mm_filemap_get_pages`, `mm_filemap_fault` | a read, or an access to a mapping, takes pages from the cache: a read after it has waited for them, an access before |
//! | `filemap/mm_filemap_add_to_page_cache` | pages are added to the cache, to be read or written |
//! | `writeback/balance_dirty_pages` | a writing thread is slowed down |

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::param::page_size;
use rustix::time::{ClockId, clock_gettime};

use super::buffers::{Buffers, large_buffer_size};
use super::format::Field;
use super::owner::Owner;
use super::tree::{Tree, open_beside, read_beside};
use super::{device_of, find, start_owner};
use crate::system_call::{Call, NEVER_WAITING_CALLS};

/// The newest events are kept; the clock is that of `Instant`.
const ACTIVITY_SETTINGS: [(&CStr, &CStr); 2] = [(c"options/overwrite", c"1"), (c"trace_clock", c"mono")];
/// The filter of system calls.
const CALL_FILTER_PATH: &CStr = c"events/raw_syscalls/sys_enter/filter";

/// Rejects calls that never wait, of which a program can make millions a second.
fn filter_of_calls() -> CString {
    let each: Vec<String> = NEVER_WAITING_CALLS.iter().map(|number| format!("id != {number}")).collect();
    CString::new(each.join(" && ")).expect("it has no zero byte")
}

/// The state of a recording after a poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityPoll {
    /// Whether events were overwritten before they were read.
    pub has_lost: bool,
    /// If more events are waiting than one poll reads: all events of earlier times were read. Nanoseconds.
    pub complete_until: Option<u64>,
}

/// An event of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// The kernel's monotonic clock, in nanoseconds.
    pub time: u64,
    /// The thread ID; 0 for an idle core.
    pub thread: u32,
    /// Whether an interrupt caused it, which has nothing to do with the thread.
    pub is_interrupt: bool,
    /// The event.
    pub kind: ActivityKind,
}

/// Bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// The file system's device.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Whole pages, in bytes.
    pub bytes: Range<u64>,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// The thread's core is given to another thread.
    Switched {
        /// Whether the thread sleeps, rather than waiting for a core.
        is_asleep: bool,
        /// Whether it has ended.
        is_ended: bool,
        /// The name of the thread (`comm`).
        name: [u8; 16],
        /// The next thread on this core; 0 if it is idle.
        next: u32,
        /// Its name.
        next_name: [u8; 16],
    },
    /// The thread wakes another.
    Wakes(u32),
    /// The thread starts another.
    Starts(u32),
    /// The thread makes a system call.
    Calls(Call),
    /// It has taken pages for a read from the page cache; the range is the rest of its request.
    Reads(FileRange),
    /// It accesses a page of a mapping that is not in its page tables.
    Faults(FileRange),
    /// It adds pages to the page cache.
    Adds(FileRange),
    /// It is slowed down because too much written data is not yet on storage.
    Throttled,
}

/// The events that are recorded: name with its group, and the parser of a record.
const EVENTS: [(&str, Event); 8] = [
    ("sched/sched_switch", Event::Switch),
    ("sched/sched_waking", Event::Waking),
    ("sched/sched_process_fork", Event::Fork),
    ("raw_syscalls/sys_enter", Event::Enter),
    ("filemap/mm_filemap_get_pages", Event::Pages),
    ("filemap/mm_filemap_fault", Event::Fault),
    ("filemap/mm_filemap_add_to_page_cache", Event::Add),
    ("writeback/balance_dirty_pages", Event::Throttle),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Switch,
    Waking,
    Fork,
    Enter,
    Pages,
    Fault,
    Add,
    Throttle,
}

impl Event {
    /// The fields that are used, in order.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Event::Switch => &["prev_state", "prev_comm[16]", "next_pid", "next_comm[16]"],
            Event::Waking => &["pid"],
            Event::Fork => &["child_pid"],
            Event::Enter => &["id", "args[6]"],
            Event::Pages => &["s_dev", "i_ino", "index", "last_index"],
            Event::Fault => &["s_dev", "i_ino", "index"],
            Event::Add => &["s_dev", "i_ino", "index", "order"],
            Event::Throttle => &[],
        }
    }
}

/// The layout of an event's record.
#[derive(Clone, Debug)]
struct Layout {
    event: Event,
    number: u64,
    flags: Field,
    thread: Field,
    fields: Vec<Field>,
}

/// The flags of a record that was made in an interrupt (`TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`).
const INTERRUPT_FLAGS: u64 = 0x08 | 0x10;
/// The bits of a thread's state in which it does not run; none of them if it was preempted (`TASK_REPORT`).
const SLEEP_STATES: u64 = 0xff;
/// The bits of a thread that has ended (`EXIT_DEAD`, `EXIT_ZOMBIE`).
const ENDED_STATES: u64 = 0x10 | 0x20;

impl Layout {
    fn parse(event: Event, text: &str) -> Option<Layout> {
        let number = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        let field = |name: &&str| Field::find(text, name);
        Some(Layout {
            event,
            number,
            flags: field(&"common_flags")?,
            thread: field(&"common_pid")?,
            fields: event.fields().iter().map(field).collect::<Option<_>>()?,
        })
    }

    /// Returns the event in a record; `None` if it is cut off, or is of no use.
    fn activity(&self, time: u64, record: &[u8]) -> Option<Activity> {
        let number = |index: usize| self.fields[index].read(record);
        let small = |index: usize| u32::try_from(number(index)?).ok();
        let kind = match self.event {
            Event::Switch => {
                let state = number(0)?;
                ActivityKind::Switched {
                    is_asleep: state & SLEEP_STATES != 0,
                    is_ended: state & ENDED_STATES != 0,
                    name: self.name(1, record)?,
                    next: small(2)?,
                    next_name: self.name(3, record)?,
                }
            }
            Event::Waking => ActivityKind::Wakes(small(0)?),
            Event::Fork => ActivityKind::Starts(small(0)?),
            Event::Enter => {
                let from = self.fields[1].offset;
                let mut arguments = [0; 6];
                for (index, argument) in arguments.iter_mut().enumerate() {
                    let bytes = record.get(from + index * 8..from + index * 8 + 8)?;
                    *argument = u64::from_ne_bytes(bytes.try_into().ok()?);
                }
                ActivityKind::Calls(Call::of(number(0)? as i64, &arguments))
            }
            Event::Pages => ActivityKind::Reads(file_range(small(0)?, number(1)?, number(2)?, number(3)?)),
            Event::Fault => ActivityKind::Faults(file_range(small(0)?, number(1)?, number(2)?, number(2)?)),
            Event::Add => {
                let first = number(2)?;
                // The pages of a large folio are a power of two.
                let pages = 1u64.checked_shl(small(3)?).unwrap_or(1);
                ActivityKind::Adds(file_range(small(0)?, number(1)?, first, first.saturating_add(pages - 1)))
            }
            Event::Throttle => ActivityKind::Throttled,
        };
        let thread = u32::try_from(self.thread.read(record)?).ok()?;
        let is_interrupt = self.flags.read(record)? & INTERRUPT_FLAGS != 0;
        Some(Activity { time, thread, is_interrupt, kind })
    }

    fn name(&self, index: usize, record: &[u8]) -> Option<[u8; 16]> {
        let from = self.fields[index].offset;
        record.get(from..from + 16)?.try_into().ok()
    }
}

fn file_range(device: u32, inode: u64, first: u64, last: u64) -> FileRange {
    let page = page_size() as u64;
    let bytes = first.saturating_mul(page)..last.max(first).saturating_add(1).saturating_mul(page);
    FileRange { device: device_of(device), inode, bytes }
}

/// A recording of what threads do, by an instance of tracefs of its own.
#[derive(Debug)]
pub struct ActivityTrace {
    /// By the number of the event.
    layouts: Vec<Layout>,
    buffers: Buffers,
    enable: Vec<File>,
    owner: Owner,
}

impl ActivityTrace {
    /// Creates a trace of no thread. Takes 0.1 s.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn create() -> Result<ActivityTrace, String> {
        let tree = find()?;
        let missing = EVENTS.iter().find(|(name, _)| !tree.has(Path::new("events").join(name)));
        if let Some((name, _)) = missing {
            return Err(format!("this kernel has no event {name}"));
        }
        let filter = filter_of_calls();
        let size = large_buffer_size(tree.cores());
        let mut settings = ACTIVITY_SETTINGS.to_vec();
        settings.push((c"buffer_size_kb", size.as_c_str()));
        settings.push((CALL_FILTER_PATH, filter.as_c_str()));
        let (owner, name) = start_owner(&tree, &settings)?;
        let opened = tree
            .directory(Path::new("instances").join(&*name.to_string_lossy()))
            .and_then(|instance| ActivityTrace::open(&tree, instance.as_fd(), owner));
        opened.map_err(|error| format!("cannot use an instance of tracefs ({error})"))
    }

    fn open(tree: &Tree, beside: BorrowedFd<'_>, owner: Owner) -> io::Result<ActivityTrace> {
        let layout = |&(name, event): &(&str, Event)| {
            let text = read_beside(beside, format!("events/{name}/format"))?;
            Layout::parse(event, &text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        let layouts = EVENTS.iter().map(layout).collect::<io::Result<Vec<_>>>()?;
        let open =
            |(name, _): &(&str, Event)| open_beside(beside, format!("events/{name}/enable"), OFlags::WRONLY);
        let enable = EVENTS.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let buffers = Buffers::open(tree, beside)?;
        Ok(ActivityTrace { layouts, buffers, enable, owner })
    }

    /// Adds threads, and those that they start from now on, and begins to record.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn follow(&mut self, threads: &[u32]) -> io::Result<()> {
        self.owner.name_threads(threads)?;
        self.enable.iter_mut().try_for_each(|file| file.write_all(b"1"))
    }

    /// Appends the events since the last poll in order of time. Does not wait. An event of a core can be missing that
    /// comes with the next poll though it is older.
    pub fn take(&mut self, activities: &mut Vec<Activity>) -> ActivityPoll {
        let from = activities.len();
        let layouts = &self.layouts;
        let drained = self.buffers.drain(|time, record| {
            let Some(head) = record.first_chunk().map(|head| u64::from(u16::from_ne_bytes(*head))) else {
                return;
            };
            let layout = layouts.iter().find(|layout| layout.number == head);
            activities.extend(layout.and_then(|layout| layout.activity(time, record)));
        });
        activities[from..].sort_by_key(|activity| activity.time);
        ActivityPoll { has_lost: drained.lost.is_some(), complete_until: drained.complete_until }
    }

    /// Returns the current time of the clock of the events.
    #[must_use]
    pub fn now() -> u64 {
        let time = clock_gettime(ClockId::Monotonic);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    }

    /// Ends the recording; what was recorded can still be taken.
    pub fn stop(&mut self) {
        for file in &mut self.enable {
            let _ = file.write_all(b"0");
        }
    }
}

impl Drop for ActivityTrace {
    /// Stops tracing. The owner removes the instance when the socket to it is closed after this.
    fn drop(&mut self) {
        self.stop();
    }
}
