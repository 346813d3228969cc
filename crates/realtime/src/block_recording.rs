//! The requests of a real block device, as a trace: recorded by the kernel's tracepoints while others use the device.
//!
//! A thread polls the kernel's buffers, pairs the events of each request, and gives the requests away in order of
//! arrival. At the end it waits a moment for those that are in flight.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_model::{Bytes, Nanos, Op};
use sakiyomi_os::block_device::DiskPart;
use sakiyomi_os::tracefs::{BlockActivity, BlockPoll, BlockRange, BlockStage as TracedStage, BlockTrace};
use sakiyomi_trace::Record;
use sakiyomi_trace::block::{Arrival, BlockCounts, BlockEvent, BlockOp, BlockRequests, BlockStage};

/// Bytes of a sector of the kernel's events.
const KERNEL_SECTOR_BYTES: u64 = 512;
/// Time between two polls, in which the fastest devices fill a tenth of a buffer.
const RECORDING_POLL_PERIOD: Duration = Duration::from_millis(10);
/// Time after which an event is in the buffer of its core: a core takes the time first, and may be interrupted before it
/// has written the event.
const EVENT_WRITE_TIME_MAX: Nanos = Nanos(1_000_000);
/// Time for which requests in flight at the end are waited for: more than a hard disk takes.
const IN_FLIGHT_WAIT_MAX: Nanos = Nanos(2 * Nanos::SECOND.0);

/// Prepared to record a device.
#[derive(Debug)]
pub struct BlockRecorder {
    trace: BlockTrace,
    first_sector: u64,
}

/// A recording in progress. Dropping it ends it at once and without a result; `each` has then been dropped.
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
    /// Events that the kernel overwrote before they were read. A request has two or three events, and lacks its response
    /// time, or is missing, if one of them was lost.
    pub lost_events: u64,
    /// Whether it ended by itself, because the process that owns the kernel's buffers was killed.
    pub ended_early: bool,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// The result is not needed.
    is_abandoned: AtomicBool,
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
            shared: Arc::clone(&shared),
            begun,
            events: Events::new(self.first_sector),
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

    /// Returns whether it has ended by itself, by an error or because the kernel records nothing more.
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
        let Some(thread) = self.thread.take() else { return };
        self.shared.is_abandoned.store(true, Ordering::Release);
        thread.thread().unpark();
        // A panic of `each` has been reported by its thread.
        let _ = thread.join();
    }
}

/// The state of a recording after a poll.
struct Polled {
    /// All events before this time were processed.
    until: u64,
    /// Whether no more of them are waiting.
    is_all: bool,
    /// Whether nothing more is recorded.
    is_over: bool,
}

struct Worker<F> {
    trace: BlockTrace,
    shared: Arc<Shared>,
    begun: u64,
    events: Events,
    each: F,
}

impl<E, F: FnMut(&Record) -> Result<(), E>> Worker<F> {
    fn run(mut self) -> Result<BlockRecorded, E> {
        let mut ended = None;
        let mut complete_until = self.begun;
        loop {
            if self.shared.is_abandoned.load(Ordering::Acquire) {
                return Ok(BlockRecorded::default());
            }
            if ended.is_none() && self.shared.stop.load(Ordering::Acquire) {
                let now = BlockTrace::now();
                self.events.requests.end_at(Nanos(now));
                ended = Some(now);
            }
            let polled = self.poll()?;
            if let Some(ended) = ended {
                let is_complete = polled.until > ended && self.events.requests.outstanding() == 0;
                let waited = BlockTrace::now().saturating_sub(ended);
                if is_complete || polled.is_over || waited > IN_FLIGHT_WAIT_MAX.0 {
                    return self.finish(ended, false);
                }
            } else if polled.is_over {
                return self.finish(complete_until, true);
            }
            complete_until = polled.until;
            if polled.is_all {
                thread::park_timeout(RECORDING_POLL_PERIOD);
            }
        }
    }

