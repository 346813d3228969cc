//! One table each; every figure is the median over the seeds.

use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Bytes, Nanos, Op};
use sakiyomi_regulate::{Correction, Counted, GateSettings, Margin, Policy, Serves, Settings};

use crate::flash::Flash;
use crate::world::{COMPUTERS, Computer, Figures, HARDER, Outcome, PERFORMANCES, Process, World};

type Table = (&'static str, &'static str, fn(u64));

pub(crate) const TABLES: &[Table] = &[
    ("thesis", "the thesis's policy: best allowances, accuracy with and without correction", thesis),
    ("ours", "accuracy, spread and throughput of ours beside the thesis's", ours),
    ("search", "the best throughput that any allowance and safety factor reach, beside ours", search),
    ("several", "two to four regulated processes", several),
    ("two-way", "without admission: the corrected allowance beside the best", two_way),
    ("fit", "how the drives' choice among waiting commands was fitted to the published best allowances", fit),
    ("late", "what the share of I/Os that may be late costs and brings", late),
    ("release", "bursts with computing between them (chapter 7)", release),
    ("sizes", "requests of other sizes, and writes", sizes),
    ("change", "the others change what they read half-way", change),
    ("parallel", "a device that serves several beside each other", parallel),
];

const IOS: u32 = 5000;

/// One regulated reader among ten.
fn one(spec: &DriveSpec, settings: Settings, rate: u32, ios: u32, seed: u64) -> Outcome {
    let mut processes = vec![Process::reader(None); 10];
    processes[0].rate = Some(rate);
    World { spec, settings, processes, seed, ios, later: None, warm_up: Nanos(30_000_000_000) }.run()
}

/// The computers of the thesis, and those that are harder to regulate.
fn all() -> impl Iterator<Item = &'static Computer> {
    COMPUTERS.iter().chain(&HARDER)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of one regulated reader's figures.
#[derive(Clone, Copy, Debug)]
struct Row {
    accuracy: f64,
    cov: f64,
    p99: f64,
    iops: f64,
    allowance: f64,
    settled: f64,
    worst_ms: f64,
}

fn row(computer: &Computer, settings: Settings, rate: u32, ios: u32, seeds: u64) -> Row {
    let spec = computer.spec();
    let outcomes: Vec<Outcome> = (1..=seeds).map(|seed| one(&spec, settings, rate, ios, seed)).collect();
    let figures: Vec<Figures> = outcomes.iter().map(|outcome| outcome.figures(0)).collect();
    let last = |outcome: &Outcome| outcome.allowances.last().copied().unwrap_or((0, 0));
    Row {
        accuracy: median(figures.iter().map(|figures| figures.accuracy)),
        cov: median(figures.iter().map(|figures| figures.cov)),
        p99: median(figures.iter().map(|figures| figures.p99)),
        iops: median(outcomes.iter().map(|outcome| outcome.iops)),
        allowance: median(outcomes.iter().map(|outcome| f64::from(last(outcome).1))),
        settled: median(outcomes.iter().map(|outcome| last(outcome).0 as f64)),
        worst_ms: median(outcomes.iter().map(|outcome| outcome.worst.as_millis_f64())),
    }
}

fn allowance(correction: Correction, counted: Counted) -> Settings {
    Settings { gate: GateSettings::Allowance { correction, counted }, ..Policy::Thesis.settings() }
}

/// The largest allowance up to the formula's at which the accuracy is no worse than 1.1 (section 6.2).
fn best_allowance(computer: &Computer, rate: u32, base: Settings, counted: Counted, seeds: u64) -> u32 {
    let formula = (100 / rate - 1).max(1);
    let good = |&allowed: &u32| {
        let gate = GateSettings::Allowance { correction: Correction::Fixed(allowed), counted };
        row(computer, Settings { gate, ..base }, rate, IOS, seeds).accuracy <= 1.1
    };
    (1..=formula).rev().find(good).unwrap_or(1)
}

fn thesis(seeds: u64) {
    println!(
        "|  | P % | formula | best, published | best here | accuracy, not corrected | corrected | corrected to | after I/Os | IOPS, not corrected | corrected |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for computer in &COMPUTERS {
        for (rate, published) in PERFORMANCES.into_iter().zip(computer.best) {
            let best = best_allowance(computer, rate, Policy::Thesis.settings(), Counted::All, seeds);
            let plain = row(computer, allowance(Correction::Off, Counted::All), rate, IOS, seeds);
            let corrected = row(computer, Policy::Thesis.settings(), rate, IOS, seeds);
            println!(
                "| {} | {rate} | {} | {published} | {best} | {:.3} | {:.3} | {} | {} | {:.0} | {:.0} |",
                computer.name,
                100 / rate - 1,
                plain.accuracy,
                corrected.accuracy,
                corrected.allowance,
                corrected.settled,
                plain.iops,
                corrected.iops,
            );
        }
    }
}

