//! A stream whose operators look tuples up in files, as a workload of an experiment: the reads go through the simulated page
//! cache and device. The cores are those of the stream, pinned and not shared with other workloads.
//!
//! Each look-up has a thread for each of its reads in flight. While none is, the stream runs ahead of the experiment up to
//! its next read, as nothing else could concern it.

use sakiyomi_model::{Bytes, Nanos};

use super::engine::Engine;
use super::time::{NEVER_PS, of_nanos, to_nanos};
use super::{LookUp, StreamError, StreamOutcome, StreamSpec};
use crate::workload::{
    Action, Caching, Completed, FileIndex, FileSetup, Setup, ThreadIndex, ThreadSetup, View, Workload,
};

/// A stream as a workload.
#[derive(Debug)]
pub struct StreamWorkload<'a> {
    engine: Engine<'a>,
    name: String,
    /// Look-ups by file: the operator, the look-up, its first thread.
    look_ups: Vec<(usize, LookUp, usize)>,
    /// The read of each thread: operator and number.
    reading: Vec<Option<(usize, u64)>>,
    has_ended: bool,
}

impl<'a> StreamWorkload<'a> {
    /// # Errors
    /// If the stream is not possible.
    pub fn new(name: &str, spec: &StreamSpec<'a>) -> Result<StreamWorkload<'a>, StreamError> {
        spec.check()?;
        let mut threads = 1;
        let look_up = |(&operator, &look_up): (&usize, &LookUp)| {
            let first = threads;
            threads += look_up.depth;
            (operator, look_up, first)
        };
        let look_ups = spec.look_ups.iter().map(look_up).collect();
        let reading = vec![None; threads];
        let name = name.to_owned();
        Ok(StreamWorkload { engine: Engine::new(spec), name, look_ups, reading, has_ended: false })
    }

    /// Its needs of the machine: a file for each look-up, in the order of the operators.
    #[must_use]
    pub fn setup(&self) -> Setup {
        let file = |&(_, look_up, _): &(usize, LookUp, usize)| FileSetup {
            size: Bytes(look_up.file_bytes),
            caching: if look_up.is_direct { Caching::Bypassed } else { Caching::Cold },
            ..FileSetup::default()
        };
        Setup {
            name: self.name.clone(),
            files: self.look_ups.iter().map(file).collect(),
            threads: vec![ThreadSetup::default(); self.reading.len()],
            rate: None,
            is_background: false,
        }
    }

    /// Returns the figures, after the experiment.
    #[must_use]
    pub fn outcome(self) -> StreamOutcome {
        self.engine.outcome()
    }

    fn is_idle(&self) -> bool {
        self.reading.iter().all(Option::is_none)
    }

    /// Goes on until a time, or a read that is due before.
    fn run(&mut self, now_ps: u64) {
        loop {
            let limit_ps = if self.is_idle() { NEVER_PS } else { now_ps };
            let read_ps = self.engine.next_read().map_or(NEVER_PS, |read| read.at_ps);
            let next_ps = self.engine.next_event();
            if next_ps == NEVER_PS || next_ps > limit_ps || next_ps > read_ps {
                return;
            }
            self.engine.step();
        }
    }

    /// Returns the read that is due, as the action of its thread.
    fn read(&mut self, now_ps: u64) -> Option<(ThreadIndex, Action)> {
        let read = *self.engine.next_read().filter(|read| read.at_ps <= now_ps)?;
        let file = self.look_ups.iter().position(|look_up| look_up.0 == read.operator)?;
        let (operator, look_up, first) = self.look_ups[file];
        let thread = first + (read.number % look_up.depth as u64) as usize;
        self.engine.take_read();
        debug_assert!(self.reading[thread].is_none(), "a ring has as many slots as there are threads");
        self.reading[thread] = Some((operator, read.number));
        let (file, at, length) = (FileIndex(file), read.offset, look_up.record_bytes);
        let action = match look_up.is_direct {
            true => Action::ReadDirect { file, at, length },
            false => Action::Read { file, at, length, is_partial: false },
        };
        Some((ThreadIndex(thread), action))
    }
}

impl Workload for StreamWorkload<'_> {
    fn next_event(&self) -> Option<Nanos> {
        let read_ps = self.engine.next_read().map_or(NEVER_PS, |read| read.at_ps);
        let next_ps = read_ps.min(self.engine.next_event());
        if self.has_ended || next_ps == NEVER_PS && !self.is_idle() {
            return None;
        }
        // The end is an event as well.
        Some(if next_ps == NEVER_PS { Nanos::ZERO } else { to_nanos(next_ps) })
    }

    fn step(&mut self, now: Nanos, _: &View<'_>) -> Option<(ThreadIndex, Action)> {
        let now_ps = of_nanos(now);
        self.run(now_ps);
        if let Some(read) = self.read(now_ps) {
            return Some(read);
        }
        self.has_ended = self.is_idle() && self.engine.is_done();
        self.has_ended.then_some((ThreadIndex(0), Action::Done))
    }

    fn completed(
        &mut self,
        now: Nanos,
        _: &View<'_>,
        ThreadIndex(thread): ThreadIndex,
        _: Completed,
    ) -> Option<Action> {
        if let Some((operator, number)) = self.reading[thread].take() {
            self.engine.complete_read(of_nanos(now), operator, number);
        }
        None
    }
}
