//! Requests of a block device, by the kernel's tracepoints: when they are queued in the I/O scheduler, given to the
//! driver, returned by it, and completed.
//!
//! Uses an instance of tracefs of its own, in which the kernel records only the events of one disk, or of one range of
//! its sectors.
//!
//! | event of group `block` | is recorded when |
//! |---|---|
//! | `block_rq_insert` | a request is put into the queue of an I/O scheduler; not without one |
//! | `block_rq_issue` | it is given to the driver |
//! | `block_rq_requeue` | the driver returns it, to get it again |
//! | `block_rq_complete` | it, or a part of it, is completed |
//!
//! A device whose driver takes bios, as device-mapper, md and zram do, has no such events.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::OFlags;

use super::activity::ActivityTrace;
use super::buffers::{Buffers, large_buffer_size};
use super::format::Field;
use super::owner::Owner;
use super::tree::{Tree, names, open_beside, read_beside};
use super::{find_with, start_owner};

/// The newest events are kept; the clock is that of `Instant`.
const BLOCK_SETTINGS: [(&CStr, &CStr); 2] = [(c"options/overwrite", c"1"), (c"trace_clock", c"mono")];

/// The stage of a request that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStage {
    /// It was put into the queue of the I/O scheduler.
    Inserted,
    /// It was given to the driver.
    Issued,
    /// The driver has returned it.
    Requeued,
    /// It, or a part of it, was completed.
    Completed,
}

/// The events, and the stage that each reports.
const EVENTS: [(&str, BlockStage); 4] = [
    ("block_rq_insert", BlockStage::Inserted),
    ("block_rq_issue", BlockStage::Issued),
    ("block_rq_requeue", BlockStage::Requeued),
    ("block_rq_complete", BlockStage::Completed),
];

/// Maximum length of the operation's letters; the kernel has 10 at most.
const OPERATION_MAX: usize = 16;

/// An event of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockActivity {
    /// The kernel's monotonic clock, in nanoseconds.
    pub time: u64,
    /// The stage.
    pub stage: BlockStage,
    /// The disk: major × 2^20 + minor.
    pub device: u32,
    /// The first sector of 512 bytes; without meaning for a flush.
    pub sector: u64,
    /// The number of sectors; zero for a flush.
    pub sectors: u64,
    /// The thread that caused the event; that which asked for the request, or a worker of the kernel.
    pub thread: u32,
    /// The operation's letters, followed by zeros.
    operation: [u8; OPERATION_MAX],
    /// The kernel's error number; 0 if there is none.
    pub error: i32,
}

impl BlockActivity {
    /// Creates an event without an extent, with the letters of an operation, 16 at most.
    #[must_use]
    pub fn new(time: u64, stage: BlockStage, letters: &[u8]) -> BlockActivity {
        let mut operation = [0; OPERATION_MAX];
        let length = letters.len().min(OPERATION_MAX);
        operation[..length].copy_from_slice(&letters[..length]);
        BlockActivity { time, stage, device: 0, sector: 0, sectors: 0, thread: 0, operation, error: 0 }
    }

    /// Returns the letters of the operation, such as `WFS`.
    #[must_use]
    pub fn operation(&self) -> &[u8] {
        let end = self.operation.iter().position(|&byte| byte == 0).unwrap_or(OPERATION_MAX);
        &self.operation[..end]
    }
}

/// The layout of an event's record.
#[derive(Clone, Debug)]
struct Layout {
    stage: BlockStage,
    number: u64,
    thread: Field,
    device: Field,
    sector: Field,
    sectors: Field,
    operation: Field,
    error: Option<Field>,
}

impl Layout {
    fn parse(stage: BlockStage, text: &str) -> Option<Layout> {
        let number = text.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
        let field = |name| Field::find(text, name);
        Some(Layout {
            stage,
            number,
            thread: field("common_pid")?,
            device: field("dev")?,
            sector: field("sector")?,
            sectors: field("nr_sector")?,
            operation: Field::find_array(text, "rwbs")?,
            // Before Linux 5.16 it is `errors`.
            error: field("error").or_else(|| field("errors")),
        })
    }

