//! A job of tasks as the kernel sees it: threads that compute, copy, wait and have nothing to do.

use std::mem;

use rand_pcg::Pcg64;
use sakiyomi_model::{Bytes, Device, Nanos, StreamId};

use super::World;
use super::mapped::Mapping;
use super::pages::Reader;
use crate::cache::{FileId, State};
use crate::job::{Manager, Task, Worker};
use crate::layout::Places;
use crate::outcome::{JobOutcome, JobRun};
use crate::spec::{Buffer, JobSpec, Order, ReadMethod};

pub(super) struct Job {
    spec: JobSpec,
    file: FileId,
    /// The number of its first thread among all that use a core.
    first: usize,
    threads: Vec<Thread>,
    mapping: Mapping,
    stage: Stage,
    /// What has come of the present run so far, and when it began.
    run: JobRun,
    since: Nanos,
    /// For how long its file had been read and how much of it had been fetched when the run began.
    before: (Nanos, u64),
    /// Pages that its buffers take away from the page cache.
    taken: usize,
    runs: Vec<JobRun>,
    end: Nanos,
}

/// How far it has come.
enum Stage {
    Waiting,
    Running(Manager),
    Done,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    doing: Doing,
    /// Its call that reads, while it is in one.
    reader: Reader,
    /// Since when it has been at it.
    since: Nanos,
}

/// What a thread is at. `at` is how far its task has come, in bytes of the file.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// There is no task for it.
    Nothing,
    /// In a call that reads, for a page that is on its way.
    Reading { task: Task, at: u64 },
    /// For a page of the mapping that is on its way.
    Touching { task: Task, at: u64 },
    /// On a core, or in the queue for one, for so many bytes.
    Working { task: Task, at: u64, length: u64, burst: Nanos },
}

impl Task {
    fn start(self) -> u64 {
        let (Task::Read { at, .. } | Task::Compute { at, .. }) = self;
        at
    }

    fn end(self) -> u64 {
        let (Task::Read { at, length, .. } | Task::Compute { at, length, .. }) = self;
        at + length
    }
}

impl Job {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.stage, Stage::Done)
    }

    /// When it ended; `now` if it has not.
    pub(super) fn end(&self, now: Nanos) -> Nanos {
        if self.is_done() { self.end } else { now }
    }

    /// When it wakes by itself.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        matches!(self.stage, Stage::Waiting).then_some(self.spec.start)
    }

    /// The thread for I/O comes behind those that compute.
    fn is_for_io(&self, thread: usize) -> bool {
        thread >= self.spec.threads as usize
    }

    pub(super) fn outcome(&self) -> JobOutcome {
        let JobSpec { name, method, threads, .. } = &self.spec;
        JobOutcome { name: name.clone(), method: *method, threads: *threads, runs: self.runs.clone() }
    }

    /// A thread does something else from now on: its time until then is put down.
    fn now_at(&mut self, now: Nanos, thread: usize, doing: Doing) {
        let is_for_io = self.is_for_io(thread);
        let thread = &mut self.threads[thread];
        let before = mem::replace(&mut thread.doing, doing);
        let took = now - mem::replace(&mut thread.since, now);
        match before {
            Doing::Nothing if is_for_io => {}
            Doing::Nothing => self.run.idle += took,
            Doing::Reading { .. } | Doing::Touching { .. } => self.run.waited += took,
            Doing::Working { task, burst, .. } => {
                let sum = match task {
                    Task::Read { .. } => &mut self.run.copied,
                    Task::Compute { .. } => &mut self.run.computed,
                };
                *sum += burst;
                self.run.queued += took.saturating_sub(burst);
            }
        }
    }
}

impl World {
    /// Finds places for the files of jobs behind those of the programs, and makes their threads.
    pub(super) fn place_jobs(&mut self, specs: &[JobSpec], mut next: u64, random: &mut Pcg64) {
        let (page, sector) = (self.page_bytes, self.device.sector().0);
        let sectors = self.device.capacity().0;
        let mut first = self.processes.len();
        for spec in specs {
            let pages = spec.size.0.div_ceil(page);
            let mut places = Places { sectors, sectors_per_page: page / sector, random, next };
            self.layouts.push(places.place(pages, spec.place, None));
            next = places.next;
            let file = self.cache.add_file(pages);
            self.owners.push(StreamId((self.processes.len() + self.jobs.len()) as u32));
            if spec.cached {
                (0..pages).for_each(|page| _ = self.cache.insert(file, page, State::Clean, false));
            }
            let thread =
                Thread { doing: Doing::Nothing, reader: Reader::new(file, false), since: Nanos::ZERO };
            let threads = spec.threads as usize + usize::from(spec.method == ReadMethod::BlockedIo);
            self.jobs.push(Job {
                spec: spec.clone(),
                file,
                first,
                threads: vec![thread; threads],
                mapping: Mapping::default(),
                stage: Stage::Waiting,
                run: JobRun::default(),
                since: Nanos::ZERO,
                before: (Nanos::ZERO, 0),
                taken: 0,
                runs: Vec::new(),
                end: Nanos::ZERO,
            });
            first += threads;
        }
    }

