//! Tests of the core against the thesis and its contract. `tests/it/chaos.rs` tests it with random events.

use super::*;
use crate::rate::{Percent, Rate};
use crate::settings::{Correction, Counted, GateSettings, Margin, Policy};

const MS: Nanos = Nanos::MILLISECOND;

/// A regulator with a device that completes requests in order.
struct Bench {
    regulator: Regulator,
    out: Vec<Action>,
    device: Vec<RequestId>,
    answers: Vec<(RequestId, Outcome)>,
    next_id: u64,
}

impl Bench {
    fn new(settings: Settings) -> Bench {
        let regulator = Regulator::new(settings);
        Bench { regulator, out: Vec::new(), device: Vec::new(), answers: Vec::new(), next_id: 0 }
    }

    fn rate(&mut self, owner: u32, percent: u32) {
        let rate = Percent::new(percent).unwrap();
        self.regulator.set_rate_anyway(self.regulator.now, Owner(owner), rate, &mut self.out);
        self.act();
    }

    fn ask(&mut self, now: Nanos, owner: u32) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        let ask = ArrivingRequest { id, owner: Owner(owner), op: Op::Read, start: Lba(0), size: Bytes(4096) };
        self.regulator.arrive(now, ask, &mut self.out);
        self.act();
        id
    }

    fn done(&mut self, now: Nanos) -> RequestId {
        let id = self.device.remove(0);
        self.regulator.device_done(now, id, Outcome::Done, &mut self.out);
        self.act();
        id
    }

    fn timer(&mut self, now: Nanos) {
        self.regulator.timer(now, &mut self.out);
        self.act();
    }

    fn act(&mut self) {
        for action in self.out.drain(..) {
            match action {
                Action::Issue { id, .. } => self.device.push(id),
                Action::Fetch { .. } | Action::Fetched { .. } => unreachable!("it has no profile"),
                Action::Answer { id, outcome, .. } => self.answers.push((id, outcome)),
            }
        }
    }

    /// A regulator with a measured service time of 10 ms and an empty device.
    fn measured(settings: Settings) -> Bench {
        let mut bench = Bench::new(settings);
        for n in 0..40 {
            bench.ask(MS * (10 * n), 99);
            bench.done(MS * (10 * (n + 1)));
        }
        bench.answers.clear();
        bench
    }
}

fn thesis() -> Settings {
    Policy::Thesis.settings()
}

#[test]
fn answers_that_arrive_late_are_made_up_for_and_told() {
    // Replies are sent when they are due and reach the owner a millisecond later.
    let (late, rate) = (Nanos(1_000_000), Percent::new(20).unwrap());
    let mut regulator = Regulator::new(Settings::default());
    let mut out = Vec::new();
    let mut now = Nanos::ZERO;
    let mut took = Vec::new();
    for number in 0..200 {
        if number == 100 {
            regulator.set_rate_anyway(now, Owner(1), rate, &mut out);
        }
        let (id, arrived) = (RequestId(number), now);
        regulator.arrive(
            now,
            ArrivingRequest { id, owner: Owner(1), op: Op::Read, start: Lba(0), size: Bytes(4096) },
            &mut out,
        );
        now += Nanos(5_000_000);
        regulator.device_done(now, id, Outcome::Done, &mut out);
        while let Some(at) = regulator.wake_at() {
            now = at;
            regulator.timer(now, &mut out);
        }
        regulator.answered_late(Owner(1), late);
        now += late;
        took.push(now - arrived);
    }
    let ideal = Nanos(25_000_000);
    assert_eq!(took[100], ideal + late, "the first delay cannot be compensated in advance");
    assert!(took[110..].iter().all(|&took| took == ideal), "{:?}", &took[100..]);
    let report = regulator.report(Owner(1)).unwrap();
    assert!((report.accuracy - 1.0).abs() < 0.001, "{}", report.accuracy);
}

#[test]
fn without_a_rate_everything_passes_through() {
    let mut bench = Bench::new(Settings::default());
    let id = bench.ask(MS, 1);
    assert_eq!(bench.device, [id]);
    bench.done(MS * 3);
    assert_eq!(bench.answers, [(id, Outcome::Done)]);
    assert_eq!(bench.regulator.wake_at(), None);
}

