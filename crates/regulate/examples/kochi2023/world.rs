//! Processes that read at random, each in a file of its own, on one drive (thesis, section 6.2).

use std::collections::BTreeMap;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::{DriveSpec, builtin};
use sakiyomi_model::{Bytes, Completion, Device, Extent, Nanos, Op, Request, RequestId, Sectors, StreamId};
use sakiyomi_regulate::{Owner, Percent, RegulatedDevice, Settings, Timing};

/// A computer of the thesis (table 6.1).
#[derive(Clone, Copy)]
pub(crate) struct Computer {
    pub(crate) name: &'static str,
    drive: &'static str,
    settings: &'static [(&'static str, &'static str)],
}

pub(crate) const PERFORMANCES: [u32; 5] = [10, 15, 20, 25, 30];

/// The computers of table 6.1. The queue policies of their firmware are not published; the settings given here beside
/// the drive files were fitted to the published best allowances (docs/explanation/experiments.md).
pub(crate) const COMPUTERS: [Computer; 3] = [
    Computer { name: "PC1", drive: "scorpio-wd1200bevs", settings: &[("queue.policy", "fcfs")] },
    Computer { name: "PC2", drive: "scorpio-wd10tpvx", settings: &[("queue.age_weight", "0.09")] },
    Computer { name: "PC3", drive: "deskstar-p7k500", settings: &[("queue.age_weight", "0.03")] },
];

/// The drives with the policy of their files, shortest positioning time first, which is harder to regulate.
pub(crate) const HARDER: [Computer; 2] = [
    Computer { name: "PC2, SPTF", settings: &[], ..COMPUTERS[1] },
    Computer { name: "PC3, SPTF", settings: &[], ..COMPUTERS[2] },
];

impl Computer {
    pub(crate) fn spec(&self) -> DriveSpec {
        let mut spec = builtin(self.drive).expect("a built-in drive").spec();
        for (key, value) in self.settings {
            spec.set(key, value).expect("a setting of a drive");
        }
        spec
    }
}

/// A process.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    /// Requested performance in percent.
    pub(crate) rate: Option<u32>,
    pub(crate) op: Op,
    pub(crate) size: Bytes,
}

impl Process {
    pub(crate) fn reader(rate: Option<u32>) -> Process {
        Process { rate, op: Op::Read, size: Bytes(4096) }
    }
}

/// An experiment.
pub(crate) struct World<'a> {
    pub(crate) spec: &'a DriveSpec,
    pub(crate) settings: Settings,
    pub(crate) processes: Vec<Process>,
    pub(crate) seed: u64,
    /// The run ends when a regulated process (or, without any, some process) has done this many I/Os.
    pub(crate) ios: u32,
    /// From this time on the other processes read this much at a time.
    pub(crate) later: Option<(Nanos, Bytes)>,
    /// Initial time that is not evaluated.
    pub(crate) warm_up: Nanos,
}

/// Result of an experiment.
pub(crate) struct Outcome {
    pub(crate) timings: Vec<Timing>,
    /// Changes of the allowance: the number of regulated I/Os until then, and the new value.
    pub(crate) allowances: Vec<(usize, u32)>,
    pub(crate) iops: f64,
    pub(crate) begin: Nanos,
    pub(crate) service: Nanos,
    /// The device's parallelism as measured at the end.
    pub(crate) parallelism: f64,
}

const FILE: u64 = 2 << 30;

impl World<'_> {
    pub(crate) fn run(&self) -> Outcome {
        self.run_on(Drive::new(self.spec).expect("a drive"))
    }

    pub(crate) fn run_on<D: Device>(&self, device: D) -> Outcome {
        let mut device = RegulatedDevice::new(device, self.settings);
        device.keep_timings();
        for (index, process) in self.processes.iter().enumerate() {
            if let Some(rate) = process.rate {
                let rate = Percent::new(rate).expect("a performance");
                let given = device.set_rate_anyway(Nanos::ZERO, Owner(index as u32), rate);
                given.expect("the device has a regulator");
            }
        }
        let mut run = Run::new(self, device);
        run.go();
        run.outcome
    }
}

struct Run<'a, D> {
    world: &'a World<'a>,
    device: RegulatedDevice<D>,
    random: Vec<Pcg64>,
    done: Vec<u32>,
    starts: BTreeMap<(Nanos, usize), ()>,
    now: Nanos,
    next_id: u64,
    counted: u64,
    outcome: Outcome,
}