    /// Returns the event in a record; `None` if it is cut off.
    fn activity(&self, time: u64, record: &[u8]) -> Option<BlockActivity> {
        let letters =
            record.get(self.operation.offset..self.operation.offset.checked_add(self.operation.size)?)?;
        let error = self.error.map_or(Some(0), |field| field.read(record))?;
        Some(BlockActivity {
            device: u32::try_from(self.device.read(record)?).ok()?,
            sector: self.sector.read(record)?,
            sectors: self.sectors.read(record)?,
            thread: u32::try_from(self.thread.read(record)?).ok()?,
            error: (error as u32).cast_signed(),
            ..BlockActivity::new(time, self.stage, letters)
        })
    }
}

/// The part of a disk of which the requests are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Major and minor number of the whole disk.
    pub disk: (u32, u32),
    /// Sectors of 512 bytes of the disk; `None` for all.
    pub sectors: Option<Range<u64>>,
}

impl BlockRange {
    /// Returns the filter of the events. Flushes have no sectors, and are those of the whole disk.
    fn filter(&self) -> CString {
        let (major, minor) = self.disk;
        let device = format!("dev == {}", u64::from(major) << 20 | u64::from(minor));
        let filter = match &self.sectors {
            None => device,
            Some(Range { start, end }) => {
                format!("{device} && (nr_sector == 0 || (sector >= {start} && sector < {end}))")
            }
        };
        CString::new(filter).expect("it has no zero byte")
    }
}

/// The state of a recording of requests after a poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockPoll {
    /// The times between which events are missing that were overwritten before they were read, in nanoseconds; the end is
    /// `u64::MAX` if no later event was read yet.
    pub lost: Option<Range<u64>>,
    /// If more events are waiting than one poll reads: all events of earlier times were read. Nanoseconds.
    pub complete_until: Option<u64>,
    /// Whether nothing more is recorded, because the process that owns the instance was killed. Events since the last poll
    /// may be missing.
    pub is_over: bool,
}

/// A recording of the requests of a disk, by an instance of tracefs of its own.
#[derive(Debug)]
pub struct BlockTrace {
    layouts: Vec<Layout>,
    buffers: Buffers,
    /// The directory of the instance.
    instance: OwnedFd,
    enable: Vec<File>,
    /// It removes the instance when it is dropped.
    owner: Owner,
}

impl BlockTrace {
    /// Creates a trace that records nothing yet. Takes 0.1 s.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn create(range: &BlockRange) -> Result<BlockTrace, String> {
        let tree = find_with(&EVENTS.map(|(name, _)| format!("block/{name}")))?;
        let filter = range.filter();
        let paths = EVENTS.map(|(name, _)| {
            CString::new(format!("events/block/{name}/filter")).expect("it has no zero byte")
        });
        let size = large_buffer_size(tree.cores());
        let mut settings = BLOCK_SETTINGS.to_vec();
        settings.push((c"buffer_size_kb", size.as_c_str()));
        settings.extend(paths.iter().map(|path| (path.as_c_str(), filter.as_c_str())));
        let (owner, name) = start_owner(&tree, &settings)?;
        let opened = tree
            .directory(Path::new("instances").join(&*name.to_string_lossy()))
            .and_then(|instance| BlockTrace::open(&tree, instance, owner));
        opened.map_err(|error| format!("cannot use an instance of tracefs ({error})"))
    }

    fn open(tree: &Tree, instance: OwnedFd, owner: Owner) -> io::Result<BlockTrace> {
        let beside = instance.as_fd();
        let layout = |&(name, stage): &(&str, BlockStage)| {
            let text = read_beside(beside, format!("events/block/{name}/format"))?;
            Layout::parse(stage, &text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
        };
        let layouts = EVENTS.iter().map(layout).collect::<io::Result<Vec<_>>>()?;
        let open = |(name, _): &(&str, BlockStage)| {
            open_beside(beside, format!("events/block/{name}/enable"), OFlags::WRONLY)
        };
        let enable = EVENTS.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        let buffers = Buffers::open(tree, beside)?;
        Ok(BlockTrace { layouts, buffers, instance, enable, owner })
    }

    /// Begins to record.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn start(&mut self) -> io::Result<()> {
        self.enable.iter_mut().try_for_each(|file| file.write_all(b"1"))
    }

    /// Ends the recording; what was recorded can still be taken.
    pub fn stop(&mut self) {
        for file in &mut self.enable {
            let _ = file.write_all(b"0");
        }
    }

    /// Appends the events since the last poll in order of time. Does not wait. An event of a core can be missing that comes
    /// with the next poll though it is older.
    pub fn take(&mut self, activities: &mut Vec<BlockActivity>) -> BlockPoll {
        let from = activities.len();
        let layouts = &self.layouts;
        // Asked first: what is left of the events is then taken.
        let is_over = self.owner.is_gone();
        let drained = self.buffers.drain(|time, record| {
            let head = record.first_chunk().map(|head| u64::from(u16::from_ne_bytes(*head)));
            let layout = layouts.iter().find(|layout| head == Some(layout.number));
            activities.extend(layout.and_then(|layout| layout.activity(time, record)));
        });
        activities[from..].sort_by_key(|activity| activity.time);
        BlockPoll { lost: drained.lost, complete_until: drained.complete_until, is_over }
    }

    /// Returns the number of events since the start that were overwritten before they were taken, or not recorded.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        let beside = self.instance.as_fd();
        let of_core = |core: &CString| {
            let text = read_beside(beside, format!("per_cpu/{}/stats", core.to_string_lossy()));
            lost_of(&text.unwrap_or_default())
        };
        names(beside, Path::new("per_cpu")).iter().map(of_core).sum()
    }

    /// Returns the current time of the clock of the events.
    #[must_use]
    pub fn now() -> u64 {
        ActivityTrace::now()
    }
}

