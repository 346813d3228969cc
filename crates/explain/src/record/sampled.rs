//! Recording by samples of `/proc`, without root.
//!
//! Waits that are shorter than the time between two samples are mostly counted as computing or not at all, accesses
//! that do not wait are not seen, and the kernel does not say which thread wakes another.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Process, Sleeps, Thread, Times};
use sakiyomi_os::system_call::CallKind;

use super::descriptors::ProcDescriptors;
use super::{Subject, name_files};
use crate::recording::{
    FileIndex, Method, RECORDING_SCHEMA, RecordedThread, Recording, Span, ThreadIndex, ThreadState, Wait,
};
use crate::timeline::reason::{Target, wait_in};
use crate::timeline::{Descriptors, Files, Meaning};

/// Least time between two samples.
const SAMPLE_PERIOD: Duration = Duration::from_millis(1);
/// Share of a core that sampling may take.
const SAMPLE_SHARE: f64 = 0.03;
/// Time between two searches for new threads and processes.
const DISCOVERY_PERIOD: Duration = Duration::from_millis(5);
/// Spans that a recording holds.
const SPANS_MAX: usize = 2_000_000;

/// A recording in progress. The program continues if it is dropped.
#[derive(Debug)]
pub struct SampledRecording {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Recording>,
}

impl SampledRecording {
    /// Begins to record a process and its descendants.
    ///
    /// # Errors
    /// The reason why it is not possible, as a clause.
    pub fn start(process: u32, subject: Subject) -> Result<SampledRecording, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut sampler = Sampler::new(process);
        // Before the program can end.
        sampler.sample();
        let body = move || {
            while !stopped.load(Ordering::Acquire) && sampler.spans < SPANS_MAX {
                let begun = Instant::now();
                sampler.sample();
                thread::park_timeout(SAMPLE_PERIOD.max(begun.elapsed().div_f64(SAMPLE_SHARE)));
            }
            sampler.finish(subject)
        };
        let thread = thread::Builder::new().name("record".to_owned()).spawn(body);
        let thread = thread.map_err(|error| format!("cannot start a thread that records ({error})"))?;
        Ok(SampledRecording { stop, thread })
    }

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

struct Sampler {
    begun: Instant,
    first: u32,
    processes: BTreeMap<u32, Process>,
    /// Threads that still exist.
    live: BTreeMap<u32, Sampled>,
    threads: Vec<RecordedThread>,
    discover_at: Instant,
    descriptors: ProcDescriptors,
    files: Files,
    spans: usize,
}

struct Sampled {
    process: u32,
    index: usize,
    handle: Thread,
    at: Nanos,
    times: Times,
}

