//! Waits of this process for storage, by file: sampled from `/proc`, which needs no rights.
//!
//! A thread of its own looks at each thread once a period. The kernel counts for each thread the time on a core and the time
//! ready to run; the rest is sleep, which is a wait for I/O if the thread was seen in a sleep that only I/O causes. The time of
//! a wait goes to the file of the system call in which the thread was last seen to wait.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{IoCall, IoKind, Process};

use crate::follow::{Timed, TimedTotals};

/// Time between two samples of all threads: a fraction of an access of a disk. A sample of a thread costs some microseconds.
const SAMPLE_PERIOD: Duration = Duration::from_millis(1);
/// Samples between two searches for new threads.
const SEARCH_PERIOD_SAMPLES: u64 = 5;
/// Threads that are looked at in one period; of more, another part each time.
const THREADS_PER_SAMPLE_MAX: usize = 64;
/// Files that are told apart; waits for further ones are counted without their names.
const FILES_MAX: usize = 10_000;
/// Beginnings of the names of threads that read ahead, or read for others: their waits are not those of the program.
const HELPERS: [&str; 3] = ["sakiyomi", "prefetch", "read ahead"];

/// A watch over the threads of this process; it ends when it is dropped.
#[derive(Debug)]
pub struct WaitWatch {
    stop: Option<Sender<()>>,
    watcher: Option<JoinHandle<Waits>>,
    process: Process,
    begun: Instant,
    read_before: u64,
    storage_before: (u64, u64),
    faults_before: u64,
}

/// The waits of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Elapsed time.
    pub elapsed: Duration,
    /// CPU time of its threads.
    pub cpu_time: Duration,
    /// Time waiting for I/O, summed over its threads.
    pub io_wait: Duration,
    /// Time ready to run without a free core, summed likewise.
    pub core_wait: Duration,
    /// Threads that were looked at.
    pub threads: u64,
    /// Looks at all threads, or at a part of many.
    pub samples: u64,
    /// Bytes that it has read from files, pipes and sockets.
    pub read_bytes: u64,
    /// Bytes that storage has read and written for it, with those of threads that read ahead.
    pub storage_bytes: (u64, u64),
    /// Page faults that needed storage.
    pub major_faults: u64,
    /// The waits by file, the longest first.
    pub files: Vec<FileWait>,
}

/// Waits for one use of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWait {
    /// The kind of use.
    pub kind: IoKind,
    /// The path; `None` if it was not visible.
    pub path: Option<PathBuf>,
    /// Time.
    pub io_wait: Duration,
    /// Looks that found a thread waiting.
    pub samples: u64,
}

impl WaitWatch {
    /// Begins to watch. Threads that exist count from now, those that are started from their start, or a few milliseconds
    /// after it.
    ///
    /// # Errors
    /// If `/proc` is not mounted or does not show this process, or the thread cannot be started.
    pub fn start() -> io::Result<WaitWatch> {
        let number = std::process::id();
        let (mut process, watched) = (Process::open(number)?, Process::open(number)?);
        let read_before = process.bytes_read()?;
        let storage_before = process.storage_bytes()?;
        let faults_before = process.major_faults()?;
        let (stop, stopped) = mpsc::channel::<()>();
        let mut sampler = Sampler::new(watched);
        // Before this returns, so that the first wait is seen.
        sampler.search()?;
        let body = move || {
            while stopped.recv_timeout(SAMPLE_PERIOD) == Err(RecvTimeoutError::Timeout) {
                sampler.sample();
            }
            sampler.finish()
        };
        let watcher = thread::Builder::new().name("sakiyomi-waits".to_owned()).spawn(body)?;
        Ok(WaitWatch {
            stop: Some(stop),
            watcher: Some(watcher),
            process,
            begun: Instant::now(),
            read_before,
            storage_before,
            faults_before,
        })
    }

    /// Ends the watch, and returns its result.
    ///
    /// # Errors
    /// If `/proc` can no longer be read.
    pub fn finish(mut self) -> io::Result<Waits> {
        let elapsed = self.begun.elapsed();
        let waits = self.stop();
        let (read, written) = self.process.storage_bytes()?;
        Ok(Waits {
            elapsed,
            read_bytes: self.process.bytes_read()?.saturating_sub(self.read_before),
            storage_bytes: (
                read.saturating_sub(self.storage_before.0),
                written.saturating_sub(self.storage_before.1),
            ),
            major_faults: self.process.major_faults()?.saturating_sub(self.faults_before),
            ..waits
        })
    }