#[test]
fn a_regulated_io_takes_its_ideal_time() {
    for settings in [thesis(), Settings::default()] {
        let mut bench = Bench::measured(settings);
        bench.rate(1, 20);
        let id = bench.ask(MS * 500, 1);
        bench.done(MS * 510);
        assert_eq!(bench.answers, []);
        assert_eq!(bench.regulator.wake_at(), Some(MS * 550), "100/20 x 10 ms after it came");
        bench.timer(MS * 550);
        assert_eq!(bench.answers, [(id, Outcome::Done)]);
    }
}

/// Section 4.3: the difference between the requested and the actual delay is carried over.
#[test]
fn what_the_timer_is_late_is_carried_over() {
    let mut bench = Bench::measured(thesis());
    bench.rate(1, 20);
    bench.ask(MS * 500, 1);
    bench.done(MS * 510);
    bench.timer(MS * 553);
    bench.ask(MS * 553, 1);
    bench.done(MS * 563);
    assert_eq!(bench.regulator.wake_at(), Some(MS * 600), "3 ms early");
}

#[test]
fn the_allowance_limits_what_is_in_the_device() {
    let mut bench = Bench::measured(thesis());
    bench.rate(1, 25);
    assert_eq!(bench.regulator.allowance(), 3);
    (2..10).for_each(|owner| _ = bench.ask(MS * 500, owner));
    assert_eq!(bench.device.len(), 3);
    let first = bench.ask(MS * 501, 1);
    assert_eq!(bench.device.len(), 3, "all that the device has count");
    bench.done(MS * 510);
    assert_eq!(bench.device.last(), Some(&first), "a regulated request goes before those that came earlier");
}

/// Section 5.3, with `Tb` = 5 s and `Rb` = 1.1.
#[test]
fn the_thesis_lowers_the_allowance_when_enough_time_was_exceeded() {
    let mut bench = Bench::measured(thesis());
    bench.rate(1, 25);
    (2..10).for_each(|owner| _ = bench.ask(MS * 400, owner));
    let mut now = MS * 400;
    for io in 1..=126 {
        assert_eq!(bench.regulator.allowance(), 3, "before I/O {io}");
        // Seven other requests overtake it, 10 ms each: 40 ms late.
        let regulated = bench.ask(now, 1);
        for _ in 0..7 {
            now += MS * 10;
            bench.device.sort_by_key(|id| *id == regulated);
            bench.done(now);
            bench.ask(now, 20);
        }
        now += MS * 10;
        bench.device.sort_by_key(|id| *id != regulated);
        assert_eq!(bench.done(now), regulated);
    }
    assert_eq!(bench.regulator.allowance(), 2, "126 x 40 ms exceed 5 s");
}

#[test]
fn nobody_is_let_in_who_would_make_a_regulated_request_late() {
    let gate = GateSettings::Deadline { margin: Margin::Deviations(0.0), most: 32, look_ahead: true };
    let mut bench = Bench::measured(Settings { gate, ..Settings::default() });
    bench.rate(1, 25);
    bench.ask(MS * 500, 1);
    (2..10).for_each(|owner| _ = bench.ask(MS * 500, owner));
    // By 540 ms four are done; after that the regulated owner, which may then send a request, has 40 ms more.
    assert_eq!(bench.device.len(), 4);
    bench.done(MS * 510);
    assert_eq!(bench.device.len(), 6, "its answer is held back until 540 ms: seven more fit, one its own");
}

#[test]
fn a_rate_without_room_is_refused_with_the_best_that_has_room() {
    let mut bench = Bench::new(Settings::default());
    bench.rate(1, 30);
    let asked = Percent::new(60).unwrap();
    let error = bench.regulator.set_rate(Nanos::ZERO, Owner(2), asked, &mut bench.out).unwrap_err();
    assert_eq!(error.to_string(), "60 % cannot be kept beside the existing rates; 50 % can");
    assert!(bench.regulator.report(Owner(2)).is_none());
    bench.rate(2, 60);
    assert!(bench.regulator.report(Owner(2)).is_some_and(|report| report.best_effort));
}

