//! A program with one thread, which repeatedly reads, computes, writes and pauses.

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_model::{Bytes, Nanos};

use crate::spec::{Access, ProcessSpec};
use crate::workload::{
    Action, Caching, Completed, FileIndex, FileSetup, Setup, ThreadIndex, ThreadSetup, View, Workload,
};

/// Files: the input, and the output if it writes.
const INPUT: FileIndex = FileIndex(0);
const OUTPUT: FileIndex = FileIndex(1);
const THREAD: ThreadIndex = ThreadIndex(0);

/// State of a running program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    spec: ProcessSpec,
    random: Pcg64,
    has_begun: bool,
    /// Position of a sequential program.
    at: u64,
    calls: u64,
    read: u64,
    written: u64,
    computed: u64,
    /// Actions after the last call, next one last.
    rest: Vec<Action>,
}

impl Program {
    pub(crate) fn new(spec: &ProcessSpec, random: Pcg64) -> Program {
        Program {
            spec: spec.clone(),
            random,
            has_begun: false,
            at: 0,
            calls: 0,
            read: 0,
            written: 0,
            computed: 0,
            rest: Vec::new(),
        }
    }

    /// Returns the requirements of the `index`th program of a kind; the names of several are numbered from 1.
    pub(crate) fn setup(spec: &ProcessSpec, index: u32) -> Setup {
        let input = FileSetup {
            size: spec.size,
            // Further programs of a kind are placed after the first.
            place: spec.place.filter(|_| index == 0),
            pieces: spec.pieces,
            caching: match (spec.cached, spec.direct) {
                (true, _) => Caching::Resident,
                (false, true) => Caching::Bypassed,
                (false, false) => Caching::Cold,
            },
            is_followed: true,
            is_sequential: false,
        };
        let output = FileSetup { size: output_size(spec), ..FileSetup::default() };
        let files = if output.size.0 > 0 { vec![input, output] } else { vec![input] };
        let name = if spec.count == 1 { spec.name.clone() } else { format!("{}.{}", spec.name, index + 1) };
        let threads = vec![ThreadSetup::default()];
        Setup { name, files, threads, rate: spec.asked_rate(), is_background: false }
    }

    /// Returns the next action; `None` at the end.
    fn next(&mut self) -> Option<Action> {
        if let Some(action) = self.rest.pop() {
            return Some(action);
        }
        let size = self.spec.size.0;
        let call = self.spec.call.0.min(size);
        let at = match self.spec.access {
            Access::Sequential => self.at,
            Access::Random => self.random.next_u64() % (size / call).max(1) * call,
        };
        let is_over = self.spec.reads.map_or(at >= size, |reads| self.calls >= reads);
        if is_over {
            return None;
        }
        // Calls beyond the end wrap around, for programs with a given number of reads.
        let at = if at >= size { 0 } else { at };
        let length = call.min(size - at);
        self.plan_rest(at, length);
        Some(match self.spec.direct {
            true => Action::ReadDirect { file: INPUT, at, length },
            false => Action::Read { file: INPUT, at, length, is_partial: false },
        })
    }

    /// Plans the actions that follow a read, in reverse order.
    fn plan_rest(&mut self, at: u64, length: u64) {
        let before = self.read;
        self.read += length;
        self.calls += 1;
        self.at = at + length;
        let crossed = |every: u64| self.read / every > before / every;
        if let Some(back) = self.spec.back.filter(|back| crossed(back.every.0)) {
            self.at = self.at.saturating_sub(back.by.0);
        }
        if let Some(pause) = self.spec.pause.filter(|pause| crossed(pause.every.0)) {
            self.rest.push(Action::Pause { length: pause.length });
        }
        // Data read again is not written again: the output file has a fixed size.
        let output = (self.read.min(self.spec.size.0) as f64 * self.spec.output_ratio) as u64;
        if output > self.written {
            let length = output - self.written;
            self.rest.push(Action::Write { file: OUTPUT, at: self.written, length });
            self.written = output;
        }
        let compute = self.computation();
        if compute > self.computed {
            let time = Nanos(compute - self.computed);
            self.rest.push(Action::Compute { time, core: None, from: None });
            self.computed = compute;
        }
    }

    /// Returns the compute time for all data read so far, in nanoseconds.
    fn computation(&self) -> u64 {
        let think = self.spec.think.0.saturating_mul(self.calls);
        let by_rate = self.spec.compute.map_or(0, |rate| {
            let nanos = u128::from(self.read) * 1_000_000_000 / u128::from(rate.0.max(1));
            u64::try_from(nanos).unwrap_or(u64::MAX)
        });
        think.saturating_add(by_rate)
    }
}

impl Workload for Program {
    fn next_event(&self) -> Option<Nanos> {
        (!self.has_begun).then_some(self.spec.start)
    }

    fn step(&mut self, _: Nanos, _: &View<'_>) -> Option<(ThreadIndex, Action)> {
        if self.has_begun {
            return None;
        }
        self.has_begun = true;
        Some((THREAD, Action::Open { file: INPUT }))
    }

    fn completed(&mut self, _: Nanos, _: &View<'_>, _: ThreadIndex, _: Completed) -> Option<Action> {
        Some(self.next().unwrap_or(Action::Done))
    }
}

/// Returns the total size of the output.
fn output_size(spec: &ProcessSpec) -> Bytes {
    Bytes((spec.size.0 as f64 * spec.output_ratio) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;
    use sakiyomi_model::Bytes;

    fn actions(spec: &ProcessSpec) -> Vec<Action> {
        let mut program = Program::new(spec, Pcg64::seed_from_u64(1));
        std::iter::from_fn(|| program.next()).collect()
    }

    #[test]
    fn a_filter_reads_computes_and_writes() {
        let spec = ProcessSpec {
            size: Bytes(100),
            call: Bytes(60),
            compute: Some(Bytes(1_000_000_000)),
            output_ratio: 0.5,
            ..ProcessSpec::default()
        };
        assert_eq!(
            actions(&spec),
            [
                Action::Read { file: INPUT, at: 0, length: 60, is_partial: false },
                Action::Compute { time: Nanos(60), core: None, from: None },
                Action::Write { file: OUTPUT, at: 0, length: 30 },
                Action::Read { file: INPUT, at: 60, length: 40, is_partial: false },
                Action::Compute { time: Nanos(40), core: None, from: None },
                Action::Write { file: OUTPUT, at: 30, length: 20 },
            ]
        );
    }

    #[test]
    fn a_random_reader_makes_so_many_reads_of_whole_blocks() {
        let spec = ProcessSpec {
            size: Bytes(1 << 20),
            call: Bytes(4096),
            access: Access::Random,
            reads: Some(500),
            ..ProcessSpec::default()
        };
        let actions = actions(&spec);
        assert_eq!(actions.len(), 500);
        assert!(
            actions
                .iter()
                .all(|action| matches!(action, Action::Read { at, length: 4096, .. } if at % 4096 == 0))
        );
    }
}
