//! Short tests of the results in `docs/results/regulation.md`: one drive that reorders without regard to age, few I/Os.

#[path = "../../examples/kochi2023/flash.rs"]
mod flash;
#[path = "../../examples/kochi2023/world.rs"]
#[allow(dead_code)] // the example uses more of it
mod world;

use sakiyomi_drive::Drive;
use sakiyomi_model::{Bytes, Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};
use sakiyomi_regulate::{
    Correction, Counted, GateSettings, Owner, Percent, Policy, RegulatedDevice, Serves, Settings,
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
        let is_kept = (figures.accuracy - 1.0).abs() <= 0.02 && figures.cov <= 0.06 && figures.p99 <= 1.3;
        assert!(is_kept, "{}: {figures:?}", rates[owner as usize]);
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
    // Fraction of the device's time, as the device counts it.
    let share = |group: &[u32]| {
        let mut device = RegulatedDevice::new(Drive::new(&HARDER[0].spec()).unwrap(), Settings::default());
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
        count as f64 / 40.0 * device.regulator().unwrap().service_time().as_secs_f64()
    };
    for group in [&[0][..], &[0, 1, 2]] {
        let share = share(group);
        assert!((share - 0.2).abs() < 0.02, "{group:?} have {share} of the device");
    }
}

/// The writes end at once, and the drive does them later.
#[test]
fn a_reader_has_its_ideal_time_beside_writes_that_the_drive_takes_in() {
    let mut processes = vec![Process { op: Op::Write, ..Process::reader(None) }; 10];
    processes[0] = Process::reader(Some(20));
    let spec = HARDER[0].spec();
    let warm_up = Nanos::SECOND * 20;
    let settings = Settings::default();
    let outcome = World { spec: &spec, settings, processes, seed: 1, ios: 2000, later: None, warm_up }.run();
    let figures = outcome.figures(0);
    assert!(
        (figures.accuracy - 1.0).abs() <= 0.05 && figures.cov <= 0.06 && figures.p99 <= 1.25,
        "{figures:?}"
    );
    let ideal = outcome.timings.last().unwrap().ideal;
    assert!(
        ideal < Nanos::MILLISECOND * 90,
        "what the drive does by itself counts as the reader's: {ideal:?}"
    );
    // About as many as with readers: 140.
    assert!(outcome.iops > 120.0, "{}", outcome.iops);
}

/// A device that changes into another one at a given time.
struct Changing(flash::Flash, Nanos, flash::Flash);

impl Device for Changing {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), sakiyomi_model::Full> {
        let Changing(before, at, after) = self;
        if now < *at { before.submit(now, request) } else { after.submit(now, request) }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event().into_iter().chain(self.2.next_event()).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<sakiyomi_model::Completion>) {
        self.0.advance(now, done);
        self.2.advance(now, done);
    }

    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }

    fn sector(&self) -> Bytes {
        self.0.sector()
    }

    fn depth(&self) -> u32 {
        self.0.depth()
    }

    fn busy(&self, now: Nanos) -> Nanos {
        self.0.busy(now).max(self.2.busy(now))
    }
}

fn on_flash(settings: Settings, rate: u32, ios: u32, device: impl Device) -> Outcome {
    let mut processes = vec![Process::reader(None); 20];
    processes[0].rate = Some(rate);
    let spec = HARDER[0].spec();
    let warm_up = Nanos::MILLISECOND * 200;
    World { spec: &spec, settings, processes, seed: 1, ios, later: None, warm_up }.run_on(device)
}

#[test]
fn a_device_that_serves_several_is_found_out_and_a_disk_is_not_taken_for_one() {
    let several = Settings { serves: Serves::Several, ..Settings::default() };
    for rate in [10, 30] {
        let flash = || flash::Flash::new(8, Nanos(80_000));
        let told = on_flash(several, rate, 1500, flash());
        let found_out = on_flash(Settings::default(), rate, 1500, flash());
        assert!(found_out.parallelism > 3.0, "{}", found_out.parallelism);
        let (told_figures, figures) = (told.figures(0), found_out.figures(0));
        assert!((figures.accuracy - told_figures.accuracy).abs() < 0.02, "{told_figures:?} {figures:?}");
        assert!((found_out.iops / told.iops - 1.0).abs() < 0.05, "{} {}", told.iops, found_out.iops);
    }
    for rates in [&[10][..], &[30], &[20, 20]] {
        assert_eq!(run(Settings::default(), rates).parallelism, 1.0, "{rates:?}");
    }
}

#[test]
fn a_device_that_comes_to_serve_several_or_one_is_followed() {
    let flash = |places| flash::Flash::new(places, Nanos(80_000));
    let change = Nanos::SECOND;
    let figures = |ios, device| {
        let outcome = on_flash(Settings::default(), 20, ios, device);
        let end = outcome.timings.last().unwrap().arrived;
        assert!(end > change + Nanos::MILLISECOND * 500, "{end:?}");
        (outcome.parallelism, outcome.between(0, change + Nanos::MILLISECOND * 300, Nanos::MAX))
    };
    let (parallelism, after) = figures(4500, Changing(flash(1), change, flash(8)));
    assert!(parallelism > 3.0 && (after.accuracy - 1.0).abs() < 0.05, "{parallelism} {after:?}");
    let (parallelism, after) = figures(4500, Changing(flash(8), change, flash(1)));
    assert!(parallelism == 1.0 && (after.accuracy - 1.0).abs() < 0.05, "{parallelism} {after:?}");
}

#[test]
fn on_a_device_that_serves_several_what_cannot_be_kept_is_refused() {
    let settings = Settings { serves: Serves::Several, ..Settings::default() };
    let mut device = RegulatedDevice::new(flash::Flash::new(8, Nanos(80_000)), settings);
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
    // The formula excludes two rates of 50 %; eight parallel places have room for three of 40 %.
    device.set_rate(now, Owner(0), Percent::new(40).unwrap()).unwrap();
    device.set_rate(now, Owner(1), Percent::new(40).unwrap()).unwrap();
    device.set_rate(now, Owner(2), Percent::new(40).unwrap()).unwrap();
}
