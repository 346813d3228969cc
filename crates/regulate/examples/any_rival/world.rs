//! One or several owners with rates, beside other processes of any kind, on one drive in virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::Disk;
use sakiyomi_drive::fixed::{Fixed, FixedSpec};
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Completion, Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};
use sakiyomi_regulate::{
    Owner, Percent, Policy, Profile, RegulatedDevice, Requested, Settings, Timing, measure,
};

/// Where and how much a process reads or writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pattern {
    /// This many bytes at random addresses.
    Random(u64),
    /// 4 KiB, 64 KiB or 1 MiB at random addresses.
    Mixed,
    /// This many bytes, each where the last ended.
    Sequential(u64),
    /// 4 KiB at random addresses, in the first half of each second.
    Bursts,
}

/// Time between a reply and the next request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Think {
    /// None.
    None,
    /// Exponential, with this mean.
    Random(Nanos),
}

/// A process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) rate: Option<Requested>,
    pub(crate) op: Op,
    pub(crate) pattern: Pattern,
    pub(crate) think: Think,
}

impl Process {
    pub(crate) fn other(pattern: Pattern) -> Process {
        Process { rate: None, op: Op::Read, pattern, think: Think::None }
    }

    pub(crate) fn owner(rate: Requested, think: Think) -> Process {
        Process { rate: Some(rate), op: Op::Read, pattern: Pattern::Random(4096), think }
    }
}

/// Mechanism of regulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mechanism {
    None,
    Deadline,
    Profile,
}

/// The storage of an experiment.
pub(crate) enum Storage {
    Disk(Box<DriveSpec>),
    Fixed(FixedSpec),
}

type AnyDevice = Box<dyn Device + Send>;

impl Storage {
    pub(crate) fn device(&self, seed: u64) -> AnyDevice {
        match self {
            Storage::Disk(spec) => Box::new(Disk::new(spec).expect("a drive")),
            Storage::Fixed(spec) => Box::new(Fixed::new(*spec, seed)),
        }
    }

    pub(crate) fn profile(&self) -> Arc<Profile> {
        Arc::new(measure(&mut self.device(PROFILE_SEED)))
    }
}

/// Seed of the storage on which its profile is measured.
const PROFILE_SEED: u64 = 77;

/// An experiment.
pub(crate) struct World<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) profile: &'a Arc<Profile>,
    pub(crate) mechanism: Mechanism,
    pub(crate) processes: &'a [Process],
    /// Part of the drive in which each process has a place of its own; 1: all read everywhere.
    pub(crate) span: f64,
    pub(crate) seed: u64,
    /// I/Os of each owner after which the run ends, or of the first process without any owner.
    pub(crate) ios: u32,
}

/// Figures of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) accuracy: f64,
    pub(crate) cov: f64,
    pub(crate) p99: f64,
    pub(crate) worst: f64,
    pub(crate) ideal_ms: f64,
}

/// Result of an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) owners: Vec<Figures>,
    /// Bytes per second of the processes without a rate.
    pub(crate) others: f64,
    /// I/Os per second of all.
    pub(crate) iops: f64,
    /// Longest I/O of a process without a rate.
    pub(crate) longest: Nanos,
}

impl Outcome {
    /// Returns the worst figures of all owners.
    pub(crate) fn worst(&self) -> Figures {
        let most = |of: fn(&Figures) -> f64| self.owners.iter().map(of).fold(0.0, f64::max);
        Figures {
            accuracy: most(|one| one.accuracy),
            cov: most(|one| one.cov),
            p99: most(|one| one.p99),
            worst: most(|one| one.worst),
            ideal_ms: most(|one| one.ideal_ms),
        }
    }
}

/// Part of the run, a tenth, that is not evaluated.
const WARM_UP_DIVISOR: u32 = 10;

