//! Prints how well rates are kept beside other processes of any kind: accuracy, CoV and p99 of time ÷ ideal, and what
//! the others get.
//!
//! `cargo run --release -p sakiyomi-regulate --example any_rival -- [PART…]`; parts: `profiles`, `one`, `several`.

#![allow(clippy::print_stdout)]

mod world;

use std::sync::Arc;

use sakiyomi_drive::spec::{DriveSpec, builtin};
use sakiyomi_model::Op;
use sakiyomi_regulate::{Arrivals, Profile, Requested};
use world::{Figures, Mechanism, Outcome, Pattern, Process, Think, World, percent, profile_of};

const DRIVES: [&str; 5] =
    ["scorpio-wd10tpvx", "deskstar-p7k500", "barracuda-st2000dm006", "scorpio-wd1200bevs", "nearline-18tb"];
const OTHERS: usize = 9;
const SEEDS: u64 = 3;

struct Case<'a> {
    spec: &'a DriveSpec,
    profile: &'a Arc<Profile>,
    processes: Vec<Process>,
    ios: u32,
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the medians over the seeds: the worst owner's figures, MiB/s of the others, IOPS of all, longest wait (ms).
fn run(case: &Case<'_>, mechanism: Mechanism) -> Option<(Figures, f64, f64, f64)> {
    let outcomes: Option<Vec<Outcome>> = std::thread::scope(|scope| {
        let runs: Vec<_> = (1..=SEEDS)
            .map(|seed| {
                scope.spawn(move || {
                    let Case { spec, profile, ref processes, ios } = *case;
                    World { spec, profile, mechanism, processes, span: 1.0, seed, ios }.run()
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().expect("a run")).collect()
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

fn show(name: &str, case: &Case<'_>, mechanisms: &[Mechanism], several: bool) {
    print!("{name:58}");
    for &mechanism in mechanisms {
        match run(case, mechanism) {
            None => print!(" | {mechanism:?}: refused"),
            Some((Figures { accuracy, cov, p99, worst, ideal_ms }, others, iops, longest)) => {
                let kept = if several {
                    accuracy <= 1.05 && cov <= 0.08 && p99 <= 1.25
                } else {
                    accuracy <= 1.03 && cov <= 0.06 && p99 <= 1.2
                };
                let mark = if kept || mechanism == Mechanism::None { " " } else { "!" };
                print!(
                    " | {mechanism:?}{mark} {accuracy:.3} {cov:.3} {p99:.2} {worst:.2} {ideal_ms:.1}ms {others:.2}MiB/s {iops:.0} {longest:.0}ms"
                );
            }
        }
    }
    println!();
}

const ALL: [Mechanism; 3] = [Mechanism::None, Mechanism::Deadline, Mechanism::Profile];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|one| one == part);
    let drives = DRIVES.iter().filter(|name| {
        let named: Vec<&String> = wanted.iter().filter(|one| DRIVES.contains(&one.as_str())).collect();
        named.is_empty() || named.iter().any(|one| one == *name)
    });
    for name in drives {
        let spec = builtin(name).expect("a built-in drive").spec();
        let begun = std::time::Instant::now();
        let profile = profile_of(&spec);
        if wants("profiles") {
            println!("{name}: measured in {:?}", begun.elapsed());
            println!("{profile:#?}");
        }
        let case = |processes, ios| Case { spec: &spec, profile: &profile, processes, ios };
        let kinds = [
            ("4K", Pattern::Random(4 << 10)),
            ("64K", Pattern::Random(64 << 10)),
            ("1M", Pattern::Random(1 << 20)),
            ("mixed", Pattern::Mixed),
            ("seq64K", Pattern::Sequential(64 << 10)),
            ("bursts", Pattern::Bursts),
        ];
        if wants("one") {
            for (kind, pattern) in kinds {
                for rate in [7, 12, 23, 30, 37, 45] {
                    for thinks in [false, true] {
                        let ideal = percent(rate).rate.ideal(profile.service());
                        let think = if thinks { Think::Random(ideal / 2) } else { Think::None };
                        let arrivals = if thinks { Arrivals::Any } else { Arrivals::BackToBack };
                        let mut processes = vec![Process::other(pattern); OTHERS + 1];
                        let rate_of = Requested { arrivals, ..percent(rate) };
                        processes[0] = Process::owner(rate_of, think);
                        let text =
                            format!("{name} {rate} % beside {kind}, {}", if thinks { "any" } else { "back" });
                        show(&text, &case(processes, 2000), &ALL, false);
                    }
                }
            }
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
                        let text = format!("{name} {rate} % sequential {} KiB beside {kind}", size >> 10);
                        let ios = ((64 << 20) / size).max(2000) as u32;
                        show(&text, &case(processes, ios), &ALL, false);
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
                        show(
                            &format!("{name} {rate} % {op:?} beside {mix}"),
                            &case(processes, 1500),
                            &ALL,
                            false,
                        );
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
                    show(&format!("{name} {rates:?} beside {kind}"), &case(processes, 600), &ALL, true);
                }
            }
        }
    }
}
