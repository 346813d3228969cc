//! Random events for long: the contract of the core.
//!
//! A device of 32 places completes requests out of order, with errors and stalls; owners come and go, get rates and
//! lose them; requests are cancelled; the clock jumps and runs backwards. In all cases:
//!
//! - every request is answered once, and not before the device has completed it;
//! - the device never holds more requests than its depth, and the allowance is 1 to 32;
//! - an unregulated request waits no longer than the patience, plus two times the longest service time for itself and
//!   for each request that arrived before it, plus the jumps of the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_model::{Bytes, Lba, Nanos, Op, Outcome, RequestId, Sectors};
use sakiyomi_regulate::{
    Action, ArrivingRequest, Beside, Correction, Counted, Distribution, GateSettings, Moments, Owner,
    PROFILE_DEPTHS, Percent, Policy, Profile, Rate, Regulator, Settings, Window,
};

const OWNERS: u64 = 24;
const WAITING: usize = 200;
const LONGEST: Nanos = Nanos(300_000_000);
const DEVICE_SECTORS: u64 = 1 << 22;
const SMALLEST_PIECE: u64 = 64 << 10;
const LEAP: Nanos = Nanos(20_000_000_000);

/// Expected state of an outstanding request.
#[derive(Clone, Copy)]
struct Known {
    owner: Owner,
    arrived: Nanos,
    op: Op,
    size: u64,
    /// Bytes that the device has had, and those that it has done.
    issued: u64,
    done: u64,
    /// Whether a part of it is in the device.
    in_device: bool,
    /// Whether the device ended a part with an error.
    failed: bool,
    withdrawn: bool,
    /// Total of the clock's jumps at its arrival.
    leapt: Nanos,
    /// Its maximum waiting time, unless its owner was given a rate since its arrival.
    patience: Option<Nanos>,
}

struct Chaos {
    random: Pcg64,
    regulator: Regulator,
    /// Whether requests may be split, and served from what is read ahead.
    has_profile: bool,
    /// Reads of the regulator's own.
    fetches: BTreeMap<RequestId, Known>,
    /// Ends of the last reads of each owner, which the next ones may continue.
    ends: BTreeMap<Owner, Lba>,
    settings: Settings,
    now: Nanos,
    leapt: Nanos,
    next_id: u64,
    rated: BTreeSet<Owner>,
    known: BTreeMap<RequestId, Known>,
    device: BTreeSet<(Nanos, RequestId)>,
    out: Vec<Action>,
    answered: u64,
}