    /// It may be time for a job to begin.
    pub(super) fn wake_jobs(&mut self) {
        for index in 0..self.jobs.len() {
            if self.jobs[index].next_event().is_some_and(|start| start <= self.now) {
                self.begin_run(index);
                self.give(index);
            }
        }
    }

    /// What threads of jobs wait for may be there.
    pub(super) fn resume_jobs(&mut self) {
        for index in 0..self.jobs.len() {
            let mut has_gone_on = false;
            for thread in 0..self.jobs[index].threads.len() {
                match self.jobs[index].threads[thread].doing {
                    Doing::Reading { task, at } => has_gone_on |= self.read_on(index, thread, task, at),
                    Doing::Touching { task, at } => has_gone_on |= self.go_on_from(index, thread, task, at),
                    Doing::Nothing | Doing::Working { .. } => {}
                }
            }
            if has_gone_on {
                self.give(index);
            }
        }
    }

    /// The burst of a thread on a core is over; threads of jobs are numbered behind the programs.
    pub(super) fn thread_burst_ended(&mut self, number: usize) {
        let index = self.jobs.partition_point(|job| job.first <= number) - 1;
        let job = &mut self.jobs[index];
        let thread = number - job.first;
        if let Doing::Working { task, at, length, .. } = job.threads[thread].doing {
            self.go_on_from(index, thread, task, at + length);
            self.give(index);
        }
    }

    fn begin_run(&mut self, index: usize) {
        let job = &self.jobs[index];
        let before = (self.reading_time(job.file), self.loaded(index));
        if job.spec.method != ReadMethod::Mmap && !fills(&job.spec) {
            self.take_away(index, job.spec.buffer_bytes());
        }
        let order = self.order(index);
        let job = &mut self.jobs[index];
        job.stage = Stage::Running(Manager::new(&job.spec, order));
        (job.since, job.before, job.mapping) = (self.now, before, Mapping::default());
        job.threads.iter_mut().for_each(|thread| thread.since = self.now);
    }

    /// The blocks in the order in which they are taken. One that is not all in memory is not taken first: what it lacks
    /// would push out the beginning of the next one, and so on.
    fn order(&self, index: usize) -> Vec<u64> {
        let job = &self.jobs[index];
        let blocks = 0..Manager::blocks(&job.spec);
        if job.spec.order == Order::File {
            return blocks.collect();
        }
        let pages = job.spec.part.0 * u64::from(job.spec.block) / self.page_bytes;
        let last = self.cache.pages(job.file);
        let is_cached = |block: &u64| {
            let mut of_block = block * pages..((block + 1) * pages).min(last);
            of_block.all(|page| self.cache.state(job.file, page).is_some())
        };
        let (cached, rest): (Vec<u64>, Vec<u64>) = blocks.partition(is_cached);
        [cached, rest].concat()
    }

    /// Gives tasks to threads that have none, as long as there are both.
    fn give(&mut self, index: usize) {
        let mut is_given = true;
        while is_given {
            is_given = false;
            for thread in 0..self.jobs[index].threads.len() {
                let job = &mut self.jobs[index];
                let worker = if job.is_for_io(thread) { Worker::Io } else { Worker::Any };
                let Stage::Running(manager) = &mut job.stage else { return };
                if matches!(job.threads[thread].doing, Doing::Nothing)
                    && let Some(task) = manager.next(worker)
                {
                    is_given = true;
                    self.go_on_from(index, thread, task, task.start());
                }
            }
        }
        if self.jobs[index].threads.iter().all(|thread| matches!(thread.doing, Doing::Nothing)) {
            self.run_ended(index);
        }
    }

    fn run_ended(&mut self, index: usize) {
        let now = self.now;
        let (reading, fetched) = (self.reading_time(self.jobs[index].file), self.loaded(index));
        let job = &mut self.jobs[index];
        (0..job.threads.len()).for_each(|thread| job.now_at(now, thread, Doing::Nothing));
        job.run.elapsed = now - job.since;
        job.run.reading = reading - job.before.0;
        job.run.fetched_bytes = fetched - job.before.1;
        debug_assert_eq!(job.run.computed_bytes, job.spec.size.0, "every part is computed on once");
        job.runs.push(mem::take(&mut job.run));
        job.end = now;
        self.cache.give_back(mem::take(&mut job.taken));
        if (job.runs.len() as u64) < u64::from(job.spec.runs) {
            self.begin_run(index);
            self.give(index);
        } else {
            job.stage = Stage::Done;
        }
    }