    fn stop(&mut self) -> Waits {
        self.stop.take();
        let ended = self.watcher.take().map(JoinHandle::join);
        // A watcher that has panicked has seen nothing.
        ended.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for WaitWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A thread that is looked at.
struct Watched {
    timed: Timed,
    /// The use for which it was last seen to wait.
    call: Option<IoCall>,
    /// Waiting time that has been given to files.
    counted: Nanos,
}

struct Sampler {
    process: Process,
    /// `None` for one of the threads that are not watched.
    threads: BTreeMap<u32, Option<Watched>>,
    /// Totals of threads that have ended.
    ended: TimedTotals,
    seen: u64,
    samples: u64,
    files: BTreeMap<(IoKind, Option<PathBuf>), (Nanos, u64)>,
    begun: Instant,
}

impl Sampler {
    fn new(process: Process) -> Sampler {
        Sampler {
            process,
            threads: BTreeMap::new(),
            ended: TimedTotals::default(),
            seen: 0,
            samples: 0,
            files: BTreeMap::new(),
            begun: Instant::now(),
        }
    }

    /// Finds new threads.
    fn search(&mut self) -> io::Result<()> {
        for number in self.process.threads()? {
            if self.threads.contains_key(&number) {
                continue;
            }
            let watched = match self.process.thread(number) {
                Ok(thread) if !is_helper(&self.process, number) => {
                    self.seen += 1;
                    Some(Watched { timed: Timed::new(thread), call: None, counted: Nanos::ZERO })
                }
                _ => None,
            };
            self.threads.insert(number, watched);
        }
        Ok(())
    }

    fn sample(&mut self) {
        self.samples += 1;
        if self.samples.is_multiple_of(SEARCH_PERIOD_SAMPLES) {
            // The threads that are known are looked at anyway.
            let _ = self.search();
        }
        let now = Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let skipped = if self.threads.len() > THREADS_PER_SAMPLE_MAX {
            let turn = usize::try_from(self.samples).unwrap_or(usize::MAX);
            turn.wrapping_mul(THREADS_PER_SAMPLE_MAX) % self.threads.len()
        } else {
            0
        };
        let (process, files) = (&self.process, &mut self.files);
        let mut gone = Vec::new();
        for (&number, slot) in self.threads.iter_mut().skip(skipped).take(THREADS_PER_SAMPLE_MAX) {
            let Some(watched) = slot else { continue };
            match watched.look(number, now, process, files) {
                Ok(true) => {}
                Ok(false) => *slot = None,
                Err(_) => gone.push(number),
            }
        }
        for number in gone {
            if let Some(Some(watched)) = self.threads.remove(&number) {
                self.ended.add(&watched.timed);
            }
        }
    }

    fn finish(mut self) -> Waits {
        self.sample();
        let mut totals = self.ended;
        for watched in self.threads.values().flatten() {
            totals.add(&watched.timed);
        }
        let duration = |time: Nanos| Duration::from_nanos(time.0);
        let mut files: Vec<FileWait> = (self.files.into_iter())
            .map(|((kind, path), (io_wait, samples))| FileWait {
                kind,
                path,
                io_wait: duration(io_wait),
                samples,
            })
            .collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.io_wait));
        Waits {
            cpu_time: duration(totals.cpu_time),
            io_wait: duration(totals.io_wait),
            core_wait: duration(totals.queued),
            threads: self.seen,
            samples: self.samples,
            files,
            ..Waits::default()
        }
    }
}

/// Returns whether a thread reads ahead, or for others.
fn is_helper(process: &Process, thread: u32) -> bool {
    process.thread_name(thread).is_ok_and(|name| HELPERS.iter().any(|helper| name.starts_with(helper)))
}

impl Watched {
    /// Looks at the thread; returns whether it is to be watched further. The time of a wait counts for the use in which the
    /// thread waits now, or has waited last.
    fn look(
        &mut self,
        number: u32,
        now: Nanos,
        process: &Process,
        files: &mut BTreeMap<(IoKind, Option<PathBuf>), (Nanos, u64)>,
    ) -> io::Result<bool> {
        self.timed.sample(now)?;
        let waits = self.timed.waits();
        // A helper may have been found before it had set its name.
        if waits && self.call.is_none() && is_helper(process, number) {
            return Ok(false);
        }
        if waits {
            self.call = process.io_call(number).or(self.call.take());
        }
        let gained = self.timed.io_wait().saturating_sub(self.counted);
        if gained.is_zero() && !waits {
            return Ok(true);
        }
        self.counted += gained;
        let call = self.call.clone().unwrap_or(IoCall { kind: IoKind::Other, path: None });
        let key = (call.kind, call.path);
        let is_new = files.len() >= FILES_MAX && !files.contains_key(&key);
        let key = if is_new { (key.0, None) } else { key };
        let (time, samples) = files.entry(key).or_default();
        *time += gained;
        *samples += u64::from(waits);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_testing::wait_until;
    use std::io::Read;

    /// Returns a watch, or `None` where `/proc` does not show this process.
    fn watch(test: &str) -> Option<WaitWatch> {
        match WaitWatch::start() {
            Ok(watch) => Some(watch),
            Err(error) => {
                sakiyomi_testing::skipped(test, format_args!("/proc: {error}"));
                None
            }
        }
    }

    #[test]
    fn reading_is_counted_and_other_sleeps_are_no_waits_for_storage() {
        let Some(watch) = watch("reading_is_counted") else { return };
        let mut bytes = Vec::new();
        std::fs::File::open("/proc/self/exe").unwrap().take(1 << 20).read_to_end(&mut bytes).unwrap();
        let (sender, receiver) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            sender.send(()).unwrap();
        });
        receiver.recv().unwrap();
        sleeper.join().unwrap();
        let waits = watch.finish().unwrap();
        assert!(waits.read_bytes >= bytes.len() as u64 && waits.samples > 0 && waits.threads > 0);
        assert!(waits.elapsed >= Duration::from_millis(50));
        // Other tests of this process may wait for storage, but for no longer than all their threads exist.
        let by_file: Duration = waits.files.iter().map(|file| file.io_wait).sum();
        assert!(by_file <= waits.io_wait, "{waits:?}");
    }

    #[test]
    fn a_watch_that_is_dropped_ends_its_thread() {
        let Some(watch) = watch("a_watch_that_is_dropped") else { return };
        let own = Process::open(std::process::id()).unwrap();
        let watchers = || {
            let threads = own.threads().unwrap();
            let names = threads.iter().filter_map(|&thread| own.thread_name(thread).ok());
            names.filter(|name| name == "sakiyomi-waits").count()
        };
        // A thread sets its name when it begins.
        wait_until("the watcher has its name", || watchers() > 0);
        drop(watch);
        // The other test has one of its own.
        wait_until("the watcher has ended", || watchers() <= 1);
    }
}