impl World<'_> {
    /// Runs the experiment. `None` if a rate is refused.
    pub(crate) fn run(&self) -> Option<Outcome> {
        let drive = self.storage.device(self.seed);
        let mut device = match self.mechanism {
            Mechanism::None if self.processes.len() <= drive.depth() as usize => {
                RegulatedDevice::unregulated(drive)
            }
            // Requests that the device has no room for wait in turn.
            Mechanism::None => RegulatedDevice::new(drive, Policy::Thesis.settings()),
            Mechanism::Deadline => RegulatedDevice::new(drive, Policy::Deadline.settings()),
            Mechanism::Profile => {
                RegulatedDevice::with_profile(drive, Settings::default(), Arc::clone(self.profile), 0.0)
            }
        };
        device.keep_timings();
        for (index, process) in self.processes.iter().enumerate() {
            let Some(rate) = process.rate.filter(|_| self.mechanism != Mechanism::None) else { continue };
            let owner = Owner(index as u32);
            match self.mechanism {
                Mechanism::Profile => device.set_rate(Nanos::ZERO, owner, rate).ok()?,
                _ => device.set_rate_anyway(Nanos::ZERO, owner, rate).ok()?,
            }
        }
        let mut run = Run::new(self, device);
        run.go();
        Some(run.outcome())
    }
}

struct Run<'a> {
    world: &'a World<'a>,
    device: RegulatedDevice<AnyDevice>,
    random: Vec<Pcg64>,
    next: Vec<Lba>,
    done: Vec<u32>,
    starts: BTreeSet<(Nanos, usize)>,
    now: Nanos,
    next_id: u64,
    from: Option<Nanos>,
    timings: Vec<Timing>,
    bytes: u64,
    ios: u64,
    longest: Nanos,
    took: Vec<(Owner, Nanos)>,
}

