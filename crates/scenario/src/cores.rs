//! The cores of the machine: one pool shared by all threads, or individual cores with distances, each shared by its
//! threads.
//!
//! With distances, a burst runs on one core to its end. Its time is extended by the cost of getting there: the hop from
//! the thread's last core, the hop of the data from the thread that handed it over, and the wake-up of a core that has
//! been idle for longer than it spins.

use sakiyomi_model::Nanos;

use crate::cpu::Cpu;
use crate::spec::{CoreScheduler, MachineSpec};

/// A request for CPU time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) time: Nanos,
    pub(crate) is_urgent: bool,
    /// Core; `None` for any.
    pub(crate) core: Option<u32>,
    /// Thread that handed over the data.
    pub(crate) from: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Cores {
    Shared(Cpu),
    PerCore(Box<PerCore>),
}

#[derive(Clone, Debug)]
pub(crate) struct PerCore {
    machine: MachineSpec,
    cores: Vec<Core>,
    /// Core on which each thread ran last.
    last: Vec<Option<usize>>,
}

#[derive(Clone, Debug)]
struct Core {
    cpu: Cpu,
    /// Number of bursts running on it.
    running: u32,
    idle_since: Nanos,
}

impl Cores {
    pub(crate) fn new(cores: u32, machine: &MachineSpec) -> Cores {
        if machine.scheduler == CoreScheduler::Shared {
            return Cores::Shared(Cpu::new(cores));
        }
        let core = Core { cpu: Cpu::new(1), running: 0, idle_since: Nanos::ZERO };
        let cores = vec![core; cores.max(1) as usize];
        Cores::PerCore(Box::new(PerCore { machine: machine.clone(), cores, last: Vec::new() }))
    }

    /// Starts a burst of `thread`. Returns the additional time of the burst for hops; `None` if there is nothing to
    /// compute.
    pub(crate) fn run(&mut self, now: Nanos, thread: usize, burst: Burst) -> Option<Nanos> {
        let (cpu, hops) = match self {
            Cores::Shared(cpu) => (cpu, Nanos::ZERO),
            Cores::PerCore(cores) => cores.place(now, thread, burst),
        };
        let time = burst.time + hops;
        if time.is_zero() {
            return None;
        }
        if burst.is_urgent {
            cpu.run_urgently(now, thread, time);
        } else {
            cpu.run(now, thread, time);
        }
        if let Cores::PerCore(cores) = self {
            cores.began(thread);
        }
        Some(hops)
    }

    /// Returns the end of the next burst, if no other event occurs before.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        match self {
            Cores::Shared(cpu) => cpu.next_event(),
            Cores::PerCore(cores) => cores.cores.iter().filter_map(|core| core.cpu.next_event()).min(),
        }
    }

    /// Returns the next thread whose burst has ended by `now`, one per call, in the order of the cores.
    pub(crate) fn ended(&mut self, now: Nanos) -> Option<usize> {
        match self {
            Cores::Shared(cpu) => cpu.ended(now),
            Cores::PerCore(cores) => cores.cores.iter_mut().find_map(|core| core.ended(now)),
        }
    }

    /// Returns the remaining time of a thread's burst.
    pub(crate) fn left(&mut self, now: Nanos, thread: usize) -> Nanos {
        match self {
            Cores::Shared(cpu) => cpu.left(now, thread),
            Cores::PerCore(cores) => match cores.last(thread) {
                Some(core) => cores.cores[core].cpu.left(now, thread),
                None => Nanos::ZERO,
            },
        }
    }
}

impl PerCore {
    fn last(&self, thread: usize) -> Option<usize> {
        self.last.get(thread).copied().flatten()
    }