#[test]
fn a_rate_by_time_is_kept_whatever_the_device_needs() {
    let mut bench = Bench::measured(Settings::default());
    bench.regulator.set_rate(MS * 400, Owner(1), Rate::Every(MS * 35), &mut bench.out).unwrap();
    let id = bench.ask(MS * 500, 1);
    bench.done(MS * 503);
    bench.timer(MS * 534);
    assert_eq!(bench.answers, []);
    bench.timer(MS * 535);
    assert_eq!(bench.answers, [(id, Outcome::Done)]);
}

#[test]
fn a_rate_by_time_without_room_is_refused_with_the_shortest_that_has_room() {
    // An I/O takes 10 ms.
    let mut bench = Bench::measured(Settings::default());
    let mut set = |owner, rate: Rate| bench.regulator.set_rate(MS * 400, Owner(owner), rate, &mut bench.out);
    let error = set(1, Rate::Every(MS * 15)).unwrap_err().to_string();
    assert_eq!(
        error,
        "every 15 ms cannot be kept: no share of the device would remain for others; every 20 ms can"
    );
    set(1, Rate::Every(MS * 20)).unwrap();
    let error = set(2, Percent::new(40).unwrap().into()).unwrap_err().to_string();
    assert_eq!(error, "40 % cannot be kept beside the existing rates; 33 % can");
    assert!(set(2, Rate::Every(Nanos::ZERO)).is_err());
}

#[test]
fn who_has_asked_for_the_shorter_time_goes_first_also_when_the_device_changes() {
    let settings = Settings { depth: 1, ..Settings::default() };
    let mut bench = Bench::measured(settings);
    bench.regulator.set_rate_anyway(MS * 400, Owner(1), Rate::Every(MS * 40), &mut bench.out);
    bench.rate(2, 20);
    let first = |bench: &mut Bench, now: u64| {
        let busy = bench.ask(MS * now, 3);
        let [_, timed] = [bench.ask(MS * now, 2), bench.ask(MS * now, 1)];
        assert_eq!(bench.done(MS * (now + 1)), busy);
        let first = bench.device[0];
        bench.done(MS * (now + 2));
        bench.done(MS * (now + 3));
        bench.timer(MS * (now + 1000));
        first == timed
    };
    assert!(first(&mut bench, 500), "40 ms against 50");
    // The device becomes faster: 1 ms per I/O, so that 20 % are 5 ms.
    for n in 0..400 {
        bench.ask(MS * (2000 + 2 * n), 99);
        bench.done(MS * (2001 + 2 * n));
    }
    assert!(!first(&mut bench, 4000), "40 ms against 5");
}

#[test]
fn the_path_is_part_of_an_ios_time() {
    let mut bench = Bench::measured(Settings { path: MS * 4, ..Settings::default() });
    let mut set = |rate: Rate| bench.regulator.set_rate(MS * 400, Owner(1), rate, &mut bench.out);
    let error = set(Rate::Every(MS * 12)).unwrap_err().to_string();
    assert_eq!(
        error,
        "every 12 ms cannot be kept: it leaves 12 ms for an I/O, of which the device takes 10 ms and the way to it \
         4 ms; every 25 ms can"
    );
    let error = set(Percent::new(45).unwrap().into()).unwrap_err().to_string();
    assert_eq!(
        error, "45 % cannot be kept: no share of the device would remain for others; 41 % can",
        "two I/Os and the path"
    );
    set(Percent::new(40).unwrap().into()).unwrap();
    let id = bench.ask(MS * 500, 1);
    bench.done(MS * 510);
    assert_eq!(bench.regulator.wake_at(), Some(MS * 521), "25 ms, less the path");
    bench.timer(MS * 521);
    assert_eq!(bench.answers, [(id, Outcome::Done)]);
    let report = bench.regulator.report(Owner(1)).unwrap();
    assert_eq!((report.recent.took, report.accuracy, report.late), (MS * 25, 1.0, 0));
    // Best effort: the device alone takes the whole ideal time.
    bench.regulator.set_rate_anyway(MS * 600, Owner(1), Rate::Every(MS * 12), &mut bench.out);
    assert!(bench.regulator.report(Owner(1)).unwrap().best_effort);
}