impl<'a> Run<'a> {
    fn new(world: &'a World<'a>, device: RegulatedDevice<AnyDevice>) -> Run<'a> {
        let count = world.processes.len();
        let mut random: Vec<Pcg64> =
            (0..count).map(|process| Pcg64::seed_from_u64(world.seed * 1000 + process as u64)).collect();
        let capacity = device.capacity().0;
        let next = random.iter_mut().map(|random| Lba(random.next_u64() % capacity / 8 * 8)).collect();
        Run {
            world,
            device,
            random,
            next,
            done: vec![0; count],
            starts: (0..count).map(|process| (Nanos(process as u64 * 1_000_003), process)).collect(),
            now: Nanos::ZERO,
            next_id: 0,
            from: None,
            timings: Vec::new(),
            bytes: 0,
            ios: 0,
            longest: Nanos::ZERO,
            took: Vec::new(),
        }
    }

    fn is_owner(&self, process: usize) -> bool {
        self.world.processes[process].rate.is_some()
    }

    fn go(&mut self) {
        let owners: Vec<usize> = (0..self.done.len()).filter(|&process| self.is_owner(process)).collect();
        let counted = if owners.is_empty() { vec![0] } else { owners };
        let mut ended = Vec::new();
        while counted.iter().any(|&process| self.done[process] < self.world.ios) {
            let start = self.starts.first().map(|(at, _)| *at);
            let next = start.into_iter().chain(self.device.next_event()).min().expect("something happens");
            self.now = self.now.max(next);
            self.device.advance(self.now, &mut ended);
            ended.drain(..).for_each(|completion| self.ended(&completion));
            while let Some(&(at, process)) = self.starts.first().filter(|(at, _)| *at <= self.now) {
                self.starts.remove(&(at, process));
                self.ask(process);
            }
            let warm = |&process: &usize| self.done[process] >= self.world.ios / WARM_UP_DIVISOR;
            if self.from.is_none() && counted.iter().all(warm) {
                self.device.take_timings(&mut self.timings);
                self.timings.clear();
                self.took.clear();
                (self.from, self.bytes, self.ios, self.longest) = (Some(self.now), 0, 0, Nanos::ZERO);
            }
        }
        self.device.take_timings(&mut self.timings);
    }

    fn ask(&mut self, process: usize) {
        let Process { op, pattern, .. } = self.world.processes[process];
        let random = &mut self.random[process];
        let size = match pattern {
            Pattern::Random(size) | Pattern::Sequential(size) => size,
            Pattern::Mixed => [4 << 10, 64 << 10, 1 << 20][random.next_u64() as usize % 3],
            Pattern::Bursts => 4096,
        };
        let sectors = size / self.device.sector().0;
        let room = self.device.capacity().0 - sectors;
        let start = match pattern {
            Pattern::Sequential(_) if self.next[process].0 <= room => self.next[process].0,
            _ => {
                let width = (room as f64 * self.world.span) as u64;
                let home = if self.world.span < 1.0 {
                    (room - width) / (self.world.processes.len() as u64) * process as u64
                } else {
                    0
                };
                (home + random.next_u64() % width.max(1)) / 8 * 8
            }
        };
        self.next[process] = Lba(start + sectors);
        let request = Request {
            id: RequestId(self.next_id),
            stream: StreamId(process as u32),
            op,
            fua: false,
            extent: Extent::new(Lba(start), Sectors(sectors)),
            arrival: self.now,
        };
        self.next_id += 1;
        self.device.submit(self.now, request).expect("there is room");
    }

    fn ended(&mut self, completion: &Completion) {
        let process = completion.request.stream.0 as usize;
        self.done[process] += 1;
        self.ios += 1;
        let took = completion.finish - completion.submitted;
        if self.is_owner(process) {
            self.took.push((Owner(process as u32), took));
        } else {
            self.bytes += completion.request.extent.sectors.0 * self.device.sector().0;
            self.longest = self.longest.max(took);
        }
        let think = match self.world.processes[process].think {
            Think::None => 0,
            Think::Random(mean) => {
                let part = (self.random[process].next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                (-(1.0 - part).ln() * mean.0 as f64) as u64
            }
        };
        let mut at = completion.finish + Nanos(think);
        if self.world.processes[process].pattern == Pattern::Bursts {
            let second = Nanos::SECOND.0;
            if at.0 % second >= second / 2 {
                at = Nanos(at.0.div_ceil(second) * second);
            }
        }
        self.starts.insert((at, process));
    }

    fn outcome(&self) -> Outcome {
        let from = self.from.unwrap_or(Nanos::ZERO);
        let span = (self.now - from).as_secs_f64().max(1e-9);
        let owners = (0..self.done.len()).filter(|&process| self.is_owner(process));
        let owners = owners.map(|process| self.figures(Owner(process as u32))).collect();
        Outcome {
            owners,
            others: self.bytes as f64 / span,
            iops: self.ios as f64 / span,
            longest: self.longest,
        }
    }

    fn figures(&self, owner: Owner) -> Figures {
        let Some(Requested { rate, .. }) = self.world.processes[owner.0 as usize].rate else {
            return Figures::default();
        };
        let own = self.timings.iter().filter(|timing| timing.owner == owner && !timing.ideal.is_zero());
        let mut ratios: Vec<f64> = own.clone().map(|one| one.took.0 as f64 / one.ideal.0 as f64).collect();
        let mut ideal = own.map(|one| one.ideal.0 as f64).sum::<f64>() / ratios.len().max(1) as f64;
        if self.world.mechanism == Mechanism::None {
            ideal = rate.ideal(self.world.profile.service()).0 as f64;
            let took = self.took.iter().filter(|(of, _)| *of == owner);
            ratios = took.map(|(_, took)| took.0 as f64 / ideal).collect();
        }
        ratios.sort_by(f64::total_cmp);
        let count = ratios.len().max(1) as f64;
        let accuracy = ratios.iter().sum::<f64>() / count;
        let variance = ratios.iter().map(|ratio| (ratio - accuracy).powi(2)).sum::<f64>() / count;
        let at = |part: f64| {
            ratios.get((ratios.len() as f64 * part) as usize).or(ratios.last()).copied().unwrap_or(f64::NAN)
        };
        Figures {
            accuracy,
            cov: variance.sqrt() / accuracy,
            p99: at(0.99),
            worst: at(1.0),
            ideal_ms: ideal / 1e6,
        }
    }
}

/// Returns a rate in percent.
pub(crate) fn percent(percent: u32) -> Requested {
    Percent::new(percent).expect("1 to 100 %").into()
}
