//! The summary of a run after its end.

use std::collections::{BTreeMap, BTreeSet};

use sakiyomi_io::page_cache;
use sakiyomi_model::Nanos;
use sakiyomi_os::process::Identity;

use super::learned::Learned;
use super::program::{Program, Unseen};
use super::reading::Reading;
use super::statistics::{Point, Share};
use crate::{Idle, State};

/// Streams that are reported individually, the largest first.
const STREAMS_MAX: usize = 64;

/// Observations and results of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Duration of the run.
    pub elapsed: Nanos,
    /// CPU time of all programs.
    pub computing: Nanos,
    /// Time in which they waited for I/O.
    pub io_wait: Nanos,
    /// Time in which they waited for a core.
    pub core_wait: Nanos,
    /// Additional time for which they would have waited without prefetching; `None` if unknown.
    pub io_hidden: Option<Nanos>,
    /// Elapsed time saved by that: concurrent waits of threads and processes count once.
    pub saved: Option<Nanos>,
    /// With `watch_only`: elapsed time that reading ahead would have saved.
    pub could_save: Option<Nanos>,
    /// Throughput of the storage under concurrent requests, in bytes per second, if it was measured.
    pub storage_rate: Option<u64>,
    /// Number of processes followed.
    pub programs: u64,
    /// Number of files among those that they read.
    pub files: u64,
    /// Bytes that the programs read through.
    pub read_bytes: u64,
    /// Bytes prefetched that were not cached before.
    pub prefetched_bytes: u64,
    /// Bytes of those that no program reached.
    pub wasted_bytes: u64,
    /// The largest readings individually.
    pub readings: Vec<ReadingSummary>,
    /// Reasons for leaving readings alone, with the bytes that the programs read in them.
    pub idle: BTreeMap<Idle, u64>,
    /// Number of processes whose files could not be inspected.
    pub refused: u64,
    /// Number of files that were read without moving their position, and were not followed otherwise.
    pub still: u64,
    /// Number of programs that appear to read in such a way and could not be followed.
    pub unseen: u64,
    /// The reason for which such reads cannot be followed on this machine; `None` if they can.
    pub untraced: Option<String>,
    /// The profile for the next run, and the effect of the previous profile.
    pub learned: Learned,
}

/// Summary of one reading.
#[derive(Clone, Debug, Default)]
pub struct ReadingSummary {
    /// Name of its first file.
    pub name: String,
    /// Number of files that it read or would have read.
    pub files: u64,
    /// Their size in bytes.
    pub size: u64,
    /// Bytes that the program read through.
    pub read_bytes: u64,
    /// Bytes prefetched.
    pub prefetched_bytes: u64,
    /// Bytes of those that it did not reach.
    pub wasted_bytes: u64,
    /// Additional time for which it would have waited without prefetching; `None` if unknown.
    pub io_hidden: Option<Nanos>,
    /// The reason for which it was left alone most of the time, if it was.
    pub idle: Option<Idle>,
    /// Positions over time.
    pub curve: Vec<Point>,
    /// A setting that would help, if any.
    pub advice: Option<Advice>,
}

/// A longer read-ahead of the kernel, which would help as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The device, as `major:minor`.
    pub device: (u32, u32),
    /// Its current read-ahead, in bytes.
    pub read_ahead: u64,
    /// The recommended read-ahead, in bytes.
    pub wanted: u64,
    /// Estimated duration of an access.
    pub access: Nanos,
}

/// Collects the results of readings that have ended.
#[derive(Debug)]
pub(super) struct SummaryBuilder {
    pub(super) programs: u64,
    /// Files that programs visited, each once.
    files: BTreeSet<(u64, u64)>,
    pub(super) refused: BTreeSet<u32>,
    /// Number of programs that read without moving a position and could not be followed.
    unseen: u64,
    /// CPU time of the busiest thread.
    busiest: Nanos,
    /// With `watch_only`: the share that would have been read ahead.
    would_help: Option<Share>,
    summary: Summary,
}

