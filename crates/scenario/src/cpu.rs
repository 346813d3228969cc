//! Cores shared by programs: up to one program per core, all run at full speed; otherwise all get equal shares at any
//! moment (processor sharing).
//!
//! Urgent programs take precedence: the others share the cores left over.
//!
//! Implemented as one virtual clock of work per class: it runs at the speed at which each program is served, and a
//! program's burst ends when the clock has advanced by its length.

use std::collections::BTreeSet;

use sakiyomi_model::Nanos;

#[derive(Clone, Debug)]
pub(crate) struct Cpu {
    cores: u64,
    now: Nanos,
    urgent: Class,
    others: Class,
}

/// A priority class of programs. A program is in one class at a time.
#[derive(Clone, Debug, Default)]
struct Class {
    /// Virtual clock: work given to each continuously running program, in nanoseconds.
    work: u64,
    /// Fraction of a nanosecond of work done in addition, in units of 1/programs.
    part: u64,
    /// Ends of bursts on the virtual clock, with their programs.
    ends: BTreeSet<(u64, usize)>,
}

impl Cpu {
    pub(crate) fn new(cores: u32) -> Cpu {
        let cores = u64::from(cores.max(1));
        Cpu { cores, now: Nanos::ZERO, urgent: Class::default(), others: Class::default() }
    }

    /// Starts a burst of a program, `burst` long on a core of its own.
    pub(crate) fn run(&mut self, now: Nanos, program: usize, burst: Nanos) {
        self.advance_to(now);
        self.others.begin(program, burst);
    }

    /// Starts an urgent burst, which takes precedence over all that are not urgent.
    pub(crate) fn run_urgently(&mut self, now: Nanos, program: usize, burst: Nanos) {
        self.advance_to(now);
        self.urgent.begin(program, burst);
        // The number of cores for the others changes, and with it the unit of their fraction.
        self.others.part = 0;
    }

    /// Returns the end of the next burst, if no other event occurs before.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let (urgent, others) = (self.urgent.next_end(self.cores), self.others.next_end(self.left_over()));
        let took = urgent.map_or(others, |urgent| Some(others.map_or(urgent, |others| urgent.min(others))));
        took.map(|took| self.now + took)
    }

    /// Returns the next program whose burst has ended by `now`, one per call.
    pub(crate) fn ended(&mut self, now: Nanos) -> Option<usize> {
        self.advance_to(now);
        if let Some(program) = self.urgent.ended() {
            self.others.part = 0;
            return Some(program);
        }
        self.others.ended()
    }

    /// Returns the remaining time of a program's burst.
    pub(crate) fn left(&mut self, now: Nanos, program: usize) -> Nanos {
        self.advance_to(now);
        self.urgent.left(program).or(self.others.left(program)).unwrap_or_default()
    }

    /// Returns the number of cores left over by urgent programs.
    fn left_over(&self) -> u64 {
        self.cores.saturating_sub(self.urgent.ends.len() as u64)
    }

    fn advance_to(&mut self, now: Nanos) {
        let elapsed = now.saturating_sub(self.now).0;
        let left_over = self.left_over();
        self.urgent.advance(elapsed, self.cores);
        self.others.advance(elapsed, left_over);
        self.now = self.now.max(now);
    }
}

impl Class {
    fn begin(&mut self, program: usize, burst: Nanos) {
        self.part = 0;
        self.ends.insert((self.work + burst.0, program));
    }

    /// Returns the time until the next burst ends on `cores` cores; `None` if it never does.
    fn next_end(&self, cores: u64) -> Option<Nanos> {
        let &(end, _) = self.ends.first()?;
        let left = end - self.work;
        let running = self.ends.len() as u64;
        match cores {
            cores if running <= cores => Some(Nanos(left)),
            0 if left > 0 => None,
            cores => Some(Nanos((left * running - self.part.min(left * running)).div_ceil(cores.max(1)))),
        }
    }

    fn ended(&mut self) -> Option<usize> {
        let &(end, program) = self.ends.first()?;
        (end <= self.work).then(|| {
            self.part = 0;
            self.ends.pop_first();
            program
        })
    }

    fn left(&self, program: usize) -> Option<Nanos> {
        let &(end, _) = self.ends.iter().find(|&&(_, runs)| runs == program)?;
        Some(Nanos(end.saturating_sub(self.work)))
    }

    fn advance(&mut self, elapsed: u64, cores: u64) {
        let running = self.ends.len() as u64;
        if running <= cores {
            self.work += elapsed;
        } else {
            let done = elapsed * cores + self.part;
            self.work += done / running;
            self.part = done % running;
        }
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

    #[test]
    fn an_urgent_program_holds_the_others_up_and_nobody_it() {
        let mut cpu = Cpu::new(2);
        for program in 0..2 {
            cpu.run(Nanos::ZERO, program, Nanos(100));
        }
        cpu.run_urgently(Nanos(10), 2, Nanos(40));
        assert_eq!(
            cpu.next_event(),
            Some(Nanos(50)),
            "the urgent one has a core, the others share the second"
        );
        assert_eq!(cpu.ended(Nanos(50)), Some(2));
        assert_eq!(cpu.left(Nanos(50), 0), Nanos(70));
        assert_eq!(cpu.next_event(), Some(Nanos(120)));
    }

    #[test]
    fn one_core_does_nothing_else_while_somebody_is_urgent() {
        let mut cpu = Cpu::new(1);
        cpu.run(Nanos::ZERO, 0, Nanos(100));
        cpu.run_urgently(Nanos(10), 1, Nanos(1000));
        assert_eq!(cpu.next_event(), Some(Nanos(1010)));
        assert_eq!(cpu.ended(Nanos(1010)), Some(1));
        assert_eq!(cpu.next_event(), Some(Nanos(1100)));
    }
}
