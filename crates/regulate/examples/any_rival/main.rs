//! Prints how well rates are kept beside other processes of any kind: accuracy, CoV and p99 of time ÷ ideal, and what
//! the others get.
//!
//! `cargo run --release -p sakiyomi-regulate --example any_rival -- [PART…] [DRIVE…] [seeds=N] [rows]`; parts:
//! `profiles`, `one`, `sequential`, `writers`, `several`, `parallel`, on storage that serves several at once, and
//! `clairvoyant`, which compares what the others get with a schedule that knows every service time. Medians of N seeds, 3 by default. With `rows`, only admission by
//! the profile, as rows of JSON.

#![allow(clippy::print_stdout)]

mod clairvoyant;
mod world;

use std::sync::Arc;

use clairvoyant::{Bound, Clairvoyant};
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::{Nanos, Op};
use sakiyomi_regulate::{Arrivals, Owner, Profile, Regulator, Requested, Settings};
use world::{Figures, Mechanism, Outcome, Pattern, Process, Storage, Think, World, percent};

const DRIVES: [&str; 5] =
    ["scorpio-wd10tpvx", "deskstar-p7k500", "barracuda-st2000dm006", "scorpio-wd1200bevs", "nearline-18tb"];
const OTHERS: usize = 9;
const DEFAULT_SEEDS: u64 = 3;
/// Threads on which seeds run.
const THREADS: u64 = 2;

struct Case<'a> {
    storage: &'a Storage,
    profile: &'a Arc<Profile>,
    processes: Vec<Process>,
    ios: u32,
}

/// How to run and to print.
struct Printer {
    seeds: u64,
    as_rows: bool,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Printer {
    /// Returns the medians over the seeds: the worst owner's figures, MiB/s of the others, IOPS of all, longest wait
    /// (ms).
    fn run(&self, case: &Case<'_>, mechanism: Mechanism) -> Option<(Figures, f64, f64, f64)> {
        let outcomes: Option<Vec<Outcome>> = std::thread::scope(|scope| {
            let of_thread = |thread: u64| {
                let seeds = (1..=self.seeds).filter(move |seed| seed % THREADS == thread);
                seeds.map(|seed| {
                    let Case { storage, profile, ref processes, ios } = *case;
                    World { storage, profile, mechanism, processes, span: 1.0, seed, ios }.run()
                })
            };
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || of_thread(thread).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("runs")).collect()
        });
        let outcomes = outcomes?;
        let of = |value: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
        let figures = Figures {
            accuracy: of(&|one| one.worst().accuracy),
            cov: of(&|one| one.worst().cov),
            p99: of(&|one| one.worst().p99),
            worst: of(&|one| one.worst().worst),
            ideal_ms: of(&|one| one.worst().ideal_ms),
        };
        let longest = of(&|one| one.longest.0 as f64 / 1e6);
        Some((figures, of(&|one| one.others / (1 << 20) as f64), of(&|one| one.iops), longest))
    }

    /// Prints one case; `words` are the drive, the rates, the owner, and what is beside it.
    fn show(&self, words: [&str; 4], case: &Case<'_>) {
        if self.as_rows {
            let words = words.map(|word| format!("{word:?}")).join(", ");
            match self.run(case, Mechanism::Profile) {
                None => println!("[{words}, \"refused\", \"–\", \"–\", \"–\", \"–\"],"),
                Some((Figures { accuracy, cov, p99, ideal_ms, .. }, others, ..)) => {
                    println!("[{words}, {accuracy:.3}, {cov:.3}, {p99:.2}, {ideal_ms:.1}, {others:.2}],");
                }
            }
            return;
        }
        print!("{:58}", words.join(" "));
        let is_one = case.processes.iter().filter(|process| process.rate.is_some()).count() == 1;
        for mechanism in ALL {
            match self.run(case, mechanism) {
                None => print!(" | {mechanism:?}: refused"),
                Some((Figures { accuracy, cov, p99, worst, ideal_ms }, others, iops, longest)) => {
                    let goal = if is_one { (1.03, 0.06, 1.2) } else { (1.05, 0.08, 1.25) };
                    let is_kept = accuracy <= goal.0 && cov <= goal.1 && p99 <= goal.2;
                    let mark = if is_kept || mechanism == Mechanism::None { " " } else { "!" };
                    print!(
                        " | {mechanism:?}{mark} {accuracy:.3} {cov:.3} {p99:.2} {worst:.2} {ideal_ms:.1}ms \
                         {others:.2}MiB/s {iops:.0} {longest:.0}ms"
                    );
                }
            }
        }
        println!();
    }
}

