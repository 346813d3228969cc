//! Cores that programs share: as long as there are no more programs than cores each runs at full speed, and otherwise
//! all get the same share at any moment.
//!
//! Kept as one clock of work for all: it runs at the speed at which each program is served, and a program's burst ends
//! when the clock has gone on by the burst's length.

use std::collections::BTreeSet;

use sakiyomi_model::Nanos;

#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    cores: u64,
    now: Nanos,
    /// How much work each program that runs without a break has been given.
    work: u64,
    /// The part of a nanosecond of work that has been done besides, in shares of a program.
    part: u64,
    /// Where the clock stands when a burst ends, and whose it is.
    ends: BTreeSet<(u64, usize)>,
}

impl Cpu {
    pub(crate) fn new(cores: u32) -> Cpu {
        Cpu { cores: u64::from(cores.max(1)), now: Nanos::ZERO, work: 0, part: 0, ends: BTreeSet::new() }
    }

    /// `program` computes for so long, as long as it has a core for itself.
    pub(crate) fn run(&mut self, now: Nanos, program: usize, burst: Nanos) {
        self.advance_to(now);
        self.part = 0;
        self.ends.insert((self.work + burst.0, program));
    }

    /// When the next burst ends, if nothing else happens until then.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let &(end, _) = self.ends.first()?;
        let left = end - self.work;
        let running = self.ends.len() as u64;
        let took =
            if running <= self.cores { left } else { (left * running - self.part).div_ceil(self.cores) };
        Some(self.now + Nanos(took))
    }

    /// The program whose burst has ended by `now`, one a call.
    pub(crate) fn ended(&mut self, now: Nanos) -> Option<usize> {
        self.advance_to(now);
        let &(end, program) = self.ends.first()?;
        (end <= self.work).then(|| {
            self.part = 0;
            self.ends.pop_first();
            program
        })
    }

    /// How much of a program's burst is left.
    pub(crate) fn left(&mut self, now: Nanos, program: usize) -> Nanos {
        self.advance_to(now);
        let burst = self.ends.iter().find(|&&(_, runs)| runs == program);
        Nanos(burst.map_or(0, |&(end, _)| end.saturating_sub(self.work)))
    }

    fn advance_to(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.now).0;
        let running = self.ends.len() as u64;
        if running <= self.cores {
            self.work += elapsed;
        } else {
            let done = elapsed * self.cores + self.part;
            self.work += done / running;
            self.part = done % running;
        }
        self.now = self.now.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_beyond_the_cores_share_them() {
        let mut cpu = Cpu::new(2);
        for program in 0..3 {
            cpu.run(Nanos::ZERO, program, Nanos(200));
        }
        assert_eq!(cpu.next_event(), Some(Nanos(300)));
        assert_eq!(cpu.ended(Nanos(299)), None);
        let ended: Vec<_> = std::iter::from_fn(|| cpu.ended(Nanos(300))).collect();
        assert_eq!(ended, [0, 1, 2]);
    }

    #[test]
    fn a_program_alone_runs_at_full_speed() {
        let mut cpu = Cpu::new(1);
        cpu.run(Nanos::ZERO, 0, Nanos(100));
        cpu.run(Nanos(50), 1, Nanos(100));
        assert_eq!(cpu.next_event(), Some(Nanos(150)));
        assert_eq!(cpu.ended(Nanos(150)), Some(0));
        assert_eq!(cpu.ended(Nanos(150)), None);
        assert_eq!(cpu.next_event(), Some(Nanos(200)));
    }
}
