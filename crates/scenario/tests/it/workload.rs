//! The contract of workloads, checked with workloads that are neither programs nor jobs: one with random actions, a
//! pipeline of operators on cores, and an empty one.

use std::cell::Cell;
use std::collections::VecDeque;

use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_scenario::spec::Until;
use sakiyomi_scenario::workload::{
    Action, Caching, Completed, FileIndex, FileSetup, Setup, ThreadIndex, ThreadSetup, View,
};
use sakiyomi_scenario::{Outcome, Scenario, Workload, run, run_with};

use crate::properties::{any_scenario, config};

const PAGE: u64 = 4096;

fn outcome_with(scenario: &Scenario, others: Vec<(Setup, Box<dyn Workload + '_>)>) -> Outcome {
    let drive = scenario.drive.model.as_ref().map(|name| builtin(name).unwrap().spec());
    let outcome = run_with(scenario, drive.as_ref(), 0, others);
    outcome.unwrap_or_else(|error| panic!("{error}\n{}", scenario.to_toml()))
}

fn outcome(scenario: &Scenario) -> Outcome {
    outcome_with(scenario, Vec::new())
}

/// Returns an experiment without programs, with the given keys.
fn bare(keys: &[(&str, &str)]) -> Scenario {
    let text = "name = 'bare'\n[drive]\nfixed = 'latency=1ms'\n[[process]]\nname = 'p'\n";
    let mut scenario = Scenario::from_toml(text, "bare").unwrap();
    scenario.process.clear();
    for (key, value) in keys {
        scenario.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    scenario
}

/// Returns a random fraction from 0 to below 1.
fn uniform(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Checks the contract from the workload's side, and logs the completions.
#[derive(Debug)]
struct Checked<W> {
    inner: W,
    /// Last result of `next_event`.
    asked: Cell<Option<Nanos>>,
    /// For each thread, its action and its issue time.
    issued: Vec<Option<(Action, Nanos)>>,
    log: Vec<(Nanos, usize, Completed)>,
}

impl<W: Workload> Checked<W> {
    fn new(inner: W, threads: usize) -> Checked<W> {
        let asked = Cell::new(inner.next_event());
        Checked { inner, asked, issued: vec![None; threads], log: Vec::new() }
    }

    fn issue(&mut self, now: Nanos, thread: usize, action: Action) {
        assert_eq!(self.issued[thread], None, "the generator gives an action to a busy thread");
        if action != Action::Done {
            self.issued[thread] = Some((action, now));
        }
    }
}

impl<W: Workload> Workload for Checked<W> {
    fn next_event(&self) -> Option<Nanos> {
        self.asked.set(self.inner.next_event());
        self.asked.get()
    }

    fn step(&mut self, now: Nanos, view: &View<'_>) -> Option<(ThreadIndex, Action)> {
        let asked = self.asked.get().expect("it wanted to be asked");
        assert!(now >= asked, "asked at {now:?}, and not before {asked:?} as it wanted");
        let issued = self.inner.step(now, view);
        if let Some((ThreadIndex(thread), action)) = issued {
            self.issue(now, thread, action);
        }
        issued
    }

    fn completed(
        &mut self,
        now: Nanos,
        view: &View<'_>,
        thread: ThreadIndex,
        completed: Completed,
    ) -> Option<Action> {
        let (action, since) = self.issued[thread.0].take().expect("a completion of what was issued, once");
        let Completed { bytes, computed, hops, queued, waited, slept } = completed;
        assert_eq!(now - since, computed + hops + queued + waited + slept, "{action:?} {completed:?}");
        match action {
            Action::Read { length, is_partial: false, .. }
            | Action::ReadDirect { length, .. }
            | Action::Write { length, .. } => assert_eq!(bytes, length),
            Action::Read { length, .. } => assert!((1..=length).contains(&bytes)),
            Action::ReadOn => assert!(bytes > 0),
            Action::Touch { at, end, .. } => assert!((1..=end - at).contains(&bytes)),
            Action::Compute { time, .. } => assert_eq!(computed, time),
            Action::Pause { length } => assert_eq!(slept, length),
            Action::Open { .. } | Action::Reserve { .. } | Action::Release | Action::Done => {}
        }
        self.log.push((now, thread.0, completed));
        let next = self.inner.completed(now, view, thread, completed);
        if let Some(action) = next {
            self.issue(now, thread.0, action);
        }
        next
    }
}

/// Issues random actions on several threads, up to a number of them; idle threads resume at random times.
#[derive(Debug)]
struct Restless {
    random: Pcg64,
    sizes: Vec<u64>,
    cores: u32,
    is_idle: Vec<bool>,
    /// Remaining length of a partial read.
    left: Vec<u64>,
    actions: u32,
    due: Option<Nanos>,
}

impl Restless {
    fn new(seed: u64, sizes: &[u64], threads: usize, cores: u32, actions: u32) -> Restless {
        Restless {
            random: Pcg64::seed_from_u64(seed),
            sizes: sizes.to_vec(),
            cores,
            is_idle: vec![true; threads],
            left: vec![0; threads],
            actions,
            due: Some(Nanos(seed % 1000)),
        }
    }

    fn setup(&self) -> Setup {
        let file = |(number, &size): (usize, &u64)| FileSetup {
            size: Bytes(size),
            caching: if number % 3 == 2 { Caching::Resident } else { Caching::Cold },
            is_followed: number.is_multiple_of(2),
            ..FileSetup::default()
        };
        let threads = (0..self.is_idle.len()).map(|thread| ThreadSetup { is_urgent: thread == 2 });
        Setup {
            name: "restless".to_owned(),
            files: self.sizes.iter().enumerate().map(file).collect(),
            threads: threads.collect(),
            ..Setup::default()
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn any_action(&mut self, thread: usize) -> Action {
        self.actions -= 1;
        let number = self.below(self.sizes.len() as u64) as usize;
        let (file, size) = (FileIndex(number), self.sizes[number]);
        let at = self.below(size);
        let length = 1 + self.below((size - at).min(300_000));
        if self.left[thread] > 0 && self.below(4) > 0 {
            return Action::ReadOn;
        }
        self.left[thread] = 0;
        match self.below(12) {
            0 => Action::Open { file },
            1 | 2 => Action::Read { file, at, length, is_partial: false },
            3 => {
                self.left[thread] = length;
                Action::Read { file, at, length, is_partial: true }
            }
            4 => Action::ReadDirect { file, at, length },
            5 => Action::Touch { file, at, end: at + length },
            6 => Action::Write { file, at, length },
            7 | 8 => Action::Compute {
                time: Nanos(self.below(2_000_000)),
                core: (self.below(2) == 0).then_some(self.below(u64::from(self.cores)) as u32),
                from: Some(ThreadIndex(self.below(self.is_idle.len() as u64) as usize)),
            },
            9 => Action::Pause { length: Nanos(self.below(3_000_000)) },
            10 => Action::Reserve { bytes: self.below(4 * PAGE) },
            _ => Action::Release,
        }
    }

    /// Schedules the next start of idle threads; at once if only the end is left.
    fn plan(&mut self, now: Nanos) {
        let is_idle = self.is_idle.contains(&true);
        let delay = if self.actions > 0 { self.below(1_000_000) } else { 0 };
        let is_over = self.actions == 0 && self.is_idle.iter().all(|&is_idle| is_idle);
        self.due = (is_over || is_idle && self.actions > 0).then_some(now + Nanos(delay));
    }
}

impl Workload for Restless {
    fn next_event(&self) -> Option<Nanos> {
        self.due
    }

    fn step(&mut self, now: Nanos, _: &View<'_>) -> Option<(ThreadIndex, Action)> {
        let idle = self.is_idle.iter().position(|&is_idle| is_idle)?;
        if self.actions == 0 {
            self.due = None;
            let is_over = self.is_idle.iter().all(|&is_idle| is_idle);
            return is_over.then_some((ThreadIndex(idle), Action::Done));
        }
        let action = self.any_action(idle);
        self.is_idle[idle] = false;
        self.plan(now + Nanos(1));
        Some((ThreadIndex(idle), action))
    }

    fn completed(
        &mut self,
        now: Nanos,
        _: &View<'_>,
        thread: ThreadIndex,
        completed: Completed,
    ) -> Option<Action> {
        self.left[thread.0] = self.left[thread.0].saturating_sub(completed.bytes);
        if self.actions > 0 && self.below(3) > 0 {
            return Some(self.any_action(thread.0));
        }
        self.is_idle[thread.0] = true;
        self.plan(now);
        None
    }
}

/// Does nothing: it has no thread, or ends at its first step.
#[derive(Debug)]
struct Nothing {
    due: Option<Nanos>,
}

impl Workload for Nothing {
    fn next_event(&self) -> Option<Nanos> {
        self.due
    }

    fn step(&mut self, _: Nanos, _: &View<'_>) -> Option<(ThreadIndex, Action)> {
        self.due = None;
        Some((ThreadIndex(0), Action::Done))
    }

    fn completed(&mut self, _: Nanos, _: &View<'_>, _: ThreadIndex, _: Completed) -> Option<Action> {
        None
    }
}

/// Ends at its first step, and continues to return a time.
#[derive(Debug)]
struct Stubborn;

impl Workload for Stubborn {
    fn next_event(&self) -> Option<Nanos> {
        Some(Nanos::ZERO)
    }

    fn step(&mut self, _: Nanos, _: &View<'_>) -> Option<(ThreadIndex, Action)> {
        Some((ThreadIndex(0), Action::Done))
    }

    fn completed(&mut self, _: Nanos, _: &View<'_>, _: ThreadIndex, _: Completed) -> Option<Action> {
        None
    }
}

#[test]
fn a_workload_that_has_ended_does_not_hold_the_time_up() {
    let scenario = Scenario::from_toml(JOB, "job").unwrap();
    let setup = Setup { threads: vec![ThreadSetup::default()], ..Setup::default() };
    let outcome = outcome_with(&scenario, vec![(setup, Box::new(Stubborn))]);
    assert_eq!(outcome.workloads[0].elapsed, Nanos::ZERO);
    assert!(outcome.elapsed > Nanos::ZERO);
}

fn restless(scenario: &Scenario, seed: u64, threads: usize) -> (Outcome, Vec<(Nanos, usize, Completed)>) {
    let sizes = [3_000_000, 70_000, 500_000];
    let inner = Restless::new(seed, &sizes, threads, scenario.cpu.cores, 150);
    let setup = inner.setup();
    let mut checked = Checked::new(inner, threads);
    let outcome = outcome_with(scenario, vec![(setup, Box::new(&mut checked))]);
    assert!(checked.issued.iter().all(Option::is_none), "what was issued has completed");
    assert!(checked.log.len() >= 150, "all actions have been issued");
    (outcome, checked.log)
}

fn per_core(scenario: &mut Scenario, hop_us: u64) {
    let hop = format!("{hop_us}us");
    for (key, value) in [
        ("cpu.cores", "6"),
        ("machine.scheduler", "per-core"),
        ("machine.cores_per_l2", "2"),
        ("machine.cores_per_node", "4"),
        ("machine.hop.l2", &hop),
        ("machine.hop.node", &hop),
        ("machine.hop.remote", &hop),
        ("machine.wake", &hop),
    ] {
        scenario.set(key, value).unwrap();
    }
}

proptest! {
    // Each case runs a whole experiment, some of them twice.
    #![proptest_config(ProptestConfig { cases: config().cases / 4, ..config() })]

    #[test]
    fn all_that_a_workload_issues_completes_once_and_it_is_asked_in_its_time(
        scenario in any_scenario(),
        seed: u64,
        threads in 1usize..5,
        hop_us in prop::option::of(0u64..200),
    ) {
        let mut scenario = scenario;
        if let Some(hop_us) = hop_us {
            per_core(&mut scenario, hop_us);
        }
        let first = restless(&scenario, seed, threads);
        prop_assert_eq!(&first, &restless(&scenario, seed, threads), "the same seed, the same bytes");
        let program = &first.0.processes[0];
        let accounted = program.ran + program.queued + program.waited_read + program.waited_write + program.slept;
        prop_assert_eq!(accounted, program.elapsed);
    }

    #[test]
    fn a_workload_that_does_nothing_changes_nothing(scenario in any_scenario(), is_background: bool, due in 0u64..1_000_000) {
        let setup = Setup {
            name: "nothing".to_owned(),
            threads: vec![ThreadSetup::default()],
            is_background,
            ..Setup::default()
        };
        // The end of a workload in the foreground counts, if it is the last.
        let due = if is_background { due } else { 0 };
        let nothing = Nothing { due: Some(Nanos(due)) };
        let mut scenario = scenario;
        if is_background && due.is_multiple_of(2) {
            scenario.run.until = Until::First;
        }
        let mut with = outcome_with(&scenario, vec![(setup, Box::new(nothing))]);
        let plain = outcome(&scenario);
        prop_assert_eq!(with.workloads.remove(0).ran, Nanos::ZERO);
        prop_assert_eq!(with, plain);
    }

    /// Without distances, a thread with a core of its own runs as on shared cores.
    #[test]
    fn cores_without_distances_do_not_slow_a_program_down(scenario in any_scenario()) {
        let mut apart = scenario.clone();
        per_core(&mut apart, 0);
        prop_assert_eq!(outcome(&apart), outcome(&scenario));
    }
}

/// An open-loop source and a chain of operators, each a thread on a chosen core. Latency counts from the scheduled
/// arrival of a tuple, not from the time it was taken.
#[derive(Debug)]
struct Pipeline {
    random: Pcg64,
    mean_interval: u64,
    is_poisson: bool,
    /// Processing time of each operator per tuple, and its core.
    operators: Vec<(Nanos, u32)>,
    queues: Vec<VecDeque<Nanos>>,
    working: Vec<Option<Nanos>>,
    arrival: Nanos,
    to_come: u32,
    /// Set if an operator may be able to begin.
    ready: Option<Nanos>,
    latencies: Vec<Nanos>,
}

impl Pipeline {
    fn new(operators: &[(u64, u32)], mean_interval: u64, is_poisson: bool, tuples: u32) -> Pipeline {
        let operators: Vec<_> = operators.iter().map(|&(service, core)| (Nanos(service), core)).collect();
        Pipeline {
            random: Pcg64::seed_from_u64(5),
            mean_interval,
            is_poisson,
            queues: vec![VecDeque::new(); operators.len()],
            working: vec![None; operators.len()],
            operators,
            arrival: Nanos(mean_interval),
            to_come: tuples,
            ready: None,
            latencies: Vec::new(),
        }
    }

    /// Runs the pipeline as the only workload; returns its latencies.
    fn run(mut self, scenario: &Scenario) -> Vec<Nanos> {
        let threads = vec![ThreadSetup::default(); self.operators.len()];
        let setup = Setup { name: "pipeline".to_owned(), threads, ..Setup::default() };
        outcome_with(scenario, vec![(setup, Box::new(&mut self))]);
        self.latencies
    }

    /// Returns the action of an idle operator on the next tuple, if there is one.
    fn take(&mut self, operator: usize) -> Option<Action> {
        if self.working[operator].is_some() {
            return None;
        }
        self.working[operator] = Some(self.queues[operator].pop_front()?);
        let (time, core) = self.operators[operator];
        Some(Action::Compute { time, core: Some(core), from: operator.checked_sub(1).map(ThreadIndex) })
    }
}

impl Workload for Pipeline {
    fn next_event(&self) -> Option<Nanos> {
        let arrival = (self.to_come > 0).then_some(self.arrival);
        [self.ready, arrival].into_iter().flatten().min()
    }

    fn step(&mut self, now: Nanos, _: &View<'_>) -> Option<(ThreadIndex, Action)> {
        while self.to_come > 0 && self.arrival <= now {
            self.queues[0].push_back(self.arrival);
            self.to_come -= 1;
            let interval = if self.is_poisson { -(1.0 - uniform(&mut self.random)).ln() } else { 1.0 };
            self.arrival += Nanos((interval * self.mean_interval as f64) as u64);
        }
        for operator in 0..self.operators.len() {
            if let Some(action) = self.take(operator) {
                self.ready = Some(now);
                return Some((ThreadIndex(operator), action));
            }
        }
        self.ready = None;
        let is_over = self.to_come == 0 && self.working.iter().all(Option::is_none);
        is_over.then_some((ThreadIndex(0), Action::Done))
    }

    fn completed(&mut self, now: Nanos, _: &View<'_>, thread: ThreadIndex, _: Completed) -> Option<Action> {
        let arrived = self.working[thread.0].take().expect("it works on a tuple");
        match self.queues.get_mut(thread.0 + 1) {
            Some(queue) => queue.push_back(arrived),
            None => self.latencies.push(now - arrived),
        }
        self.ready = Some(now);
        self.take(thread.0)
    }
}

fn mean(latencies: &[Nanos]) -> f64 {
    latencies.iter().map(|latency| latency.0 as f64).sum::<f64>() / latencies.len() as f64
}

#[test]
fn the_latency_of_a_pipeline_is_that_of_its_operators_and_the_hops_between_their_cores() {
    let mut machine = bare(&[
        ("cpu.cores", "8"),
        ("machine.scheduler", "per-core"),
        ("machine.cores_per_l2", "2"),
        ("machine.cores_per_node", "4"),
    ]);
    for (key, value) in [("core", "10ns"), ("l2", "50ns"), ("node", "150ns"), ("remote", "400ns")] {
        machine.set(&format!("machine.hop.{key}"), value).unwrap();
    }
    for (core, hop) in [(0, 10), (1, 50), (2, 150), (3, 150), (4, 400), (7, 400)] {
        let latencies = Pipeline::new(&[(500, 0), (700, core)], 10_000, false, 100).run(&machine);
        assert_eq!(latencies, [Nanos(500 + 700 + hop); 100], "on core {core}");
    }
}

/// Friedman 1965: in a chain with random arrivals and constant service times, the total wait of a tuple equals that at
/// the slowest operator alone, which is an M/D/1 queue.
#[test]
fn tuples_wait_in_a_chain_as_long_as_at_its_slowest_operator() {
    let machine = bare(&[("cpu.cores", "3"), ("machine.scheduler", "per-core")]);
    let operators = [(1000, 0), (600, 1), (300, 2)];
    let latencies = Pipeline::new(&operators, 1250, true, 60_000).run(&machine);
    let expected = 1900.0 + 0.8 * 1000.0 / (2.0 * (1.0 - 0.8));
    let ratio = mean(&latencies) / expected;
    assert!((0.95..1.05).contains(&ratio), "{} of {expected} ns", mean(&latencies));
}

/// The wait at a core that spins and then has to be woken up: an M/G/1 queue with setup times.
#[test]
fn a_core_that_has_to_be_woken_up_delays_as_a_queue_with_setup_times() {
    let (service, interval, spin, wake) = (1000.0, 2000.0, 500.0, 3000.0);
    let machine =
        bare(&[("machine.scheduler", "per-core"), ("machine.wake", "3us"), ("machine.spin", "500ns")]);
    let latencies = Pipeline::new(&[(1000, 0)], 2000, true, 60_000).run(&machine);
    let (rate, load): (f64, f64) = (1.0 / interval, service / interval);
    let parked = (-rate * spin).exp();
    let (setup, squared) = (wake * parked, wake * wake * parked);
    let queued = rate * service * service / (2.0 * (1.0 - load));
    let woken = (2.0 * setup + rate * squared) / (2.0 * (1.0 + rate * setup));
    let expected = service + queued + woken;
    let ratio = mean(&latencies) / expected;
    assert!((0.95..1.05).contains(&ratio), "{} of {expected} ns", mean(&latencies));
}

const JOB: &str = "
    name = 'job'
    [drive]
    fixed = 'latency=1ms,parallel=8'
    [cpu]
    cores = 4
    [machine]
    scheduler = 'per-core'
    [[job]]
    name = 'wc'
    size = '4MiB'
    part = '16KiB'
    block = 4
    threads = 3
    compute = '100MB'
    copy = '1GB'
";

#[test]
fn a_job_whose_tasks_go_from_core_to_core_pays_for_the_hops() {
    for method in ["mmap", "read", "blocked-any", "blocked-io"] {
        let mut near = Scenario::from_toml(JOB, "job").unwrap();
        near.set("job.wc.method", method).unwrap();
        let mut far = near.clone();
        far.set("machine.hop.node", "100us").unwrap();
        let [near, far] = [near, far].map(|scenario| outcome(&scenario).jobs[0].runs[0]);
        assert_eq!(near.hops, Nanos::ZERO);
        assert!(far.hops >= Nanos(100_000), "{method}: {far:?}");
        assert!(far.hops.0.is_multiple_of(100_000), "{method}: {far:?}");
        assert_eq!((far.computed, far.copied), (near.computed, near.copied), "{method}");
        assert!(far.elapsed > near.elapsed, "{method}: {:?} {:?}", far.elapsed, near.elapsed);
        for run in [near, far] {
            // The I/O thread has times as well, without its idle time.
            let accounted = run.computed + run.copied + run.hops + run.queued + run.waited + run.idle;
            let threads = if method == "blocked-io" { accounted.0 / run.elapsed.0 } else { 3 };
            assert!((3..=4).contains(&threads), "{method}: {run:?}");
            assert!(method == "blocked-io" || accounted == run.elapsed * 3, "{method}: {run:?}");
        }
    }
}

#[test]
fn a_machine_that_cannot_be_is_an_error_that_says_what_to_do() {
    let error = |keys: &[(&str, &str)]| {
        let mut scenario = Scenario::from_toml(JOB, "job").unwrap();
        for (key, value) in keys {
            if let Err(error) = scenario.set(key, value) {
                return error.to_string();
            }
        }
        run(&scenario, None, 0).unwrap_err().to_string()
    };
    assert_eq!(
        error(&[("machine.scheduler", "shared"), ("machine.hop.l2", "50ns")]),
        "machine.hop: cores have no distances while they are shared; set machine.scheduler to `per-core`"
    );
    assert!(error(&[("machine.scheduler", "shared"), ("machine.wake", "1us")]).starts_with("machine.wake: "));
    assert_eq!(error(&[("machine.cores_per_l2", "0")]), "machine.cores_per_l2: at least 1");
    assert_eq!(
        error(&[("machine.cores_per_l2", "4"), ("machine.cores_per_node", "6")]),
        "machine.cores_per_node: a multiple of machine.cores_per_l2"
    );
    assert_eq!(error(&[("machine.hop.remote", "2s")]), "machine.hop.remote: a second at most");
    assert_eq!(
        error(&[("cpu.cores", "2000")]),
        "cpu.cores: 1024 at most where machine.scheduler is `per-core`"
    );
    assert!(
        error(&[("machine.hop.l3", "1us")]).contains("unknown key"),
        "{}",
        error(&[("machine.hop.l3", "1us")])
    );
    assert!(error(&[("machine.sheduler", "shared")]).contains("did you mean machine.scheduler?"));
    assert!(error(&[("machine.scheduler", "apart")]).contains("expected one of shared, per-core"));
}