impl<'a, D: Device> Run<'a, D> {
    fn new(world: &'a World<'a>, device: RegulatedDevice<D>) -> Run<'a, D> {
        let count = world.processes.len();
        let random = (0..count).map(|p| Pcg64::seed_from_u64(world.seed * 1000 + p as u64)).collect();
        let starts = (0..count).map(|p| ((Nanos(p as u64 * 1_000_003), p), ())).collect();
        let outcome = Outcome {
            timings: Vec::new(),
            allowances: Vec::new(),
            iops: 0.0,
            begin: world.warm_up,
            service: Nanos::ZERO,
            parallelism: 1.0,
        };
        Run {
            world,
            device,
            random,
            done: vec![0; count],
            starts,
            now: Nanos::ZERO,
            next_id: 0,
            counted: 0,
            outcome,
        }
    }

    fn go(&mut self) {
        let regulated = self.world.processes.iter().any(|process| process.rate.is_some());
        let mut ended = Vec::new();
        loop {
            let start = self.starts.first_key_value().map(|((at, _), ())| *at);
            let Some(next) = start.into_iter().chain(self.device.next_event()).min() else { break };
            self.now = self.now.max(next);
            self.device.advance(self.now, &mut ended);
            for completion in ended.drain(..) {
                self.ended(&completion);
            }
            while let Some((&(at, process), ())) =
                self.starts.first_key_value().filter(|((at, _), ())| *at <= self.now)
            {
                self.starts.remove(&(at, process));
                self.ask(process);
            }
            self.watch();
            let over = |(process, &done): (&Process, &u32)| {
                done >= self.world.ios && (process.rate.is_some() || !regulated)
            };
            if self.world.processes.iter().zip(&self.done).any(over) {
                break;
            }
        }
        let regulator = self.device.regulator().expect("the device has a regulator");
        self.outcome.service = regulator.service_time();
        self.outcome.parallelism = regulator.device_report().parallelism;
        self.outcome.iops = self.counted as f64 / self.now.saturating_sub(self.world.warm_up).as_secs_f64();
    }

    fn watch(&mut self) {
        self.device.take_timings(&mut self.outcome.timings);
        let allowance = self.device.regulator().expect("the device has a regulator").allowance();
        if self.outcome.allowances.last().is_none_or(|(_, last)| *last != allowance) {
            self.outcome.allowances.push((self.outcome.timings.len(), allowance));
        }
    }

    fn ask(&mut self, process: usize) {
        let Process { op, mut size, rate, .. } = self.world.processes[process];
        if let Some((from, larger)) = self.world.later.filter(|_| rate.is_none())
            && from <= self.now
        {
            size = larger;
        }
        let places = FILE / size.0;
        let place = self.random[process].next_u64() % places * (size.0 / 512);
        let start = sakiyomi_model::Lba(process as u64 * (FILE / 512) + place);
        let request = Request {
            id: RequestId(self.next_id),
            stream: StreamId(process as u32),
            op,
            fua: false,
            extent: Extent::new(start, Sectors(size.0 / 512)),
            arrival: self.now,
        };
        self.next_id += 1;
        self.device.submit(self.now, request).expect("there is room");
    }

    fn ended(&mut self, completion: &Completion) {
        let process = completion.request.stream.0 as usize;
        self.done[process] += 1;
        self.starts.insert((completion.finish, process), ());
        if completion.finish >= self.world.warm_up {
            self.counted += 1;
        }
    }
}

/// Figures of the I/Os of a regulated process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) accuracy: f64,
    pub(crate) cov: f64,
    pub(crate) p99: f64,
}

impl Outcome {
    /// Returns the figures of one owner after the warm-up.
    pub(crate) fn figures(&self, owner: u32) -> Figures {
        self.between(owner, self.begin, Nanos::MAX)
    }

    /// Returns the figures of one owner's I/Os that arrived from `from` until before `to`.
    pub(crate) fn between(&self, owner: u32, from: Nanos, to: Nanos) -> Figures {
        let within = |timing: &&Timing| timing.arrived >= from && timing.arrived < to;
        let timings: Vec<_> = self.of(owner).filter(within).collect();
        let count = timings.len().max(1);
        let mean = timings.iter().map(|timing| timing.took.0 as f64).sum::<f64>() / count as f64;
        let squares = timings.iter().map(|timing| (timing.took.0 as f64 - mean).powi(2)).sum::<f64>();
        let mut ratios: Vec<f64> = timings.iter().map(|timing| ratio(timing)).collect();
        let accuracy = ratios.iter().sum::<f64>() / count as f64;
        ratios.sort_by(f64::total_cmp);
        let p99 = ratios.get(count * 99 / 100).copied().unwrap_or(f64::NAN);
        Figures { accuracy, cov: (squares / count as f64).sqrt() / mean, p99 }
    }

    /// Returns the number of I/Os after `at` until the ideal time was first within 5 % of its mean over the last half.
    pub(crate) fn ideal_follows(&self, owner: u32, at: Nanos) -> f64 {
        let ideals: Vec<f64> = self
            .of(owner)
            .filter(|timing| timing.arrived >= at)
            .map(|timing| timing.ideal.0 as f64)
            .collect();
        let settled = &ideals[ideals.len() / 2..];
        let mean = settled.iter().sum::<f64>() / settled.len() as f64;
        ideals.iter().position(|ideal| (ideal / mean - 1.0).abs() <= 0.05).unwrap_or(ideals.len()) as f64
    }

    fn of(&self, owner: u32) -> impl Iterator<Item = &Timing> {
        let counted = move |timing: &&Timing| timing.owner == Owner(owner) && !timing.ideal.is_zero();
        self.timings.iter().filter(counted)
    }
}

fn ratio(timing: &Timing) -> f64 {
    timing.took.0 as f64 / timing.ideal.0 as f64
}