#[test]
fn a_report_counts_what_waits_what_the_device_has_and_what_is_held_back() {
    let gate = GateSettings::Allowance { correction: Correction::Fixed(2), counted: Counted::Others };
    let mut bench = Bench::measured(Settings { gate, depth: 2, ..thesis() });
    bench.rate(1, 25);
    let before = bench.regulator.device_report();
    (0..4).for_each(|_| _ = bench.ask(MS * 500, 1));
    bench.ask(MS * 500, 2);
    bench.done(MS * 510);
    let report = bench.regulator.report(Owner(1)).unwrap();
    assert_eq!([report.waiting, report.in_device, report.held_back], [1, 2, 1]);
    assert_eq!((report.ideal, report.ios, report.late), (MS * 40, 1, 0));
    assert_eq!((report.recent.took, report.recent.ideal, report.recent.cov), (MS * 40, MS * 40, 0.0));
    let device = bench.regulator.device_report();
    assert_eq!([device.waiting, device.in_device, device.held_back, device.regulated], [2, 2, 1, 1]);
    assert_eq!(device.busy_share_since(&before), 10.0 / 110.0, "10 of 110 ms, since 400 ms");
    assert_eq!(bench.regulator.reports().map(|(owner, _)| owner).collect::<Vec<_>>(), [Owner(1)]);
}

#[test]
fn a_report_forgets_what_was_long_ago() {
    let mut bench = Bench::measured(thesis());
    bench.regulator.set_rate(MS * 400, Owner(1), Rate::Every(MS * 30), &mut bench.out).unwrap();
    let io = |bench: &mut Bench, now: u64, took: u64| {
        bench.ask(MS * now, 1);
        bench.done(MS * (now + took));
        bench.timer(MS * (now + took).max(now + 30));
    };
    (0..100).for_each(|n| io(&mut bench, 1000 + 100 * n, if n % 2 == 0 { 60 } else { 10 }));
    let bad = bench.regulator.report(Owner(1)).unwrap();
    assert!(bad.recent.accuracy > 1.2 && bad.recent.cov > 0.2, "{bad:?}");
    (0..400).for_each(|n| io(&mut bench, 20_000 + 100 * n, 10));
    let good = bench.regulator.report(Owner(1)).unwrap();
    assert_eq!((good.recent.accuracy, good.recent.late), (1.0, 0), "{good:?}");
    assert!(good.recent.cov < 1e-3 && (128..=256).contains(&good.recent.ios), "{good:?}");
    assert!(good.accuracy > 1.0 && good.ios == 500);
}

#[test]
fn best_effort_ends_when_there_is_room() {
    let mut bench = Bench::measured(Settings::default());
    bench.rate(1, 30);
    bench.rate(2, 60);
    let best_effort = |bench: &Bench| {
        [1, 2].map(|owner| bench.regulator.report(Owner(owner)).is_some_and(|report| report.best_effort))
    };
    assert_eq!(best_effort(&bench), [false, true], "60 % leave no capacity for others");
    bench.rate(2, 40);
    assert_eq!(best_effort(&bench), [false, false]);
}

#[test]
fn a_group_with_two_in_flight_has_one_device_between_them() {
    let mut bench = Bench::measured(Settings::default());
    bench.rate(1, 25);
    let both = [bench.ask(MS * 500, 1), bench.ask(MS * 500, 1)];
    bench.done(MS * 510);
    bench.done(MS * 520);
    assert_eq!(bench.regulator.wake_at(), Some(MS * 540));
    bench.timer(MS * 540);
    assert_eq!(bench.regulator.wake_at(), Some(MS * 580), "40 ms each, one after the other");
    bench.timer(MS * 580);
    assert_eq!(bench.answers, both.map(|id| (id, Outcome::Done)));
}

#[test]
fn errors_and_withdrawn_requests_are_not_held_back() {
    let mut bench = Bench::measured(Settings::default());
    bench.rate(1, 25);
    let failed = bench.ask(MS * 500, 1);
    bench.device.clear();
    bench.regulator.device_done(MS * 505, failed, Outcome::Error, &mut bench.out);
    bench.act();
    let withdrawn = bench.ask(MS * 510, 1);
    bench.regulator.cancel(MS * 511, withdrawn, &mut bench.out);
    bench.done(MS * 520);
    assert_eq!(bench.answers, [(failed, Outcome::Error), (withdrawn, Outcome::Cancelled)]);
}