impl Default for SummaryBuilder {
    fn default() -> SummaryBuilder {
        SummaryBuilder {
            programs: 1,
            files: BTreeSet::new(),
            refused: BTreeSet::new(),
            unseen: 0,
            busiest: Nanos::ZERO,
            would_help: None,
            summary: Summary::default(),
        }
    }
}

impl SummaryBuilder {
    /// Returns the time that programs which have ended waited for I/O.
    pub(super) fn io_wait(&self) -> Nanos {
        self.summary.io_wait
    }

    pub(super) fn end_program(&mut self, program: &Program) {
        let spent = program.spent();
        self.summary.computing += spent.cpu_time;
        self.summary.io_wait += spent.io_wait;
        self.summary.core_wait += spent.queued;
        self.unseen += u64::from(program.unseen == Unseen::Yes);
        self.busiest = self.busiest.max(program.busiest());
    }

    /// Adds a reading that has ended with `ahead` bytes requested ahead of it.
    pub(super) fn end_reading(&mut self, reading: &Reading, state: Option<State>, ahead: u64, watched: bool) {
        let account = &reading.account;
        let (prefetched_bytes, wasted) =
            reading.seeking.as_ref().map_or((0, 0), |seeking| seeking.prefetched_and_wasted());
        // Long reads at explicit offsets move no position.
        let read = match &reading.seeking {
            Some(seeking) if reading.gone == 0 => seeking.touched_bytes().min(reading.sequence.size()),
            _ => reading.gone,
        };
        self.files.extend(reading.visited.iter().map(|file| (file.device, file.inode)));
        // It is covered by the streams derived from touches.
        if reading.is_traced && reading.gone == 0 && prefetched_bytes == 0 {
            return;
        }
        if watched {
            self.would_help.get_or_insert_default().add(account.would_help);
        }
        let mut told = ReadingSummary {
            name: reading.name.clone(),
            files: reading.visited.len() as u64,
            size: reading.sequence.size(),
            read_bytes: read,
            prefetched_bytes: account.prefetched_bytes,
            wasted_bytes: account.wasted(reading.position).min(ahead) + account.passed_over,
            io_hidden: account.hidden(),
            idle: why_idle(reading, state, watched),
            curve: account.curve.points.clone(),
            advice: if watched { advice(reading) } else { None },
        };
        if let Some(seeking) = &reading.seeking {
            told.prefetched_bytes += prefetched_bytes;
            told.wasted_bytes += wasted;
            if let Some(hidden) = seeking.hidden(account.read_ahead) {
                *told.io_hidden.get_or_insert(Nanos::ZERO) += hidden;
                told.idle = None;
            }
        }
        let summary = &mut self.summary;
        summary.read_bytes += read;
        summary.prefetched_bytes += told.prefetched_bytes;
        summary.wasted_bytes += told.wasted_bytes;
        summary.still += u64::from(reading.is_still && !reading.is_traced);
        if let Some(hidden) = told.io_hidden {
            *summary.io_hidden.get_or_insert(Nanos::ZERO) += hidden;
        }
        if let Some(saved) = account.saved() {
            *summary.saved.get_or_insert(Nanos::ZERO) += saved;
        }
        if let Some(idle) = told.idle {
            *summary.idle.entry(idle).or_default() += read;
        }
        self.add_reading(told);
    }

    /// Adds a file that was touched at scattered places.
    pub(super) fn end_scattered(&mut self, name: String, file: &Identity, touched: u64) {
        self.files.insert((file.device, file.inode));
        let idle = Idle::NotSequential;
        self.summary.read_bytes += touched;
        *self.summary.idle.entry(idle).or_default() += touched;
        let (size, read) = (file.size, touched);
        self.add_reading(ReadingSummary {
            name,
            files: 1,
            size,
            read_bytes: read,
            idle: Some(idle),
            ..ReadingSummary::default()
        });
    }

