//! One function per table; every figure is the median over the seeds.

use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Nanos, Op};
use sakiyomi_regulate::{Correction, Counted, GateSettings, Margin, Policy, Serves, Settings};

use crate::flash::Flash;
use crate::world::{COMPUTERS, Computer, Figures, HARDER, Outcome, PERFORMANCES, Process, World};

type Table = (&'static str, &'static str, fn(u64));

pub(crate) const TABLES: &[Table] = &[
    ("search", "the best throughput that any allowance and safety factor reach, beside ours", search),
    ("sizes", "requests of other sizes, and writes", sizes),
    ("writers", "others that write, into the drive's cache", writers),
    ("change", "the others change what they read half-way", change),
    ("parallel", "a device that serves several beside each other", parallel),
];

const IOS: u32 = 5000;

/// The computers of the thesis, and variants that are harder to regulate.
fn all() -> impl Iterator<Item = &'static Computer> {
    COMPUTERS.iter().chain(&HARDER)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of the figures of one regulated reader.
#[derive(Clone, Copy, Debug)]
struct Row {
    accuracy: f64,
    cov: f64,
    p99: f64,
    iops: f64,
}

fn row(computer: &Computer, settings: Settings, rate: u32, ios: u32, seeds: u64) -> Row {
    let mut processes = vec![Process::reader(None); 10];
    processes[0].rate = Some(rate);
    row_of(&computer.spec(), &processes, settings, ios, seeds)
}

/// Runs the processes, of which the first one is regulated.
fn row_of(spec: &DriveSpec, processes: &[Process], settings: Settings, ios: u32, seeds: u64) -> Row {
    let one = |seed| {
        let (processes, warm_up) = (processes.to_vec(), Nanos(30_000_000_000));
        World { spec, settings, processes, seed, ios, later: None, warm_up }.run()
    };
    let outcomes: Vec<Outcome> = (1..=seeds).map(one).collect();
    let figures: Vec<Figures> = outcomes.iter().map(|outcome| outcome.figures(0)).collect();
    Row {
        accuracy: median(figures.iter().map(|figures| figures.accuracy)),
        cov: median(figures.iter().map(|figures| figures.cov)),
        p99: median(figures.iter().map(|figures| figures.p99)),
        iops: median(outcomes.iter().map(|outcome| outcome.iops)),
    }
}

/// Whether a result meets the accuracy required of deadline admission.
fn is_exact(row: &Row, rate: u32) -> bool {
    let cov = if rate <= 10 { 0.10 } else { 0.06 };
    (row.accuracy - 1.0).abs() <= 0.03 && row.cov <= cov && row.p99 <= 1.2
}

fn search(seeds: u64) {
    const SEARCH_IOS: u32 = 2000;
    let flat = [1.0, 1.4, 1.8, 2.2, 2.6].map(Margin::Flat);
    let deviations = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0].map(Margin::Deviations);
    let margins: Vec<Margin> = flat.into_iter().chain(deviations).collect();
    println!("|  | P % | best of search, IOPS | with | ours, IOPS | ratio |");
    println!("|---|---|---|---|---|---|");
    for computer in all() {
        for rate in PERFORMANCES {
            let mut best: Option<(f64, String)> = None;
            for (margin, most, look_ahead) in margins.iter().flat_map(|margin| {
                (1..=9).flat_map(move |most| [true, false].map(|look_ahead| (*margin, most, look_ahead)))
            }) {
                let gate = GateSettings::Deadline { margin, most, look_ahead };
                let row = row(computer, Settings { gate, ..Settings::default() }, rate, SEARCH_IOS, seeds);
                if is_exact(&row, rate) && best.as_ref().is_none_or(|best| row.iops > best.0) {
                    best = Some((row.iops, format!("{margin:?}, at most {most}, look ahead {look_ahead}")));
                }
            }
            let ours = row(computer, Settings::default(), rate, SEARCH_IOS, seeds);
            let (iops, with) = best.unwrap_or((f64::NAN, "none".to_owned()));
            let exact = if is_exact(&ours, rate) { "" } else { " (not exact)" };
            println!(
                "| {} | {rate} | {iops:.1} | {with} | {:.1}{exact} | {:.3} |",
                computer.name,
                ours.iops,
                ours.iops / iops
            );
        }
    }
}

fn sizes(seeds: u64) {
    let kib = |size: u64| Bytes(size << 10);
    let reader = |size| Process { size: kib(size), ..Process::reader(None) };
    let writer = |size| Process { op: Op::Write, ..reader(size) };
    let worlds: [(&str, Process, Vec<Process>); 5] = [
        ("reads 4 KiB, others read 4 to 512 KiB", reader(4), [4, 16, 64, 128, 512].map(reader).repeat(2)),
        ("reads 512 KiB, others read 4 to 512 KiB", reader(512), [4, 16, 64, 128, 512].map(reader).repeat(2)),
        ("reads 512 KiB, others read 4 KiB", reader(512), vec![reader(4); 9]),
        ("reads 4 KiB, others write 4 KiB", reader(4), vec![writer(4); 9]),
        ("writes 4 KiB, others read 4 KiB", writer(4), vec![reader(4); 9]),
    ];
    println!("| regulated at 20 % | policy | accuracy | CoV | p99 / ideal | IOPS |");
    println!("|---|---|---|---|---|---|");
    let spec = COMPUTERS[1].spec();
    for (what, first, others) in &worlds {
        for (name, policy) in [("thesis", Policy::Thesis), ("ours", Policy::Deadline)] {
            let mut processes = vec![Process { rate: Some(20), ..*first }];
            processes.extend(others.iter().take(9));
            let outcomes: Vec<Outcome> = (1..=seeds)
                .map(|seed| {
                    let (processes, settings) = (processes.clone(), policy.settings());
                    let warm_up = Nanos::SECOND * 10;
                    World { spec: &spec, settings, processes, seed, ios: 2 * IOS, later: None, warm_up }.run()
                })
                .collect();
            println!(
                "| {what} | {name} | {:.3} | {:.3} | {:.2} | {:.1} |",
                median(outcomes.iter().map(|outcome| outcome.figures(0).accuracy)),
                median(outcomes.iter().map(|outcome| outcome.figures(0).cov)),
                median(outcomes.iter().map(|outcome| outcome.figures(0).p99)),
                median(outcomes.iter().map(|outcome| outcome.iops)),
            );
        }
    }
}