#[test]
fn a_rate_taken_back_lets_go_of_what_is_held_back() {
    let mut bench = Bench::measured(Settings::default());
    bench.rate(1, 10);
    let id = bench.ask(MS * 500, 1);
    bench.done(MS * 510);
    bench.regulator.clear_rate(MS * 515, Owner(1), &mut bench.out);
    bench.act();
    assert_eq!(bench.answers, [(id, Outcome::Done)]);
}

#[test]
fn who_waits_beyond_all_patience_goes_in() {
    let settings = Settings { patience: MS * 100, ..Settings::default() };
    let mut bench = Bench::measured(settings);
    // The rate leaves no capacity for unregulated requests.
    bench.rate(1, 100);
    let other = bench.ask(MS * 500, 2);
    assert_eq!(bench.device, []);
    assert_eq!(bench.regulator.wake_at(), Some(MS * 600));
    bench.timer(MS * 600);
    assert_eq!(bench.device, [other]);
}

#[test]
fn when_nobody_regulated_is_about_the_thesis_opens_the_device() {
    let settings = Settings {
        gate: GateSettings::Allowance { correction: Correction::Off, counted: Counted::All },
        ..thesis()
    };
    let mut bench = Bench::measured(settings);
    bench.rate(1, 25);
    (2..50).for_each(|owner| _ = bench.ask(MS * 500, owner));
    assert_eq!(bench.device.len(), 3);
    assert_eq!(bench.regulator.wake_at(), Some(MS * 2500), "patience");
    bench.timer(MS * 5400);
    assert_eq!(bench.device.len(), 32, "5 s after the rate was set");
}

#[test]
fn a_clock_that_runs_backwards_is_taken_to_stand_still() {
    let mut bench = Bench::measured(Settings::default());
    bench.rate(1, 25);
    let id = bench.ask(MS * 300, 1);
    bench.done(MS * 100);
    bench.timer(MS * 440);
    assert_eq!(bench.answers, [(id, Outcome::Done)]);
}

#[test]
fn a_service_time_that_was_found_out_before_is_not_measured() {
    // The device takes 10 ms; 12 ms are configured.
    for (service, ideal) in [(None, MS * 50), (Some(MS * 12), MS * 60)] {
        let mut bench = Bench::measured(Settings { service, ..Settings::default() });
        bench.rate(1, 20);
        let id = bench.ask(MS * 1000, 1);
        bench.done(MS * 1010);
        assert!(bench.answers.is_empty());
        assert_eq!(bench.regulator.wake_at(), Some(MS * 1000 + ideal));
        bench.timer(MS * 1000 + ideal);
        assert_eq!(bench.answers, [(id, Outcome::Done)]);
        assert_eq!(bench.regulator.service_time(), MS * 10, "the measured time is reported");
    }
}

#[test]
fn writes_are_forced_from_the_beginning_of_a_rate_where_the_device_has_been_taking_them_in() {
    let mut regulator = Regulator::new(Settings::default());
    let mut next_id = 0;
    let mut now = Nanos::ZERO;
    // Returns whether the request was to be forced.
    let mut ask = |regulator: &mut Regulator, owner: u32, op: Op, took: Nanos| {
        next_id += 1;
        let id = RequestId(next_id);
        let mut out = Vec::new();
        regulator.arrive(
            now,
            ArrivingRequest { id, owner: Owner(owner), op, start: Lba(0), size: Bytes(4096) },
            &mut out,
        );
        let [Action::Issue { force, .. }] = out[..] else { panic!("{out:?}") };
        now += took;
        regulator.device_done(now, id, Outcome::Done, &mut out);
        now += MS;
        force
    };
    for _ in 0..20 {
        assert!(!ask(&mut regulator, 1, Op::Read, MS * 10));
    }
    assert!(!ask(&mut regulator, 2, Op::Write, MS / 10));
    let rate = Percent::new(20).unwrap();
    regulator.set_rate(MS * 300, Owner(1), rate, &mut Vec::new()).unwrap();
    assert!(ask(&mut regulator, 2, Op::Write, MS * 10));
    assert!(!ask(&mut regulator, 2, Op::Read, MS * 10));
    regulator.clear_rate(MS * 400, Owner(1), &mut Vec::new());
    assert!(!ask(&mut regulator, 2, Op::Write, MS / 10));
}
