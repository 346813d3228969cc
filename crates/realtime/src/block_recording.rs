//! The requests of a real block device, as a trace: recorded by the kernel's tracepoints while others use the device.
//!
//! A thread polls the kernel's buffers, pairs the events of each request, and gives the requests away in order of
//! arrival. At the end it waits a moment for those that are in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_model::{Bytes, Nanos, Op};
use sakiyomi_os::block_device::DiskPart;
use sakiyomi_os::tracefs::{BlockActivity, BlockRange, BlockStage as TracedStage, BlockTrace};
use sakiyomi_trace::Record;
use sakiyomi_trace::block::{Arrival, BlockCounts, BlockEvent, BlockOp, BlockRequests, BlockStage};

/// Bytes of a sector of the kernel's events.
const KERNEL_SECTOR_BYTES: u64 = 512;
/// Time between two polls, in which the fastest devices fill a tenth of a buffer.
const RECORDING_POLL_PERIOD: Duration = Duration::from_millis(10);
/// Time for which requests in flight at the end are waited for: more than a hard disk takes.
const IN_FLIGHT_WAIT_MAX: Nanos = Nanos(2 * Nanos::SECOND.0);

/// Prepared to record a device.
#[derive(Debug)]
pub struct BlockRecorder {
    trace: BlockTrace,
    first_sector: u64,
}

/// A recording in progress. Dropping it ends it without a result.
#[derive(Debug)]
pub struct BlockRecording<E> {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<BlockRecorded, E>>>,
}

/// Result of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockRecorded {
    /// Time from its start to its end, in nanoseconds.
    pub elapsed: Nanos,
    /// Numbers of requests.
    pub counts: BlockCounts,
    /// Events that the kernel overwrote before they were read. About each third one makes a request incomplete.
    pub lost_events: u64,
    /// Completions with an error.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl BlockRecorder {
    /// Prepares to record the requests of a device. Takes about 0.1 s.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn create(part: &DiskPart) -> Result<BlockRecorder, String> {
        let sectors = part.sectors.map(|(first, count)| first..first.saturating_add(count));
        let first_sector = part.sectors.map_or(0, |(first, _)| first);
        let trace = BlockTrace::create(&BlockRange { disk: part.disk, sectors })?;
        Ok(BlockRecorder { trace, first_sector })
    }

    /// Begins to record. `each` gets the requests in order of arrival: `time` is when a request entered the queue of the
    /// I/O scheduler (or the driver, if there is none) in nanoseconds from the start, `started` when the driver got it;
    /// the stream is the thread that asked, and the offset counts from the start of the device. An error of `each` ends
    /// the recording.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn start<E: Send + 'static>(
        mut self,
        each: impl FnMut(&Record) -> Result<(), E> + Send + 'static,
    ) -> Result<BlockRecording<E>, String> {
        let shared = Arc::new(Shared::default());
        let begun = BlockTrace::now();
        self.trace.start().map_err(|error| format!("cannot begin to trace ({error})"))?;
        let worker = Worker {
            trace: self.trace,
            converter: Converter { first_sector: self.first_sector },
            shared: Arc::clone(&shared),
            begun,
            requests: BlockRequests::new(Arrival::Inserted),
            held: Vec::new(),
            failed: 0,
            each,
        };
        let thread = thread::Builder::new().name("block-recorder".to_owned()).spawn(move || worker.run());
        let thread = thread.map_err(|error| format!("cannot start a thread that records ({error})"))?;
        Ok(BlockRecording { shared, thread: Some(thread) })
    }
}

impl<E> BlockRecording<E> {
    /// Returns the numbers of requests and of bytes so far.
    #[must_use]
    pub fn progress(&self) -> (u64, Bytes) {
        let Shared { requests, bytes, .. } = &*self.shared;
        (requests.load(Ordering::Relaxed), Bytes(bytes.load(Ordering::Relaxed)))
    }