fn ours(seeds: u64) {
    println!("|  | P % | policy | accuracy | CoV | p99 / ideal | IOPS | longest I/O of another, ms |");
    println!("|---|---|---|---|---|---|---|---|");
    for computer in all() {
        for rate in PERFORMANCES {
            for (name, policy) in [("thesis", Policy::Thesis), ("ours", Policy::Deadline)] {
                let row = row(computer, policy.settings(), rate, IOS, seeds);
                println!(
                    "| {} | {rate} | {name} | {:.3} | {:.3} | {:.2} | {:.1} | {:.0} |",
                    computer.name, row.accuracy, row.cov, row.p99, row.iops, row.worst_ms
                );
            }
        }
    }
}

/// Whether a result is as exact as ours is to be.
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

/// Rates that the formula has room for.
const MIXES: [&[u32]; 9] = [
    &[10, 10],
    &[20, 20],
    &[30, 15],
    &[40, 10],
    &[10, 15, 20],
    &[25, 25, 25],
    &[10, 10, 10, 10],
    &[10, 15, 20, 25],
    &[30, 20, 15, 10],
];

fn several(seeds: u64) {
    println!("|  | rates, % | policy | accuracy of each | CoV of each | worst p99 / ideal | IOPS |");
    println!("|---|---|---|---|---|---|---|");
    for computer in all() {
        for rates in MIXES {
            for (name, policy) in [("thesis", Policy::Thesis), ("ours", Policy::Deadline)] {
                let outcomes: Vec<Outcome> =
                    (1..=seeds).map(|seed| mixed(&computer.spec(), policy.settings(), rates, seed)).collect();
                let each = |figure: fn(&Figures) -> f64| {
                    let of = |owner| median(outcomes.iter().map(|outcome| figure(&outcome.figures(owner))));
                    (0..rates.len() as u32).map(of).collect::<Vec<f64>>()
                };
                let words = |figures: Vec<f64>| {
                    figures.iter().map(|figure| format!("{figure:.3}")).collect::<Vec<_>>().join(" ")
                };
                let p99 = each(|figures| figures.p99).into_iter().fold(0.0, f64::max);
                println!(
                    "| {} | {rates:?} | {name} | {} | {} | {p99:.2} | {:.0} |",
                    computer.name,
                    words(each(|figures| figures.accuracy)),
                    words(each(|figures| figures.cov)),
                    median(outcomes.iter().map(|outcome| outcome.iops)),
                );
            }
        }
    }
}

/// As many regulated readers as there are rates, among ten.
fn mixed(spec: &DriveSpec, settings: Settings, rates: &[u32], seed: u64) -> Outcome {
    let mut processes = vec![Process::reader(None); 10];
    for (process, rate) in processes.iter_mut().zip(rates) {
        process.rate = Some(*rate);
    }
    World { spec, settings, processes, seed, ios: IOS, later: None, warm_up: Nanos(30_000_000_000) }.run()
}

fn two_way(seeds: u64) {
    let correction = Correction::TwoWay { accuracy: 1.1 };
    println!("|  | P % | counted | best | corrected to, by seed | settled after I/Os | accuracy |");
    println!("|---|---|---|---|---|---|---|");
    let (mut equal, mut all) = (0, 0);
    for computer in &COMPUTERS {
        for (rate, counted) in
            PERFORMANCES.into_iter().flat_map(|rate| [(rate, Counted::All), (rate, Counted::Others)])
        {
            let best = best_allowance(computer, rate, Settings::default(), counted, seeds);
            let gate = GateSettings::Allowance { correction, counted };
            let settings = Settings { gate, ..Settings::default() };
            let outcomes: Vec<Outcome> =
                (1..=seeds).map(|seed| one(&computer.spec(), settings, rate, 2 * IOS, seed)).collect();
            let held: Vec<u32> = outcomes.iter().map(held_longest).collect();
            equal += held.iter().filter(|held| **held == best).count();
            all += held.len();
            println!(
                "| {} | {rate} | {counted:?} | {best} | {held:?} | {:.0} | {:.3} |",
                computer.name,
                median(outcomes.iter().map(|outcome| f64::from(settled(outcome)))),
                median(outcomes.iter().map(|outcome| outcome.figures(0).accuracy)),
            );
        }
    }
    println!("\nequal to the best in {equal} of {all}");
}

/// The allowance under which most I/Os of the second half were done.
fn held_longest(outcome: &Outcome) -> u32 {
    let mut held = [0usize; 33];
    let half = outcome.timings.len() / 2;
    for (index, (from, allowance)) in outcome.allowances.iter().enumerate() {
        let to = outcome.allowances.get(index + 1).map_or(outcome.timings.len(), |(to, _)| *to);
        held[*allowance as usize] += to.saturating_sub((*from).max(half));
    }
    (0..33).max_by_key(|allowance| held[*allowance as usize]).expect("there are 33")
}

