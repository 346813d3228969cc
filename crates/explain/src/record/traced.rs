//! Recording by the kernel's tracepoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sakiyomi_os::tracefs::{Activity, ActivityTrace};

use super::descriptors::ProcDescriptors;
use super::{Subject, measure_storage, name_files};
use crate::recording::{Method, RECORDING_SCHEMA, Recording};
use crate::timeline::Timeline;

/// Time between two polls: soon enough that a file which was waited for is mostly still open.
const POLL_PERIOD: Duration = Duration::from_millis(4);

/// Records programs by tracepoints.
#[derive(Debug)]
pub struct TracedRecorder {
    trace: ActivityTrace,
}

/// A recording in progress. The program continues if it is dropped.
#[derive(Debug)]
pub struct TracedRecording {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Recording>,
}

impl TracedRecorder {
    /// Prepares to record. Takes about 0.1 s.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn create() -> Result<TracedRecorder, String> {
        Ok(TracedRecorder { trace: ActivityTrace::create()? })
    }

    /// Begins to record these threads, of which the first is that of the program, and all that they start.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn start(mut self, threads: &[u32], subject: Subject) -> Result<TracedRecording, String> {
        self.trace.follow(threads).map_err(|error| format!("cannot set the threads to trace ({error})"))?;
        let mut timeline = Timeline::new(ActivityTrace::now(), threads);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            let mut recorder = Recorder { trace: self.trace, held: Vec::new(), has_lost: false };
            let mut descriptors = ProcDescriptors::new();
            while !stopped.load(Ordering::Acquire) && !timeline.is_full() {
                if recorder.poll(&mut timeline, &mut descriptors) {
                    thread::park_timeout(POLL_PERIOD);
                }
            }
            let ended = ActivityTrace::now();
            recorder.trace.stop();
            recorder.drain(&mut timeline, &mut descriptors, ended);
            recorder.finish(timeline, descriptors, ended, subject)
        };
        let thread = thread::Builder::new().name("record".to_owned()).spawn(body);
        let thread = thread.map_err(|error| format!("cannot start a thread that records ({error})"))?;
        Ok(TracedRecording { stop, thread })
    }
}

impl TracedRecording {
    /// Ends the recording; returns it.
    ///
    /// # Panics
    /// If the recording thread has panicked.
    #[must_use]
    pub fn finish(self) -> Recording {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().expect("the recording thread does not panic")
    }
}

struct Recorder {
    trace: ActivityTrace,
    /// Events that may be later than some that were not read yet.
    held: Vec<Activity>,
    has_lost: bool,
}

impl Recorder {
    /// Processes what was recorded so far; returns whether that is all.
    fn poll(&mut self, timeline: &mut Timeline, descriptors: &mut ProcDescriptors) -> bool {
        // All earlier events of all cores are in the buffers now.
        let now = ActivityTrace::now();
        let poll = self.trace.take(&mut self.held);
        self.has_lost |= poll.has_lost;
        let until = poll.complete_until.map_or(now, |until| until.min(now));
        self.held.sort_by_key(|event| event.time);
        let complete = self.held.partition_point(|event| event.time < until);
        for event in self.held.drain(..complete) {
            timeline.process(&event, descriptors);
        }
        poll.complete_until.is_none()
    }

    /// Processes the rest of the events, after the end of tracing.
    fn drain(&mut self, timeline: &mut Timeline, descriptors: &mut ProcDescriptors, ended: u64) {
        loop {
            let before = self.held.len();
            self.has_lost |= self.trace.take(&mut self.held).has_lost;
            if self.held.len() == before {
                break;
            }
        }
        self.held.sort_by_key(|event| event.time);
        for event in self.held.drain(..).filter(|event| event.time <= ended) {
            timeline.process(&event, descriptors);
        }
    }

    fn finish(
        self,
        timeline: Timeline,
        mut descriptors: ProcDescriptors,
        ended: u64,
        subject: Subject,
    ) -> Recording {
        let is_full = timeline.is_full();
        let (elapsed_ns, mut files, threads) = timeline.finish(ended, &mut descriptors);
        let unnamed = name_files(&mut files, &descriptors.names, &subject);
        let mut notes = Vec::new();
        if self.has_lost {
            notes.push("Some events came faster than they could be read, and are missing.".to_owned());
        }
        if is_full {
            let end = elapsed_ns.as_secs_f64();
            notes.push(format!("The recording was full after {end:.1} s; the rest of the run is not in it."));
        }
        notes.extend(unnamed);
        let schema = RECORDING_SCHEMA.to_owned();
        let method = Method::Traced;
        let mut recording = Recording {
            schema,
            program: subject.program,
            elapsed_ns,
            method,
            notes,
            machine: subject.machine,
            storage: None,
            files,
            threads,
        };
        if subject.measures_storage {
            recording.storage = measure_storage(&recording);
        }
        recording
    }
}