    /// Returns whether it has ended by itself, by an error.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the recording. Waits for requests in flight, for two seconds at most.
    ///
    /// # Errors
    /// The error of `each`.
    ///
    /// # Panics
    /// If `each` has panicked.
    pub fn finish(mut self) -> Result<BlockRecorded, E> {
        let thread = self.thread.take().expect("it is joined once");
        self.shared.stop.store(true, Ordering::Release);
        thread.thread().unpark();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl<E> Drop for BlockRecording<E> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}

struct Worker<F> {
    trace: BlockTrace,
    converter: Converter,
    shared: Arc<Shared>,
    begun: u64,
    requests: BlockRequests,
    /// Events that may be later than some that were not read yet.
    held: Vec<BlockActivity>,
    failed: u64,
    each: F,
}

impl<E, F: FnMut(&Record) -> Result<(), E>> Worker<F> {
    fn run(mut self) -> Result<BlockRecorded, E> {
        let mut ended = None;
        loop {
            if ended.is_none() && self.shared.stop.load(Ordering::Acquire) {
                let now = BlockTrace::now();
                self.requests.end_at(Nanos(now));
                ended = Some(now);
            }
            let is_all = self.poll()?;
            if let Some(ended) = ended {
                let waited = BlockTrace::now().saturating_sub(ended);
                if self.requests.outstanding() == 0 && is_all || waited > IN_FLIGHT_WAIT_MAX.0 {
                    return self.finish(ended);
                }
            }
            if is_all {
                thread::park_timeout(RECORDING_POLL_PERIOD);
            }
        }
    }

    /// Processes what was recorded so far; returns whether that is all.
    fn poll(&mut self) -> Result<bool, E> {
        // All earlier events of all cores are in the buffers now.
        let now = BlockTrace::now();
        let (outcome, complete_until) = self.trace.take(&mut self.held);
        let until = complete_until.map_or(now, |until| until.min(now));
        self.process(until, outcome.lost)?;
        Ok(complete_until.is_none())
    }

    /// Processes the events before `until`. If some are missing among them, no request is completed by one of another.
    fn process(&mut self, until: u64, has_lost: bool) -> Result<(), E> {
        if has_lost {
            self.requests.lost();
        }
        self.held.sort_by_key(|activity| activity.time);
        let complete = self.held.partition_point(|activity| activity.time < until);
        for activity in self.held.drain(..complete) {
            self.failed += u64::from(activity.stage == TracedStage::Completed && activity.error != 0);
            if let Some(event) = self.converter.event(&activity) {
                self.requests.event(&event);
            }
        }
        if has_lost {
            self.requests.lost();
        }
        while let Some(record) = self.requests.pop() {
            self.give(&record)?;
        }
        Ok(())
    }

    fn give(&mut self, record: &Record) -> Result<(), E> {
        let from_start = |time: Nanos| time.saturating_sub(Nanos(self.begun));
        let record =
            Record { time: from_start(record.time), started: record.started.map(from_start), ..*record };
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        if matches!(record.op, Op::Read | Op::Write) {
            self.shared.bytes.fetch_add(record.length.0, Ordering::Relaxed);
        }
        (self.each)(&record)
    }

    /// Processes the rest of the events, after the end of tracing.
    fn finish(mut self, ended: u64) -> Result<BlockRecorded, E> {
        self.trace.stop();
        let mut has_lost = false;
        loop {
            let before = self.held.len();
            has_lost |= self.trace.take(&mut self.held).0.lost;
            if self.held.len() == before {
                break;
            }
        }
        self.process(u64::MAX, has_lost)?;
        while let Some(record) = self.requests.pop_rest() {
            self.give(&record)?;
        }
        Ok(BlockRecorded {
            elapsed: Nanos(ended.saturating_sub(self.begun)),
            counts: self.requests.counts(),
            lost_events: self.trace.lost_events(),
            failed: self.failed,
        })
    }
}

/// Converts the kernel's events to those of a trace.
struct Converter {
    /// The sector of the disk at which the device begins.
    first_sector: u64,
}

impl Converter {
    /// Returns the event; `None` for an operation that is not known.
    fn event(&self, activity: &BlockActivity) -> Option<BlockEvent> {
        let op = BlockOp::parse(activity.operation()).ok()?;
        let bytes = |sectors: u64| Bytes(sectors.saturating_mul(KERNEL_SECTOR_BYTES));
        let stage = match activity.stage {
            TracedStage::Inserted => BlockStage::Inserted,
            TracedStage::Issued => BlockStage::Issued,
            TracedStage::Requeued => BlockStage::Requeued,
            TracedStage::Completed => BlockStage::Completed,
        };
        // A flush has no sector, or 2^64 − 1.
        let sector = if activity.sectors == 0 { self.first_sector } else { activity.sector };
        Some(BlockEvent {
            time: Nanos(activity.time),
            device: 0,
            stage,
            op,
            offset: bytes(sector.saturating_sub(self.first_sector)),
            length: bytes(activity.sectors),
            process: activity.thread,
            line: 0,
        })
    }
}
