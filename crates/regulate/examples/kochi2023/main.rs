//! The experiments of Tani 2023 in virtual time, with the thesis's policy and with ours.
#![allow(clippy::print_stdout)]

mod world;

use sakiyomi_model::Nanos;
use sakiyomi_regulate::{Correction, GateSettings, Policy, Settings};
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
    match args[0].as_str() {
        "fixed" => {
            for computer in &COMPUTERS {
                for rate in PERFORMANCES {
                    print!("{} {rate}: ", computer.name);
                    for a in 1..=100 / rate {
                        let settings =
                            Settings { gate: GateSettings::Allowance(Correction::Fixed(a)), ..thesis };
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
        _ => {}
    }
}
