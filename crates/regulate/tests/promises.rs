//! What `docs/regulation.md` promises, in a short form: one drive that reorders without regard to age, few I/Os.

#[path = "../examples/kochi2023/flash.rs"]
mod flash;
#[path = "../examples/kochi2023/world.rs"]
#[allow(dead_code)]
mod world;

use sakiyomi_drive::Drive;
use sakiyomi_model::{Bytes, Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};
use sakiyomi_regulate::{
    Correction, Counted, GateSettings, Owner, Percent, Policy, Regulated, Serves, Settings,
};
use world::{HARDER, Outcome, Process, World};

fn run(settings: Settings, rates: &[u32]) -> Outcome {
    let mut processes = vec![Process::reader(None); 10];
    for (process, rate) in processes.iter_mut().zip(rates) {
        process.rate = Some(*rate);
    }
    let spec = HARDER[0].spec();
    let warm_up = Nanos::SECOND * 15;
    World { spec: &spec, settings, processes, seed: 1, ios: 2500, later: None, warm_up }.run()
}

fn allowance(correction: Correction) -> Settings {
    let gate = GateSettings::Allowance { correction, counted: Counted::All };
    Settings { gate, ..Policy::Thesis.settings() }
}

#[test]
fn one_regulated_process_has_its_ideal_time() {
    for rate in [15, 30] {
        let figures = run(Settings::default(), &[rate]).figures(0);
        assert!((figures.accuracy - 1.0).abs() <= 0.03, "{rate} %: {figures:?}");
        assert!(figures.cov <= 0.06 && figures.p99 <= 1.2, "{rate} %: {figures:?}");
    }
}

#[test]
fn several_regulated_processes_have_theirs() {
    let rates = [10, 15, 20, 25];
    let outcome = run(Settings::default(), &rates);
    for owner in 0..rates.len() as u32 {
        let figures = outcome.figures(owner);
        assert!((figures.accuracy - 1.0).abs() <= 0.05, "{}: {figures:?}", rates[owner as usize]);
    }
}

#[test]
fn the_thesiss_correction_mends_what_the_formula_misses_and_ours_is_nearer() {
    let plain = run(allowance(Correction::Off), &[20]).figures(0);
    let corrected = run(allowance(Correction::THESIS), &[20]);
    let ours = run(Settings::default(), &[20]).figures(0);
    assert!(plain.accuracy > 1.1, "{plain:?}");
    assert_eq!(corrected.allowances.last().unwrap().1, 3);
    assert!(corrected.figures(0).accuracy < plain.accuracy);
    assert!(ours.accuracy < corrected.figures(0).accuracy && ours.cov < 0.3 * corrected.figures(0).cov);
}

#[test]
fn the_processes_of_a_group_share_one_rate() {
    // Of the device's time, by its own measure.
    let share = |group: &[u32]| {
        let mut device =
            Regulated::new(Drive::new(&HARDER[0].spec()).unwrap(), Bytes(512), Settings::default());
        let owner = Owner(1000);
        group.iter().for_each(|&stream| device.assign(StreamId(stream), owner));
        device.set_rate(Nanos::ZERO, owner, Percent::new(20).unwrap()).unwrap();
        let read = |n: u64, stream: StreamId, now: Nanos| Request {
            id: RequestId(n),
            stream,
            op: Op::Read,
            fua: false,
            extent: Extent::new(Lba(n * 7_919_993 % 40_000_000), Sectors(8)),
            arrival: now,
        };
        let (mut now, mut ended, mut count) = (Nanos::ZERO, Vec::new(), 0);
        (0..10)
            .for_each(|stream| device.submit(now, read(u64::from(stream), StreamId(stream), now)).unwrap());
        let mut next = 10;
        while now < Nanos::SECOND * 40 {
            now = now.max(device.next_event().unwrap());
            device.advance(now, &mut ended);
            for end in ended.drain(..) {
                count += u64::from(group.contains(&end.request.stream.0));
                device.submit(now, read(next, end.request.stream, now)).unwrap();
                next += 1;
            }
        }
        count as f64 / 40.0 * device.regulator().service_time().as_secs_f64()
    };
    for group in [&[0][..], &[0, 1, 2]] {
        let share = share(group);
        assert!((share - 0.2).abs() < 0.02, "{group:?} have {share} of the device");
    }
}

#[test]
fn on_a_device_that_serves_several_what_cannot_be_kept_is_refused() {
    let settings = Settings { serves: Serves::Several, ..Settings::default() };
    let mut device = Regulated::new(flash::Flash::new(8, Nanos(80_000)), Bytes(512), settings);
    let (mut now, mut ended) = (Nanos::ZERO, Vec::new());
    for n in 0..20_000 {
        let extent = Extent::new(Lba(n * 8), Sectors(8));
        let stream = StreamId((n % 16) as u32);
        let request = Request { id: RequestId(n), stream, op: Op::Read, fua: false, extent, arrival: now };
        device.submit(now, request).unwrap();
        if n >= 15 {
            now = now.max(device.next_event().unwrap());
            device.advance(now, &mut ended);
        }
    }
    let error = device.set_rate(now, Owner(0), Percent::new(100).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("100 % cannot be kept"), "{error}");
    // The formula has no room beside 50 % twice; eight places have.
    device.set_rate(now, Owner(0), Percent::new(40).unwrap()).unwrap();
    device.set_rate(now, Owner(1), Percent::new(40).unwrap()).unwrap();
    device.set_rate(now, Owner(2), Percent::new(40).unwrap()).unwrap();
}
