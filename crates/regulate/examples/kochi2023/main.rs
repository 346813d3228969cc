//! The experiments of Tani 2023 in virtual time, with the thesis's policy and with ours.
#![allow(clippy::print_stdout)]

mod world;

use sakiyomi_model::Nanos;
use sakiyomi_regulate::{Correction, Counted, GateSettings, Policy, Settings};
use world::{COMPUTERS, Computer, Outcome, PERFORMANCES, Process, World};

fn one(
    computer: &Computer,
    more: &[(String, String)],
    settings: Settings,
    rate: u32,
    ios: u32,
    seed: u64,
) -> Outcome {
    let spec = computer.spec(more);
    let mut processes = vec![Process::reader(None); 10];
    processes[0].rate = Some(rate);
    World { spec: &spec, settings, processes, seed, ios, warm_up: Nanos(30_000_000_000) }.run()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let more: Vec<(String, String)> = args[1..]
        .iter()
        .filter_map(|a| a.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    let thesis = Policy::Thesis.settings();
    let counted = if args.last().unwrap() == "others" { Counted::Others } else { Counted::All };
    match args[0].as_str() {
        "fixed" => {
            for computer in &COMPUTERS {
                for rate in PERFORMANCES {
                    print!("{} {rate}: ", computer.name);
                    for a in 1..=100 / rate {
                        let settings = Settings {
                            gate: GateSettings::Allowance { correction: Correction::Fixed(a), counted },
                            ..thesis
                        };
                        let o = one(computer, &more, settings, rate, 2000, 1);
                        let f = o.figures(0);
                        print!(" {a}:{:.3}/{:.0}", f.accuracy, o.iops);
                    }
                    println!();
                }
            }
        }
        "policy" => {
            for (name, s) in [("thesis", thesis), ("ours", Policy::Deadline.settings())] {
                for computer in &COMPUTERS {
                    for rate in PERFORMANCES {
                        let t = std::time::Instant::now();
                        let o = one(computer, &more, s, rate, 5000, 1);
                        let f = o.figures(0);
                        println!(
                            "{name} {} {rate}: acc {:.3} cov {:.3} p99 {:.3} iops {:.1} n {} worst {} al {:?} svc {} took {:?}",
                            computer.name,
                            f.accuracy,
                            f.cov,
                            f.p99,
                            o.iops,
                            f.count,
                            o.worst,
                            if o.allowances.len() < 12 { &o.allowances[..] } else { &[] },
                            o.service,
                            t.elapsed()
                        );
                    }
                }
            }
        }
        "fit" => {
            let pc: usize = args[1].parse().unwrap();
            let computer = &COMPUTERS[pc];
            let mut x: u64 = 88172645463325252 + pc as u64;
            let mut pick = |v: &[&str]| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                v[(x >> 20) as usize % v.len()].to_owned()
            };
            let mut best_score = 1e9;
            for _ in 0..args[2].parse::<usize>().unwrap() {
                let more: Vec<(String, String)> = [
                    ("queue.window", pick(&["2", "3", "4", "5", "6", "8", "256"])),
                    ("queue.age_weight", pick(&["0", "0.05", "0.1", "0.15", "0.2", "0.3", "0.4", "0.6"])),
                    ("queue.rpo_margin", pick(&["0ms", "0.4ms", "1ms", "2ms", "3ms"])),
                    ("queue.age_limit", pick(&["40ms", "60ms", "80ms", "100ms", "150ms", "500ms"])),
                ]
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect();
                let mut score = 0.0;
                let mut text = String::new();
                for (i, rate) in PERFORMANCES.into_iter().enumerate() {
                    let want = computer.best[i];
                    for a in [want, want + 1] {
                        if a > (100 / rate - 1) {
                            continue;
                        }
                        let settings = Settings {
                            gate: GateSettings::Allowance { correction: Correction::Fixed(a), counted },
                            ..thesis
                        };
                        let f = one(computer, &more, settings, rate, 1500, 1).figures(0);
                        let miss: f64 = if a == want { f.accuracy - 1.1 } else { 1.1 - f.accuracy };
                        score += miss.max(0.0) * miss.max(0.0);
                        text += &format!(" {rate}/{a}:{:.3}", f.accuracy);
                    }
                }
                if score < best_score * 1.2 {
                    best_score = score.min(best_score);
                    println!("{score:.5} {more:?} {text}");
                }
            }
        }
        _ => {}
    }
}
