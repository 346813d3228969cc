//! What a program does, as a sequence of operations: it reads, computes, writes, pauses.

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_model::Nanos;

use crate::spec::{Access, ProcessSpec};

/// One thing at a time. Positions and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// One call that reads.
    Read { at: u64, length: u64 },
    /// So long on a core.
    Compute(Nanos),
    /// One call that appends to the output.
    Write { length: u64 },
    /// So long off the core, not waiting for I/O.
    Pause(Nanos),
}

/// A program on its way.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    spec: ProcessSpec,
    random: Pcg64,
    /// Where a sequential program is.
    at: u64,
    calls: u64,
    read: u64,
    written: u64,
    computed: u64,
    /// What of the last call still follows, the next one last.
    rest: Vec<Step>,
}

impl Program {
    pub(crate) fn new(spec: &ProcessSpec, random: Pcg64) -> Program {
        Program {
            spec: spec.clone(),
            random,
            at: 0,
            calls: 0,
            read: 0,
            written: 0,
            computed: 0,
            rest: Vec::new(),
        }
    }

    /// How much it has read, in bytes.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// What it does next; none at its end.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.rest.pop() {
            return Some(step);
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
        // Calls that go on beyond the end begin again, as a program with a number of reads to do would.
        let at = if at >= size { 0 } else { at };
        let length = call.min(size - at);
        self.follow(at, length);
        Some(Step::Read { at, length })
    }

    /// What follows a read: put down in reverse.
    fn follow(&mut self, at: u64, length: u64) {
        let before = self.read;
        self.read += length;
        self.calls += 1;
        self.at = at + length;
        let crossed = |every: u64| self.read / every > before / every;
        if let Some(back) = self.spec.back.filter(|back| crossed(back.every.0)) {
            self.at = self.at.saturating_sub(back.by.0);
        }
        if let Some(pause) = self.spec.pause.filter(|pause| crossed(pause.every.0)) {
            self.rest.push(Step::Pause(pause.length));
        }
        // What is read twice is not written twice: the output has its place on the drive.
        let output = (self.read.min(self.spec.size.0) as f64 * self.spec.output_ratio) as u64;
        if output > self.written {
            self.rest.push(Step::Write { length: output - self.written });
            self.written = output;
        }
        let compute = self.computation();
        if compute > self.computed {
            self.rest.push(Step::Compute(Nanos(compute - self.computed)));
            self.computed = compute;
        }
    }

    /// How long all that has been read is computed on.
    fn computation(&self) -> u64 {
        let think = self.spec.think.0.saturating_mul(self.calls);
        let by_rate = self.spec.compute.map_or(0, |rate| {
            let nanos = u128::from(self.read) * 1_000_000_000 / u128::from(rate.0.max(1));
            u64::try_from(nanos).unwrap_or(u64::MAX)
        });
        think.saturating_add(by_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;
    use sakiyomi_model::Bytes;

    fn steps(spec: &ProcessSpec) -> Vec<Step> {
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
            steps(&spec),
            [
                Step::Read { at: 0, length: 60 },
                Step::Compute(Nanos(60)),
                Step::Write { length: 30 },
                Step::Read { at: 60, length: 40 },
                Step::Compute(Nanos(40)),
                Step::Write { length: 20 },
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
        let steps = steps(&spec);
        assert_eq!(steps.len(), 500);
        assert!(steps.iter().all(|step| matches!(step, Step::Read { at, length: 4096 } if at % 4096 == 0)));
    }
}