    /// Goes on with a task until it has to wait, uses a core or has ended. Says whether it has ended.
    fn go_on_from(&mut self, index: usize, thread: usize, task: Task, mut at: u64) -> bool {
        while at < task.end() {
            let went_on = match task {
                Task::Read { .. } => self.read_some(index, thread, task, at),
                Task::Compute { .. } if self.jobs[index].spec.method == ReadMethod::Mmap => {
                    self.touch_some(index, thread, task, at)
                }
                Task::Compute { .. } => self.work(index, thread, task, at, task.end() - at),
            };
            let Some(next) = went_on else { return false };
            at = next;
        }
        let job = &mut self.jobs[index];
        job.now_at(self.now, thread, Doing::Nothing);
        if let Stage::Running(manager) = &mut job.stage {
            manager.ended(task);
        }
        true
    }

    /// Reads up to the next place where a call copies what has come. Says up to where that is, if neither takes time.
    fn read_some(&mut self, index: usize, thread: usize, task: Task, at: u64) -> Option<u64> {
        let page_bytes = self.page_bytes;
        let reader = &mut self.jobs[index].threads[thread].reader;
        if at == task.start() {
            reader.call(at, task.end() - at, page_bytes);
        }
        reader.stop = reader.end.min(reader.next + self.request_pages);
        self.read_through(index, thread, task, at)
    }

    /// Goes on with a call that has waited. Says whether its task has ended.
    fn read_on(&mut self, index: usize, thread: usize, task: Task, at: u64) -> bool {
        match self.read_through(index, thread, task, at) {
            Some(next) => self.go_on_from(index, thread, task, next),
            None => false,
        }
    }

    fn read_through(&mut self, index: usize, thread: usize, task: Task, at: u64) -> Option<u64> {
        let mut reader = self.jobs[index].threads[thread].reader;
        // The file is open once, for all threads.
        reader.read_ahead = self.jobs[index].mapping.read_ahead;
        let has_come = self.read(&mut reader);
        let job = &mut self.jobs[index];
        (job.threads[thread].reader, job.mapping.read_ahead) = (reader, reader.read_ahead);
        if !has_come {
            self.wait(index, thread, Doing::Reading { task, at });
            return None;
        }
        let length = (reader.stop * self.page_bytes).min(task.end()) - at;
        self.work(index, thread, task, at, length)
    }

    /// Touches what is there of a mapped part, and computes on it. Says up to where, if that took no time.
    fn touch_some(&mut self, index: usize, thread: usize, task: Task, at: u64) -> Option<u64> {
        let job = &self.jobs[index];
        let (file, mut mapping) = (job.file, job.mapping);
        let page = at / self.page_bytes;
        let pages = self.touch(file, &mut mapping, thread, page, task.end().div_ceil(self.page_bytes));
        self.jobs[index].mapping = mapping;
        if pages == 0 {
            self.wait(index, thread, Doing::Touching { task, at });
            return None;
        }
        let end = ((page + pages) * self.page_bytes).min(task.end());
        self.work(index, thread, task, at, end - at)
    }

    /// A thread waits; it may have done so before.
    fn wait(&mut self, index: usize, thread: usize, doing: Doing) {
        self.jobs[index].now_at(self.now, thread, doing);
    }

    /// A thread copies or computes so many bytes. Says up to where it has come, if that takes no time.
    fn work(&mut self, index: usize, thread: usize, task: Task, at: u64, length: u64) -> Option<u64> {
        let job = &mut self.jobs[index];
        let rate = match task {
            Task::Read { .. } => job.spec.copy,
            Task::Compute { .. } => job.spec.compute,
        };
        match task {
            Task::Read { .. } => job.run.read_bytes += length,
            Task::Compute { .. } => job.run.computed_bytes += length,
        }
        let burst = time(length, rate);
        if burst > Nanos::ZERO {
            job.now_at(self.now, thread, Doing::Working { task, at, length, burst });
            let number = job.first + thread;
            if job.is_for_io(thread) && job.spec.io_urgent {
                self.cpu.run_urgently(self.now, number, burst);
            } else {
                self.cpu.run(self.now, number, burst);
            }
        }
        if matches!(task, Task::Read { .. }) && fills(&self.jobs[index].spec) {
            self.take_away(index, length);
        }
        (burst == Nanos::ZERO).then_some(at + length)
    }

    /// Memory for a buffer, which the page cache then has no more.
    fn take_away(&mut self, index: usize, bytes: u64) {
        let pages = bytes.div_ceil(self.page_bytes) as usize;
        self.jobs[index].taken += pages;
        self.cache.take_away(pages);
    }

    /// How much of a job's file has been asked of the device, in bytes.
    fn loaded(&self, index: usize) -> u64 {
        self.cache.counts(self.jobs[index].file).loaded * self.page_bytes
    }
}

/// Whether memory is taken as the buffer fills.
fn fills(spec: &JobSpec) -> bool {
    spec.method == ReadMethod::Read || spec.buffer == Buffer::File
}

/// How long so many bytes take.
fn time(bytes: u64, rate: Option<Bytes>) -> Nanos {
    let rate = rate.map_or(u64::MAX, |rate| rate.0);
    Nanos((u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64)
}