impl Sampler {
    fn new(process: u32) -> Sampler {
        let now = Instant::now();
        Sampler {
            begun: now,
            first: process,
            processes: BTreeMap::new(),
            live: BTreeMap::new(),
            threads: Vec::new(),
            discover_at: now,
            descriptors: ProcDescriptors::new(),
            files: Files::default(),
            spans: 0,
        }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn sample(&mut self) {
        if Instant::now() >= self.discover_at {
            self.discover();
            self.discover_at = Instant::now() + DISCOVERY_PERIOD;
        }
        let numbers: Vec<u32> = self.live.keys().copied().collect();
        for number in numbers {
            if self.sample_thread(number).is_none() {
                self.live.remove(&number);
            }
        }
    }

    /// Finds new threads, and processes that they have started.
    fn discover(&mut self) {
        let mut seen = BTreeSet::new();
        let mut next = vec![(self.first, None)];
        while let Some((number, parent)) = next.pop() {
            if !seen.insert(number) {
                continue;
            }
            let process = match self.processes.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let Ok(process) = Process::open(number) else { continue };
                    place.insert(process)
                }
            };
            let Ok(threads) = process.threads() else {
                self.processes.remove(&number);
                continue;
            };
            let mut children = Vec::new();
            process.children(&threads, &mut children);
            let first = threads.first().copied();
            for thread in threads {
                self.add(number, thread, if Some(thread) == first { parent } else { first });
            }
            next.extend(children.into_iter().map(|child| (child, Some(number))));
        }
        self.processes.retain(|number, _| seen.contains(number));
    }

    fn add(&mut self, process: u32, number: u32, parent: Option<u32>) {
        if self.live.contains_key(&number) {
            return;
        }
        let Ok(handle) = self.processes[&process].thread(number) else { return };
        let at = self.now();
        let name = self.processes[&process].name().unwrap_or_default();
        let parent = parent.and_then(|parent| self.live.get(&parent)).map(|parent| ThreadIndex(parent.index));
        let index = self.threads.len();
        self.threads.push(RecordedThread {
            id: number,
            name,
            begun_ns: at,
            parent,
            spans: Vec::new(),
            accesses: Vec::new(),
        });
        self.live.insert(number, Sampled { process, index, handle, at, times: Times::default() });
    }

    /// Adds the spans of a thread since its last sample; `None` if it has ended.
    fn sample_thread(&mut self, number: u32) -> Option<()> {
        let now = self.now();
        let sampled = self.live.get(&number)?;
        let times = sampled.handle.times().ok()?;
        let sleeps = sampled.handle.sleeps().ok()?;
        let (process, index, at) = (sampled.process, sampled.index, sampled.at);
        let ran = nanos(times.ran.saturating_sub(sampled.times.ran));
        let queued = nanos(times.queued.saturating_sub(sampled.times.queued));
        let rest = match sleeps {
            // The kernel accounts for the time on a core when it ends.
            Sleeps::Not => ThreadState::Computing,
            Sleeps::ForIo | Sleeps::Otherwise => {
                let wait = self.wait_of(process, number, sleeps);
                ThreadState::Waiting { wait, woken_by: None }
            }
        };
        if let Ok(name) = self.processes.get(&process)?.name()
            && process == number
        {
            self.threads[index].name = name;
        }
        // Computing first: the thread sleeps now.
        let computed = (at + ran).min(now);
        let queued = (computed + queued).min(now);
        self.push(index, at, computed, ThreadState::Computing);
        self.push(index, computed, queued, ThreadState::AwaitingCore);
        self.push(index, queued, now, rest);
        let sampled = self.live.get_mut(&number)?;
        (sampled.at, sampled.times) = (now, times);
        Some(())
    }

    fn push(&mut self, index: usize, begun: Nanos, ended: Nanos, state: ThreadState) {
        if ended <= begun {
            return;
        }
        let spans = &mut self.threads[index].spans;
        match spans.last_mut() {
            Some(last) if last.state == state && last.ended_ns == begun => last.ended_ns = ended,
            _ => {
                spans.push(Span { begun_ns: begun, ended_ns: ended, state });
                self.spans += 1;
            }
        }
    }

    /// Returns what a sleeping thread waits for.
    fn wait_of(&mut self, process: u32, number: u32, sleeps: Sleeps) -> Wait {
        let Some(call) = self.processes.get(&process).and_then(|process| process.call(number)) else {
            return match sleeps {
                Sleeps::ForIo => self.fault(process).map_or(Wait::Unknown, |file| Wait::Mapping { file }),
                _ => Wait::Unknown,
            };
        };
        let is_asked = matches!(call.kind, CallKind::Read | CallKind::Write | CallKind::Sync);
        let target = match call.descriptor.filter(|_| is_asked) {
            // A descriptor may mean another file than at the last sample.
            Some(descriptor) => {
                self.descriptors.closed(number, descriptor);
                match self.descriptors.meaning(number, descriptor) {
                    Meaning::File { device, inode } => Target::File(self.files.index(device, inode).0),
                    Meaning::Other => Target::Other,
                    Meaning::Unknown => Target::Unknown,
                }
            }
            None => Target::Unknown,
        };
        match wait_in(call.kind, target) {
            // Storage in a call that waits for nothing else, as `mmap` and `exit` do.
            Wait::Unknown if sleeps == Sleeps::Otherwise => Wait::Others,
            wait => wait,
        }
    }

    /// Returns the file whose pages a process waits for: the largest that it maps as data, or else as code.
    fn fault(&mut self, process: u32) -> Option<FileIndex> {
        let mapped = self.processes.get(&process)?.mappings().ok()?;
        let largest = mapped.iter().max_by_key(|mapped| (!mapped.is_code, mapped.length))?;
        let key = (largest.device, largest.inode);
        self.descriptors.names.entry(key).or_insert_with(|| largest.path.clone());
        Some(self.files.index(key.0, key.1).0)
    }

    fn finish(mut self, subject: Subject) -> Recording {
        let elapsed_ns = self.now();
        let is_full = self.spans >= SPANS_MAX;
        // The end of the first thread is that of the program.
        if let Some(first) = self.threads.first() {
            let ended = first.ended();
            let state = ThreadState::Waiting { wait: Wait::Unknown, woken_by: None };
            self.push(0, ended, elapsed_ns, state);
        }
        let mut files = self.files.files;
        let unnamed = name_files(&mut files, &self.descriptors.names, &subject);
        let mut notes = vec![
            "Recorded by samples of /proc: waits of less than a millisecond, accesses that did not wait, and which \
             thread waited for which other one were not seen."
                .to_owned(),
        ];
        if is_full {
            let end = elapsed_ns.as_secs_f64();
            notes.push(format!("The recording was full after {end:.1} s; the rest of the run is not in it."));
        }
        notes.extend(unnamed);
        Recording {
            schema: RECORDING_SCHEMA.to_owned(),
            program: subject.program,
            elapsed_ns,
            method: Method::Sampled,
            notes,
            machine: subject.machine,
            storage: None,
            files,
            threads: self.threads,
        }
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