const KINDS: [(&str, Pattern); 6] = [
    ("4K", Pattern::Random(4 << 10)),
    ("64K", Pattern::Random(64 << 10)),
    ("1M", Pattern::Random(1 << 20)),
    ("mixed", Pattern::Mixed),
    ("seq64K", Pattern::Sequential(64 << 10)),
    ("bursts", Pattern::Bursts),
];

/// Storage that serves several requests at once: flash, disks behind a network, slow object storage.
const PARALLEL: [&str; 4] = [
    "latency=80us,parallel=8,bandwidth=2GB,spread=0.5",
    "latency=1ms,parallel=64,bandwidth=200MB,spread=0.3",
    "latency=10ms,parallel=4,bandwidth=100MB,spread=0.8",
    "latency=60ms,parallel=32,spread=0.2",
];

const ALL: [Mechanism; 3] = [Mechanism::None, Mechanism::Deadline, Mechanism::Profile];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let seeds = wanted.iter().find_map(|one| one.strip_prefix("seeds=")?.parse().ok());
    let printer =
        Printer { seeds: seeds.unwrap_or(DEFAULT_SEEDS), as_rows: wanted.iter().any(|one| one == "rows") };
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|one| one == part);
    let drives = DRIVES.iter().filter(|name| {
        let named: Vec<&String> = wanted.iter().filter(|one| DRIVES.contains(&one.as_str())).collect();
        named.is_empty() || named.iter().any(|one| one == *name)
    });
    if wants("parallel") {
        for name in PARALLEL {
            show_parallel(&printer, name);
        }
    }
    for name in drives {
        let storage = Storage::Disk(Box::new(builtin(name).expect("a built-in drive").spec()));
        let begun = std::time::Instant::now();
        let profile = storage.profile();
        if wants("profiles") {
            println!("{name}: measured in {:?}", begun.elapsed());
            println!("{profile:#?}");
        }
        let case = |processes, ios| Case { storage: &storage, profile: &profile, processes, ios };
        let kinds = KINDS;
        if wants("one") {
            for (kind, pattern) in kinds {
                for rate in [7, 12, 23, 37, 45] {
                    for thinks in [false, true] {
                        let ideal = percent(rate).rate.ideal(profile.service());
                        let think = if thinks { Think::Random(ideal / 2) } else { Think::None };
                        let arrivals = if thinks { Arrivals::Any } else { Arrivals::BackToBack };
                        let mut processes = vec![Process::other(pattern); OTHERS + 1];
                        let rate_of = Requested { arrivals, ..percent(rate) };
                        processes[0] = Process::owner(rate_of, think);
                        let owner = if thinks { "4K, any moment" } else { "4K, back to back" };
                        printer.show([name, &rate.to_string(), owner, kind], &case(processes, 2000));
                    }
                }
            }
        }
        if wanted.iter().any(|one| one == "clairvoyant") {
            show_clairvoyant(&printer, name, &storage, &profile);
        }
        if wants("sequential") {
            for (kind, pattern) in kinds {
                for rate in [7, 12, 23, 37, 45] {
                    for size in [4 << 10, 128 << 10] {
                        let mut processes = vec![Process::other(pattern); OTHERS + 1];
                        let rate_of = Requested { arrivals: Arrivals::BackToBack, ..percent(rate) };
                        processes[0] = Process {
                            pattern: Pattern::Sequential(size),
                            ..Process::owner(rate_of, Think::None)
                        };
                        let owner = format!("sequential {}K", size >> 10);
                        let ios = ((64 << 20) / size).max(2000) as u32;
                        printer.show([name, &rate.to_string(), &owner, kind], &case(processes, ios));
                    }
                }
            }
        }
        if wants("writers") {
            let writer = |pattern| Process { op: Op::Write, ..Process::other(pattern) };
            let (small, large) = (Pattern::Random(4 << 10), Pattern::Random(1 << 20));
            let mixes = [
                ("9 writers of 4K", vec![writer(small); 9]),
                ("9 writers of 1M", vec![writer(large); 9]),
                ("a sequential writer of 64K", vec![writer(Pattern::Sequential(64 << 10))]),
                ("a writer of 4K, 4 readers", [vec![writer(small)], vec![Process::other(small); 4]].concat()),
            ];
            for (mix, others) in mixes {
                for rate in [12, 23, 37] {
                    for op in [Op::Read, Op::Write] {
                        let owner = Process { op, ..Process::owner(percent(rate), Think::None) };
                        let processes = [vec![owner], others.clone()].concat();
                        let owner = if op == Op::Read { "4K, any moment" } else { "4K writes" };
                        printer.show([name, &rate.to_string(), owner, mix], &case(processes, 1500));
                    }
                }
            }
        }
        if wants("several") {
            for rates in [&[4; 20][..], &[8; 11], &[45, 25, 12], &[40, 20, 10], &[25, 25, 25], &[30, 20, 10]]
            {
                for (kind, pattern) in [kinds[0], kinds[2]] {
                    let owners = rates.iter().map(|&rate| {
                        let rate = Requested { arrivals: Arrivals::BackToBack, ..percent(rate) };
                        Process::owner(rate, Think::None)
                    });
                    let processes = owners.chain(vec![Process::other(pattern); OTHERS]).collect();
                    printer
                        .show([name, &format!("{rates:?}"), "4K, back to back", kind], &case(processes, 600));
                }
            }
        }
    }
}