/// After how many I/Os the allowance that was held longest was first reached.
fn settled(outcome: &Outcome) -> u32 {
    let held = held_longest(outcome);
    outcome.allowances.iter().find(|(_, allowance)| *allowance == held).map_or(0, |(at, _)| *at as u32)
}

/// Tries out how much age counts when a drive chooses: how far the accuracy at the published best allowance lies
/// above 1.1, and the accuracy at the next larger one below it, together.
fn fit(_: u64) {
    const WEIGHTS: [&str; 10] = ["0", "0.02", "0.03", "0.05", "0.07", "0.08", "0.09", "0.1", "0.15", "0.3"];
    for computer in &COMPUTERS[1..] {
        for weight in WEIGHTS {
            let mut spec = computer.spec();
            spec.set("queue.age_weight", weight).expect("a weight");
            let (distance, words) = distance(computer, &spec);
            println!("{} age_weight {weight}: {distance:.3},{words}", computer.name);
        }
    }
}

fn distance(computer: &Computer, spec: &DriveSpec) -> (f64, String) {
    let (mut distance, mut words) = (0.0, String::new());
    for (rate, best) in PERFORMANCES.into_iter().zip(computer.best) {
        for allowed in best..=(best + 1).min(100 / rate - 1) {
            let settings = allowance(Correction::Fixed(allowed), Counted::All);
            let accuracy = one(spec, settings, rate, 3000, 1).figures(0).accuracy;
            distance += if allowed == best { accuracy - 1.1 } else { 1.1 - accuracy }.max(0.0);
            words += &format!(" {rate}%/{allowed} {accuracy:.3}");
        }
    }
    (distance, words)
}

fn late(seeds: u64) {
    println!("|  | P % | share late | accuracy | CoV | p99 / ideal | IOPS |");
    println!("|---|---|---|---|---|---|---|");
    for computer in all() {
        for (rate, share) in PERFORMANCES
            .into_iter()
            .flat_map(|rate| [0.01, 0.03, 0.05, 0.08, 0.12].map(|share| (rate, share)))
        {
            let gate = GateSettings::Deadline { margin: Margin::Late(share), most: 32, look_ahead: true };
            let row = row(computer, Settings { gate, ..Settings::default() }, rate, IOS, seeds);
            println!(
                "| {} | {rate} | {share} | {:.3} | {:.3} | {:.2} | {:.1} |",
                computer.name, row.accuracy, row.cov, row.p99, row.iops
            );
        }
    }
}

/// The access patterns of table 7.1: computing between bursts in seconds, I/Os in a burst.
const PATTERNS: [(&str, u64, u32); 4] = [("LS", 10, 10), ("LC", 10, 100), ("HS", 1, 10), ("HC", 1, 100)];

fn release(seeds: u64) {
    let five = GateSettings::Allowance { correction: Correction::Fixed(5), counted: Counted::All };
    let thesis = Settings { gate: five, ..Policy::Thesis.settings() };
    let ours = Settings::default();
    let policies = [
        ("thesis, no release", Settings { release: None, ..thesis }),
        ("thesis, release", thesis),
        ("ours, no release", Settings { release: None, ..ours }),
        ("ours, release", ours),
    ];
    println!("| pattern | policy | accuracy | accuracy of the first of a burst | CoV | IOPS |");
    println!("|---|---|---|---|---|---|");
    for ((pattern, think, burst), (name, settings)) in
        PATTERNS.into_iter().flat_map(|pattern| policies.map(|policy| (pattern, policy)))
    {
        let spec = COMPUTERS[1].spec();
        let mut processes = vec![Process::reader(None); 10];
        processes[0] = Process { burst, think: Nanos::SECOND * think, ..Process::reader(Some(15)) };
        let world = |seed| World {
            spec: &spec,
            settings,
            processes: processes.clone(),
            seed,
            ios: 3000,
            later: None,
            warm_up: Nanos::SECOND * 60,
        };
        let outcomes: Vec<Outcome> = (1..=seeds).map(|seed| world(seed).run()).collect();
        println!(
            "| {pattern} | {name} | {:.3} | {:.2} | {:.3} | {:.1} |",
            median(outcomes.iter().map(|outcome| outcome.figures(0).accuracy)),
            median(outcomes.iter().map(|outcome| outcome.first_of_bursts(0, Nanos::SECOND / 2))),
            median(outcomes.iter().map(|outcome| outcome.figures(0).cov)),
            median(outcomes.iter().map(|outcome| outcome.iops)),
        );
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