    /// Adds a mapping that has ended; with `watch_only`, also its share of the program's time. `saved` is the elapsed
    /// time saved.
    pub(super) fn end_mapping(
        &mut self,
        told: ReadingSummary,
        file: (u64, u64),
        would_help: Option<Share>,
        saved: Option<Nanos>,
    ) {
        self.files.insert(file);
        if let Some(share) = would_help {
            self.would_help.get_or_insert_default().add(share);
        }
        let summary = &mut self.summary;
        summary.read_bytes += told.read_bytes;
        summary.prefetched_bytes += told.prefetched_bytes;
        summary.wasted_bytes += told.wasted_bytes;
        if let Some(hidden) = told.io_hidden {
            *summary.io_hidden.get_or_insert(Nanos::ZERO) += hidden;
        }
        if let Some(saved) = saved {
            *summary.saved.get_or_insert(Nanos::ZERO) += saved;
        }
        if let Some(idle) = told.idle {
            *summary.idle.entry(idle).or_default() += told.read_bytes;
        }
        self.add_reading(told);
    }

    fn add_reading(&mut self, reading: ReadingSummary) {
        let readings = &mut self.summary.readings;
        readings.push(reading);
        readings.sort_by_key(|reading| std::cmp::Reverse(reading.read_bytes));
        readings.truncate(STREAMS_MAX);
    }

    /// Returns the summary. `untraced` returns the reason for which reads that move no file position cannot be followed
    /// here, which takes time. `rate` is the throughput of the storage, in bytes per second, if it was measured.
    pub(super) fn summary(
        mut self,
        now: Nanos,
        rate: Option<u64>,
        untraced: impl FnOnce() -> Option<String>,
    ) -> Summary {
        self.summary.storage_rate = rate;
        self.summary.could_save = self.would_help.map(|share| could_save(share, now, self.busiest, rate));
        let advised = self.summary.readings.iter_mut().filter_map(|told| told.advice.as_mut());
        for advice in advised {
            // More than the storage delivers in the time of an access is useless.
            let amount = rate.map(|rate| u128::from(rate) * u128::from(advice.access.0) / 1_000_000_000);
            let most = amount.and_then(|amount| u64::try_from(2 * amount).ok()).unwrap_or(1 << 62);
            let most = most.clamp(2 * advice.read_ahead, 1 << 62).next_power_of_two();
            advice.wanted = advice.wanted.min(most);
        }
        if self.summary.still + self.unseen > 0 {
            self.summary.untraced = untraced();
            self.summary.unseen = if self.summary.untraced.is_some() { self.unseen } else { 0 };
        }
        self.summary.elapsed = now;
        self.summary.programs = self.programs;
        self.summary.files = self.files.len() as u64;
        self.summary.refused = self.refused.len() as u64;
        self.summary
    }
}

/// Returns the reason for leaving a reading alone for most of the time, if it was; or the last reason, if nothing was
/// done.
fn why_idle(reading: &Reading, state: Option<State>, watched: bool) -> Option<Idle> {
    let account = &reading.account;
    let all: Nanos = account.idle.values().fold(Nanos::ZERO, |all, &time| all + time);
    if watched && account.would_help.time > all {
        return None;
    }
    let longest = account.idle.iter().filter(|(idle, _)| **idle != Idle::Done).max_by_key(|(_, time)| **time);
    let last = match state {
        Some(State::Idle(idle)) if idle != Idle::Done => Some(idle),
        _ => None,
    };
    if account.prefetched_bytes == 0 {
        return longest.map(|(idle, _)| *idle).or(last);
    }
    longest.filter(|(_, time)| **time > account.helped.time).map(|(idle, _)| *idle)
}