impl Chaos {
    fn new(settings: Settings, profile: Option<Arc<Profile>>, seed: u64) -> Chaos {
        let has_profile = profile.is_some();
        let regulator = match profile {
            Some(profile) => Regulator::with_profile(settings, profile, 0.05),
            None => Regulator::new(settings),
        };
        Chaos {
            random: Pcg64::seed_from_u64(seed),
            regulator,
            has_profile,
            fetches: BTreeMap::new(),
            ends: BTreeMap::new(),
            settings,
            now: Nanos::ZERO,
            leapt: Nanos::ZERO,
            next_id: 0,
            rated: BTreeSet::new(),
            known: BTreeMap::new(),
            device: BTreeSet::new(),
            out: Vec::new(),
            answered: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn owner(&mut self) -> Owner {
        Owner(self.below(OWNERS) as u32)
    }

    /// The time passed to the regulator, which may run backwards.
    fn told(&mut self) -> Nanos {
        if self.below(50) == 0 {
            self.now.saturating_sub(Nanos(self.random.next_u64() % 5_000_000_000))
        } else {
            self.now
        }
    }

    fn step(&mut self) {
        match self.below(1000) {
            0..=399 => self.ask(),
            400..=899 => self.go_on(),
            900..=929 => self.cancel(),
            930..=949 => self.rate(),
            950..=959 => self.clear(),
            960..=964 => self.kill(),
            965..=966 => {
                let leap = Nanos(self.random.next_u64() % LEAP.0);
                (self.now, self.leapt) = (self.now + leap, self.leapt + leap);
            }
            _ => {
                let now = self.told();
                self.regulator.timer(now, &mut self.out);
            }
        }
        self.check();
    }

    fn ask(&mut self) {
        if self.known.len() >= WAITING {
            return;
        }
        let (id, owner) = (RequestId(self.next_id), self.owner());
        self.next_id += 1;
        let op = [Op::Read, Op::Read, Op::Write, Op::Flush][self.below(4) as usize];
        let size = match op {
            Op::Flush => 0,
            _ => 512 << self.below(14),
        };
        let continues = op == Op::Read && self.below(2) == 0;
        let start = match self.ends.get(&owner).filter(|_| continues) {
            Some(&end) => end,
            None => Lba(self.below(DEVICE_SECTORS - (8 << 20) / 512)),
        };
        let end = Lba(start.0 + size / 512);
        self.ends.insert(owner, if end.0 > DEVICE_SECTORS - (16 << 20) / 512 { Lba(0) } else { end });
        let waiting = self.known.values().filter(|known| known.issued == 0);
        // By the profile, each piece ahead of it is issued within half the patience.
        let pieces: u64 = waiting.map(|known| known.size.div_ceil(SMALLEST_PIECE).max(1)).sum();
        let each = if self.has_profile { self.settings.patience / 2 } else { Nanos::ZERO };
        let patience = self.settings.patience + (LONGEST * 2 + each) * (pieces + 2);
        let patience = Some(patience).filter(|_| !self.rated.contains(&owner));
        let known = Known { patience, ..self.arriving(owner, op, size) };
        self.known.insert(id, known);
        let now = self.told();
        let ask = ArrivingRequest { id, owner, op, start, size: Bytes(size) };
        self.regulator.arrive(now, ask, &mut self.out);
    }

    /// Advances to the next event of device or regulator.
    fn go_on(&mut self) {
        let done = self.device.first().map(|(at, _)| *at);
        let Some(next) = done.into_iter().chain(self.regulator.wake_at()).min() else { return };
        self.now = self.now.max(next);
        if let Some(&(at, id)) = self.device.first().filter(|(at, _)| *at <= self.now) {
            self.device.pop_first();
            let outcome = if self.below(30) == 0 { Outcome::Error } else { Outcome::Done };
            let known = self.known.get_mut(&id).or(self.fetches.get_mut(&id)).unwrap();
            (known.done, known.in_device) = (known.issued, false);
            known.failed |= outcome == Outcome::Error;
            self.regulator.device_done(at, id, outcome, &mut self.out);
        } else {
            self.regulator.timer(self.now, &mut self.out);
        }
    }

    fn cancel(&mut self) {
        let from = RequestId(self.next_id.saturating_sub(self.below(300)));
        let Some((&id, _)) = self.known.range(from..).next() else { return };
        self.known.get_mut(&id).unwrap().withdrawn = true;
        let now = self.told();
        self.regulator.cancel(now, id, &mut self.out);
        let waits = !self.known[&id].in_device;
        self.check();
        assert!(!waits || !self.known.contains_key(&id), "{id:?} waited, and has not been answered at once");
    }

    fn rate(&mut self) {
        let (now, owner) = (self.told(), self.owner());
        let rate = match self.below(3) {
            0 => Rate::Every(Nanos(self.random.next_u64() % 1_000_000_000)),
            _ => Rate::Percent(Percent::new(1 + self.below(100) as u32).unwrap()),
        };
        let given = if self.below(2) == 0 {
            self.regulator.set_rate_anyway(now, owner, rate, &mut self.out);
            true
        } else {
            self.regulator.set_rate(now, owner, rate, &mut self.out).is_ok()
        };
        if given {
            self.rated.insert(owner);
            self.no_patience(owner);
        }
    }

    fn no_patience(&mut self, owner: Owner) {
        self.known.values_mut().filter(|known| known.owner == owner).for_each(|known| known.patience = None);
    }

    fn clear(&mut self) {
        let (now, owner) = (self.told(), self.owner());
        self.rated.remove(&owner);
        self.no_patience(owner);
        self.regulator.clear_rate(now, owner, &mut self.out);
    }

    fn kill(&mut self) {
        let (now, owner) = (self.told(), self.owner());
        self.rated.remove(&owner);
        self.known.values_mut().filter(|known| known.owner == owner).for_each(|known| known.withdrawn = true);
        self.regulator.owner_gone(now, owner, &mut self.out);
    }

    fn check(&mut self) {
        for action in std::mem::take(&mut self.out) {
            match action {
                Action::Issue { id, part, .. } => self.issued(id, part),
                Action::Fetch { id, owner, start, size } => self.fetches(id, owner, start, size),
                Action::Fetched { id } => {
                    let fetch = self.fetches.remove(&id).expect("it was announced");
                    assert!(!fetch.in_device, "{id:?} is still in the device");
                }
                Action::Answer { id, outcome, .. } => self.was_answered(id, outcome),
            }
        }
        assert!((1..=32).contains(&self.regulator.allowance()));
        assert_eq!(self.regulator.in_device(), self.device.len());
        assert_eq!(self.regulator.unanswered(), self.known.len());
        assert!(self.device.len() <= self.settings.depth as usize);
    }

    /// Returns the state of a request that arrives now.
    fn arriving(&self, owner: Owner, op: Op, size: u64) -> Known {
        Known {
            owner,
            arrived: self.now,
            op,
            size,
            issued: 0,
            done: 0,
            in_device: false,
            failed: false,
            withdrawn: false,
            leapt: self.leapt,
            patience: None,
        }
    }

    fn fetches(&mut self, id: RequestId, owner: Owner, start: Lba, size: Bytes) {
        assert!(self.has_profile && self.rated.contains(&owner), "{owner:?} has no rate");
        assert!(start.0 + size.0 / 512 <= DEVICE_SECTORS && size.0 > 0, "{start:?} {size:?}");
        let fetch = self.arriving(owner, Op::Read, size.0);
        assert!(self.fetches.insert(id, fetch).is_none(), "{id:?} is announced twice");
    }

    fn issued(&mut self, id: RequestId, part: Range<u64>) {
        let stall = if self.below(500) == 0 { LONGEST.0 } else { 12_000_000 };
        let takes = Nanos(1 + self.random.next_u64() % stall);
        let known = self.known.get_mut(&id).or(self.fetches.get_mut(&id));
        let known = known.expect("only requests that have arrived are issued");
        assert!(!known.in_device, "{id:?} is issued twice");
        assert!(!known.withdrawn && !known.failed, "{id:?} is issued after it was withdrawn, or has failed");
        assert_eq!(part.start, known.issued, "the parts of {id:?} follow each other");
        assert!(part.end <= known.size && (part.start < part.end || known.size == 0), "{part:?}");
        let is_whole = part.end - part.start == known.size;
        assert!(
            is_whole
                || (self.has_profile && part.end - part.start >= SMALLEST_PIECE.min(known.size - part.start))
        );
        let first = known.issued == 0;
        (known.issued, known.in_device) = (part.end, true);
        if let Some(patience) = known.patience.filter(|_| first) {
            let waited = self.now - known.arrived;
            assert!(
                waited <= patience + (self.leapt - known.leapt),
                "{id:?} has waited {waited}, {patience}"
            );
        }
        self.device.insert((self.now + takes, id));
    }

    fn was_answered(&mut self, id: RequestId, outcome: Outcome) {
        let known = self.known.remove(&id).expect("each request is answered once");
        self.answered += 1;
        assert!(!known.in_device, "{id:?} is answered before the device has done it");
        if outcome == Outcome::Cancelled {
            assert!(known.withdrawn, "{id:?} is cancelled without reason");
        } else if known.failed {
            assert_eq!(outcome, Outcome::Error);
        } else if known.issued > 0 || known.size == 0 {
            assert_eq!(known.done, known.size, "{id:?} is answered before the device has done all of it");
        } else {
            // Read ahead.
            assert!(self.has_profile && known.op == Op::Read, "{id:?} is answered without reason");
        }
    }
}

fn throw(settings: Settings, profile: Option<Arc<Profile>>, seed: u64, steps: u64) {
    let mut chaos = Chaos::new(settings, profile, seed);
    (0..steps).for_each(|_| chaos.step());
    let mut left = 0;
    while !chaos.known.is_empty() || chaos.fetches.values().any(|fetch| fetch.in_device) {
        chaos.go_on();
        chaos.check();
        left += 1;
        assert!(left < 1_000_000, "{} requests are lost", chaos.known.len());
    }
    assert_eq!(chaos.answered, chaos.next_id);
}

fn all_settings() -> [Settings; 4] {
    let ours = Settings::default();
    [
        ours,
        Policy::Thesis.settings(),
        Settings {
            gate: GateSettings::Allowance {
                correction: Correction::TwoWay { accuracy: 1.1 },
                counted: Counted::Others,
            },
            ..ours
        },
        Settings { window: Window::Last(10), release: None, depth: 4, ..ours },
    ]
}

/// Profiles of devices whose mean service time of 4 KiB is 1, 6 and 30 ms, and of two that serve several at once.
fn all_profiles() -> [Arc<Profile>; 5] {
    [(1.0, false), (6.0, false), (30.0, false), (1.0, true), (30.0, true)].map(|(mean, is_parallel)| {
        let time = |factor: f64| Moments { mean: mean * factor * 1e6, variance: (mean * 0.3e6).powi(2) };
        let sizes = [1.0, 1.2, 1.8, 4.0].map(time);
        let deep = |extra: f64| PROFILE_DEPTHS.map(|depth| time(f64::from(depth) * 0.8 + extra)).to_vec();
        Arc::new(Profile {
            capacity: Sectors(DEVICE_SECTORS),
            sector: Bytes(512),
            reads: sizes,
            writes: sizes,
            continuing: time(0.1),
            by_distance: vec![(0.0, time(0.6)), (0.5, time(1.2))],
            batches: deep(0.2),
            behind: deep(0.5),
            beside: is_parallel.then(|| times_beside(mean * 1e6)),
        })
    })
}

/// Times on a device that serves several requests at once, alone of `mean` ns.
fn times_beside(mean: f64) -> Beside {
    let spread = |factor: f64| Distribution {
        quantiles: (0..20).map(|part| mean * factor * (0.7 + 0.03 * f64::from(part))).collect(),
    };
    let beside =
        |size: f64| PROFILE_DEPTHS.map(|depth| spread(1.0 + size * 0.05 * f64::from(depth))).to_vec();
    Beside { others: [1.0, 2.0, 6.0, 20.0].map(beside) }
}

#[test]
fn nothing_is_lost_answered_early_or_starved() {
    for (seed, settings) in all_settings().into_iter().enumerate() {
        throw(settings, None, seed as u64, 60_000);
    }
    for (seed, profile) in all_profiles().into_iter().enumerate() {
        throw(
            Settings { depth: [1, 4, 32, 8, 32][seed], ..Settings::default() },
            Some(profile),
            seed as u64,
            60_000,
        );
    }
}

#[test]
#[ignore = "minutes; millions of steps"]
fn nothing_is_lost_answered_early_or_starved_for_long() {
    for seed in 100..120 {
        all_settings().into_iter().for_each(|settings| throw(settings, None, seed, 500_000));
        for profile in all_profiles() {
            throw(Settings { depth: 1 << (seed % 6), ..Settings::default() }, Some(profile), seed, 500_000);
        }
    }
}