    /// Processes what was recorded so far.
    fn poll(&mut self) -> Result<Polled, E> {
        let now = BlockTrace::now().saturating_sub(EVENT_WRITE_TIME_MAX.0);
        let BlockPoll { lost, complete_until, is_over } = self.trace.take(&mut self.events.held);
        self.events.lose(lost);
        let until = complete_until.map_or(now, |until| until.min(now));
        self.events.process(until);
        while let Some(record) = self.events.requests.pop() {
            self.give(&record)?;
        }
        Ok(Polled { until, is_all: complete_until.is_none(), is_over })
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
    fn finish(mut self, ended: u64, ended_early: bool) -> Result<BlockRecorded, E> {
        self.trace.stop();
        loop {
            let before = self.events.held.len();
            let lost = self.trace.take(&mut self.events.held).lost;
            self.events.lose(lost);
            if self.events.held.len() == before {
                break;
            }
        }
        self.events.process(u64::MAX);
        while let Some(record) = self.events.requests.pop_rest() {
            self.give(&record)?;
        }
        Ok(BlockRecorded {
            elapsed: Nanos(ended.saturating_sub(self.begun)),
            counts: self.events.requests.counts(),
            lost_events: self.trace.lost_events(),
            ended_early,
        })
    }
}

/// The events of a recording, put in order of time and paired (pure).
struct Events {
    converter: Converter,
    /// Events that may be later than some that were not read yet.
    held: Vec<BlockActivity>,
    /// The times between which events are missing, until all before its end are processed.
    lost: Option<Range<u64>>,
    requests: BlockRequests,
}

impl Events {
    fn new(first_sector: u64) -> Events {
        Events {
            converter: Converter { first_sector },
            held: Vec::new(),
            lost: None,
            requests: BlockRequests::new(Arrival::Inserted),
        }
    }

    /// Adds times between which events are missing.
    fn lose(&mut self, times: Option<Range<u64>>) {
        let Some(times) = times else { return };
        self.lost = Some(match self.lost.take() {
            // An open end is known now.
            Some(before) if before.end == u64::MAX => before.start.min(times.start)..times.end,
            Some(before) => before.start.min(times.start)..before.end.max(times.end),
            None => times,
        });
    }

    /// Processes the events before `until`. No request is completed by an event that may be of another, one whose
    /// beginning is missing.
    fn process(&mut self, until: u64) {
        self.held.sort_by_key(|activity| activity.time);
        let complete = self.held.partition_point(|activity| activity.time < until);
        for activity in self.held.drain(..complete) {
            if let Some(lost) = &self.lost
                && activity.time > lost.start
            {
                // Any number of events may be missing between the one before and this one.
                self.requests.lost();
                if activity.time >= lost.end {
                    self.lost = None;
                }
            }
            if let Some(event) = self.converter.event(&activity) {
                self.requests.event(&event);
            }
        }
        if let Some(lost) = &self.lost
            && until > lost.start
        {
            self.requests.lost();
            if until > lost.end {
                self.lost = None;
            }
        }
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
            is_failed: activity.stage == TracedStage::Completed && activity.error != 0,
            process: activity.thread,
            line: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use proptest::prelude::*;
    use sakiyomi_os::loop_device::LoopDevice;
    use sakiyomi_os::tracefs::check_block;
    use sakiyomi_testing::{Scratch, skipped};

    use super::*;

    fn activity(time: u64, stage: TracedStage, sector: u64) -> BlockActivity {
        let mut activity = BlockActivity::new(time, stage, b"R");
        (activity.sector, activity.sectors) = (sector, 8);
        activity
    }

    /// Events of a poll, the times between which some are missing, and the time until which they are processed.
    type Poll<'a> = (&'a [BlockActivity], Option<Range<u64>>, u64);