fn show_parallel(printer: &Printer, name: &str) {
    let storage = Storage::Fixed(name.parse().expect("it is valid"));
    let profile = storage.profile();
    for (kind, pattern) in KINDS {
        for others in [4, 9, 32] {
            for rate in [12, 23, 45, 80] {
                let ideal = percent(rate).rate.ideal(profile.service());
                let mut processes = vec![Process::other(pattern); others + 1];
                processes[0] = Process::owner(percent(rate), Think::Random(ideal / 2));
                let case = Case { storage: &storage, profile: &profile, processes, ios: 2000 };
                printer.show([name, &rate.to_string(), &others.to_string(), kind], &case);
            }
        }
    }
}

/// Prints what the others get, of what they get from a schedule that knows every service time.
fn show_clairvoyant(printer: &Printer, name: &str, storage: &Storage, profile: &Arc<Profile>) {
    let Storage::Disk(spec) = storage else { return };
    for (kind, pattern) in [KINDS[0], KINDS[1], KINDS[2], KINDS[3]] {
        for rate in [12, 23, 37] {
            for thinks in [false, true] {
                let ideal = percent(rate).rate.ideal(profile.service());
                let (think, mean) =
                    if thinks { (Think::Random(ideal / 2), ideal / 2) } else { (Think::None, Nanos(0)) };
                let arrivals = if thinks { Arrivals::Any } else { Arrivals::BackToBack };
                let mut processes = vec![Process::other(pattern); OTHERS + 1];
                processes[0] = Process::owner(Requested { arrivals, ..percent(rate) }, think);
                let case = Case { storage, profile, processes, ios: 1000 };
                let Some((figures, ours, ..)) = printer.run(&case, Mechanism::Profile) else { continue };
                let mut regulator = Regulator::with_profile(Settings::default(), Arc::clone(profile), 0.0);
                let rate_of = Requested { arrivals, ..percent(rate) };
                regulator.set_rate(Nanos(0), Owner(1), rate_of, &mut Vec::new()).expect("it was granted");
                let piece = regulator.limits().expect("it has a profile").piece;
                let bounds: Vec<Bound> = (1..=printer.seeds)
                    .map(|seed| {
                        Clairvoyant {
                            spec,
                            ideal,
                            think: mean,
                            piece,
                            pattern,
                            others: OTHERS,
                            seed,
                            ios: 1000,
                        }
                        .run()
                    })
                    .collect();
                let most = median(bounds.iter().map(|bound| bound.others / (1 << 20) as f64).collect());
                let late = median(bounds.iter().map(|bound| bound.late).collect());
                let owner = if thinks { "any moment" } else { "back to back" };
                println!(
                    "{name:24} {rate:3} % {owner:12} {kind:6} accuracy {:.3} ours {ours:.2} MiB/s, knowing {most:.2} (late {:.1} %): {:.2}",
                    figures.accuracy,
                    late * 100.0,
                    ours / most
                );
            }
        }
    }
}