fn writers(seeds: u64) {
    let reader = Process::reader(None);
    let writer = Process { op: Op::Write, ..reader };
    let worlds = [
        ("nine write", vec![writer; 9]),
        ("four write, five read", [vec![writer; 4], vec![reader; 5]].concat()),
    ];
    println!("|  | P % | others | policy | accuracy | CoV | p99 / ideal | IOPS |");
    println!("|---|---|---|---|---|---|---|---|");
    for computer in all() {
        for (rate, (what, others)) in
            [10, 20, 30].into_iter().flat_map(|rate| worlds.iter().map(move |world| (rate, world)))
        {
            for (name, policy) in [("thesis", Policy::Thesis), ("ours", Policy::Deadline)] {
                let mut processes = vec![Process::reader(Some(rate))];
                processes.extend(others);
                let row = row_of(&computer.spec(), &processes, policy.settings(), IOS, seeds);
                println!(
                    "| {} | {rate} | {what} | {name} | {:.3} | {:.3} | {:.2} | {:.1} |",
                    computer.name, row.accuracy, row.cov, row.p99, row.iops
                );
            }
        }
    }
}

fn change(seeds: u64) {
    let correction = Correction::TwoWay { accuracy: 1.1 };
    let two_way = GateSettings::Allowance { correction, counted: Counted::All };
    let policies = [
        ("thesis", Policy::Thesis.settings()),
        ("allowance, corrected both ways", Settings { gate: two_way, ..Settings::default() }),
        ("ours", Settings::default()),
    ];
    println!("|  | policy | accuracy before | after | CoV before | after | I/Os after it until within 5 % |");
    println!("|---|---|---|---|---|---|---|");
    for (computer, (name, settings)) in
        COMPUTERS.iter().flat_map(|computer| policies.map(|policy| (computer, policy)))
    {
        let spec = computer.spec();
        let mut processes = vec![Process::reader(None); 10];
        processes[0].rate = Some(20);
        let (at, size) = (Nanos::SECOND * 90, Bytes(256 << 10));
        let outcomes: Vec<Outcome> = (1..=seeds)
            .map(|seed| {
                let processes = processes.clone();
                let warm_up = Nanos::SECOND * 10;
                World { spec: &spec, settings, processes, seed, ios: IOS, later: Some((at, size)), warm_up }
                    .run()
            })
            .collect();
        let of = |figure: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(figure));
        println!(
            "| {} | {name} | {:.3} | {:.3} | {:.3} | {:.3} | {:.0} |",
            computer.name,
            of(&|outcome| outcome.between(0, Nanos::SECOND * 10, at).accuracy),
            of(&|outcome| outcome.between(0, at, Nanos::MAX).accuracy),
            of(&|outcome| outcome.between(0, Nanos::SECOND * 10, at).cov),
            of(&|outcome| outcome.between(0, at + Nanos::SECOND * 5, Nanos::MAX).cov),
            of(&|outcome| outcome.ideal_follows(0, at)),
        );
    }
}

fn parallel(seeds: u64) {
    let told = Settings { serves: Serves::Several, ..Settings::default() };
    let policies = [
        ("thesis", Policy::Thesis.settings()),
        ("ours, told", told),
        ("ours, found out", Settings::default()),
    ];
    println!(
        "| places | others | P % | policy | accuracy | CoV | p99 / ideal | ideal, us | IOPS | at once |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let spec = COMPUTERS[0].spec();
    for (places, others, rate) in [(4, 9), (8, 31), (16, 31)]
        .into_iter()
        .flat_map(|(places, others)| [10, 20, 30, 50].map(|rate| (places, others, rate)))
    {
        for (name, settings) in policies {
            let mut processes = vec![Process::reader(None); others + 1];
            processes[0].rate = Some(rate);
            let outcomes: Vec<Outcome> = (1..=seeds)
                .map(|seed| {
                    let processes = processes.clone();
                    let warm_up = Nanos::SECOND / 2;
                    let world =
                        World { spec: &spec, settings, processes, seed, ios: 20_000, later: None, warm_up };
                    world.run_on(Flash::new(places, Nanos(80_000)))
                })
                .collect();
            let of = |figure: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(figure));
            println!(
                "| {places} | {others} | {rate} | {name} | {:.3} | {:.3} | {:.2} | {:.0} | {:.0} | {:.1} |",
                of(&|outcome| outcome.figures(0).accuracy),
                of(&|outcome| outcome.figures(0).cov),
                of(&|outcome| outcome.figures(0).p99),
                of(&|outcome| outcome.timings.last().map_or(0.0, |last| last.ideal.0 as f64 / 1000.0)),
                of(&|outcome| outcome.iops),
                of(&|outcome| outcome.parallelism),
            );
        }
    }
}
