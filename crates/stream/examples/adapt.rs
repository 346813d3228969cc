//! A chain whose rate and load step, and what is done about it: how soon after a step of the rate its plan is live.
//!
//! ```text
//! cargo run --release -p sakiyomi-stream --example adapt -- [--steps 10] [--phase 1] [--json]
//! ```
//!
//! The rate steps `--steps` times from 0.4 to 1.2 of what one core can do, `--phase` seconds apart; then operators become
//! slow, one after the other.
#![allow(clippy::print_stdout, reason = "an example prints its table")]

#[path = "driver/mod.rs"]
#[allow(dead_code, reason = "each example uses a part")]
mod driver;

use std::sync::Arc;
use std::time::Duration;

use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_os::topology::Topology as Machine;
use sakiyomi_stream::adapt::events::{Event, EventKind};
use sakiyomi_stream::adapt::{AdaptSettings, Finished, machine};
use serde_json::json;

use driver::chain::{SINK, chain};
use driver::figures::bins;
use driver::load::{OPERATORS, Pattern, Phase, Spacing};
use driver::options::Options;
use driver::quiet::Moment;

/// Time that each operator takes.
const SERVICE_NS: u64 = 2_000;

/// Service time of a slow operator.
const SLOW_NS: u64 = 10_000;

/// Rates in relation to what one core can do while no operator is slow: before a step, and after it.
const STEP_SHARES: [f64; 2] = [0.4, 1.2];

/// Loads after the steps: the rate, and the slow operator if there is one.
const LOADS: [(f64, Option<usize>); 4] = [(0.4, None), (0.4, Some(1)), (0.8, Some(1)), (0.8, Some(6))];

/// A step of the rate, and when its plan was live.
struct Step {
    at_ns: u64,
    /// From the step on; none if no plan followed it.
    live_ns: Option<u64>,
    /// From the sample that led to the plan on.
    detected_ns: Option<u64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::of_process();
    let steps: usize = options.value("--steps", 10)?;
    let phase = Duration::from_secs_f64(options.value("--phase", 1.0)?);
    let seed: u64 = options.value("--seed", 1)?;
    let is_json = options.flag("--json");
    options.end()?;
    let pattern = Arc::new(pattern(steps, u64::try_from(phase.as_nanos())?));
    let topology = machine::topology(&Machine::of_machine(), &usable_cpus()?, &[])?;
    let before = Moment::now();
    let adaptive = chain(&pattern, seed)?.start_adaptive(topology, AdaptSettings::default())?;
    let finished = adaptive.finish()?;
    let others_ratio = before.others_ratio(&Moment::now());
    let steps: Vec<Step> = (0..steps).map(|step| follow(&pattern, 2 * step + 1, &finished.events)).collect();
    if is_json {
        let steps = steps.iter().map(
            |step| json!({ "at_ns": step.at_ns, "live_ns": step.live_ns, "detected_ns": step.detected_ns }),
        );
        println!("{}", json!({ "steps": steps.collect::<Vec<_>>(), "others_ratio": others_ratio }));
    } else {
        print(&pattern, &finished, &steps);
        println!("others took {:.1} % of the CPUs", others_ratio * 100.0);
    }
    Ok(())
}

fn pattern(steps: usize, phase_ns: u64) -> Pattern {
    let load = |share: f64, slow: Option<usize>| {
        let mut services_ns = [SERVICE_NS; OPERATORS];
        slow.into_iter().for_each(|operator| services_ns[operator] = SLOW_NS);
        let rate_per_s = share / (OPERATORS as u64 * SERVICE_NS) as f64 * 1e9;
        Phase { from_ns: 0, rate_per_s, passed_ratio: 1.0, services_ns }
    };
    let steps = (0..2 * steps).map(|phase| load(STEP_SHARES[phase % 2], None));
    let loads = steps.chain(LOADS.map(|(share, slow)| load(share, slow)));
    let phases: Vec<Phase> =
        loads.zip(0..).map(|(load, index)| Phase { from_ns: index * phase_ns, ..load }).collect();
    Pattern { end_ns: phases.len() as u64 * phase_ns, phases, spacing: Spacing::Constant }
}

/// When the plan of a phase was live.
fn follow(pattern: &Pattern, phase: usize, events: &[Event]) -> Step {
    let (at_ns, end_ns) = (pattern.phases[phase].from_ns, pattern.phase_end_ns(phase));
    let plan = events.iter().find_map(|event| match event.kind {
        EventKind::PlanChanged { duration_ns, .. } if (at_ns..end_ns).contains(&event.at_ns) => {
            Some((event.at_ns - at_ns, duration_ns))
        }
        _ => None,
    });
    Step {
        at_ns,
        live_ns: plan.map(|(live_ns, _)| live_ns),
        detected_ns: plan.map(|(_, duration_ns)| duration_ns),
    }
}

fn print(pattern: &Pattern, finished: &Finished, steps: &[Step]) {
    for phase in &pattern.phases {
        let slow = phase.services_ns.iter().position(|&service_ns| service_ns == SLOW_NS);
        let slow = slow.map_or(String::new(), |operator| format!(", operator {} is slow", operator + 1));
        println!("{:8.1} ms: {:.0} tuples/s{slow}", ms(phase.from_ns), phase.rate_per_s);
    }
    finished.events.iter().for_each(print_event);
    for bin in bins(&finished.report, SINK) {
        let (start_ms, mean_us, p99_us) =
            (bin.start_ns / 1_000_000, bin.mean_ns * 1e-3, bin.p99_ns as f64 * 1e-3);
        println!("{start_ms:6} ms: {:7} tuples, mean {mean_us:9.1} us, p99 {p99_us:9.1} us", bin.results);
    }
    for step in steps {
        match (step.live_ns, step.detected_ns) {
            (Some(live_ns), Some(detected_ns)) => println!(
                "step at {:.0} ms: plan live after {:.1} ms, {:.2} ms from its detection",
                ms(step.at_ns),
                ms(live_ns),
                ms(detected_ns)
            ),
            _ => println!("step at {:.0} ms: no plan followed", ms(step.at_ns)),
        }
    }
}

fn print_event(event: &Event) {
    match &event.kind {
        EventKind::PlanChanged { reason, rate_per_s, to, duration_ns, moves, .. } => {
            let groups: Vec<_> = to.groups.iter().map(|group| (&group.operators, &group.cores)).collect();
            let moves_ns: Vec<u64> = moves.iter().map(|timed| timed.duration_ns).collect();
            println!("{:8.1} ms: {reason} at {rate_per_s:.0}/s: {groups:?}", ms(event.at_ns));
            println!("             live after {duration_ns} ns, of which {moves_ns:?} ns for each change");
        }
        other => println!("{:8.1} ms: {other:?}", ms(event.at_ns)),
    }
}

fn ms(ns: u64) -> f64 {
    ns as f64 * 1e-6
}
