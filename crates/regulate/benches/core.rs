//! Cost of a request in the core: its arrival, its completion by the device, its reply.
//!
//! `cargo bench -p sakiyomi-regulate`. The device completes requests in order, one per millisecond.

use std::collections::VecDeque;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use sakiyomi_model::{Bytes, Lba, Nanos, Op, Outcome, RequestId};
use sakiyomi_regulate::{Action, ArrivingRequest, Owner, Percent, Policy, Regulator};

fn main() {
    divan::main();
}

const REQUESTS: u64 = 10_000;

/// Owners that send a request as soon as the last one is answered; every other one is regulated, at most `regulated` of
/// them.
struct Load {
    regulator: Regulator,
    device: VecDeque<RequestId>,
    asking: VecDeque<Owner>,
    owners: Vec<Owner>,
    now: Nanos,
    next_id: u64,
    out: Vec<Action>,
}

impl Load {
    fn new(policy: Policy, regulated: u32, others: u32) -> Load {
        let mut regulator = Regulator::new(policy.settings());
        let mut out = Vec::new();
        for owner in 0..regulated {
            let rate = Percent::new(1 + owner % if regulated > 9 { 100 } else { 10 }).expect("1 to 100");
            regulator.set_rate_anyway(Nanos::ZERO, Owner(owner), rate, &mut out);
        }
        let asking = (0..regulated + others).map(Owner).collect();
        let (device, owners) = (VecDeque::new(), Vec::new());
        Load { regulator, device, asking, owners, now: Nanos::ZERO, next_id: 0, out }
    }

    fn run(&mut self, requests: u64) {
        let end = self.next_id + requests;
        while self.next_id < end {
            while let Some(owner) = self.asking.pop_front() {
                let id = RequestId(self.next_id);
                self.next_id += 1;
                self.owners.push(owner);
                let ask = ArrivingRequest { id, owner, op: Op::Read, start: Lba(0), size: Bytes(4096) };
                self.regulator.arrive(self.now, ask, &mut self.out);
            }
            self.act();
            self.now += Nanos::MILLISECOND;
            if let Some(id) = self.device.pop_front() {
                self.regulator.device_done(self.now, id, Outcome::Done, &mut self.out);
            }
            if self.regulator.wake_at().is_some_and(|at| at <= self.now) {
                self.regulator.timer(self.now, &mut self.out);
            }
            self.act();
        }
    }

    fn act(&mut self) {
        for action in self.out.drain(..) {
            match action {
                Action::Issue { id, .. } => self.device.push_back(id),
                Action::Fetch { .. } | Action::Fetched { .. } => unreachable!("it has no profile"),
                Action::Answer { id, .. } => self.asking.push_back(self.owners[id.0 as usize]),
            }
        }
    }
}

fn load(bencher: Bencher<'_, '_>, policy: Policy, regulated: u32, others: u32) {
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| {
            let mut load = Load::new(policy, regulated, others);
            load.run(30_000);
            load
        })
        .bench_local_refs(|load| load.run(black_box(REQUESTS)));
}

#[divan::bench(args = [1, 4, 100, 10_000], sample_count = 20)]
fn deadline(bencher: Bencher<'_, '_>, regulated: u32) {
    load(bencher, Policy::Deadline, regulated, 9);
}

#[divan::bench(args = [1, 4, 100, 10_000], sample_count = 20)]
fn thesis(bencher: Bencher<'_, '_>, regulated: u32) {
    load(bencher, Policy::Thesis, regulated, 9);
}
