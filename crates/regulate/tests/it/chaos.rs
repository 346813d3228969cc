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

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_model::{Bytes, Lba, Nanos, Op, Outcome, RequestId};
use sakiyomi_regulate::{
    Action, ArrivingRequest, Correction, Counted, GateSettings, Owner, Percent, Policy, Rate, Regulator,
    Settings, Window,
};

const OWNERS: u64 = 24;
const WAITING: usize = 200;
const LONGEST: Nanos = Nanos(300_000_000);
const LEAP: Nanos = Nanos(20_000_000_000);

/// Expected state of an outstanding request.
#[derive(Clone, Copy)]
struct Known {
    owner: Owner,
    arrived: Nanos,
    issued: bool,
    done: bool,
    withdrawn: bool,
    /// Total of the clock's jumps at its arrival.
    leapt: Nanos,
    /// Its maximum waiting time, unless its owner was given a rate since its arrival.
    patience: Option<Nanos>,
}

struct Chaos {
    random: Pcg64,
    regulator: Regulator,
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
    fn new(settings: Settings, seed: u64) -> Chaos {
        Chaos {
            random: Pcg64::seed_from_u64(seed),
            regulator: Regulator::new(settings),
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
        let ahead = self.known.values().filter(|known| !known.issued).count() as u64;
        let patience = self.settings.patience + LONGEST * (2 * (ahead + 2));
        let known = Known {
            owner,
            arrived: self.now,
            issued: false,
            done: false,
            withdrawn: false,
            leapt: self.leapt,
            patience: Some(patience).filter(|_| !self.rated.contains(&owner)),
        };
        self.known.insert(id, known);
        let (now, size) = (self.told(), Bytes(512 << self.below(12)));
        self.regulator.arrive(now, ArrivingRequest { id, owner, op, start: Lba(0), size }, &mut self.out);
    }

    /// Advances to the next event of device or regulator.
    fn go_on(&mut self) {
        let done = self.device.first().map(|(at, _)| *at);
        let Some(next) = done.into_iter().chain(self.regulator.wake_at()).min() else { return };
        self.now = self.now.max(next);
        if let Some(&(at, id)) = self.device.first().filter(|(at, _)| *at <= self.now) {
            self.device.pop_first();
            self.known.get_mut(&id).unwrap().done = true;
            let outcome = if self.below(30) == 0 { Outcome::Error } else { Outcome::Done };
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
        let waits = !self.known[&id].issued;
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
                Action::Issue { id, .. } => self.issued(id),
                Action::Answer { id, outcome, .. } => self.was_answered(id, outcome),
            }
        }
        assert!((1..=32).contains(&self.regulator.allowance()));
        assert_eq!(self.regulator.in_device(), self.device.len());
        assert_eq!(self.regulator.unanswered(), self.known.len());
        assert!(self.device.len() <= self.settings.depth as usize);
    }

    fn issued(&mut self, id: RequestId) {
        let stall = if self.below(500) == 0 { LONGEST.0 } else { 12_000_000 };
        let takes = Nanos(1 + self.random.next_u64() % stall);
        let known = self.known.get_mut(&id).expect("only requests that have arrived are issued");
        assert!(!known.issued, "{id:?} is issued twice");
        assert!(!known.withdrawn, "{id:?} is issued after it was withdrawn");
        known.issued = true;
        if let Some(patience) = known.patience {
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
        if known.issued {
            assert!(known.done, "{id:?} is answered before the device has done it");
        } else {
            assert!(known.withdrawn && outcome == Outcome::Cancelled, "{id:?} is answered without reason");
        }
    }
}

fn throw(settings: Settings, seed: u64, steps: u64) {
    let mut chaos = Chaos::new(settings, seed);
    (0..steps).for_each(|_| chaos.step());
    let mut left = 0;
    while !chaos.known.is_empty() {
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

#[test]
fn nothing_is_lost_answered_early_or_starved() {
    for (seed, settings) in all_settings().into_iter().enumerate() {
        throw(settings, seed as u64, 60_000);
    }
}

#[test]
#[ignore = "minutes; millions of steps"]
fn nothing_is_lost_answered_early_or_starved_for_long() {
    for seed in 100..120 {
        all_settings().into_iter().for_each(|settings| throw(settings, seed, 500_000));
    }
}