/// Returns the elapsed time that reading ahead of `share` would save: its waits, limited by the time in which storage
/// of `rate` bytes per second delivers the bytes (equation 2 of the paper), and by the computing time of the `busiest`
/// thread.
fn could_save(share: Share, elapsed: Nanos, busiest: Nanos, rate: Option<u64>) -> Nanos {
    let Share { bytes, io_wait, cpu_time, divided, .. } = share;
    // Concurrent waits of threads overlap, and so do those of processes.
    let threads = ((io_wait + cpu_time).as_secs_f64() / divided.as_secs_f64().max(1e-9)).max(1.0);
    let time = divided.min(elapsed).as_secs_f64();
    let io_wait = io_wait.as_secs_f64() / threads * time / divided.as_secs_f64().max(1e-9);
    let transfer = rate.map_or(0.0, |rate| bytes as f64 / rate.max(1) as f64);
    let saved = time - transfer.max(time - io_wait);
    Nanos((saved.max(0.0) * 1e9) as u64).min(elapsed.saturating_sub(busiest))
}

/// Recommends a longer read-ahead. The kernel delivers a window in the time of an access, in which the program computes
/// and waits; so twice the data on which the program computes in that time would hide the wait.
fn advice(reading: &Reading) -> Option<Advice> {
    /// Advice is given to programs that wait for at least one part in this many of their time: 5 %.
    const WAIT_SHARE_DIVISOR: u64 = 20;
    let spent = &reading.account.alone;
    let device = page_cache::device_numbers(reading.current().device);
    let read_ahead = page_cache::read_ahead(reading.current().device)?;
    if spent.io_wait.0 < spent.time.0 / WAIT_SHARE_DIVISOR || spent.bytes < 1 << 20 || read_ahead == 0 {
        return None;
    }
    // With short files, the program waits for the first bytes of each file.
    if reading.gone < 2 * read_ahead * reading.visited.len() as u64 {
        return None;
    }
    let factor = 2.0 * (1.0 + spent.io_wait.as_secs_f64() / spent.cpu_time.as_secs_f64().max(1e-6));
    let wanted = (read_ahead as f64 * factor) as u64;
    // Two windows are in flight at a time.
    let access = Nanos((spent.time.0 as f64 / spent.bytes as f64 * 2.0 * read_ahead as f64) as u64);
    Some(Advice { device, read_ahead, wanted: wanted.next_power_of_two().min(64 << 20), access })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn seconds(share: Share, busiest: u64, rate: Option<u64>) -> f64 {
        could_save(share, Nanos(5 * SECOND), Nanos(busiest * SECOND), rate).as_secs_f64()
    }

    #[test]
    fn as_much_can_be_saved_as_is_waited_unless_storage_or_computing_takes_longer() {
        let second = Nanos(SECOND);
        let alone = Share {
            bytes: 1000,
            io_wait: second * 3,
            cpu_time: second,
            time: second * 4,
            divided: second * 4,
        };
        assert_eq!(seconds(alone, 1, None), 3.0);
        assert_eq!(seconds(alone, 1, Some(10_000)), 3.0);
        assert_eq!(seconds(alone, 1, Some(500)), 2.0, "the bytes take 2 of the 4 seconds");
        assert_eq!(seconds(alone, 1, Some(100)), 0.0, "the storage is as slow as the program");
        assert_eq!(seconds(alone, 4, None), 1.0, "another process computes on the data");
        // Four threads that waited concurrently.
        let four = Share { io_wait: second * 12, cpu_time: second * 4, ..alone };
        assert_eq!(seconds(four, 1, None), 3.0);
        // Four concurrent processes, whose times add up to more than the elapsed time.
        let processes =
            Share { bytes: 4000, io_wait: second * 15, cpu_time: second * 5, divided: second * 20, ..alone };
        assert!((seconds(processes, 1, None) - 3.75).abs() < 1e-9);
        assert_eq!(seconds(Share::default(), 0, None), 0.0);
    }
}