    /// Returns the records of all events.
    fn records(polls: &[Poll<'_>]) -> Vec<Record> {
        let mut events = Events::new(0);
        for (activities, lost, until) in polls {
            events.held.extend_from_slice(activities);
            events.lose(lost.clone());
            events.process(*until);
        }
        std::iter::from_fn(|| events.requests.pop_rest()).collect()
    }

    #[test]
    fn only_requests_in_flight_at_a_loss_lack_their_times() {
        use TracedStage::{Completed, Issued};
        let activities = [
            activity(1, Issued, 0),
            activity(2, Completed, 0),
            activity(3, Issued, 0),
            // Its completion, and the next issue, are missing.
            activity(9, Completed, 0),
            activity(10, Issued, 0),
            activity(12, Completed, 0),
        ];
        let found: Vec<_> = records(&[(&activities, Some(3..9), u64::MAX)])
            .iter()
            .map(|one| (one.time.0, one.response))
            .collect();
        assert_eq!(found, [(1, Some(Nanos(1))), (3, None), (10, Some(Nanos(2)))]);
    }

    #[test]
    fn the_extent_of_a_partition_begins_at_its_first_sector() {
        let mut events = Events::new(64);
        events.held.push(activity(1, TracedStage::Issued, 72));
        events.process(2);
        assert_eq!(events.requests.pop_rest().unwrap().offset, Bytes(8 * KERNEL_SECTOR_BYTES));
    }

    #[test]
    fn a_recording_that_is_dropped_has_ended() {
        let test = "a_recording_that_is_dropped";
        if let Err(why) = check_block() {
            return skipped(test, why);
        }
        let scratch = Scratch::new("block_recording");
        File::create(scratch.path("disk")).unwrap().set_len(1 << 20).unwrap();
        let device = match LoopDevice::attach(&scratch.path("disk"), false, false) {
            Ok(device) => device,
            Err(why) => return skipped(test, why),
        };
        let part = DiskPart::of_path(device.path()).unwrap();
        let owned = Arc::new(());
        let held = Arc::clone(&owned);
        let each = move |_: &Record| {
            let _ = &held;
            Ok::<(), ()>(())
        };
        drop(BlockRecorder::create(&part).unwrap().start(each).unwrap());
        assert_eq!(Arc::strong_count(&owned), 1, "what it owned was dropped");
    }

    /// An event: time, stage, place, and whether it is of the first core.
    type Placed = (u64, TracedStage, u64, bool);

    /// Returns the events of requests, of which those of one place do not overlap in time, in order of time.
    fn placed(requests: &[(u64, u64, u64, bool, bool)]) -> Vec<Placed> {
        let mut free_at = [0; 3];
        let (mut clock, mut events) = (0, Vec::new());
        for &(place, gap, service, issues_on_first, completes_on_first) in requests {
            clock += gap;
            let issued = free_at[place as usize].max(clock) + 1;
            free_at[place as usize] = issued + service;
            events.push((issued, TracedStage::Issued, place, issues_on_first));
            events.push((issued + service, TracedStage::Completed, place, completes_on_first));
        }
        events.sort_by_key(|event| event.0);
        events
    }

    proptest! {
        #[test]
        fn whatever_was_lost_no_request_has_the_time_of_another(
            requests in prop::collection::vec(
                (0u64..3, 0u64..6, 1u64..30, any::<bool>(), any::<bool>()), 1..40),
            loss: prop::sample::Index,
            count in 0usize..12,
            split: prop::sample::Index,
        ) {
            let all = placed(&requests);
            let of_first: Vec<Placed> = all.iter().copied().filter(|event| event.3).collect();
            let from = loss.index(of_first.len() + 1);
            let until = (from + count).min(of_first.len());
            let lost = &of_first[from..until];
            let start = if from == 0 { 0 } else { of_first[from - 1].0 };
            let end = of_first.get(until).map_or(u64::MAX, |event| event.0);
            let times = (!lost.is_empty()).then_some(start..end);
            let kept: Vec<BlockActivity> = all
                .iter()
                .filter(|event| !lost.contains(event))
                .map(|&(time, stage, place, _)| activity(time, stage, place * 8))
                .collect();
            // A loss is known when the events after it are read.
            let mut split = kept.get(split.index(kept.len() + 1)).map_or(u64::MAX, |event| event.time);
            if times.as_ref().is_some_and(|times| times.start < split && split <= times.end) {
                split = start;
            }
            let (early, late) = kept.split_at(kept.partition_point(|event| event.time < split));
            let is_early = end < split;
            let polls = [
                (early, times.clone().filter(|_| is_early), split),
                (late, times.clone().filter(|_| !is_early), u64::MAX),
            ];
            let found = records(&polls);
            let known: Vec<(u64, u64, u64)> = all
                .iter()
                .filter(|event| event.1 == TracedStage::Issued)
                .map(|issue| {
                    let completion = all.iter().find(|event| {
                        event.1 == TracedStage::Completed && event.2 == issue.2 && event.0 > issue.0
                    });
                    (issue.0, issue.2 * 4096, completion.unwrap().0 - issue.0)
                })
                .collect();
            for record in &found {
                if let Some(response) = record.response {
                    prop_assert!(known.contains(&(record.time.0, record.offset.0, response.0)), "{record:?}");
                }
            }
            let is_outside = |&&(issued, _, response): &&(u64, u64, u64)| {
                times.as_ref().is_none_or(|times| issued + response < times.start || issued > times.end)
            };
            let complete = found.iter().filter(|record| record.response.is_some()).count();
            prop_assert!(complete >= known.iter().filter(is_outside).count(), "others keep their times");
        }
    }
}