    /// Chooses the core of a burst. Returns it, and the time of the hops to it.
    fn place(&mut self, now: Nanos, thread: usize, burst: Burst) -> (&mut Cpu, Nanos) {
        let last = self.last(thread);
        let machine = &self.machine;
        let moved = |to: usize| match last {
            Some(from) if from != to => machine.hop(from, to),
            _ => Nanos::ZERO,
        };
        let handed_over = |to: usize| {
            let from = burst.from.filter(|&from| from != thread).and_then(|from| self.last(from));
            from.map_or(Nanos::ZERO, |from| machine.hop(from, to))
        };
        let core = match burst.core {
            Some(core) => core as usize,
            None => {
                let cost =
                    |core: &usize| (self.cores[*core].running, moved(*core), Some(*core) != last, *core);
                (0..self.cores.len()).min_by_key(cost).expect("there is at least one core")
            }
        };
        assert!(core < self.cores.len(), "a workload named core {core} of {}", self.cores.len());
        let Core { running, idle_since, .. } = self.cores[core];
        let is_parked = running == 0 && now > idle_since + machine.spin;
        let wake = if is_parked { machine.wake } else { Nanos::ZERO };
        let hops = moved(core) + handed_over(core) + wake;
        if self.last.len() <= thread {
            self.last.resize(thread + 1, None);
        }
        self.last[thread] = Some(core);
        (&mut self.cores[core].cpu, hops)
    }

    /// Records the start of the thread's burst on its core.
    fn began(&mut self, thread: usize) {
        let core = self.last(thread).expect("the burst was placed");
        self.cores[core].running += 1;
    }
}

impl Core {
    fn ended(&mut self, now: Nanos) -> Option<usize> {
        let thread = self.cpu.ended(now)?;
        self.running -= 1;
        self.idle_since = now;
        Some(thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::HopSpec;

    fn cores(number: u32) -> Cores {
        let hop = HopSpec { core: Nanos(1), l2: Nanos(10), node: Nanos(100), remote: Nanos(1000) };
        let machine = MachineSpec {
            scheduler: CoreScheduler::PerCore,
            cores_per_l2: 2,
            cores_per_node: Some(4),
            hop,
            wake: Nanos(5000),
            spin: Nanos(50),
        };
        Cores::new(number, &machine)
    }

    fn burst(time: u64) -> Burst {
        Burst { time: Nanos(time), is_urgent: false, core: None, from: None }
    }

    fn drain(cores: &mut Cores) -> Vec<(u64, usize)> {
        let mut ends = Vec::new();
        while let Some(at) = cores.next_event() {
            while let Some(thread) = cores.ended(at) {
                ends.push((at.0, thread));
            }
        }
        ends
    }

    #[test]
    fn a_thread_stays_on_its_core_and_pays_for_the_nearest_other_one() {
        let mut cores = cores(4);
        assert_eq!(cores.run(Nanos::ZERO, 0, burst(100)), Some(Nanos::ZERO), "the first core");
        assert_eq!(drain(&mut cores), [(100, 0)]);
        assert_eq!(cores.run(Nanos(120), 0, burst(100)), Some(Nanos::ZERO), "it spins, and the thread stays");
        assert_eq!(cores.run(Nanos(120), 1, burst(1)), Some(Nanos(5000)), "the second core is woken up");
        assert_eq!(drain(&mut cores), [(220, 0), (5121, 1)]);
        assert_eq!(cores.run(Nanos(5121), 2, Burst { core: Some(0), ..burst(1000) }), Some(Nanos(5000)));
        let to_1 = cores.run(Nanos(5121), 0, burst(1));
        assert_eq!(to_1, Some(Nanos(10)), "its own core is taken, and the other one of the L2 cache spins");
    }

    #[test]
    fn what_is_handed_over_pays_the_hop_from_where_it_was_made() {
        let mut cores = cores(8);
        cores.run(Nanos::ZERO, 0, Burst { core: Some(0), ..burst(1) });
        let from = |core: u32| Burst { core: Some(core), from: Some(0), ..burst(1) };
        assert_eq!(cores.run(Nanos(10), 1, from(4)), Some(Nanos(1000)));
        assert_eq!(cores.run(Nanos(10), 2, from(2)), Some(Nanos(100)));
        assert_eq!(cores.run(Nanos(10), 3, from(0)), Some(Nanos(1)));
        assert_eq!(cores.run(Nanos(10), 4, Burst { from: Some(4), ..from(1) }), Some(Nanos::ZERO), "itself");
    }

    #[test]
    fn threads_of_a_core_share_it_and_not_the_others() {
        let mut cores = cores(2);
        for thread in 0..2 {
            cores.run(Nanos::ZERO, thread, Burst { core: Some(0), ..burst(100) });
        }
        assert_eq!(cores.left(Nanos(50), 0), Nanos(75));
        assert_eq!(drain(&mut cores), [(200, 0), (200, 1)]);
    }
}