impl Drop for BlockTrace {
    /// Stops tracing. The owner removes the instance when the socket to it is closed after this.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Parses the statistics of a core's buffer: `overrun: 12`, and events that were dropped.
fn lost_of(text: &str) -> u64 {
    const LOST: [&str; 3] = ["overrun", "commit overrun", "dropped events"];
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(name, _)| LOST.contains(&name.trim()))
        .filter_map(|(_, number)| number.trim().parse::<u64>().ok())
        .sum()
}

/// Checks that requests can be recorded.
///
/// # Errors
/// The reason why not, as a clause.
pub fn check_block() -> Result<(), String> {
    find_with(&EVENTS.map(|(name, _)| format!("block/{name}"))).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loop_device::LoopDevice;
    use crate::tracefs::own_instances;
    use crate::tracefs::tests::{alone, owners};
    use sakiyomi_testing::{Scratch, skipped, wait_until};

    const ISSUE: &str = "name: block_rq_issue
ID: 2104
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;
\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;
\tfield:unsigned int bytes;\toffset:28;\tsize:4;\tsigned:0;
\tfield:unsigned short ioprio;\toffset:32;\tsize:2;\tsigned:0;
\tfield:char rwbs[10];\toffset:34;\tsize:10;\tsigned:0;
\tfield:char comm[16];\toffset:44;\tsize:16;\tsigned:0;
\tfield:__data_loc char[] cmd;\toffset:60;\tsize:4;\tsigned:0;
";

    #[test]
    fn a_record_is_read_by_its_layout() {
        let layout = Layout::parse(BlockStage::Issued, ISSUE).unwrap();
        let mut record = vec![0; 64];
        record[4..8].copy_from_slice(&4711u32.to_ne_bytes());
        record[8..12].copy_from_slice(&(254u32 << 20).to_ne_bytes());
        record[16..24].copy_from_slice(&350_521_336u64.to_ne_bytes());
        record[24..28].copy_from_slice(&16u32.to_ne_bytes());
        record[34..37].copy_from_slice(b"WFS");
        let activity = layout.activity(5, &record).unwrap();
        assert_eq!((activity.device, activity.sector, activity.sectors), (254 << 20, 350_521_336, 16));
        assert_eq!((activity.operation(), activity.thread, activity.error), (&b"WFS"[..], 4711, 0));
        assert_eq!(layout.activity(5, &record[..40]), None, "cut short");
        assert!(Layout::parse(BlockStage::Issued, "ID: 5\nformat:\n").is_none());
    }

    #[test]
    fn a_trace_whose_owner_is_killed_is_over() {
        let test = "a_trace_whose_owner_is_killed";
        let tree = match find_with(&EVENTS.map(|(name, _)| format!("block/{name}"))) {
            Ok(tree) => tree,
            Err(why) => return skipped(test, why),
        };
        let _alone = alone();
        wait_until("the owners of other tests end", || owners().is_empty());
        let mut trace = BlockTrace::create(&BlockRange { disk: (7, 0), sectors: None }).unwrap();
        trace.start().unwrap();
        assert!(!trace.take(&mut Vec::new()).is_over);
        let mut own = tree.instances();
        own.retain(|name| crate::tracefs::maker(name) == Some(std::process::id()));
        let name = own.remove(0);
        for owner in owners() {
            let owner = rustix::process::Pid::from_raw(owner.cast_signed()).unwrap();
            rustix::process::kill_process(owner, rustix::process::Signal::KILL).unwrap();
        }
        wait_until("the end of the trace is seen", || trace.take(&mut Vec::new()).is_over);
        drop(trace);
        // Nobody else removes it while this process runs.
        let instances = tree.directory("instances").unwrap();
        wait_until("the instance can be removed", || {
            rustix::fs::unlinkat(&instances, &name, rustix::fs::AtFlags::REMOVEDIR).is_ok()
        });
    }

    #[test]
    fn buffers_have_a_size_in_all() {
        let size = |cores| large_buffer_size(cores).into_string().unwrap();
        assert_eq!([2, 64, 256, 1 << 20].map(size), ["8192", "8192", "2048", "1"]);
        assert_eq!(size(0), "8192");
    }

    #[test]
    fn lost_events_are_counted_whatever_became_of_them() {
        let text =
            "entries: 12\noverrun: 30\ncommit overrun: 1\nbytes: 512\ndropped events: 4\nread events: 7\n";
        assert_eq!(lost_of(text), 35);
        assert_eq!(lost_of(""), 0);
    }

    #[test]
    fn a_part_of_a_disk_is_filtered_by_its_sectors() {
        let whole = BlockRange { disk: (8, 16), sectors: None };
        assert_eq!(whole.filter().to_str().unwrap(), "dev == 8388624");
        let part = BlockRange { sectors: Some(2048..4096), ..whole };
        let wanted = "dev == 8388624 && (nr_sector == 0 || (sector >= 2048 && sector < 4096))";
        assert_eq!(part.filter().to_str().unwrap(), wanted);
    }

    #[test]
    fn requests_of_a_loop_device_are_told_and_no_others() {
        if let Err(why) = check_block() {
            return skipped("requests_of_a_loop_device_are_told", why);
        }
        let scratch = Scratch::new("block_trace");
        std::fs::write(scratch.path("disk"), vec![0; 8 << 20]).unwrap();
        let device = match LoopDevice::attach(&scratch.path("disk"), false, false) {
            Ok(device) => device,
            Err(why) => return skipped("requests_of_a_loop_device_are_told", why),
        };
        let _alone = alone();
        let number = rustix::fs::stat(device.path()).unwrap().st_rdev;
        let disk = (rustix::fs::major(number), rustix::fs::minor(number));
        let mut trace = BlockTrace::create(&BlockRange { disk, sectors: Some(4096..8192) }).unwrap();
        trace.start().unwrap();
        let opened = File::options().read(true).write(true).open(device.path()).unwrap();
        for sector in [0u64, 5000, 12_000] {
            std::os::unix::fs::FileExt::write_all_at(&opened, &[1; 512], sector * 512).unwrap();
        }
        opened.sync_all().unwrap();
        trace.stop();
        let mut all = Vec::new();
        assert_eq!(trace.take(&mut all), BlockPoll::default());
        assert_eq!(trace.lost_events(), 0);
        let inside =
            |activity: &BlockActivity| activity.sectors == 0 || (4096..8192).contains(&activity.sector);
        assert!(
            all.iter().all(|activity| activity.device == disk.0 << 20 | disk.1 && inside(activity)),
            "{all:?}"
        );
        let write = |stage| {
            let found =
                |activity: &&BlockActivity| activity.stage == stage && activity.operation().starts_with(b"W");
            all.iter().find(found).unwrap_or_else(|| panic!("{stage:?} in {all:?}"))
        };
        let (issued, completed) = (write(BlockStage::Issued), write(BlockStage::Completed));
        // The page that holds the sector is written.
        assert_eq!((issued.sector, issued.sectors), (5000, 8));
        assert_eq!((completed.sector, completed.sectors, completed.error), (5000, 8, 0));
        assert!(issued.time < completed.time && completed.time <= BlockTrace::now());
        drop(trace);
        wait_until("an own instance is left", || own_instances() == 0);
    }
}
